//! Decides what an experiment is: a name, a line about it, and a run that gives a [`Report`].
//!
//! Adding one is a file in `experiments/` and a line in [`all`]. An experiment knows nothing of terminals and files. It
//! tells how far it is through [`Progress`], and stops there when it is asked to.

use std::sync::atomic::{AtomicBool, Ordering};

pub use divvy_types::experiment::Timing;

use crate::experiments;
use crate::report::Report;

/// One experiment.
#[derive(Clone, Copy, Debug)]
pub struct Experiment {
    /// The name by which it is run.
    pub name: &'static str,
    /// What it looks at, in one line.
    pub summary: &'static str,
    /// Where its times come from.
    pub timing: Timing,
    /// Runs it.
    pub run: fn(&Settings, &mut Progress<'_>) -> Result<Report, Error>,
}

/// What a run is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Where all chance comes from.
    pub seed: u64,
    /// Whether a rough answer in seconds is wanted rather than a firm one.
    pub quick: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self { seed: 1, quick: false }
    }
}

impl Settings {
    /// The one size or the other.
    pub fn size<T>(&self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }

    /// A seed for one part of a run, so that parts do not share their chance.
    pub fn seed_of(&self, part: u64) -> u64 {
        let mut random = fastrand::Rng::with_seed(self.seed);
        random.u64(..) ^ fastrand::Rng::with_seed(part).u64(..).rotate_left(17)
    }
}

/// How far a run is. Experiments call [`Progress::step`] often: that is also where they are stopped.
pub struct Progress<'a> {
    watch: &'a mut dyn FnMut(Step<'_>),
    stop: &'a AtomicBool,
}

/// How far a run is, in words and numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step<'a> {
    /// What is done now.
    pub what: &'a str,
    /// Parts that are done.
    pub done: u64,
    /// Parts in all.
    pub total: u64,
}

impl<'a> Progress<'a> {
    /// Tells `watch` of every step, until `stop` is set.
    pub fn new(watch: &'a mut dyn FnMut(Step<'_>), stop: &'a AtomicBool) -> Self {
        Self { watch, stop }
    }

    /// Says what is done now. An error means that the run is to end at once.
    pub fn step(&mut self, what: &str, done: u64, total: u64) -> Result<(), Error> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(Error::Stopped);
        }
        (self.watch)(Step { what, done, total });
        Ok(())
    }
}

/// Why a run gave no report.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It was asked to stop.
    #[error("the experiment was stopped")]
    Stopped,
    /// A setting makes no sense.
    #[error("{field} is {given}; {cure}")]
    BadSetting {
        /// Which one.
        field: &'static str,
        /// What was given.
        given: String,
        /// What can be given.
        cure: &'static str,
    },
    /// The machine refused something that the experiment needs, such as a thread.
    #[error("the machine refused what the experiment needs: {0}")]
    Machine(#[from] std::io::Error),
}

/// Every experiment, in the order in which a reader meets them.
pub fn all() -> &'static [Experiment] {
    &[
        experiments::stealing::EXPERIMENT,
        experiments::scalability::EXPERIMENT,
        experiments::balancers::EXPERIMENT,
        experiments::ring::EXPERIMENT,
        experiments::hot_partition::EXPERIMENT,
        experiments::skew::EXPERIMENT,
        experiments::herd::EXPERIMENT,
        experiments::breaker::EXPERIMENT,
        experiments::fan_out::EXPERIMENT,
        experiments::degradation::EXPERIMENT,
        experiments::three_tier::EXPERIMENT,
        experiments::pipeline::EXPERIMENT,
        experiments::cluster::hot_spot::EXPERIMENT,
        experiments::cluster::uniform::EXPERIMENT,
        experiments::cluster::cascade::EXPERIMENT,
        experiments::cluster::bursty::EXPERIMENT,
        experiments::cluster::protection::EXPERIMENT,
        experiments::cluster::slow_worker::EXPERIMENT,
        experiments::cluster::flapping::EXPERIMENT,
        experiments::cluster::speeds::EXPERIMENT,
        experiments::cluster::fairness::EXPERIMENT,
        experiments::cluster::limits::EXPERIMENT,
        experiments::cluster::deadlines::EXPERIMENT,
        experiments::autoscaler::EXPERIMENT,
        experiments::crawl::EXPERIMENT,
        experiments::windows::EXPERIMENT,
    ]
}

/// The experiment of this name.
pub fn find(name: &str) -> Option<&'static Experiment> {
    all().iter().find(|experiment| experiment.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unlike_and_lines_fit_beside_them_on_a_narrow_terminal() {
        let mut names: Vec<&str> = all().iter().map(|experiment| experiment.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all().len());
        for experiment in all() {
            let (name, line) = (experiment.name, experiment.summary);
            assert!(name.len() <= 13 && line.chars().count() <= 52, "{name}: {line}");
        }
    }
}
