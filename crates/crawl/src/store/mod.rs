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

use std::path::{Path, PathBuf};

use divvy_frontier::frontier::{Block, Frontier, Later, LoadOrder};
use divvy_frontier::rules::Rules;
use divvy_frontier::seen::{self, Mode};
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
}

impl ShardFile {
    /// Opens the file, makes it if there is none, and becomes its owner.
    pub fn open(path: &Path, opening: Opening) -> Result<Self, Error> {
        unimplemented!()
    }

    /// Whether the last owner closed it, so that the times in it are exact.
    pub fn was_clean(&self) -> bool {
        self.was_clean
    }

    /// What addresses of this file are hashed with.
    pub fn salt(&self) -> u64 {
        self.salt
    }

    /// The frontier as it was at the last commit. After a crash every host waits a whole gap from now.
    pub fn frontier(&self, rules: Rules, seen: seen::Settings, seed: u64, now_ms: u64) -> Result<Frontier, Error> {
        unimplemented!()
    }

    /// What else was saved.
    pub fn load(&self) -> Result<Saved, Error> {
        unimplemented!()
    }

    /// Makes a batch durable, all or nothing, and gives the numbers of its outgoing batches in their order.
    pub fn commit(&mut self, batch: &Batch) -> Result<Vec<u64>, Error> {
        unimplemented!()
    }

    /// Which of these addresses were ever queued, as of the last commit. Always none if only the filter is kept.
    pub fn contains(&self, fingerprints: &[u64]) -> Result<Vec<bool>, Error> {
        unimplemented!()
    }

    /// Entries of a queue. What is not committed is not found.
    pub fn blocks(&self, order: &LoadOrder) -> Result<Vec<Block>, Error> {
        unimplemented!()
    }

    /// Addresses that are due, the longest due first.
    pub fn due(&self, now_ms: u64, limit: u32) -> Result<Vec<Later>, Error> {
        unimplemented!()
    }

    /// When the next address is due.
    pub fn next_due(&self) -> Result<Option<u64>, Error> {
        unimplemented!()
    }

    /// The state of an address.
    pub fn page(&self, fingerprint: u64) -> Result<Option<PageState>, Error> {
        unimplemented!()
    }

    /// States of addresses, in the order of their fingerprints.
    pub fn pages(&self, filter: PageFilter, limit: u32) -> Result<Vec<PageState>, Error> {
        unimplemented!()
    }

    /// The copy of the robots.txt of a host.
    pub fn robots(&self, host: u32) -> Result<Option<RobotsCopy>, Error> {
        unimplemented!()
    }

    /// Batches that have not been reported as sent, in their order.
    pub fn unsent(&self) -> Result<Vec<Outgoing>, Error> {
        unimplemented!()
    }

    /// Says that all times in the file are exact, and closes it.
    pub fn close(self) -> Result<(), Error> {
        unimplemented!()
    }
}
