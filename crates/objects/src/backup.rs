//! A copy of a folder of objects, made beside whoever uses it.
//!
//! A blob never changes, so on one file system its copy is another name of the same file and costs no room; so it does
//! where an earlier copy has it. Elsewhere the bytes are copied. Blobs are taken twice, before the records and after
//! them: whatever a copied record names was there before, or came while the records were copied. Uploads that still
//! arrive are left out, and so is the folder's identity: the copy is another folder.
//!
//! A file gets its name when it is whole, so a copy that was broken off can be taken up again.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

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

impl Copied {
    /// Both together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self { files: self.files + other.files, bytes: self.bytes + other.bytes }
    }
}

/// Whether a file may be given a second name instead of being copied.
#[derive(Clone, Debug, PartialEq, Eq)]
enum How {
    /// It never changes. The same file may be in this folder of an earlier copy.
    Link {
        earlier: Option<PathBuf>,
    },
    Copy,
}

impl How {
    /// The same for what has this name.
    fn within(&self, name: &OsStr) -> Self {
        match self {
            Self::Link { earlier } => {
                Self::Link { earlier: earlier.as_ref().map(|earlier| earlier.join(name)) }
            }
            Self::Copy => Self::Copy,
        }
    }
}

/// Copies the blobs and records of the folder at `source`, which others may use meanwhile, to `target`. `earlier` is a
/// copy whose blobs need not be copied again. `progress` hears what was done so far. Nothing is copied if there is no
/// such folder.
pub fn back_up(
    source: &Path,
    target: &Path,
    earlier: Option<&Path>,
    progress: &mut dyn FnMut(Copied),
) -> Result<Copied, Error> {
    let mut copied = copy_blobs(source, target, earlier, progress)?;
    let (from, to) = (source.join("records"), target.join("records"));
    copy_tree(&from, &to, &How::Copy, &mut copied, progress)?;
    let late = copy_blobs(source, target, earlier, progress)?;
    if target.is_dir() {
        sync_folder(target)?;
    }
    Ok(copied.and(late))
}

/// Copies only the blobs. Who then copies what names blobs, and at last all of the folder, has missed none, even if some
/// are removed meanwhile.
pub fn copy_blobs(
    source: &Path,
    target: &Path,
    earlier: Option<&Path>,
    progress: &mut dyn FnMut(Copied),
) -> Result<Copied, Error> {
    let mut copied = Copied::default();
    let how = How::Link { earlier: earlier.map(|earlier| earlier.join("blobs")) };
    copy_tree(&source.join("blobs"), &target.join("blobs"), &how, &mut copied, progress)?;
    Ok(copied)
}

/// Copies a folder with all that is in it, byte by byte. Nothing is copied if there is none.
pub fn copy_folder(
    source: &Path,
    target: &Path,
    progress: &mut dyn FnMut(Copied),
) -> Result<Copied, Error> {
    let mut copied = Copied::default();
    copy_tree(source, target, &How::Copy, &mut copied, progress)?;
    Ok(copied)
}

fn copy_tree(
    source: &Path,
    target: &Path,
    how: &How,
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
        let how = how.within(&entry.file_name());
        if kind.is_dir() {
            copy_tree(&from, &to, &how, copied, progress)?;
        } else if kind.is_file()
            && let Some(bytes) = copy_file(&from, &to, &how)?
        {
            copied.files += 1;
            copied.bytes += bytes;
            progress(*copied);
        }
    }
    sync_folder(target)
}

/// Copies one file; its bytes, or nothing if it is there already, or gone.
fn copy_file(from: &Path, to: &Path, how: &How) -> Result<Option<u64>, Error> {
    if let How::Link { earlier } = how {
        match fs::hard_link(from, to) {
            Ok(()) => return Ok(fs::metadata(to).ok().map(|found| found.len())),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            // Another file system, or one without links.
            Err(_) => {}
        }
        let length = |path: &Path| fs::metadata(path).ok().map(|found| found.len());
        if let Some(earlier) = earlier.as_deref().filter(|earlier| length(earlier) == length(from))
            && fs::hard_link(earlier, to).is_ok()
        {
            return Ok(None);
        }
    }
    if to.exists() {
        return Ok(None);
    }
    let Some(mut source) = if_there(File::open(from)).map_err(Error::io("open", from))? else {
        return Ok(None);
    };
    let mut name = to.as_os_str().to_owned();
    name.push(".part");
    let part = PathBuf::from(name);
    let mut target = File::create(&part).map_err(Error::io("create", &part))?;
    let bytes = io::copy(&mut source, &mut target).map_err(Error::io("write", &part))?;
    target.sync_data().map_err(Error::io("sync", &part))?;
    fs::rename(&part, to).map_err(Error::io("rename", &part))?;
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
        let copied = back_up(&source, &target, None, &mut |_| {}).unwrap();
        assert_eq!(copied.files, 2);
        let copy = Folder::open(&target).unwrap();
        assert_eq!(copy.verify(id).unwrap().size, 5);
        assert!(copy.record(&record()).unwrap().is_some());
        assert_ne!(copy.identity().unwrap(), folder.identity().unwrap());
        assert!(!target.join("uploads/half.part").exists());
        folder.remove_blob(id).unwrap();
        assert!(copy.verify(id).is_ok(), "the copy lives on without the original");
        let nothing = back_up(&place.path().join("none"), &target, None, &mut |_| {}).unwrap();
        assert_eq!(nothing, Copied::default());
    }

    #[test]
    fn a_blob_of_an_earlier_copy_is_not_copied_again() {
        let place = tempfile::tempdir().unwrap();
        // It is on another file system, so it cannot be linked; the earlier copy of it can. Its length is said to be 0.
        let (far, earlier) = (Path::new("/proc/version"), place.path().join("earlier"));
        fs::write(&earlier, "").unwrap();
        let how = |earlier: &Path| How::Link { earlier: Some(earlier.to_owned()) };
        let copy = |name: &str, how: &How| copy_file(far, &place.path().join(name), how).unwrap();
        assert_eq!(copy("linked", &how(&earlier)), None);
        assert_eq!(fs::read_to_string(place.path().join("linked")).unwrap(), "");
        let version = fs::read_to_string(far).unwrap();
        let other = place.path().join("other");
        fs::write(&other, "of another length").unwrap();
        for (name, how) in [("anew", how(&other)), ("too", How::Link { earlier: None })] {
            assert_eq!(copy(name, &how), Some(version.len() as u64));
            assert_eq!(fs::read_to_string(place.path().join(name)).unwrap(), version);
            assert_eq!(copy(name, &how), None, "it is there already");
        }
        assert_eq!(
            How::Link { earlier: Some("a".into()) }.within("b".as_ref()),
            how("a/b".as_ref())
        );
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
