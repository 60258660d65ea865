//! The folder of a crawl: which file is where.
//!
//! | file | what | written by |
//! |---|---|---|
//! | `crawl.json` | what was asked for; fixed | the server |
//! | `control.json` | paused, stopped, blocked hosts, rounds | the server |
//! | `shard-N.db` | everything durable of a shard | the shard |
//! | `shard-N.lock` | held by the process that owns the shard | the shard |
//! | `status-N.json` | what a shard shows, once a second; not durable | the shard |
//! | `inbox/N/FROM-SEQ.json` | links for shard N; see [`inbox`] | the others |
//! | `budget.json` | how many pages each shard may fetch; see [`budget`] | all, under a lock |
//! | `out/shard-N/` | what was made of the pages | the shard |
//!
//! Knows nothing of what the files mean.

pub mod budget;
pub mod control;
pub mod inbox;
pub mod status;

use std::path::{Path, PathBuf};

use divvy_workload::files::{FolderError, Lock, try_lock};

/// The folder of all crawls in the data folder.
pub const CRAWLS: &str = "crawls";

/// The folder of one crawl; a clone is cheap.
#[derive(Clone, Debug)]
pub struct Folder {
    root: PathBuf,
}

impl Folder {
    /// The folder at this place.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Where it is.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// What was asked for.
    pub fn spec(&self) -> PathBuf {
        self.root.join("crawl.json")
    }

    /// What people want of it now.
    pub fn control(&self) -> PathBuf {
        self.root.join("control.json")
    }

    /// The durable state of a shard.
    pub fn shard_file(&self, shard: u32) -> PathBuf {
        self.root.join(format!("shard-{shard}.db"))
    }

    /// What a shard shows.
    pub fn status(&self, shard: u32) -> PathBuf {
        self.root.join(format!("status-{shard}.json"))
    }

    /// Links for a shard.
    pub fn inbox(&self, shard: u32) -> PathBuf {
        self.root.join("inbox").join(shard.to_string())
    }

    /// What a shard made.
    pub fn out(&self, shard: u32) -> PathBuf {
        self.root.join("out").join(format!("shard-{shard}"))
    }

    /// The right of this process to be the shard, if no other has it.
    ///
    /// # Errors
    /// If the file cannot be opened.
    pub fn lock_shard(&self, shard: u32) -> Result<Option<Lock>, FolderError> {
        try_lock(&self.root.join(format!("shard-{shard}.lock")))
    }
}
