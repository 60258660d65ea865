//! A copy of a folder of objects, made beside whoever uses it.
//!
//! A blob never changes, so on one file system its copy is another name of the same file and costs no room; elsewhere
//! the bytes are copied. Blobs are taken twice, before the records and after them: whatever a copied record names was
//! there before, or came while the records were copied. Uploads that still arrive are left out, and so is the folder's
//! identity: the copy is another folder.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use crate::Error;
use crate::error::if_there;
use crate::folder::sync_folder;

/// What a copy came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// Files that were not there before.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Whether a file may be given a second name instead of being copied.
#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    Link,
    Copy,
}

/// Copies the blobs and records of the folder at `source`, which others may use meanwhile, to `target`. `progress` hears
/// what was done so far. Nothing is copied if there is no such folder.
pub fn back_up(
    source: &Path,
    target: &Path,
    progress: &mut dyn FnMut(Copied),
) -> Result<Copied, Error> {
    let mut copied = Copied::default();
    for (part, how) in [("blobs", How::Link), ("records", How::Copy), ("blobs", How::Link)] {
        copy_tree(&source.join(part), &target.join(part), how, &mut copied, progress)?;
    }
    if target.is_dir() {
        sync_folder(target)?;
    }
    Ok(copied)
}

/// Copies a folder with all that is in it, byte by byte. Nothing is copied if there is none.
pub fn copy_folder(
    source: &Path,
    target: &Path,
    progress: &mut dyn FnMut(Copied),
) -> Result<Copied, Error> {
    let mut copied = Copied::default();
    copy_tree(source, target, How::Copy, &mut copied, progress)?;
    Ok(copied)
}

fn copy_tree(
    source: &Path,
    target: &Path,
    how: How,
    copied: &mut Copied,
    progress: &mut dyn FnMut(Copied),
) -> Result<(), Error> {
    let listed = if_there(fs::read_dir(source)).map_err(Error::io("list", source))?;
    let Some(entries) = listed else { return Ok(()) };
    fs::create_dir_all(target).map_err(Error::io("create", target))?;
    for entry in entries {
        let entry = entry.map_err(Error::io("list", source))?;
        let (from, to) = (entry.path(), target.join(entry.file_name()));
        // Whoever uses the folder may have removed it since it was listed.
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_dir() {
            copy_tree(&from, &to, how, copied, progress)?;
        } else if kind.is_file()
            && let Some(bytes) = copy_file(&from, &to, how)?
        {
            copied.files += 1;
            copied.bytes += bytes;
            progress(*copied);
        }
    }
    sync_folder(target)
}

/// Copies one file; its bytes, or nothing if it is there already, or gone.
fn copy_file(from: &Path, to: &Path, how: How) -> Result<Option<u64>, Error> {
    if how == How::Link {
        match fs::hard_link(from, to) {
            Ok(()) => return Ok(fs::metadata(to).ok().map(|found| found.len())),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            // Another file system, or one without links.
            Err(_) => {}
        }
    }
    let Some(mut source) = if_there(File::open(from)).map_err(Error::io("open", from))? else {
        return Ok(None);
    };
    let mut target = match File::create_new(to) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(None),
        made => made.map_err(Error::io("create", to))?,
    };
    let bytes = io::copy(&mut source, &mut target).map_err(Error::io("write", to))?;
    target.sync_data().map_err(Error::io("sync", to))?;
    Ok(Some(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BlobId, Folder, RecordName};

    fn record() -> RecordName {
        "bakery/today".parse().unwrap()
    }

    fn folder_with_a_blob(at: &Path) -> (Folder, BlobId) {
        let folder = Folder::open(at).unwrap();
        let id = folder.put_blob(&mut &b"bread"[..]).unwrap().id;
        folder.put_record(&record(), b"{\"loaf\":1}").unwrap();
        (folder, id)
    }

    #[test]
    fn a_copy_has_every_blob_and_record_and_is_another_folder() {
        let place = tempfile::tempdir().unwrap();
        let (source, target) = (place.path().join("a"), place.path().join("b"));
        let (folder, id) = folder_with_a_blob(&source);
        fs::create_dir_all(source.join("uploads")).unwrap();
        fs::write(source.join("uploads/half.part"), "x").unwrap();
        let copied = back_up(&source, &target, &mut |_| {}).unwrap();
        assert_eq!(copied.files, 2);
        let copy = Folder::open(&target).unwrap();
        assert_eq!(copy.verify(id).unwrap().size, 5);
        assert!(copy.record(&record()).unwrap().is_some());
        assert_ne!(copy.identity().unwrap(), folder.identity().unwrap());
        assert!(!target.join("uploads/half.part").exists());
        folder.remove_blob(id).unwrap();
        assert!(copy.verify(id).is_ok(), "the copy lives on without the original");
        let nothing = back_up(&place.path().join("none"), &target, &mut |_| {}).unwrap();
        assert_eq!(nothing, Copied::default());
    }

    #[test]
    fn bytes_are_copied_where_a_link_is_not_wanted() {
        let place = tempfile::tempdir().unwrap();
        let (source, target) = (place.path().join("a"), place.path().join("b"));
        fs::create_dir_all(source.join("deep")).unwrap();
        fs::write(source.join("deep/file"), "old").unwrap();
        let copied = copy_folder(&source, &target, &mut |_| {}).unwrap();
        assert_eq!(copied, Copied { files: 1, bytes: 3 });
        fs::write(source.join("deep/file"), "new").unwrap();
        assert_eq!(fs::read_to_string(target.join("deep/file")).unwrap(), "old");
    }
}
