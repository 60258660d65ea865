//! What a stage hands to the next: one file per attempt, with all its partitions one after the other.
//!
//! ```text
//! partition 0 … partition N-1 | per partition: offset, bytes, rows, xxh3 of the bytes | N | xxh3 of the footer | magic
//! ```
//!
//! All numbers are little-endian: 64 bits, N 32 bits. A file is named by part and attempt, written once, synced, and valid
//! only because a task that finished has named it. What the bytes of a partition mean is decided by those who write and
//! read them.

mod reader;
mod writer;

pub use reader::ShuffleReader;
pub(crate) use reader::Source;
pub use writer::ShuffleWriter;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The end of every file.
const MAGIC: [u8; 8] = *b"divvyshf";
/// Bytes of the footer per partition.
const ENTRY_BYTES: usize = 32;
/// Bytes after the entries: their number, their hash, the magic.
const TAIL_BYTES: usize = 4 + 8 + 8;

/// What is in one partition of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "FlowPartition")]
pub struct PartitionSize {
    /// Rows.
    pub rows: u64,
    /// Bytes.
    pub bytes: u64,
}

/// Where one partition of a file is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Entry {
    offset: u64,
    bytes: u64,
    rows: u64,
    hash: u64,
}

impl Entry {
    fn to_bytes(self) -> [u8; ENTRY_BYTES] {
        let mut bytes = [0; ENTRY_BYTES];
        let fields = [self.offset, self.bytes, self.rows, self.hash];
        for (at, field) in fields.into_iter().enumerate() {
            bytes[at * 8..at * 8 + 8].copy_from_slice(&field.to_le_bytes());
        }
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Self {
        let field =
            |at: usize| u64::from_le_bytes(bytes[at * 8..at * 8 + 8].try_into().unwrap_or([0; 8]));
        Self { offset: field(0), bytes: field(1), rows: field(2), hash: field(3) }
    }
}

/// Bytes of a whole file with these partitions.
pub(crate) fn file_bytes(partitions: &[PartitionSize]) -> u64 {
    let bytes = partitions.iter().map(|size| size.bytes + ENTRY_BYTES as u64);
    bytes.sum::<u64>() + TAIL_BYTES as u64
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use super::*;

    fn written(place: &std::path::Path) -> std::path::PathBuf {
        let path = place.join("0-1");
        let mut writer = ShuffleWriter::create(&path, 4).unwrap();
        writer.partition(1).unwrap();
        writer.write_all(b"one\ntwo\n").unwrap();
        writer.add_rows(2);
        writer.partition(3).unwrap();
        writer.write_all(b"three").unwrap();
        writer.add_rows(1);
        let sizes = writer.finish().unwrap();
        let size = |rows, bytes| PartitionSize { rows, bytes };
        assert_eq!(sizes, [size(0, 0), size(2, 8), size(0, 0), size(1, 5)]);
        assert_eq!(std::fs::metadata(&path).unwrap().len(), file_bytes(&sizes));
        path
    }

    #[test]
    fn each_partition_comes_back_as_it_was_written() {
        let place = tempfile::tempdir().unwrap();
        let path = written(place.path());
        for (partition, expected) in [(0, ""), (1, "one\ntwo\n"), (2, ""), (3, "three")] {
            let mut reader = ShuffleReader::open(&path, partition).unwrap();
            assert_eq!(reader.size().bytes, expected.len() as u64);
            let mut text = String::new();
            reader.read_to_string(&mut text).unwrap();
            assert_eq!(text, expected);
        }
        assert!(ShuffleReader::open(&path, 4).is_err());
    }

    #[test]
    fn a_footer_may_be_longer_than_the_end_that_is_read_first() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("0-1");
        let mut writer = ShuffleWriter::create(&path, 1_000).unwrap();
        for partition in [0, 499, 999] {
            writer.partition(partition).unwrap();
            writer.write_all(&partition.to_le_bytes()).unwrap();
        }
        writer.finish().unwrap();
        for partition in [0, 499, 998, 999] {
            let mut found = Vec::new();
            ShuffleReader::open(&path, partition).unwrap().read_to_end(&mut found).unwrap();
            let is_there = partition != 998;
            assert_eq!(found, if is_there { partition.to_le_bytes().to_vec() } else { vec![] });
        }
    }

    #[test]
    fn a_file_that_was_not_finished_is_gone() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("0-1");
        let mut writer = ShuffleWriter::create(&path, 1).unwrap();
        writer.write_all(b"half").unwrap();
        assert!(path.exists());
        drop(writer);
        assert!(!path.exists());
    }

    #[test]
    fn a_file_that_was_cut_or_changed_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let path = written(place.path());
        let whole = std::fs::read(&path).unwrap();
        let read = |bytes: &[u8]| {
            let path = place.path().join("broken");
            std::fs::write(&path, bytes).unwrap();
            let mut text = Vec::new();
            ShuffleReader::open(&path, 1)?.read_to_end(&mut text).map(drop)
        };
        assert!(read(&whole).is_ok());
        for cut in [0, 5, whole.len() / 2, whole.len() - 1] {
            assert!(read(&whole[..cut]).is_err(), "cut at {cut}");
        }
        for at in 0..8 {
            let mut changed = whole.clone();
            changed[at] ^= 1;
            assert!(read(&changed).is_err(), "changed at {at}");
        }
        let mut changed = whole.clone();
        let footer = whole.len() - TAIL_BYTES - 2 * ENTRY_BYTES;
        changed[footer] ^= 1;
        assert!(read(&changed).is_err(), "a footer with a wrong hash");
    }
}
