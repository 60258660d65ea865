//! The experiments, one file each. [`crate::all`] lists them.

pub(crate) mod autoscaler;
pub(crate) mod balancers;
pub(crate) mod breaker;
pub(crate) mod cluster;
pub(crate) mod crawl;
pub(crate) mod degradation;
pub(crate) mod fan_out;
pub(crate) mod herd;
pub(crate) mod hot_partition;
mod measured;
mod paused;
pub(crate) mod pipeline;
pub(crate) mod ring;
pub(crate) mod scalability;
pub(crate) mod skew;
pub(crate) mod stealing;
pub(crate) mod three_tier;
pub(crate) mod windows;

#[cfg(doctest)]
#[doc = include_str!("../../../../docs/guides/lab.md")]
mod guide {}

/// The report of a quick run.
#[cfg(test)]
fn tried(experiment: crate::Experiment, seed: u64) -> crate::Report {
    let stop = std::sync::atomic::AtomicBool::new(false);
    let mut ignore = |_: crate::experiment::Step<'_>| {};
    let settings = crate::Settings { seed, quick: true };
    (experiment.run)(&settings, &mut crate::Progress::new(&mut ignore, &stop)).unwrap()
}
