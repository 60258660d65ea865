//! Decides how many workers a pool should have, from what was measured.
//!
//! [`Decision`] is a pure function of its samples; `Monitor` is the thread that takes them and obeys. Rules: a pool
//! whose workers are busy and which has tasks waiting grows by a quarter (at least one); a pool whose workers are
//! mostly idle shrinks by one. Both need several samples in a row (hysteresis), more for shrinking, because a missing
//! worker costs more than an idle one. At first start nothing is known, so nothing changes before the first runs of
//! equal samples.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::crew::lock;
use crate::options::{Error, WORKERS_MAX};
use crate::shared::Shared;
use crate::stats::Stats;

/// The shortest time between two samples.
pub const INTERVAL_MIN: Duration = Duration::from_millis(1);

/// How a pool grows and shrinks.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The fewest workers.
    pub workers_min: usize,
    /// The most workers.
    pub workers_max: usize,
    /// The time between two samples.
    pub interval: Duration,
    /// Grows when at least this share of the workers' time is busy and tasks wait.
    pub grow_at: f64,
    /// Shrinks when at most this share is busy and no task waits.
    pub shrink_at: f64,
    /// How many samples in a row it takes to grow.
    pub grow_after: u32,
    /// How many samples in a row it takes to shrink.
    pub shrink_after: u32,
}

impl Default for Settings {
    fn default() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            workers_min: 1,
            workers_max: processors,
            interval: Duration::from_millis(100),
            grow_at: 0.85,
            shrink_at: 0.4,
            grow_after: 2,
            shrink_after: 20,
        }
    }
}

impl Settings {
    pub(crate) fn check(&self) -> Result<(), Error> {
        let problem = |field, problem: String| Err(Error::Option { field, problem });
        if !(1..=WORKERS_MAX).contains(&self.workers_max) {
            let text = format!("is {}; it must be 1 to {WORKERS_MAX}", self.workers_max);
            return problem("adaptive.workers_max", text);
        }
        if !(1..=self.workers_max).contains(&self.workers_min) {
            let text = format!("is {}; it must be 1 to workers_max", self.workers_min);
            return problem("adaptive.workers_min", text);
        }
        for (field, share) in
            [("adaptive.grow_at", self.grow_at), ("adaptive.shrink_at", self.shrink_at)]
        {
            if !(share > 0.0 && share <= 1.0) {
                return Err(Error::share(field, share));
            }
        }
        if self.shrink_at >= self.grow_at {
            let text = format!("is {}; it must be below grow_at", self.shrink_at);
            return problem("adaptive.shrink_at", text);
        }
        for (field, count) in
            [("adaptive.grow_after", self.grow_after), ("adaptive.shrink_after", self.shrink_after)]
        {
            if count == 0 {
                return problem(field, "is 0; it must be at least 1".into());
            }
        }
        if self.interval < INTERVAL_MIN {
            return Err(Error::duration("adaptive.interval", self.interval, INTERVAL_MIN));
        }
        Ok(())
    }
}

/// What was measured in one interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// How many workers there are.
    pub workers: usize,
    /// The share of their time in which they ran tasks: 0 to 1.
    pub busy_share: f64,
    /// How many tasks wait.
    pub waiting: usize,
}

/// The memory of the decision: how many samples in a row said the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    above: u32,
    below: u32,
}

impl Decision {
    /// How many workers there should be after this sample.
    pub fn next(&mut self, settings: &Settings, sample: Sample) -> usize {
        let above = sample.busy_share >= settings.grow_at && sample.waiting > 0;
        let below = sample.busy_share <= settings.shrink_at && sample.waiting == 0;
        self.above = if above { self.above + 1 } else { 0 };
        self.below = if below { self.below + 1 } else { 0 };
        let mut workers = sample.workers;
        if self.above >= settings.grow_after {
            self.above = 0;
            workers += (workers / 4).max(1);
        } else if self.below >= settings.shrink_after {
            self.below = 0;
            workers = workers.saturating_sub(1);
        }
        workers.clamp(settings.workers_min, settings.workers_max)
    }
}

