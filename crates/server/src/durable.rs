//! Small files of the data folder that are replaced whole, for their owner only. A crash leaves the old one or the new.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Result, Write as _};
use std::path::Path;

/// Replaces a file by this text, durably.
pub(crate) fn replace(path: &Path, text: &[u8]) -> Result<()> {
    let fresh = &path.with_extension("new");
    // What a crash left may be open to others.
    match std::fs::remove_file(fresh) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(fresh)?;
    file.write_all(text)?;
    file.sync_all()?;
    std::fs::rename(fresh, path)?;
    // The name lasts only when the folder is synced too.
    match path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        Some(folder) => File::open(folder)?.sync_all(),
        None => File::open(".")?.sync_all(),
    }
}
