//! Writes a file of the shuffle, partition by partition.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use divvy_workload::files::sync_folder;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::{Entry, MAGIC, PartitionSize};

/// Bytes that are written at once.
const BUFFER_BYTES: usize = 1 << 20;

/// Writes one file: choose a partition with [`partition`](Self::partition), in ascending order, then write its bytes.
pub struct ShuffleWriter {
    path: PathBuf,
    file: BufWriter<File>,
    entries: Vec<Entry>,
    current: usize,
    offset: u64,
    hash: Box<Xxh3>,
    is_whole: bool,
}

impl ShuffleWriter {
    /// A new file with so many partitions. Its folder is made if it is not there.
    ///
    /// # Errors
    /// If the file cannot be made.
    pub fn create(path: &Path, partitions: u32) -> io::Result<Self> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let file = BufWriter::with_capacity(BUFFER_BYTES, File::create(path)?);
        let entries = vec![Entry::default(); partitions as usize];
        let hash = Box::new(Xxh3::new());
        Ok(Self {
            path: path.to_owned(),
            file,
            entries,
            current: 0,
            offset: 0,
            hash,
            is_whole: false,
        })
    }

    /// What is written from now on belongs to this partition; those that were passed over are empty.
    ///
    /// # Errors
    /// If it is not among those that come next.
    pub fn partition(&mut self, partition: u32) -> io::Result<()> {
        let wanted = partition as usize;
        if wanted < self.current || wanted >= self.entries.len() {
            let text = format!("partition {wanted} cannot follow partition {}", self.current);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        while self.current < wanted {
            self.close();
        }
        Ok(())
    }

    /// Counts rows of the partition.
    pub fn add_rows(&mut self, rows: u64) {
        if let Some(entry) = self.entries.get_mut(self.current) {
            entry.rows += rows;
        }
    }

    /// Where the file is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Ends the file and makes it outlast a loss of power; what is in it, per partition.
    ///
    /// # Errors
    /// If the disk is full.
    pub fn finish(mut self) -> io::Result<Vec<PartitionSize>> {
        let sizes = self.write_footer()?;
        self.file.get_ref().sync_all()?;
        if let Some(folder) = self.path.parent() {
            sync_folder(folder)?;
        }
        self.is_whole = true;
        Ok(sizes)
    }

    /// Ends the file; it may be lost with the power of this machine.
    ///
    /// # Errors
    /// If the disk is full.
    pub(crate) fn end(mut self) -> io::Result<Vec<PartitionSize>> {
        let sizes = self.write_footer()?;
        self.is_whole = true;
        Ok(sizes)
    }

    fn write_footer(&mut self) -> io::Result<Vec<PartitionSize>> {
        while self.current < self.entries.len() {
            self.close();
        }
        let footer: Vec<u8> = self.entries.iter().flat_map(|entry| entry.to_bytes()).collect();
        let count = u32::try_from(self.entries.len()).unwrap_or(u32::MAX);
        self.file.write_all(&footer)?;
        self.file.write_all(&count.to_le_bytes())?;
        self.file.write_all(&xxh3_64(&footer).to_le_bytes())?;
        self.file.write_all(&MAGIC)?;
        self.file.flush()?;
        let size = |entry: &Entry| PartitionSize { rows: entry.rows, bytes: entry.bytes };
        Ok(self.entries.iter().map(size).collect())
    }

    /// Ends the current partition.
    fn close(&mut self) {
        let entry = &mut self.entries[self.current];
        entry.hash = self.hash.digest();
        self.current += 1;
        self.hash.reset();
        if let Some(next) = self.entries.get_mut(self.current) {
            next.offset = self.offset;
        }
    }
}

impl Drop for ShuffleWriter {
    fn drop(&mut self) {
        if !self.is_whole {
            // A disk that is full has room again; what stays is swept with the job.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl Write for ShuffleWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.file.write(bytes)?;
        let Some(entry) = self.entries.get_mut(self.current) else {
            return Err(io::Error::other("a shuffle file without partitions takes nothing"));
        };
        entry.bytes += count as u64;
        self.offset += count as u64;
        self.hash.update(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
