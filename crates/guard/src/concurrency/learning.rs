//! Decides when enough calls were seen to move the limit, and when to measure what a call takes without a queue.
//!
//! States:
//!
//! | state | limit in force | leaves it when |
//! |---|---|---|
//! | run | the learned limit | a measurement is due |
//! | drain | a quarter | so few calls are in flight |
//! | measure | a quarter | enough calls that began in this state have ended |
//!
//! Drain and measure end after [`MEASURE_MAX`] in any case.
//!
//! Why measure: a law that compares with "the usual latency" drifts when the queue itself becomes usual, and then
//! lets the queue grow further. With a quarter of the calls there is no queue for a moment, and the law gets the truth
//! (as BBR and Envoy's gradient do).

use std::time::Duration;

use super::Settings;
use super::law::{Learner, Window};

/// How long a measurement may take.
const MEASURE_MAX: Duration = Duration::from_secs(2);

/// One call that has ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    pub(super) started: Duration,
    pub(super) latency: Duration,
    /// How many were in flight when it began, itself included.
    pub(super) in_flight: u32,
    pub(super) overloaded: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    since: Option<Duration>,
    count: u32,
    nanos: f64,
    in_flight_max: u32,
    overloaded: bool,
}

impl Sum {
    fn add(&mut self, sample: Sample, now: Duration) {
        self.since.get_or_insert(now);
        self.count += 1;
        // Never zero, because it is divided by.
        self.nanos += (sample.latency.as_nanos() as f64).max(1.0);
        self.in_flight_max = self.in_flight_max.max(sample.in_flight);
        self.overloaded |= sample.overloaded;
    }

    fn mean(&self) -> f64 {
        self.nanos / f64::from(self.count)
    }
}

#[derive(Clone, Copy, Debug)]
enum State {
    Run,
    Drain { since: Duration },
    Measure { since: Duration },
}

/// The learned limit and the way to the next one.
#[derive(Clone, Debug)]
pub(super) struct Learning {
    settings: Settings,
    learner: Learner,
    limit: f64,
    sum: Sum,
    state: State,
    measured: Option<Duration>,
}

impl Learning {
    pub(super) fn new(settings: Settings) -> Self {
        Self {
            settings,
            learner: Learner::new(settings.law),
            limit: f64::from(settings.initial),
            sum: Sum::default(),
            state: State::Run,
            measured: None,
        }
    }

    /// The limit in force.
    pub(super) fn limit(&self) -> u32 {
        match self.state {
            State::Run => self.limit as u32,
            State::Drain { .. } | State::Measure { .. } => self.quarter(),
        }
    }

    /// Takes in a call that has ended; `in_flight` is how many are left.
    pub(super) fn take(&mut self, sample: Sample, in_flight: u32) {
        let now = sample.started.saturating_add(sample.latency);
        match self.state {
            State::Run => self.run(sample, now),
            State::Drain { since } => {
                if in_flight <= self.quarter() {
                    self.state = State::Measure { since: now };
                } else if now.saturating_sub(since) > MEASURE_MAX {
                    self.back_to_run(now);
                }
            }
            State::Measure { since } => self.measure(sample, since, now),
        }
    }

    fn run(&mut self, sample: Sample, now: Duration) {
        self.sum.add(sample, now);
        let since = *self.measured.get_or_insert(now);
        let window_since = self.sum.since.unwrap_or(now);
        let is_full = self.sum.count >= self.settings.window_calls
            && now.saturating_sub(window_since) >= self.settings.window;
        if !is_full {
            return;
        }
        let window = Window {
            latency: self.sum.mean(),
            in_flight_max: self.sum.in_flight_max,
            overloaded: self.sum.overloaded,
        };
        let (min, max) = (f64::from(self.settings.min), f64::from(self.settings.max));
        self.limit = self.learner.next(self.limit, window).clamp(min, max);
        self.sum = Sum::default();
        let is_due =
            self.settings.measure_every.is_some_and(|every| now.saturating_sub(since) >= every);
        if is_due && self.settings.law.needs_base() && self.quarter() < self.limit as u32 {
            self.state = State::Drain { since: now };
        }
    }

    fn measure(&mut self, sample: Sample, since: Duration, now: Duration) {
        if sample.started >= since && !sample.overloaded {
            self.sum.add(sample, now);
        }
        if self.sum.count >= self.settings.window_calls {
            self.learner.rebase(self.sum.mean());
            self.back_to_run(now);
        } else if now.saturating_sub(since) > MEASURE_MAX {
            self.back_to_run(now);
        }
    }

    fn back_to_run(&mut self, now: Duration) {
        self.sum = Sum::default();
        self.measured = Some(now);
        self.state = State::Run;
    }

    fn quarter(&self) -> u32 {
        ((self.limit / 4.0) as u32).max(self.settings.min)
    }
}
