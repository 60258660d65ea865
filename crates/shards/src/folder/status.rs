//! What a shard shows of itself, once a second, and what the whole crawl is then. Nothing here is durable: a shard that
//! is killed shows what it showed last, until its next owner shows more.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Hosts that a shard shows.
pub const HOSTS_SHOWN: usize = 100;
/// Hosts that a shard shows because they are parked or rest.
pub const KEPT_AWAY_SHOWN: usize = 8;
/// Pages that a shard shows.
pub const PAGES_SHOWN: usize = 100;
/// Upper bounds of the politeness slack, in milliseconds: how much later than it was allowed a request was sent.
pub const SLACK_MS: [u64; 12] = [0, 1, 2, 5, 10, 25, 50, 100, 250, 1_000, 10_000, 60_000];

/// Where a shard is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ShardState {
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
pub struct Totals {
    /// Pages that were asked for and answered or failed.
    pub pages: u64,
    /// Answers by status class (`2xx` … `5xx`), `failed` for those without an answer.
    pub by_status: BTreeMap<String, u64>,
    /// Bytes as they came over the wire.
    pub wire_bytes: u64,
    /// Bytes after decoding.
    pub body_bytes: u64,
    /// Links that were found.
    pub links: u64,
    /// Links that were not followed, by the rule that said so.
    pub refused: BTreeMap<String, u64>,
    /// Fetches of robots.txt.
    pub robots: u64,
    /// Those that failed.
    pub robots_failed: u64,
    /// Pages whose text was there before.
    pub duplicates: u64,
    /// Pages that had not changed since they were last fetched.
    pub unchanged: u64,
    /// Seconds that browsers spent.
    pub render_ms: u64,
    /// Politeness slack of all requests: how many were sent at most so many milliseconds later than allowed; the last
    /// is for all others.
    pub slack: Vec<u64>,
    /// The sum of all slack, in milliseconds.
    pub slack_ms: u64,
    /// Requests that were sent before they were allowed; a fault if it is not 0.
    pub impolite: u64,
}

/// What is waiting.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Waiting {
    /// Queued addresses by band, the most urgent first.
    pub bands: Vec<u64>,
    /// Of these, those on disk only.
    pub spilled: u64,
    /// Requests in flight.
    pub in_flight: u64,
    /// Addresses that failed for good; `retry` puts them back.
    pub dead: u64,
    /// Hosts that are known.
    pub hosts: u64,
    /// Hosts that have work and may be asked now.
    pub hosts_ready: u64,
    /// Hosts that have work and wait for their time.
    pub hosts_waiting: u64,
    /// Hosts that rest because they failed, asked for it, or were blocked.
    pub hosts_blocked: u64,
    /// Hosts that were given up.
    pub hosts_parked: u64,
}

/// What is known of the addresses that were seen.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Seen {
    /// Addresses.
    pub count: u64,
    /// Bytes of the filter.
    pub filter_bytes: u64,
    /// The estimated share of new addresses that the filter takes for known.
    pub false_positives: f64,
    /// With `bloom`, about how many pages were lost by that.
    pub lost: f64,
}

/// A host as people see it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "CrawlHost")]
#[serde(default)]
pub struct HostRow {
    /// Its name, with the port if that is unusual.
    pub host: String,
    /// The shard that owns it.
    pub shard: u32,
    /// Queued addresses.
    pub queued: u64,
    /// Pages fetched.
    pub pages: u64,
    /// The least gap between two requests.
    pub delay_ms: u64,
    /// When it may be asked next, in milliseconds since 1970.
    pub next_ms: u64,
    /// `ready`, `waiting`, `in_flight`, `blocked`, `parked` or `empty`.
    pub state: String,
    /// What its robots.txt means: `unknown`, `rules`, `none`, `unreachable`.
    pub robots: String,
    /// The state of its breaker.
    pub breaker: String,
    /// Why it is blocked or parked.
    pub why: Option<String>,
}

/// A page that was fetched.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "CrawlPage")]
#[serde(default)]
pub struct PageRow {
    /// When the answer ended, in milliseconds since 1970.
    pub at_ms: u64,
    /// Its address.
    pub url: String,
    /// The status; 0 if there was no answer.
    pub status: u16,
    /// Bytes after decoding.
    pub bytes: u64,
    /// How long it took.
    pub ms: u64,
    /// Its title, or what went wrong.
    pub note: String,
}

/// What one shard shows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "CrawlShard")]
#[serde(default)]
pub struct ShardStatus {
    /// Which.
    pub shard: u32,
    /// Where it is.
    pub state: ShardState,
    /// When it said so, in milliseconds since 1970.
    pub at_ms: u64,
    /// The process that owns it.
    pub process: u32,
    /// Which opening of the shard this is.
    pub epoch: u64,
    /// Which round of the crawl it works in.
    pub round: u32,
    /// The version of `control.json` that it knows.
    pub control: u64,
    /// Pages per second of late.
    pub rate: f64,
    /// Whether it ended because the crawl has all the pages that it may fetch.
    pub is_full: bool,
    /// Counters.
    pub totals: Totals,
    /// What is waiting.
    pub waiting: Waiting,
    /// What is known of addresses that were seen.
    pub seen: Seen,
    /// Batches of links sent, by shard.
    pub sent: BTreeMap<u32, u64>,
    /// Batches of links received, by sender.
    pub received: BTreeMap<u32, u64>,
    /// How long ago the oldest link that is not on its way yet was found.
    pub outbox_lag_ms: u64,
    /// The files that it has written, and how much of each is committed.
    pub outputs: BTreeMap<String, u64>,
    /// The hosts with the longest queues.
    pub hosts: Vec<HostRow>,
    /// Some of the hosts that are blocked or parked, with the reason.
    pub kept_away: Vec<HostRow>,
    /// The latest pages, newest first.
    pub pages: Vec<PageRow>,
}

impl Totals {
    /// Adds those of another shard.
    pub fn add(&mut self, other: &Self) {
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
    pub fn sent(&mut self, slack_ms: i64) {
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
    pub fn answered(&mut self, status: Option<u16>) {
        let word = match status {
            Some(status @ 100..=599) => format!("{}xx", status / 100),
            _ => "failed".to_owned(),
        };
        self.pages += 1;
        *self.by_status.entry(word).or_default() += 1;
    }

    /// Counts a link that a rule did not let in.
    pub fn refuse(&mut self, rule: &str) {
        match self.refused.get_mut(rule) {
            Some(count) => *count += 1,
            None => drop(self.refused.insert(rule.to_owned(), 1)),
        }
    }
}

impl Waiting {
    /// Adds what waits in another shard.
    pub fn add(&mut self, other: &Self) {
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
    pub fn queued(&self) -> u64 {
        self.bands.iter().sum()
    }
}

impl Seen {
    /// Adds what another shard has seen.
    pub fn add(&mut self, other: &Self) {
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
