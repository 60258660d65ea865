//! The five patterns of spreading work over threads, each on the real pool, and how they are measured.
//!
//! Two figures per pattern. *Throughput*: one submitter gives tiny tasks as fast as the pool takes them, and the clock
//! runs from the first submit until the last task has run. *Time to start*: tasks come at a fixed rate that the pool
//! can bear, and each notes the time from its submit to its first instruction. Both are taken in several rounds, and
//! the median round counts: a time slice that another process takes is not the pool's.
//!
//! Does not decide what good figures are; [`Pattern::target`] only says what is asked for.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::thread::Thread;
use std::time::{Duration, Instant};

use divvy_pool::{Error, Options, Placement, Pool};

/// Tasks that travel together where the submitter has many.
const BATCH: usize = 64;

/// Of ten tasks, how many are for the first worker in the pattern that steals.
const SKEWED_OF_TEN: usize = 7;

/// The keys that the affinity pattern spreads.
const KEYS: usize = 1_024;

/// A way to spread tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// To the workers in turn; nobody takes from another.
    RoundRobin,
    /// To the shorter of two queues drawn at random; nobody takes from another.
    LoadBased,
    /// Seven of ten tasks to one worker; idle workers take from it.
    WorkStealing,
    /// To one of two groups in turn, and in it to the shorter of two queues; idle workers take, from their group first.
    Hierarchical,
    /// To the worker of the task's key; nobody takes from another.
    Affinity,
}

/// What is asked of a pattern.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Target {
    /// Tasks per second, at least.
    pub ops_per_s: f64,
    /// Time to start of 99 in 100 tasks, at most, in milliseconds.
    pub p99_ms: f64,
}

/// How much is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Amount {
    /// Tasks of a throughput round.
    pub tasks: usize,
    /// Tasks per second while times to start are taken.
    pub rate: usize,
    /// How long a round of times to start takes.
    pub span: Duration,
    /// Rounds of each.
    pub rounds: usize,
}

impl Default for Amount {
    fn default() -> Self {
        Self { tasks: 1_000_000, rate: 300_000, span: Duration::from_millis(500), rounds: 5 }
    }
}

/// What was measured.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Figures {
    /// Of which pattern.
    pub pattern: Pattern,
    /// With how many workers.
    pub workers: usize,
    /// Tasks per second, one submit per task.
    pub ops_per_s: f64,
    /// Tasks per second in batches.
    pub batched_ops_per_s: f64,
    /// Median time to start, in milliseconds.
    pub p50_ms: f64,
    /// Time to start of 99 in 100 tasks, in milliseconds.
    pub p99_ms: f64,
    /// The same of the best and the worst round.
    pub p99_ms_range: (f64, f64),
}

impl Pattern {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::RoundRobin, Self::LoadBased, Self::WorkStealing, Self::Hierarchical, Self::Affinity];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::RoundRobin => "round-robin",
            Self::LoadBased => "load-based",
            Self::WorkStealing => "work-stealing",
            Self::Hierarchical => "hierarchical",
            Self::Affinity => "affinity",
        }
    }

    /// What is asked of it.
    pub fn target(self) -> Target {
        let (ops_per_s, p99_ms) = match self {
            Self::RoundRobin => (200e3, 0.5),
            Self::LoadBased => (150e3, 1.0),
            Self::WorkStealing => (250e3, 0.5),
            Self::Hierarchical => (300e3, 1.0),
            Self::Affinity => (180e3, 0.8),
        };
        Target { ops_per_s, p99_ms }
    }

    fn options(self, workers: usize, seed: u64) -> Options {
        let (placement, stealing, groups) = match self {
            Self::RoundRobin => (Placement::RoundRobin, false, 1),
            Self::LoadBased => (Placement::TwoChoices, false, 1),
            Self::WorkStealing => (Placement::Shared, true, 1),
            Self::Hierarchical => (Placement::Hierarchical, true, workers.min(2)),
            Self::Affinity => (Placement::Shared, false, 1),
        };
        Options { placement, stealing, groups, seed, ..Options::with_workers(workers) }
    }

    /// Submits task number `number` as the pattern does.
    fn submit(self, pool: &Pool, number: usize, task: impl FnOnce() + Send + 'static) {
        match self {
            Self::RoundRobin | Self::LoadBased | Self::Hierarchical => pool.submit(task),
            Self::WorkStealing => pool.submit_to(skewed(number, pool.workers()), task),
            Self::Affinity => pool.submit_keyed((number % KEYS) as u64, task),
        }
    }

    /// Submits a batch as the pattern does: addressed batches have one address.
    fn submit_batch<F: FnOnce() + Send + 'static>(self, pool: &Pool, number: usize, tasks: Vec<F>) {
        match self {
            Self::RoundRobin | Self::LoadBased | Self::Hierarchical => pool.submit_many(tasks),
            Self::WorkStealing => pool.submit_many_to(skewed(number, pool.workers()), tasks),
            Self::Affinity => pool.submit_many_to(number % pool.workers(), tasks),
        }
    }
}

/// The worker for task `number` when most are for the first.
fn skewed(number: usize, workers: usize) -> usize {
    if number % 10 < SKEWED_OF_TEN || workers == 1 { 0 } else { 1 + number % (workers - 1) }
}

