//! Reads one partition of a file of the shuffle.

use std::fs::File;
use std::io::{self, Read, Seek as _, SeekFrom};
use std::path::Path;

use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::{ENTRY_BYTES, Entry, MAGIC, PartitionSize, TAIL_BYTES};

/// One partition, from its first byte to its last. It has no buffer of its own. The end is an error if the bytes are not
/// those that were written.
pub struct ShuffleReader {
    file: File,
    entry: Entry,
    left: u64,
    hash: Box<Xxh3>,
}

impl ShuffleReader {
    /// A partition of this file.
    ///
    /// # Errors
    /// If the file is not whole, or has no such partition.
    pub fn open(path: &Path, partition: u32) -> io::Result<Self> {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        let mut tail = [0; TAIL_BYTES];
        if length < TAIL_BYTES as u64 {
            return Err(broken("is too short"));
        }
        file.seek(SeekFrom::Start(length - TAIL_BYTES as u64))?;
        file.read_exact(&mut tail)?;
        let (count, rest) = tail.split_at(4);
        let (hash, magic) = rest.split_at(8);
        let count = u32::from_le_bytes(count.try_into().unwrap_or_default());
        let footer_bytes = u64::from(count) * ENTRY_BYTES as u64;
        let Some(start) = (length - TAIL_BYTES as u64).checked_sub(footer_bytes) else {
            return Err(broken("has no whole footer"));
        };
        if magic != MAGIC {
            return Err(broken("does not end as it should"));
        }
        let mut footer = vec![0; usize::try_from(footer_bytes).map_err(io::Error::other)?];
        file.seek(SeekFrom::Start(start))?;
        file.read_exact(&mut footer)?;
        if xxh3_64(&footer).to_le_bytes() != hash {
            return Err(broken("has a damaged footer"));
        }
        let Some(entry) = footer.chunks_exact(ENTRY_BYTES).nth(partition as usize) else {
            return Err(broken(&format!("has {count} partitions, and {partition} is none")));
        };
        let entry = Entry::from_bytes(entry);
        if entry.offset.checked_add(entry.bytes).is_none_or(|end| end > start) {
            return Err(broken("has a partition beyond its end"));
        }
        file.seek(SeekFrom::Start(entry.offset))?;
        Ok(Self { file, left: entry.bytes, entry, hash: Box::new(Xxh3::new()) })
    }

    /// What is in the partition.
    pub fn size(&self) -> PartitionSize {
        PartitionSize { rows: self.entry.rows, bytes: self.entry.bytes }
    }
}

impl Read for ShuffleReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 || buffer.is_empty() {
            return Ok(0);
        }
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        let count = self.file.read(&mut buffer[..most])?;
        if count == 0 {
            return Err(broken("ends in the middle of a partition"));
        }
        self.hash.update(&buffer[..count]);
        self.left -= count as u64;
        if self.left == 0 && self.hash.digest() != self.entry.hash {
            return Err(broken("has a damaged partition"));
        }
        Ok(count)
    }
}

fn broken(how: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the shuffle file {how}"))
}
