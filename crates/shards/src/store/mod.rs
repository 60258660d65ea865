//! The file of a shard: everything durable of it, in one SQLite file, changed by one commit per batch.
//!
//! It decides nothing about the crawl: [`divvy_frontier::frontier`] says what must be durable ([`Batch::changes`]), the
//! shard adds what it fetched. Either all of a batch is in the file or nothing, whenever the process dies.
//!
//! | table | holds |
//! |---|---|
//! | `host` | records of hosts; the frontier packs them |
//! | `block` | entries of queues, by host, band and number |
//! | `later` | addresses that are due at some time |
//! | `seen` | fingerprints of all addresses that were ever queued (exact), or `seen_log` (Bloom filter only) |
//! | `page` | states of addresses that were fetched: status, digest, validators, interval |
//! | `robots` | copies of robots.txt |
//! | `outbox`, `peer` | batches for other shards, numbers of batches sent and received |
//! | `output`, `note`, `meta` | lengths of outputs, small things, the epoch and whether the last owner closed the file |
//!
//! **Owners.** A file has one owner at a time, which holds the lock beside it. The epoch is a second lock in the file
//! itself: whoever opens it with a higher one shuts the commits of those before out.

mod commit;
mod error;
mod read;
mod schema;
#[cfg(test)]
mod tests;
mod words;

use std::path::PathBuf;

use divvy_frontier::seen::Mode;
use rusqlite::Connection;

pub use error::Error;
pub use words::*;

/// The open file of a shard.
#[derive(Debug)]
pub struct ShardFile {
    conn: Connection,
    path: PathBuf,
    epoch: u64,
    mode: Mode,
    salt: u64,
    was_clean: bool,
    /// The epoch of the owner before.
    before: u64,
}

impl ShardFile {
    /// Whether the last owner closed it, so that the times in it are exact.
    pub fn was_clean(&self) -> bool {
        self.was_clean
    }

    /// The epoch of the last owner, if it closed the file.
    pub fn left_by(&self) -> Option<u64> {
        self.was_clean.then_some(self.before)
    }

    /// What addresses of this file are hashed with.
    pub fn salt(&self) -> u64 {
        self.salt
    }
}
