//! Decides how runs are played: from which seeds, and as many at once as there are threads.
//!
//! Seeds of the search and seeds that fleets are judged by are never the same: what was chosen because it did well by
//! chance is not judged by that chance.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};

use super::answer::Fleet;
use super::demand::{self, Demand};
use super::input::Plan;
use super::play::{Played, play};
use super::search::Found;
use crate::experiment::Progress;

/// Seeds that the search uses.
pub(super) const SEARCH_SEEDS: u32 = 3;
/// The number of the first of them; those that fleets are judged by are numbered from 0.
const SEARCH_FROM: u32 = 1_000_000;
/// Runs that a search usually takes, for its progress.
const RUNS_USUAL: u64 = 60;

/// A run that is wanted: this plan, with this fleet, from this seed.
pub(super) struct Run {
    pub(super) plan: Arc<Plan>,
    pub(super) fleet: Fleet,
    pub(super) seed: u64,
    /// What comes, where it was drawn already.
    pub(super) demand: Option<Arc<Demand>>,
    /// Whether it goes on when it is clear that the goal is missed.
    pub(super) whole: bool,
}

/// Plays runs and counts them.
pub(super) struct Runs<'a, 'p> {
    threads: usize,
    progress: &'a mut Progress<'p>,
    pub(super) count: u32,
}

impl<'a, 'p> Runs<'a, 'p> {
    pub(super) fn new(threads: usize, progress: &'a mut Progress<'p>) -> Self {
        Self { threads: threads.max(1), progress, count: 0 }
    }

    /// Plays all; the outcomes are in the order of the runs.
    pub(super) fn play(&mut self, runs: Vec<Run>, what: &str) -> Found<Vec<Played>> {
        let done = u64::from(self.count);
        let usual = RUNS_USUAL.max(done + runs.len() as u64);
        self.progress.step(what, done, usual)?;
        let (next, (send, played)) = (AtomicUsize::new(0), mpsc::channel());
        let mut all: Vec<Option<Played>> = vec![None; runs.len()];
        std::thread::scope(|scope| {
            for _ in 0..self.threads.min(runs.len()) {
                let (send, next, runs) = (send.clone(), &next, &runs);
                scope.spawn(move || {
                    while let Some((place, run)) = take(next, runs) {
                        // Whoever does not listen any more wants no more either.
                        if send.send((place, run.play())).is_err() {
                            return;
                        }
                    }
                });
            }
            drop(send);
            for (place, one) in played {
                all[place] = Some(one?);
                self.count += 1;
                self.progress.step(what, u64::from(self.count), usual)?;
            }
            Ok(all.into_iter().map(|one| one.expect("every run is played")).collect())
        })
    }
}

impl Run {
    fn play(&self) -> Found<Played> {
        let drawn = || Arc::new(demand::draw(&self.plan, self.seed));
        let demand = self.demand.clone().unwrap_or_else(drawn);
        play(&self.plan, &self.fleet, &demand, self.seed, self.whole)
    }
}

/// The next run that nobody plays yet, with its place.
fn take<'a>(next: &AtomicUsize, runs: &'a [Run]) -> Option<(usize, &'a Run)> {
    let place = next.fetch_add(1, Ordering::Relaxed);
    Some((place, runs.get(place)?))
}

/// A seed that fleets are judged by.
pub(super) fn judging_seed(number: u32) -> u64 {
    seed_of(number)
}

/// A seed of the search.
pub(super) fn search_seed(number: u32) -> u64 {
    seed_of(SEARCH_FROM + number)
}

/// Seeds of one plan, apart from each other.
fn seed_of(number: u32) -> u64 {
    fastrand::Rng::with_seed(u64::from(number) + 1).u64(..)
}
