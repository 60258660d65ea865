//! Reads one partition of a file of the shuffle.

use std::fs::File;
use std::io::{self, Read, Seek as _, SeekFrom};
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::{ENTRY_BYTES, Entry, MAGIC, PartitionSize, TAIL_BYTES};

/// Bytes at the end of a file that are read first: they have all of the footer, unless partitions are many.
const END_BYTES: u64 = 4 << 10;

/// Where the bytes of a file of the shuffle come from.
pub(crate) trait Source {
    /// How many there are.
    fn length(&self) -> io::Result<u64>;
    /// Some of them.
    fn bytes(&self, range: Range<u64>) -> io::Result<Vec<u8>>;
    /// The same as a reader, for those who do not want them all at once.
    fn reader(self, range: Range<u64>) -> io::Result<Box<dyn Read>>;
}

impl Source for File {
    fn length(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn bytes(&self, range: Range<u64>) -> io::Result<Vec<u8>> {
        let length = usize::try_from(range.end - range.start).map_err(io::Error::other)?;
        let mut bytes = vec![0; length];
        self.read_exact_at(&mut bytes, range.start)?;
        Ok(bytes)
    }

    fn reader(mut self, range: Range<u64>) -> io::Result<Box<dyn Read>> {
        self.seek(SeekFrom::Start(range.start))?;
        Ok(Box::new(self))
    }
}

/// One partition, from its first byte to its last. It has no buffer of its own. The end is an error if the bytes are not
/// those that were written.
pub struct ShuffleReader {
    bytes: Box<dyn Read>,
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
        Self::of(File::open(path)?, partition)
    }

    /// A partition of a file, wherever that is.
    ///
    /// # Errors
    /// If the file is not whole, or has no such partition.
    pub(crate) fn of(source: impl Source, partition: u32) -> io::Result<Self> {
        let length = source.length()?;
        let first = length.saturating_sub(END_BYTES);
        let end = source.bytes(first..length)?;
        let Some((before, tail)) = end.split_last_chunk::<TAIL_BYTES>() else {
            return Err(broken("is too short"));
        };
        let (count, rest) = tail.split_at(4);
        let (hash, magic) = rest.split_at(8);
        let count = u32::from_le_bytes(count.try_into().unwrap_or_default());
        let footer_bytes = u64::from(count) * ENTRY_BYTES as u64;
        let footer_end = length - TAIL_BYTES as u64;
        let Some(start) = footer_end.checked_sub(footer_bytes) else {
            return Err(broken("has no whole footer"));
        };
        if magic != MAGIC {
            return Err(broken("does not end as it should"));
        }
        let footer = match start.checked_sub(first) {
            Some(at) => before[usize::try_from(at).map_err(io::Error::other)?..].to_vec(),
            None => source.bytes(start..footer_end)?,
        };
        if xxh3_64(&footer).to_le_bytes() != hash {
            return Err(broken("has a damaged footer"));
        }
        let Some(entry) = footer.chunks_exact(ENTRY_BYTES).nth(partition as usize) else {
            return Err(broken(&format!("has {count} partitions, and {partition} is none")));
        };
        let entry = Entry::from_bytes(entry);
        let Some(end) = entry.offset.checked_add(entry.bytes).filter(|end| *end <= start) else {
            return Err(broken("has a partition beyond its end"));
        };
        let bytes = source.reader(entry.offset..end)?;
        Ok(Self { bytes, left: entry.bytes, entry, hash: Box::new(Xxh3::new()) })
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
        let count = self.bytes.read(&mut buffer[..most])?;
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