/// Measures one pattern.
pub fn measure(
    pattern: Pattern,
    workers: usize,
    amount: &Amount,
    seed: u64,
) -> Result<Figures, Error> {
    let pool = Pool::new(pattern.options(workers, seed))?;
    let rate = |round: &dyn Fn()| {
        let begin = Instant::now();
        round();
        amount.tasks as f64 / begin.elapsed().as_secs_f64()
    };
    let singles = || one_by_one(pattern, &pool, amount.tasks);
    let batches = || in_batches(pattern, &pool, amount.tasks);
    let mut ops_per_s: Vec<f64> = (0..amount.rounds).map(|_| rate(&singles)).collect();
    let mut batched_ops_per_s: Vec<f64> = (0..amount.rounds).map(|_| rate(&batches)).collect();
    let starts: Vec<Starts> =
        (0..amount.rounds).map(|_| times_to_start(pattern, &pool, amount)).collect();
    let mut p50_ms: Vec<f64> = starts.iter().map(|starts| starts.p50_ms).collect();
    let mut p99_ms: Vec<f64> = starts.iter().map(|starts| starts.p99_ms).collect();
    Ok(Figures {
        pattern,
        workers,
        ops_per_s: median(&mut ops_per_s),
        batched_ops_per_s: median(&mut batched_ops_per_s),
        p50_ms: median(&mut p50_ms),
        p99_ms: median(&mut p99_ms),
        p99_ms_range: (p99_ms[0], p99_ms[p99_ms.len() - 1]),
    })
}

/// Sorts, and gives the middle value.
fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn one_by_one(pattern: Pattern, pool: &Pool, tasks: usize) {
    let done = Countdown::from(tasks);
    for number in 0..tasks {
        let done = Arc::clone(&done);
        pattern.submit(pool, number, move || done.one());
    }
    done.wait();
}

fn in_batches(pattern: Pattern, pool: &Pool, tasks: usize) {
    let done = Countdown::from(tasks);
    for (number, from) in (0..tasks).step_by(BATCH).enumerate() {
        let task = |_| {
            let done = Arc::clone(&done);
            move || done.one()
        };
        let batch: Vec<_> = (from..tasks.min(from + BATCH)).map(task).collect();
        pattern.submit_batch(pool, number, batch);
    }
    done.wait();
}

struct Starts {
    p50_ms: f64,
    p99_ms: f64,
}

/// One round of tasks at a fixed rate. The submitter gives its processor away between two tasks, so that on a machine
/// with few of them the workers are not kept from theirs.
fn times_to_start(pattern: Pattern, pool: &Pool, amount: &Amount) -> Starts {
    let count = (amount.rate as f64 * amount.span.as_secs_f64()).max(1.0) as usize;
    let waits_ns = (0..count).map(|_| AtomicU32::new(0)).collect();
    let round = Arc::new(Round { begin: Instant::now(), waits_ns, done: Countdown::from(count) });
    let mut submitted = 0;
    while submitted < count {
        let due = (round.begin.elapsed().as_secs_f64() * amount.rate as f64) as usize;
        let due = due.min(count);
        if due <= submitted {
            std::thread::yield_now();
        }
        for number in submitted..due {
            // As small as this, the closure travels without an allocation.
            let (round, submit_ns) = (Arc::clone(&round), round.now_ns());
            pattern.submit(pool, number, move || {
                let wait_ns = round.now_ns() - submit_ns;
                let wait_ns = u32::try_from(wait_ns).unwrap_or(u32::MAX);
                round.waits_ns[number].store(wait_ns, Ordering::Relaxed);
                round.done.one();
            });
        }
        submitted = submitted.max(due);
    }
    round.done.wait();
    let mut waits: Vec<u32> =
        round.waits_ns.iter().map(|wait| wait.load(Ordering::Relaxed)).collect();
    waits.sort_unstable();
    let quantile_ms = |share: f64| {
        let place = (share * count as f64).ceil().max(1.0) as usize - 1;
        f64::from(waits[place]) / 1e6
    };
    Starts { p50_ms: quantile_ms(0.5), p99_ms: quantile_ms(0.99) }
}

struct Round {
    begin: Instant,
    waits_ns: Vec<AtomicU32>,
    done: Arc<Countdown>,
}

impl Round {
    fn now_ns(&self) -> u64 {
        self.begin.elapsed().as_nanos() as u64
    }
}

/// Counts tasks and wakes the thread that waits for the last.
struct Countdown {
    left: AtomicUsize,
    waiter: Thread,
}

impl Countdown {
    fn from(tasks: usize) -> Arc<Self> {
        Arc::new(Self { left: AtomicUsize::new(tasks), waiter: std::thread::current() })
    }

    fn one(&self) {
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.waiter.unpark();
        }
    }

    fn wait(&self) {
        while self.left.load(Ordering::Acquire) > 0 {
            std::thread::park();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_runs_every_task_and_gives_figures_that_fit() {
        let span = Duration::from_millis(20);
        let amount = Amount { tasks: 5_000, rate: 10_000, span, rounds: 3 };
        for pattern in Pattern::ALL {
            for workers in [1, 3] {
                let figures = measure(pattern, workers, &amount, 7).unwrap();
                assert_eq!((figures.pattern, figures.workers), (pattern, workers));
                assert!(figures.ops_per_s > 0.0 && figures.batched_ops_per_s > 0.0);
                let (best, worst) = figures.p99_ms_range;
                assert!(0.0 < figures.p50_ms && figures.p50_ms <= worst, "{figures:?}");
                assert!(best <= figures.p99_ms && figures.p99_ms <= worst, "{figures:?}");
            }
        }
    }

    #[test]
    fn seven_of_ten_tasks_are_for_the_first_worker() {
        for workers in [2, 3, 4, 8] {
            let mut counts = vec![0; workers];
            (0..10_000).for_each(|number| counts[skewed(number, workers)] += 1);
            assert_eq!(counts[0], 7_000);
            assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
        }
        assert_eq!(skewed(9, 1), 0);
    }
}
