//! What workers that do not see the folder of jobs read of it and write into it: which file a request means, whether it
//! may be given out, and how a file that arrives in pieces becomes whole.
//!
//! A caller names numbers, never paths. An input is given out if it is one of the job's, is still what it was when the job
//! was started, and lies where the server's owner lets jobs read. What is written has the name of one attempt of one part;
//! it is collected beside its place, compared with the hash that its sender tells, synced, and only then given its name.
//! A piece that comes again, because its answer was lost, changes nothing.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use divvy_workload::files::{self, FolderError};
use xxhash_rust::xxh3::Xxh3;

use super::{Jobs, JobsError};
use crate::job::{SpecError, Written};

/// Bytes of a file that an attempt writes.
pub(crate) const WRITTEN_BYTES_MAX: u64 = 1 << 40;
/// A link in the folder of jobs, to nowhere, whose text says which folder it is, wherever it is seen from. No file, because
/// backups copy files, and a copy is another folder.
const IDENTITY: &str = "identity";
/// Characters of an identity.
const IDENTITY_LEN: usize = 32;
/// Bytes that are hashed at once.
const HASH_BYTES: usize = 256 << 10;

/// The folders whose files jobs may read through this server.
#[derive(Clone, Debug)]
pub(crate) struct Readable(Arc<[PathBuf]>);

/// A piece of a file that an attempt wrote.
#[derive(Debug)]
pub(crate) struct Piece<'a> {
    /// Where it begins.
    pub(crate) offset: u64,
    /// Its bytes.
    pub(crate) bytes: &'a [u8],
    /// The xxh3 of the whole file as 16 hexadecimal digits, if this is its last piece.
    pub(crate) xxh3: Option<&'a str>,
}

impl Readable {
    /// These, as they really are.
    pub(crate) fn new(folders: Vec<PathBuf>) -> Self {
        Self(folders.into())
    }

    /// Where the file really is, if jobs may read it.
    fn find(&self, path: &Path) -> Result<PathBuf, JobsError> {
        // Links are followed first, so that none leads out of a folder.
        let real = path.canonicalize().map_err(|error| unreadable(path, &error))?;
        if self.0.iter().any(|folder| real.starts_with(folder)) {
            return Ok(real);
        }
        Err(JobsError::Forbidden(format!(
            "{}: this server gives out no files of that folder to workers on other machines; name {} in flow.read of \
             its settings",
            path.display(),
            real.parent().unwrap_or(&real).display()
        )))
    }
}

/// Which folder of jobs this is: the same text for everybody who sees the same folder; nothing if it is none.
pub(crate) fn identity(flows: &Path) -> Option<String> {
    let text = fs::read_link(flows.join(IDENTITY)).ok()?.into_os_string().into_string().ok()?;
    (text.len() == IDENTITY_LEN).then_some(text)
}

/// The identity of a folder of jobs; one that has none yet gets one.
///
/// # Errors
/// If it cannot be written.
pub(super) fn identify(flows: &Path) -> Result<String, FolderError> {
    if let Some(known) = identity(flows) {
        return Ok(known);
    }
    let path = flows.join(IDENTITY);
    let text: String = (0..IDENTITY_LEN).map(|_| fastrand::digit(16)).collect();
    let made = symlink(&text, &path).and_then(|()| files::sync_folder(flows));
    made.map_err(|error| FolderError::new(&path, error))?;
    Ok(text)
}

impl Jobs {
    /// Where a file of a job's input is that may be given out.
    ///
    /// # Errors
    /// If there is none of this number, it may not be read, or it is not any more what it was.
    pub(crate) fn input(
        &self,
        id: &str,
        number: u32,
        readable: &Readable,
    ) -> Result<PathBuf, JobsError> {
        let spec = self.kept_spec(id)?;
        let Some(input) = spec.inputs.get(number as usize) else {
            return Err(JobsError::NoFile(format!("job {id} has no input {number}")));
        };
        let real = readable.find(&input.path)?;
        // Said in the words that a worker here would use.
        match input.expect_unchanged() {
            Ok(()) => Ok(real),
            Err(error) => Err(JobsError::Changed(error.to_string())),
        }
    }

