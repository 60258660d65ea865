//! What goes into the file of a shard and comes out of it. Data only.

use divvy_frontier::frontier::Changes;
use divvy_frontier::seen::Mode;

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opening {
    /// The epoch of the owner: whoever opened the file with a smaller one can commit no more.
    pub epoch: u64,
    /// Whether fingerprints are kept exactly. It is fixed when the file is made.
    pub seen: Mode,
}

/// Everything that becomes durable together.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// What the frontier wants to be durable.
    pub changes: Changes,
    /// States of addresses that were fetched or given up.
    pub pages: Vec<PageState>,
    /// Copies of robots.txt.
    pub robots: Vec<RobotsCopy>,
    /// Batches of links that were received and are part of `changes`: from which shard, its number.
    pub received: Vec<(u32, u64)>,
    /// Links for other shards: to which, the batch. The commit numbers them.
    pub outgoing: Vec<(u32, Vec<u8>)>,
    /// Batches that have reached their shard: to which, the number.
    pub sent: Vec<(u32, u64)>,
    /// How long the outputs are with this batch: name, bytes.
    pub outputs: Vec<(String, u64)>,
    /// Small things under names, such as counters; a value replaces the one before.
    pub notes: Vec<(String, Vec<u8>)>,
}

/// What became of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageEnd {
    /// There was an answer that stays.
    Done,
    /// It failed and is tried again.
    Failing,
    /// It was given up.
    Dead,
}

/// The state of an address that was fetched at least once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageState {
    /// Its key.
    pub fingerprint: u64,
    /// The number of its host.
    pub host: u32,
    /// Its path and query.
    pub path: String,
    /// What became of it.
    pub end: PageEnd,
    /// The HTTP status; 0 if there was no answer.
    pub status: u16,
    /// When it was fetched last.
    pub fetched_ms: u64,
    /// Links from a seed.
    pub depth: u8,
    /// Attempts of the last fetch.
    pub attempts: u8,
    /// The digest of its content.
    pub digest: u64,
    /// How often the content was found changed.
    pub changes: u32,
    /// The interval after which it is looked at again.
    pub interval_ms: Option<u64>,
    /// `ETag`.
    pub etag: Option<String>,
    /// `Last-Modified`.
    pub last_modified: Option<String>,
    /// Why it failed.
    pub reason: Option<String>,
}

/// A copy of a robots.txt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RobotsCopy {
    /// The number of the host.
    pub host: u32,
    /// When it was fetched.
    pub fetched_ms: u64,
    /// Whatever the owner wants to keep beside the body: its status, since when it cannot be had.
    pub about: String,
    /// The body.
    pub body: Vec<u8>,
}

/// A batch of links that has not reached its shard yet, as far as is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// To which shard.
    pub to: u32,
    /// Its number: from 1, without gaps for each pair of shards.
    pub number: u64,
    /// The batch.
    pub bytes: Vec<u8>,
}

/// What a new owner finds, besides the frontier and what [`super::ShardFile`] reads on demand.
#[derive(Clone, Debug, Default)]
pub struct Saved {
    /// The number of the last batch that was received, by shard.
    pub received: Vec<(u32, u64)>,
    /// The number of the last batch that was made, by shard.
    pub made: Vec<(u32, u64)>,
    /// How long the outputs were at the last commit.
    pub outputs: Vec<(String, u64)>,
    /// Small things under names.
    pub notes: Vec<(String, Vec<u8>)>,
}

/// Which states of addresses are listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageFilter {
    /// Only those that ended so.
    pub end: Option<PageEnd>,
    /// Only those after this fingerprint, in the order of the file; for the next part of a list.
    pub after: Option<u64>,
}
