//! What was done in a queue since the start, counted as it happens, and how long tasks waited there. Whoever wants rates
//! looks twice and subtracts.
//!
//! Waits are counted in buckets whose bounds grow by about 1.4 each, from 64 microseconds to two days: enough to tell a
//! percentile to within a bucket, and small enough to be kept for every queue and every step of a day.

use divvy_types::{Name, Timestamp};

use crate::Scheduler;
use crate::table::Row;

/// How many buckets there are.
pub const WAIT_BUCKETS: usize = 64;
/// The power of two at which the first bucket ends.
const FIRST_POWER: u32 = 6;

/// How many waits fell into each bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waits(pub [u64; WAIT_BUCKETS]);

impl Default for Waits {
    fn default() -> Self {
        Self([0; WAIT_BUCKETS])
    }
}

impl Waits {
    fn add(&mut self, waited_us: u64) {
        self.0[bucket_of(waited_us)] += 1;
    }
}

/// Where a bucket ends, in microseconds. It begins where the one before it ends.
pub fn wait_bucket_end_us(bucket: usize) -> u64 {
    let (power, half) = (FIRST_POWER + bucket as u32 / 2, bucket as u64 % 2);
    (1 << power) + half * (1 << (power - 1))
}

fn bucket_of(waited_us: u64) -> usize {
    // The smallest bucket whose end is not below it; two for each power of two.
    let less = waited_us.max(1 << FIRST_POWER) - 1;
    let power = less.ilog2();
    let half = (less >> (power - 1)) as usize & 1;
    (2 * (power as usize + 1 - FIRST_POWER as usize) + half).saturating_sub(1).min(WAIT_BUCKETS - 1)
}

/// What was done since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Tasks accepted.
    pub submitted: u64,
    /// Tasks done.
    pub done: u64,
    /// Tasks that failed for good.
    pub failed: u64,
    /// Attempts that failed and are tried again.
    pub retried: u64,
    /// Waits of tasks from ready to granted.
    pub waits: Waits,
}

impl Tally {
    /// How much happened: it grows with everything that is counted.
    pub fn total(&self) -> u64 {
        self.submitted + self.done + self.failed + self.retried
    }
}

impl Scheduler {
    /// What was done in each queue that is known, by name. A queue that nobody used for long is forgotten, and begins anew.
    pub fn tallies(&self) -> impl Iterator<Item = (&Name, &Tally)> {
        self.queues.iter().map(|(_, queue)| (&queue.name, queue.tally.as_ref()))
    }

    /// How long tasks of all queues waited.
    pub fn waits(&self) -> &Waits {
        &self.waits
    }

    /// What is counted for the queue of a task.
    pub(crate) fn tally_of(&mut self, row: Row) -> &mut Tally {
        let class = self.tasks[row].class;
        self.tally_of_class(class)
    }

    pub(crate) fn tally_of_class(&mut self, class: u32) -> &mut Tally {
        let queue = self.classes.get(class).queue;
        &mut self.queues.get_mut(queue).tally
    }

    /// A task was given to a worker; how long it had been ready, in microseconds.
    pub(crate) fn tally_wait(&mut self, now: Timestamp, row: Row) -> u64 {
        let waited_us = now.0.saturating_sub(self.tasks[row].ready_at.0);
        self.waits.add(waited_us);
        self.tally_of(row).waits.add(waited_us);
        waited_us
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_in_the_first_bucket_that_does_not_end_before_it() {
        for bucket in 0..WAIT_BUCKETS {
            let end = wait_bucket_end_us(bucket);
            assert_eq!(bucket_of(end), bucket, "{end} us");
            assert_eq!(bucket_of(end + 1), (bucket + 1).min(WAIT_BUCKETS - 1), "{end} us and one");
        }
        assert_eq!((bucket_of(0), bucket_of(1), bucket_of(u64::MAX)), (0, 0, WAIT_BUCKETS - 1));
        assert!((64..=64).contains(&wait_bucket_end_us(0)));
        assert!(wait_bucket_end_us(WAIT_BUCKETS - 1) > 3 * 86_400_000_000 / 2);
    }
}