/// The thread that measures a pool and resizes it.
pub(crate) struct Monitor {
    stop: Arc<Stop>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Stop {
    stopped: Mutex<bool>,
    changed: Condvar,
}

impl Monitor {
    pub(crate) fn start(shared: &Arc<Shared>, settings: Settings) -> Result<Self, Error> {
        let stop = Arc::new(Stop::default());
        let (weak, stopped) = (Arc::downgrade(shared), Arc::clone(&stop));
        let name = format!("{}-monitor", shared.options.name);
        let thread = std::thread::Builder::new()
            .name(name.clone())
            .spawn(move || watch(&weak, &settings, &stopped))
            .map_err(|source| Error::Thread { name, source })?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        *lock(&self.stop.stopped) = true;
        self.stop.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn watch(shared: &Weak<Shared>, settings: &Settings, stop: &Stop) {
    let mut decision = Decision::default();
    let mut earlier = Stats::default();
    loop {
        let stopped = lock(&stop.stopped);
        let waited =
            stop.changed.wait_timeout_while(stopped, settings.interval, |stopped| !*stopped);
        let stopped = waited.unwrap_or_else(std::sync::PoisonError::into_inner).0;
        if *stopped {
            return;
        }
        drop(stopped);
        let Some(shared) = shared.upgrade() else { return };
        let (stats, load) = (shared.stats(), shared.load());
        let workers = shared.active.load(Ordering::Relaxed);
        let busy_share = stats.busy_share_since(&earlier, workers);
        earlier = stats;
        let next = decision.next(settings, Sample { workers, busy_share, waiting: load.waiting() });
        if next != workers {
            // A refused thread is tried again after the next samples.
            let _ = shared.resize(next);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> Settings {
        Settings {
            workers_min: 1,
            workers_max: 8,
            grow_after: 2,
            shrink_after: 3,
            ..Settings::default()
        }
    }

    fn sample(workers: usize, busy_share: f64, waiting: usize) -> Sample {
        Sample { workers, busy_share, waiting }
    }

    #[test]
    fn samples_in_a_row_decide() {
        let busy = |workers| sample(workers, 0.95, 10);
        let calm = |workers| sample(workers, 0.1, 0);
        let middle = |workers| sample(workers, 0.6, 1);
        let table: [(&str, &[Sample], usize); 8] = [
            ("one busy sample is not enough", &[busy(4)], 4),
            ("two are", &[busy(4), busy(4)], 5),
            ("a quarter at a time", &[busy(8), busy(8)], 8),
            ("a break begins anew", &[busy(4), middle(4), busy(4)], 4),
            ("busy without a queue is no reason", &[sample(4, 1.0, 0), sample(4, 1.0, 0)], 4),
            ("three calm samples shrink by one", &[calm(4), calm(4), calm(4)], 3),
            ("never below the least", &[calm(1), calm(1), calm(1)], 1),
            ("a count out of range is put right", &[sample(20, 0.6, 0)], 8),
        ];
        for (what, samples, expected) in table {
            let mut decision = Decision::default();
            let mut last = 0;
            for sample in samples {
                last = decision.next(&settings(), *sample);
            }
            assert_eq!(last, expected, "{what}");
        }
    }

    #[test]
    fn load_that_swings_around_a_threshold_does_not_flap() {
        let mut decision = Decision::default();
        for round in 0..100 {
            let share = if round % 2 == 0 { 0.9 } else { 0.8 };
            assert_eq!(decision.next(&settings(), sample(4, share, 5)), 4);
        }
    }

    #[test]
    fn nonsense_is_refused_with_the_name_of_the_field() {
        let bad = [
            ("workers_max", Settings { workers_max: 0, ..settings() }),
            ("workers_min", Settings { workers_min: 9, ..settings() }),
            ("grow_at", Settings { grow_at: f64::NAN, ..settings() }),
            ("grow_at", Settings { grow_at: 1.5, ..settings() }),
            ("shrink_at", Settings { shrink_at: 0.0, ..settings() }),
            ("shrink_at", Settings { shrink_at: 0.9, ..settings() }),
            ("grow_after", Settings { grow_after: 0, ..settings() }),
            ("shrink_after", Settings { shrink_after: 0, ..settings() }),
            ("interval", Settings { interval: Duration::ZERO, ..settings() }),
        ];
        assert!(settings().check().is_ok());
        for (field, settings) in bad {
            let text = settings.check().unwrap_err().to_string();
            assert!(text.starts_with(&format!("option `adaptive.{field}` ")), "{text}");
        }
    }
}