    /// Takes a piece of a file that an attempt wrote; how many bytes of the file are here now.
    ///
    /// # Errors
    /// If the job has ended, the piece does not follow what is here, the file is not what was announced, or it cannot be
    /// written.
    pub(crate) fn take(
        &self,
        id: &str,
        written: Written,
        piece: &Piece<'_>,
    ) -> Result<u64, JobsError> {
        self.expect_open(id)?;
        let place = written.path(&self.folder(id));
        let end = piece.offset.saturating_add(piece.bytes.len() as u64);
        if end > WRITTEN_BYTES_MAX {
            let problem = format!("and the piece are more than {WRITTEN_BYTES_MAX} bytes");
            return Err(SpecError::new("offset", problem).into());
        }
        // It is whole already, and only the answer was lost.
        if let Ok(whole) = fs::metadata(&place) {
            return Ok(whole.len());
        }
        let (Some(folder), Some(name)) = (place.parent(), place.file_name()) else {
            return Err(JobsError::NoFile(format!("{} is no file of a job", place.display())));
        };
        let half = folder.join(format!(".{}.half", name.to_string_lossy()));
        let failed = |error: io::Error| write_error(&half, &error);
        fs::create_dir_all(folder).map_err(failed)?;
        let options = OpenOptions::new().create(true).append(true).read(true).open(&half);
        let mut file = options.map_err(failed)?;
        if file.try_lock().is_err() {
            return Err(JobsError::Busy(format!(
                "another piece of {} is being written",
                place.display()
            )));
        }
        let here = file.metadata().map_err(failed)?.len();
        if here < piece.offset {
            return Err(JobsError::Offset(format!(
                "{here} bytes are here, and the piece begins at byte {}; send the file again from its beginning",
                piece.offset
            )));
        }
        if here > piece.offset {
            // The piece came before, whole or in part.
            file.set_len(piece.offset).map_err(failed)?;
        }
        if let Err(error) = file.write_all(piece.bytes) {
            // A part of it may be there. Unless that goes too, the next try begins with it.
            let _ = file.set_len(piece.offset);
            return Err(failed(error));
        }
        if let Some(expected) = piece.xxh3 {
            self.place(id, &half, &place, &file, expected)?;
        }
        Ok(end)
    }

    /// Gives a file its name, if it is what its sender says.
    fn place(
        &self,
        id: &str,
        half: &Path,
        place: &Path,
        file: &File,
        expected: &str,
    ) -> Result<(), JobsError> {
        let failed = |error: io::Error| write_error(half, &error);
        let found = hash(half).map_err(failed)?;
        if found != expected {
            let _ = fs::remove_file(half);
            return Err(JobsError::Damaged(format!(
                "{}: xxh3 {found} arrived, and {expected} was announced: damaged on the way or on a disk",
                place.display()
            )));
        }
        file.sync_all().map_err(failed)?;
        // A job that ended meanwhile is swept once more a little later, whatever comes after this.
        self.expect_open(id).inspect_err(|_| drop(fs::remove_file(half)))?;
        fs::rename(half, place).map_err(failed)?;
        place.parent().map_or(Ok(()), files::sync_folder).map_err(failed)
    }

    /// An error if a job takes nothing any more.
    fn expect_open(&self, id: &str) -> Result<(), JobsError> {
        self.kept_spec(id)?;
        let state = self.state(id)?;
        if state.ended.is_some() || state.is_cancelled {
            let problem = format!("job {id} has ended, so nothing is written for it any more");
            return Err(JobsError::Conflict(problem));
        }
        Ok(())
    }
}

fn hash(path: &Path) -> io::Result<String> {
    let (mut file, mut hash) = (File::open(path)?, Box::new(Xxh3::new()));
    let mut buffer = vec![0; HASH_BYTES];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(format!("{:016x}", hash.digest())),
            count => hash.update(&buffer[..count]),
        }
    }
}

fn unreadable(path: &Path, error: &io::Error) -> JobsError {
    match error.kind() {
        io::ErrorKind::NotFound => {
            JobsError::NoFile(format!("{}: there is no such file", path.display()))
        }
        _ => JobsError::Folder(FolderError::new(path, error)),
    }
}

fn write_error(path: &Path, error: &io::Error) -> JobsError {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => JobsError::Full(format!(
            "{}: the disk is full; free some space there and start the job again",
            path.display()
        )),
        _ => JobsError::Folder(FolderError::new(path, error)),
    }
}
