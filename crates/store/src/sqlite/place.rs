//! Whether the files that are open are still the ones that are found at their paths.
//!
//! A folder can be deleted, moved or replaced under a running server. What is written then goes to files that nobody
//! will find, and the lock that keeps a second server out goes with them. Each file is told by its device and number.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::failure::io_error;
use crate::Error;

/// The files of a store, as they were when it was opened.
pub(super) struct Place {
    folder: PathBuf,
    files: Vec<(PathBuf, Identity)>,
}

type Identity = (u64, u64);

impl Place {
    /// Remembers these files, which are open and in `folder`.
    pub(super) fn of(folder: &Path, files: &[&Path]) -> Result<Self, Error> {
        let known = |path: &&Path| {
            identity(path)
                .map(|id| (path.to_path_buf(), id))
                .map_err(|error| io_error(path, "look at the file", &error))
        };
        let files = files.iter().map(known).collect::<Result<_, _>>()?;
        Ok(Self { folder: folder.to_owned(), files })
    }

    /// Compares them with what is at their paths now.
    pub(super) fn check(&self) -> Result<(), Error> {
        for (path, known) in &self.files {
            let name = path.file_name().unwrap_or_default().display();
            let problem = match identity(path) {
                Ok(found) if found == *known => continue,
                Ok(_) => format!("another {name} is there"),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    format!("{name} is not there")
                }
                Err(error) => format!("{name} cannot be looked at ({error})"),
            };
            return Err(Error::Away { path: self.folder.display().to_string(), problem });
        }
        Ok(())
    }
}

fn identity(path: &Path) -> io::Result<Identity> {
    path.metadata().map(|meta| (meta.dev(), meta.ino()))
}
