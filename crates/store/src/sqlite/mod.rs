//! The store in SQLite files: `divvy.db` holds what is open and what ended lately, `history/YYYY-MM-DD.db` what
//! ended on that day.
//!
//! - `write` decides the verdict of each fact and appends it; no row of the hot path is ever updated.
//! - `recover` merges the tables in one pass over each at start.
//! - `read` answers people and the engine, from its own connections.
//! - `history` owns the files of days, `maintain` moves tasks there and drops old days.
//! - `blocks` knows which stretches of task numbers may hold what a list asks for.
//! - `place` knows whether the files are still where they were opened.
//! - `checkpoint` keeps the write-ahead log short, beside the commit path.
//! - `saved` keeps checkpoints of attempts and settings, `keys` the unique keys.
//! - `row` is the only place that knows how a task becomes columns, and sums each row so that damage is found.
//! - `offline` checks, copies and compacts the files without a server.
//!
//! It deliberately does not know what makes a task ready, nor who runs it.

mod blocks;
mod checkpoint;
mod failure;
mod history;
mod keys;
mod maintain;
mod offline;
mod place;
mod read;
mod recover;
mod revive;
mod row;
mod saved;
mod schema;
mod store;
mod tally;
mod write;

#[cfg(test)]
mod tests;

pub use offline::{CheckReport, CompactReport, FileReport, backup, check, compact};
pub use store::{Options, SqliteStore, lock};
