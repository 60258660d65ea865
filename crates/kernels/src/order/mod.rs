//! Sorting more than fits in memory: what is compared, runs in memory, where ranges are cut, merging.
//!
//! Equal keys keep the order of the input. So a record has one place in the result, whoever sorted which piece, and a
//! range of the result may begin in the middle of equal keys: a [`Splitter`] is a key *and* a position.
//!
//! It does not know where runs lie; they are written to writers and read from readers.
//!
//! Reading order: `layout` (records and their keys), `number` (keys that are numbers), `run` (a piece in memory), `splitters` (where ranges are cut), `merge`
//! (runs to one stream), `check` (whether a stream is in order), `tally` (rows, bytes and a checksum of a stream).

mod check;
mod layout;
mod merge;
mod number;
mod run;
mod splitters;
mod tally;
#[cfg(test)]
mod tests;

pub use check::{Checked, Disorder, check};
pub use layout::{Layout, Order, RECORD_BYTES_MAX};
pub use merge::{MERGE_BUFFER_BYTES_MIN, merge};
pub use run::{Filled, Run};
pub use splitters::{Sample, Splitter, choose};
pub use tally::Tally;

use thiserror::Error;

/// Why something was not sorted.
#[derive(Debug, Error)]
pub enum OrderError {
    /// A run cannot be read, or what was asked for not be written.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// The input cannot be read to its end.
    #[error("the record at byte {offset} cannot be read: {error}")]
    Read {
        /// Where the first record begins that is not whole.
        offset: u64,
        /// Why.
        error: std::io::Error,
    },
    /// The last record is not whole.
    #[error(
        "the record at byte {offset} has {found} bytes instead of {expected}: the input is cut, or the size of records is another"
    )]
    Cut {
        /// Where it begins.
        offset: u64,
        /// What is there.
        found: usize,
        /// What a record has.
        expected: usize,
    },
    /// A record does not fit in the memory.
    #[error(
        "the line at byte {offset} is longer than {limit} bytes, which is what the memory has room for; give more memory"
    )]
    Long {
        /// Where it begins.
        offset: u64,
        /// What there is room for.
        limit: usize,
    },
}
