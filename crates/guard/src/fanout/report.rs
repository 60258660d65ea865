//! What came of a question to many shards, in the order in which they were named.
//!
//! Knows nothing of how it came about. The counts are worked out once, from the outcomes, so they cannot disagree
//! with them.

use std::time::Duration;

/// What came of one shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome<T, E> {
    /// It answered in time.
    Responded(T),
    /// It said in time that it cannot.
    Failed(E),
    /// It said nothing in time, or there was no time to ask it.
    TimedOut,
    /// It was no longer needed: enough others had answered.
    Skipped,
}

/// One shard and what came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shard<K, T, E> {
    /// Which shard.
    pub key: K,
    /// From when it was asked until it spoke or was given up; none if it was never asked.
    pub latency: Option<Duration>,
    /// What came of it.
    pub outcome: Outcome<T, E>,
}

/// What came of a question to many shards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report<K, T, E> {
    /// How many answered.
    pub shards_responded: usize,
    /// How many were too late.
    pub shards_timed_out: usize,
    /// How many failed.
    pub shards_failed: usize,
    /// How many were given up because enough others had answered.
    pub shards_skipped: usize,
    /// How long it was ready to wait.
    pub used_timeout: Duration,
    /// How long it took.
    pub took: Duration,
    /// How many answers make a success.
    pub minimum: usize,
    /// Each shard, in the order in which they were named.
    pub shards: Vec<Shard<K, T, E>>,
}

/// Fewer shards answered than make a success. What did come is in the report.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{} of {} shards answered and {} are needed: {} failed, {} timed out after {:?}",
    report.shards_responded, report.shards.len(), report.minimum, report.shards_failed,
    report.shards_timed_out, report.used_timeout
)]
pub struct NotEnough<K, T, E> {
    /// What came all the same.
    pub report: Box<Report<K, T, E>>,
}

impl<K, T, E> Report<K, T, E> {
    pub(super) fn new(
        shards: Vec<Shard<K, T, E>>,
        used_timeout: Duration,
        took: Duration,
        minimum: usize,
    ) -> Self {
        let count = |is: fn(&Outcome<T, E>) -> bool| {
            shards.iter().filter(|shard| is(&shard.outcome)).count()
        };
        Self {
            shards_responded: count(|outcome| matches!(outcome, Outcome::Responded(_))),
            shards_timed_out: count(|outcome| matches!(outcome, Outcome::TimedOut)),
            shards_failed: count(|outcome| matches!(outcome, Outcome::Failed(_))),
            shards_skipped: count(|outcome| matches!(outcome, Outcome::Skipped)),
            used_timeout,
            took,
            minimum,
            shards,
        }
    }

    /// Whether enough shards answered.
    pub fn is_success(&self) -> bool {
        self.shards_responded >= self.minimum
    }

    /// The report itself, if enough shards answered.
    ///
    /// # Errors
    /// When fewer answered than make a success; the error holds the report.
    pub fn require(self) -> Result<Self, NotEnough<K, T, E>> {
        if self.is_success() { Ok(self) } else { Err(NotEnough { report: Box::new(self) }) }
    }

    /// The answers, with the shard that gave each.
    pub fn answers(&self) -> impl Iterator<Item = (&K, &T)> {
        self.shards.iter().filter_map(|shard| match &shard.outcome {
            Outcome::Responded(value) => Some((&shard.key, value)),
            _ => None,
        })
    }

    /// The failures, with the shard of each.
    pub fn failures(&self) -> impl Iterator<Item = (&K, &E)> {
        self.shards.iter().filter_map(|shard| match &shard.outcome {
            Outcome::Failed(error) => Some((&shard.key, error)),
            _ => None,
        })
    }

    /// The answers only, taken out.
    pub fn into_answers(self) -> impl Iterator<Item = (K, T)> {
        self.shards.into_iter().filter_map(|shard| match shard.outcome {
            Outcome::Responded(value) => Some((shard.key, value)),
            _ => None,
        })
    }

    /// The sum of a count over all answers, such as how many records came in total.
    pub fn total(&self, count: impl Fn(&T) -> usize) -> usize {
        self.answers().map(|(_, value)| count(value)).sum()
    }

    /// How long each of those that answered took.
    pub fn responder_latencies(&self) -> impl Iterator<Item = Duration> {
        self.shards
            .iter()
            .filter(|shard| matches!(shard.outcome, Outcome::Responded(_)))
            .filter_map(|shard| shard.latency)
    }

    /// How long was waited in vain for each of those that were asked and were too late.
    pub fn waits_in_vain(&self) -> impl Iterator<Item = Duration> {
        self.shards
            .iter()
            .filter(|shard| matches!(shard.outcome, Outcome::TimedOut))
            .filter_map(|shard| shard.latency)
    }
}
