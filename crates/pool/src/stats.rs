//! What the workers did: counters that each worker writes alone, and snapshots of them.
//!
//! A counter is written with a plain load and store by its one owner, on a cache line of its own, so counting costs
//! no more than an addition. A snapshot reads the counters one after the other: while tasks run, its numbers may be a
//! few tasks apart. Nothing is decided here.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A number that one thread writes and all may read.
#[derive(Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// Must be called by the owner only.
    #[inline]
    pub(crate) fn add(&self, amount: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
    }

    /// Must be called by the owner only.
    pub(crate) fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The counters of one worker.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) processed: Counter,
    pub(crate) panics: Counter,
    pub(crate) stolen: Counter,
    pub(crate) steal_attempts: Counter,
    pub(crate) steals: Counter,
    pub(crate) parks: Counter,
    pub(crate) wakes: Counter,
    pub(crate) idle_ns: Counter,
    /// Since when it has been idle, in nanoseconds since the start of the pool; 0 while it is not.
    pub(crate) idle_since_ns: Counter,
}

impl Counters {
    pub(crate) fn read(&self, now: Duration) -> WorkerStats {
        let since = self.idle_since_ns.get();
        let running = if since == 0 { 0 } else { nanos(now).saturating_sub(since) };
        WorkerStats {
            processed: self.processed.get(),
            panics: self.panics.get(),
            stolen: self.stolen.get(),
            steal_attempts: self.steal_attempts.get(),
            steals: self.steals.get(),
            parks: self.parks.get(),
            wakes: self.wakes.get(),
            idle: Duration::from_nanos(self.idle_ns.get() + running),
        }
    }
}

pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// What one worker did since the pool was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkerStats {
    /// Tasks that it ran to their end or to their panic.
    pub processed: u64,
    /// Those of them that panicked.
    pub panics: u64,
    /// Tasks that it took from other workers. A task that is taken twice counts twice.
    pub stolen: u64,
    /// How often it tried to take tasks from a worker.
    pub steal_attempts: u64,
    /// How often that gave it at least one.
    pub steals: u64,
    /// How often it went to sleep.
    pub parks: u64,
    /// How often it was woken by another.
    pub wakes: u64,
    /// How long it had nothing to run, asleep or searching.
    pub idle: Duration,
}

impl WorkerStats {
    fn plus(self, other: Self) -> Self {
        Self {
            processed: self.processed + other.processed,
            panics: self.panics + other.panics,
            stolen: self.stolen + other.stolen,
            steal_attempts: self.steal_attempts + other.steal_attempts,
            steals: self.steals + other.steals,
            parks: self.parks + other.parks,
            wakes: self.wakes + other.wakes,
            idle: self.idle + other.idle,
        }
    }
}

/// What a pool did since it was started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// How long ago it was started.
    pub age: Duration,
    /// Each worker that has ever run, by index, those that left included.
    pub workers: Vec<WorkerStats>,
}

impl Stats {
    /// All workers together.
    pub fn total(&self) -> WorkerStats {
        self.workers.iter().fold(WorkerStats::default(), |sum, worker| sum.plus(*worker))
    }

    /// The share of the time since `earlier` in which `workers` workers ran tasks: 0 to 1.
    pub fn busy_share_since(&self, earlier: &Self, workers: usize) -> f64 {
        let time = self.age.saturating_sub(earlier.age).as_secs_f64() * workers as f64;
        if time <= 0.0 {
            return 0.0;
        }
        let idle_of = |stats: &Self, index: usize| {
            stats.workers.get(index).map_or(Duration::ZERO, |worker| worker.idle)
        };
        let idle = |index| idle_of(self, index).saturating_sub(idle_of(earlier, index));
        let idle: f64 = (0..workers).map(|index| idle(index).as_secs_f64()).sum();
        (1.0 - idle / time).clamp(0.0, 1.0)
    }
}

/// How loaded a pool is at this moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Tasks that wait at each worker, by index.
    pub queued: Vec<usize>,
    /// Tasks that wait in the shared queues.
    pub shared: usize,
    /// Workers that run a task.
    pub busy: usize,
    /// Workers that look for work.
    pub searching: usize,
    /// Workers that sleep.
    pub sleeping: usize,
}

impl Load {
    /// All tasks that wait.
    pub fn waiting(&self) -> usize {
        self.shared + self.queued.iter().sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stats(age_s: u64, idle_s: &[u64]) -> Stats {
        let worker =
            |idle: &u64| WorkerStats { idle: Duration::from_secs(*idle), ..WorkerStats::default() };
        Stats { age: Duration::from_secs(age_s), workers: idle_s.iter().map(worker).collect() }
    }

    #[test]
    fn the_busy_share_is_what_was_not_idle() {
        let earlier = stats(10, &[5, 5]);
        assert_eq!(stats(20, &[5, 5]).busy_share_since(&earlier, 2), 1.0);
        assert_eq!(stats(20, &[15, 15]).busy_share_since(&earlier, 2), 0.0);
        assert_eq!(stats(20, &[15, 5]).busy_share_since(&earlier, 2), 0.5);
        assert_eq!(earlier.busy_share_since(&earlier, 2), 0.0);
    }

    #[test]
    fn a_worker_that_is_idle_now_counts_up_to_now() {
        let counters = Counters::default();
        counters.idle_ns.add(5);
        assert_eq!(counters.read(Duration::from_nanos(100)).idle, Duration::from_nanos(5));
        counters.idle_since_ns.set(40);
        assert_eq!(counters.read(Duration::from_nanos(100)).idle, Duration::from_nanos(65));
    }
}
