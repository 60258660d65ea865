//! What people want of a crawl: written by the server, read by shards once a second.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Hosts that can be blocked.
pub const BLOCKED_MAX: usize = 10_000;

/// What people want of a crawl.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "CrawlControl")]
#[serde(default)]
pub struct Control {
    /// Grows with each change, so that a shard can say which it knows.
    pub version: u64,
    /// Nothing is fetched for now.
    pub paused: bool,
    /// Nothing is fetched any more; what is queued stays.
    pub stopped: bool,
    /// Hosts that are left alone: a name alone means all its ports.
    pub blocked: BTreeSet<String>,
    /// How often the addresses that failed for good were put back.
    pub retries: u64,
    /// Which start of the crawl this is, from 1.
    pub round: u32,
    /// Batches of links that the server has sent to each shard.
    pub sent: BTreeMap<u32, u64>,
    /// Seeds that were added later; they widen the scope.
    pub added: Vec<String>,
    /// How the last round ended, if it has.
    pub ended: Option<Ended>,
}

impl Control {
    /// Whether a host, as in `example.org` or `example.org:8080`, is left alone.
    pub fn blocks(&self, host_key: &str) -> bool {
        let name = host_key.rsplit_once(':').map_or(host_key, |(name, _)| name);
        self.blocked.contains(host_key) || self.blocked.contains(name)
    }
}

/// How a round ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "CrawlEnd")]
pub struct Ended {
    /// When, in milliseconds since 1970.
    pub at_ms: u64,
    /// How.
    pub state: CrawlState,
    /// Why, if it was not done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Where a crawl is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CrawlState {
    /// No worker has taken a shard yet.
    Waiting,
    /// It fetches, or waits until it may.
    Running,
    /// It was told to pause.
    Paused,
    /// It was told to stop and ends what it has begun.
    Stopping,
    /// It was stopped; what is queued stays.
    Stopped,
    /// There is nothing left to fetch, or it has all the pages that it may fetch.
    Done,
    /// A shard cannot go on.
    Failed,
    /// Its tasks were cancelled.
    Cancelled,
}

impl CrawlState {
    /// Whether nothing more happens by itself.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Stopped | Self::Done | Self::Failed | Self::Cancelled)
    }

    /// As people write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Stopping => "stopping",
            Self::Stopped => "stopped",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blocked_name_means_all_its_ports_and_no_other_name() {
        let blocked = ["example.org", "other.org:8080"].map(str::to_owned).into();
        let control = Control { blocked, ..Control::default() };
        for host in ["example.org", "example.org:8491", "other.org:8080"] {
            assert!(control.blocks(host), "{host}");
        }
        for host in ["www.example.org", "other.org", "other.org:80", "[::1]:8080", "[::1]"] {
            assert!(!control.blocks(host), "{host}");
        }
    }
}
