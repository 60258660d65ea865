//! How a pool is set up, and what is refused.
//!
//! Knows nothing of threads. [`Options::check`] is the one place that decides what is nonsense.

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

/// The most workers that a pool can have.
pub const WORKERS_MAX: usize = 1024;

/// The smallest stack of a worker.
pub const STACK_BYTES_MIN: usize = 64 * 1024;

/// How urgent a task is. A worker runs everything of the high band that it can see before anything else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Band {
    /// Runs first.
    High,
    /// Everything else.
    #[default]
    Normal,
}

impl Band {
    /// Both, the more urgent first.
    pub const ALL: [Self; 2] = [Self::High, Self::Normal];
}

/// Where a task goes that was submitted from outside and not to a certain worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// Into one queue that all workers take from.
    #[default]
    Shared,
    /// To the workers in turn.
    RoundRobin,
    /// To the worker with the shortest queue; looks at all of them.
    LeastLoaded,
    /// To the one with the shorter queue of two workers drawn at random.
    TwoChoices,
    /// To the groups in turn, and there to the one with the shorter queue of two workers drawn at random.
    Hierarchical,
}

/// From whom a worker without work takes some.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Victim {
    /// From the worker with the longest queue.
    Busiest,
    /// From the first worker with work, beginning at a random one.
    #[default]
    Random,
}

/// When threads are started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Start {
    /// All at once.
    #[default]
    AtOnce,
    /// One at first; the next whenever work comes in and all that run are busy.
    OnDemand,
}

/// A function that each worker calls with its index before its first task.
pub type StartHook = Arc<dyn Fn(usize) + Send + Sync>;

/// How a pool is set up.
#[derive(Clone)]
pub struct Options {
    /// How many workers; the number of processors if nothing is said.
    pub workers: usize,
    /// How many workers there may be after [`crate::Pool::resize`]; raised to `workers` if it is lower.
    pub workers_max: usize,
    /// When threads are started.
    pub start: Start,
    /// Where tasks from outside go.
    pub placement: Placement,
    /// Whether idle workers take tasks that were placed on others.
    pub stealing: bool,
    /// From whom.
    pub victim: Victim,
    /// The band whose tasks stay with the worker that they were placed on, even if `stealing` is set.
    pub protected: Option<Band>,
    /// Into how many groups the workers are divided. Idle workers look in their own group first.
    pub groups: usize,
    /// Fixes the random choices.
    pub seed: u64,
    /// The beginning of the names of the threads.
    pub name: String,
    /// The size of the stack of each thread; what the system gives if nothing is said.
    pub stack_bytes: Option<usize>,
    /// Grows and shrinks the pool by measured load.
    pub adaptive: Option<crate::adaptive::Settings>,
    /// Called by each worker before its first task.
    pub on_start: Option<StartHook>,
}

impl Default for Options {
    fn default() -> Self {
        let workers = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        Self {
            workers,
            workers_max: workers,
            start: Start::AtOnce,
            placement: Placement::Shared,
            stealing: true,
            victim: Victim::Random,
            protected: Some(Band::High),
            groups: 1,
            seed: 0,
            name: "divvy-pool".into(),
            stack_bytes: None,
            adaptive: None,
            on_start: None,
        }
    }
}

impl Options {
    /// The defaults with this many workers.
    pub fn with_workers(workers: usize) -> Self {
        Self { workers, workers_max: workers, ..Self::default() }
    }

    /// Says what is wrong, if anything is.
    pub fn check(&self) -> Result<(), Error> {
        let count = |field, value: usize, max: usize| {
            if (1..=max).contains(&value) {
                return Ok(());
            }
            Err(Error::Option { field, problem: format!("is {value}; it must be 1 to {max}") })
        };
        count("workers", self.workers, WORKERS_MAX)?;
        count("workers_max", self.workers_max, WORKERS_MAX)?;
        count("groups", self.groups, self.workers)?;
        if self.stack_bytes.is_some_and(|bytes| bytes < STACK_BYTES_MIN) {
            let problem = format!("is below {STACK_BYTES_MIN}; give more, or none for the default");
            return Err(Error::Option { field: "stack_bytes", problem });
        }
        if self.name.contains('\0') {
            let problem = "has a zero byte in it; use plain text".to_owned();
            return Err(Error::Option { field: "name", problem });
        }
        if let Some(adaptive) = &self.adaptive {
            adaptive.check()?;
        }
        Ok(())
    }

    /// How many workers there can ever be.
    pub(crate) fn slots(&self) -> usize {
        let adaptive = self.adaptive.as_ref().map_or(0, |adaptive| adaptive.workers_max);
        self.workers.max(self.workers_max).max(adaptive)
    }

    /// Whether idle workers may take tasks of this band from others.
    pub(crate) fn is_stealable(&self, band: Band) -> bool {
        self.stealing && self.protected != Some(band)
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("workers", &self.workers)
            .field("workers_max", &self.workers_max)
            .field("start", &self.start)
            .field("placement", &self.placement)
            .field("stealing", &self.stealing)
            .field("victim", &self.victim)
            .field("protected", &self.protected)
            .field("groups", &self.groups)
            .field("seed", &self.seed)
            .field("name", &self.name)
            .field("stack_bytes", &self.stack_bytes)
            .field("adaptive", &self.adaptive)
            .finish_non_exhaustive()
    }
}

/// Why a pool was not started or changed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A setting makes no sense.
    #[error("option `{field}` {problem}")]
    Option {
        /// Which one.
        field: &'static str,
        /// What is wrong and what would be right.
        problem: String,
    },
    /// The system refused a thread.
    #[error(
        "cannot start thread `{name}`; lower the number of workers or raise the limit: {source}"
    )]
    Thread {
        /// The name of the thread.
        name: String,
        /// What the system said.
        source: std::io::Error,
    },
}

impl Error {
    pub(crate) fn share(field: &'static str, value: f64) -> Self {
        Self::Option { field, problem: format!("is {value}; it must be above 0 and at most 1") }
    }

    pub(crate) fn duration(field: &'static str, value: Duration, least: Duration) -> Self {
        Self::Option { field, problem: format!("is {value:?}; it must be at least {least:?}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonsense_is_refused_with_the_name_of_the_field() {
        let good = || Options::with_workers(4);
        assert!(good().check().is_ok());
        let bad: [(&str, Options); 6] = [
            ("workers", Options { workers: 0, ..good() }),
            ("workers", Options { workers: WORKERS_MAX + 1, ..good() }),
            ("workers_max", Options { workers_max: WORKERS_MAX + 1, ..good() }),
            ("groups", Options { groups: 5, ..good() }),
            ("stack_bytes", Options { stack_bytes: Some(1), ..good() }),
            ("name", Options { name: "a\0b".into(), ..good() }),
        ];
        for (field, options) in bad {
            let text = options.check().unwrap_err().to_string();
            assert!(text.starts_with(&format!("option `{field}` ")), "{text}");
        }
    }
}
