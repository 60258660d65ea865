//! What a stream of records holds, whatever their order: two streams with the same tally hold the same records, as far as
//! 64 bits of hash can tell. `valsort` of the sort benchmark does the same with CRC32.

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

/// Rows, bytes and a checksum that does not depend on the order of rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// Records.
    pub rows: u64,
    /// Their bytes, with line ends.
    pub bytes: u64,
    /// The sum of the hashes of all records; written as text, because JSON has no whole numbers of 64 bits.
    #[serde(with = "hexadecimals")]
    pub checksum: u64,
}

impl Tally {
    /// Counts one record, which is given with its line end.
    #[inline]
    pub fn add(&mut self, record: &[u8]) {
        self.rows += 1;
        self.bytes += record.len() as u64;
        self.checksum = self.checksum.wrapping_add(xxh3_64(record));
    }

    /// Counts what another one has counted.
    pub fn merge(&mut self, other: &Self) {
        self.rows += other.rows;
        self.bytes += other.bytes;
        self.checksum = self.checksum.wrapping_add(other.checksum);
    }
}

mod hexadecimals {
    use serde::{Deserialize as _, Deserializer, Serializer, de};

    pub(super) fn serialize<S: Serializer>(value: &u64, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&format_args!("{value:016x}"))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
        let text = String::deserialize(from)?;
        u64::from_str_radix(&text, 16)
            .map_err(|_| de::Error::custom(format_args!("the checksum `{text}` is no number")))
    }
}
