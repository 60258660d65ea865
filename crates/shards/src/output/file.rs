//! One file that is only appended to, and its length.

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use super::OutputError;

/// Bytes that are collected before the system gets them.
const BUFFER_BYTES: usize = 256 << 10;

/// A file that grows at its end.
#[derive(Debug)]
pub(super) struct Appended {
    path: PathBuf,
    writer: BufWriter<File>,
    length: u64,
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
            writer: BufWriter::with_capacity(BUFFER_BYTES, file),
            length,
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

    /// Hands everything to the system, and to the disk if asked to.
    pub(super) fn flush(&mut self, sync: bool) -> Result<(), OutputError> {
        self.writer.flush().map_err(|source| self.error("write to", source))?;
        if sync {
            self.writer.get_ref().sync_data().map_err(|source| self.error("sync", source))?;
        }
        Ok(())
    }

    fn error(&self, verb: &'static str, source: std::io::Error) -> OutputError {
        OutputError::File { verb, path: self.path.clone(), source }
    }
}
