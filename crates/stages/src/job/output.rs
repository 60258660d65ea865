//! A file of the result. It is written under the name of its attempt; the driver gives it its own name when the job is
//! done, because only then it is known which attempt counts.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use divvy_workload::files::sync_folder;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::Xxh3;

/// Bytes that are written at once.
const BUFFER_BYTES: usize = 1 << 20;

/// A file of the result, as the manifest names it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "FlowOutput")]
pub struct OutputFile {
    /// Its name in `out/`, such as `part-00003`.
    pub name: String,
    /// The name that it has until the job is done.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub until_done: String,
    /// Rows.
    pub rows: u64,
    /// Bytes.
    pub bytes: u64,
    /// xxh3 of the bytes, as 16 hexadecimal digits; empty of a stream that goes on.
    pub xxh3: String,
}

/// Writes a file of the result.
pub struct OutputWriter {
    folder: PathBuf,
    name: String,
    until_done: String,
    file: BufWriter<File>,
    rows: u64,
    bytes: u64,
    hash: Box<Xxh3>,
    is_whole: bool,
}

impl OutputWriter {
    /// A new file in this folder, which is made if it is not there.
    pub(super) fn create(folder: &Path, name: String, until_done: String) -> io::Result<Self> {
        let folder = folder.to_owned();
        std::fs::create_dir_all(&folder)?;
        let file = File::create(folder.join(&until_done))?;
        let file = BufWriter::with_capacity(BUFFER_BYTES, file);
        let hash = Box::new(Xxh3::new());
        Ok(Self { folder, name, until_done, file, rows: 0, bytes: 0, hash, is_whole: false })
    }

    /// Counts rows.
    pub fn add_rows(&mut self, rows: u64) {
        self.rows += rows;
    }

    /// Where the file is until the job is done.
    pub fn path(&self) -> PathBuf {
        self.folder.join(&self.until_done)
    }

    /// Ends the file and makes it outlast a loss of power. What is returned belongs into
    /// [`Report::outputs`](super::Report::outputs).
    ///
    /// # Errors
    /// If the disk is full.
    pub fn finish(mut self) -> io::Result<OutputFile> {
        self.file.flush()?;
        self.file.get_ref().sync_all()?;
        sync_folder(&self.folder)?;
        self.end()
    }

    /// Ends the file; it may be lost with the power of this machine.
    pub(super) fn end(mut self) -> io::Result<OutputFile> {
        self.file.flush()?;
        let xxh3 = format!("{:016x}", self.hash.digest());
        self.is_whole = true;
        let (name, until_done) = (self.name.clone(), self.until_done.clone());
        Ok(OutputFile { name, until_done, rows: self.rows, bytes: self.bytes, xxh3 })
    }
}

impl Drop for OutputWriter {
    fn drop(&mut self) {
        if !self.is_whole {
            // A disk that is full has room again; what stays is swept with the job.
            let _ = std::fs::remove_file(self.path());
        }
    }
}

impl Write for OutputWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.file.write(bytes)?;
        self.bytes += count as u64;
        self.hash.update(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
