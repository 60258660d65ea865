//! What a shard shows of itself, once a second, and what the whole crawl is then. Nothing here is durable: a shard that
//! is killed shows what it showed last, until its next owner shows more.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Hosts that a shard shows.
pub(crate) const HOSTS_SHOWN: usize = 100;
/// Pages that a shard shows.
pub(crate) const PAGES_SHOWN: usize = 100;
/// Upper bounds of the politeness slack, in milliseconds: how much later than it was allowed a request was sent.
pub(crate) const SLACK_MS: [u64; 12] = [0, 1, 2, 5, 10, 25, 50, 100, 250, 1_000, 10_000, 60_000];

/// Where a shard is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ShardState {
    /// Nobody has begun it.
    #[default]
    New,
    /// It fetches, or waits until it may.
    Working,
    /// It has nothing to do but may get links from others.
    Idle,
    /// It was told to pause.
    Paused,
    /// It has ended.
    Done,
}

/// Counters since the beginning of the crawl.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct Totals {
    /// Pages that were asked for and answered or failed.
    pub(crate) pages: u64,
    /// Answers by status class (`2xx` … `5xx`), `failed` for those without an answer.
    pub(crate) by_status: BTreeMap<String, u64>,
    /// Bytes as they came over the wire.
    pub(crate) wire_bytes: u64,
    /// Bytes after decoding.
    pub(crate) body_bytes: u64,
    /// Links that were found.
    pub(crate) links: u64,
    /// Links that were not followed, by the rule that said so.
    pub(crate) refused: BTreeMap<String, u64>,
    /// Fetches of robots.txt.
    pub(crate) robots: u64,
    /// Those that failed.
    pub(crate) robots_failed: u64,
    /// Pages whose text was there before.
    pub(crate) duplicates: u64,
    /// Pages that had not changed since they were last fetched.
    pub(crate) unchanged: u64,
    /// Seconds that browsers spent.
    pub(crate) render_ms: u64,
    /// Politeness slack of all requests: how many were sent at most so many milliseconds later than allowed; the last
    /// is for all others.
    pub(crate) slack: Vec<u64>,
    /// The sum of all slack, in milliseconds.
    pub(crate) slack_ms: u64,
    /// Requests that were sent before they were allowed; a fault if it is not 0.
    pub(crate) impolite: u64,
}

/// What is waiting.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct Waiting {
    /// Queued addresses by band, the most urgent first.
    pub(crate) bands: Vec<u64>,
    /// Of these, those on disk only.
    pub(crate) spilled: u64,
    /// Requests in flight.
    pub(crate) in_flight: u64,
    /// Addresses that failed for good; `retry` puts them back.
    pub(crate) dead: u64,
    /// Hosts that are known.
    pub(crate) hosts: u64,
    /// Hosts that have work and may be asked now.
    pub(crate) hosts_ready: u64,
    /// Hosts that have work and wait for their time.
    pub(crate) hosts_waiting: u64,
    /// Hosts that rest because they failed, asked for it, or were blocked.
    pub(crate) hosts_blocked: u64,
    /// Hosts that were given up.
    pub(crate) hosts_parked: u64,
}

/// What is known of the addresses that were seen.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct Seen {
    /// Addresses.
    pub(crate) count: u64,
    /// Bytes of the filter.
    pub(crate) filter_bytes: u64,
    /// The estimated share of new addresses that the filter takes for known.
    pub(crate) false_positives: f64,
    /// With `bloom`, about how many pages were lost by that.
    pub(crate) lost: f64,
}

/// A host as people see it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "CrawlHost")]
#[serde(default)]
pub(crate) struct HostRow {
    /// Its name, with the port if that is unusual.
    pub(crate) host: String,
    /// The shard that owns it.
    pub(crate) shard: u32,
    /// Queued addresses.
    pub(crate) queued: u64,
    /// Pages fetched.
    pub(crate) pages: u64,
    /// The least gap between two requests.
    pub(crate) delay_ms: u64,
    /// When it may be asked next, in milliseconds since 1970.
    pub(crate) next_ms: u64,
    /// `ready`, `waiting`, `in_flight`, `blocked`, `parked` or `empty`.
    pub(crate) state: String,
    /// What its robots.txt means: `unknown`, `rules`, `none`, `unreachable`.
    pub(crate) robots: String,
    /// The state of its breaker.
    pub(crate) breaker: String,
    /// Why it is blocked or parked.
    pub(crate) why: Option<String>,
}

/// A page that was fetched.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "CrawlPage")]
#[serde(default)]
pub(crate) struct PageRow {
    /// When the answer ended, in milliseconds since 1970.
    pub(crate) at_ms: u64,
    /// Its address.
    pub(crate) url: String,
    /// The status; 0 if there was no answer.
    pub(crate) status: u16,
    /// Bytes after decoding.
    pub(crate) bytes: u64,
    /// How long it took.
    pub(crate) ms: u64,
    /// Its title, or what went wrong.
    pub(crate) note: String,
}

