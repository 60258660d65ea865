//! One file that is only appended to, and its length.

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::OutputError;

/// Bytes that are collected before the system gets them.
const BUFFER_BYTES: usize = 256 << 10;

/// A file that grows at its end.
#[derive(Debug)]
pub(super) struct Appended {
    path: PathBuf,
    writer: BufWriter<Arc<File>>,
    length: u64,
    /// How much of it the disk was last asked to keep.
    synced: u64,
}

impl Appended {
    /// Opens a file and cuts it to `length`; makes it if it is missing.
    pub(super) fn open(path: &Path, length: u64) -> Result<Self, OutputError> {
        let error = |verb| {
            let path = path.to_owned();
            move |source| OutputError::File { verb, path, source }
        };
        let file =
            OpenOptions::new().append(true).create(true).open(path).map_err(error("open"))?;
        let found = file.metadata().map_err(error("look at"))?.len();
        if found < length {
            return Err(OutputError::Short { path: path.to_owned(), found, committed: length });
        }
        if found > length {
            file.set_len(length).map_err(error("cut"))?;
        }
        Ok(Self {
            path: path.to_owned(),
            writer: BufWriter::with_capacity(BUFFER_BYTES, Arc::new(file)),
            length,
            synced: length,
        })
    }

    /// With what was not handed to the system yet.
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    pub(super) fn append(&mut self, bytes: &[u8]) -> Result<(), OutputError> {
        self.writer.write_all(bytes).map_err(|source| self.error("write to", source))?;
        self.length += bytes.len() as u64;
        Ok(())
    }

    /// Hands everything to the system; what is to be synced then, if anything is new.
    pub(super) fn flush(&mut self) -> Result<Option<Flushed>, OutputError> {
        self.writer.flush().map_err(|source| self.error("write to", source))?;
        if self.synced == self.length {
            return Ok(None);
        }
        self.synced = self.length;
        Ok(Some(Flushed { path: self.path.clone(), file: Arc::clone(self.writer.get_ref()) }))
    }

    fn error(&self, verb: &'static str, source: std::io::Error) -> OutputError {
        OutputError::File { verb, path: self.path.clone(), source }
    }
}

/// A file whose bytes the system has and the disk perhaps not.
#[derive(Debug)]
pub(super) struct Flushed {
    path: PathBuf,
    file: Arc<File>,
}

impl Flushed {
    /// Waits until the disk has them.
    pub(super) fn sync(&self) -> Result<(), OutputError> {
        self.file.sync_data().map_err(|source| OutputError::File {
            verb: "sync",
            path: self.path.clone(),
            source,
        })
    }
}
