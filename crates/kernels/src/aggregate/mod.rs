//! Groups and what is known of each: counts, sums, distinct values, quantiles, frequent values; exact or approximate.
//!
//! Reading order: [`hash`] and [`table`] (keys of bytes), `different` (texts without more), [`runs`] (sorted records and
//! their merge), [`query`] (what is asked of each group), [`state`] (what is kept for an answer, and how two of them
//! become one), [`groups`] (a state per key, within memory), [`answer`] (what is printed), [`hot`] (which keys are much of
//! the whole), [`divide`] (what is done about them).
//!
//! Every state can be written, read and merged, so a group may be worked on in as many places as one likes. All of them
//! are deterministic: the same rows in the same order give the same bytes.

pub mod answer;
mod bytes;
mod different;
pub mod divide;
pub mod groups;
pub mod hash;
pub mod hot;
mod quantile;
pub mod query;
pub mod records;
mod rough;
pub mod runs;
mod sample;
mod single;
pub mod state;
mod sum;
pub mod table;

#[cfg(test)]
mod tests;

pub use answer::{Answer, Cell};
pub use bytes::{Damaged, put_bytes, put_number, take_bytes, take_number};
pub use groups::{Groups, RowError};
pub use hot::Hot;
pub use query::{Query, QueryError};
pub use records::Records;
pub use runs::{Merge, RunReader, RunWriter};
pub use single::{Reading, Single};
pub use table::Table;