/// What one shard shows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "CrawlShard")]
#[serde(default)]
pub(crate) struct ShardStatus {
    /// Which.
    pub(crate) shard: u32,
    /// Where it is.
    pub(crate) state: ShardState,
    /// When it said so, in milliseconds since 1970.
    pub(crate) at_ms: u64,
    /// The process that owns it.
    pub(crate) process: u32,
    /// Which opening of the shard this is.
    pub(crate) epoch: u64,
    /// Which round of the crawl it works in.
    pub(crate) round: u32,
    /// The version of `control.json` that it knows.
    pub(crate) control: u64,
    /// Pages per second of late.
    pub(crate) rate: f64,
    /// Whether it ended because the crawl has all the pages that it may fetch.
    pub(crate) is_full: bool,
    /// Counters.
    pub(crate) totals: Totals,
    /// What is waiting.
    pub(crate) waiting: Waiting,
    /// What is known of addresses that were seen.
    pub(crate) seen: Seen,
    /// Batches of links sent, by shard.
    pub(crate) sent: BTreeMap<u32, u64>,
    /// Batches of links received, by sender.
    pub(crate) received: BTreeMap<u32, u64>,
    /// How long ago the oldest link that is not on its way yet was found.
    pub(crate) outbox_lag_ms: u64,
    /// The files that it has written, and how much of each is committed.
    pub(crate) outputs: BTreeMap<String, u64>,
    /// The hosts with the longest queues.
    pub(crate) hosts: Vec<HostRow>,
    /// The latest pages, newest first.
    pub(crate) pages: Vec<PageRow>,
}

impl Totals {
    /// Adds those of another shard.
    pub(crate) fn add(&mut self, other: &Self) {
        self.pages += other.pages;
        self.wire_bytes += other.wire_bytes;
        self.body_bytes += other.body_bytes;
        self.links += other.links;
        self.robots += other.robots;
        self.robots_failed += other.robots_failed;
        self.duplicates += other.duplicates;
        self.unchanged += other.unchanged;
        self.render_ms += other.render_ms;
        self.slack_ms += other.slack_ms;
        self.impolite += other.impolite;
        for (word, count) in &other.by_status {
            *self.by_status.entry(word.clone()).or_default() += count;
        }
        for (word, count) in &other.refused {
            *self.refused.entry(word.clone()).or_default() += count;
        }
        self.slack.resize(SLACK_MS.len() + 1, 0);
        for (sum, count) in self.slack.iter_mut().zip(&other.slack) {
            *sum += count;
        }
    }

    /// Counts a request that was sent so much later than it was allowed; before it would be a fault.
    pub(crate) fn sent(&mut self, slack_ms: i64) {
        self.slack.resize(SLACK_MS.len() + 1, 0);
        let Ok(slack) = u64::try_from(slack_ms) else {
            self.impolite += 1;
            return;
        };
        let at = SLACK_MS.iter().position(|bound| slack <= *bound).unwrap_or(SLACK_MS.len());
        self.slack[at] += 1;
        self.slack_ms += slack;
    }

    /// Counts an answer, or none.
    pub(crate) fn answered(&mut self, status: Option<u16>) {
        let word = match status {
            Some(status @ 100..=599) => format!("{}xx", status / 100),
            _ => "failed".to_owned(),
        };
        self.pages += 1;
        *self.by_status.entry(word).or_default() += 1;
    }

    /// Counts a link that a rule did not let in.
    pub(crate) fn refuse(&mut self, rule: &str) {
        match self.refused.get_mut(rule) {
            Some(count) => *count += 1,
            None => drop(self.refused.insert(rule.to_owned(), 1)),
        }
    }
}

impl Waiting {
    /// Adds what waits in another shard.
    pub(crate) fn add(&mut self, other: &Self) {
        if self.bands.len() < other.bands.len() {
            self.bands.resize(other.bands.len(), 0);
        }
        for (sum, count) in self.bands.iter_mut().zip(&other.bands) {
            *sum += count;
        }
        self.spilled += other.spilled;
        self.in_flight += other.in_flight;
        self.dead += other.dead;
        self.hosts += other.hosts;
        self.hosts_ready += other.hosts_ready;
        self.hosts_waiting += other.hosts_waiting;
        self.hosts_blocked += other.hosts_blocked;
        self.hosts_parked += other.hosts_parked;
    }

    /// Queued addresses.
    pub(crate) fn queued(&self) -> u64 {
        self.bands.iter().sum()
    }
}

impl Seen {
    /// Adds what another shard has seen.
    pub(crate) fn add(&mut self, other: &Self) {
        self.count += other.count;
        self.filter_bytes += other.filter_bytes;
        self.false_positives = self.false_positives.max(other.false_positives);
        self.lost += other.lost;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_was_sent_too_early_is_no_slack() {
        let mut totals = Totals::default();
        for slack in [0, 3, 70_000, -1] {
            totals.sent(slack);
        }
        assert_eq!((totals.slack[0], totals.slack[3], totals.slack[12]), (1, 1, 1));
        assert_eq!((totals.impolite, totals.slack_ms), (1, 70_003));
        let mut all = Totals::default();
        all.add(&totals);
        all.add(&totals);
        assert_eq!((all.slack[0], all.impolite), (2, 2));
    }
}
