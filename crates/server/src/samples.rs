//! Samples of the load, taken while workers say something.
//!
//! The first message after a sample sets one timer; when it ends, a sample is taken. So the last message of a burst is
//! always followed by a sample, and a server whose workers are silent takes none and waits for nothing.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use divvy_types::Timestamp;
use divvy_types::overview::{LoadSample, WorkerLoad};

use crate::app::App;

/// The time between two samples.
const EVERY: Duration = Duration::from_secs(5);
/// Samples that are kept: half an hour of work.
const SAMPLES_MAX: usize = 360;
/// Workers whose queues a sample lists.
const WORKERS_MAX: usize = 32;

/// The last samples.
#[derive(Default)]
pub(crate) struct Samples {
    armed: AtomicBool,
    ring: Mutex<VecDeque<LoadSample>>,
}

impl Samples {
    /// The samples, oldest first.
    pub(crate) fn list(&self) -> Vec<LoadSample> {
        self.ring().iter().cloned().collect()
    }

    /// Dead letters before `since`, as far as samples tell; 0 if none is that old, because nobody worked then.
    pub(crate) fn dead_before(&self, since: Timestamp) -> u64 {
        self.ring().iter().rev().find(|sample| sample.at <= since).map_or(0, |sample| sample.dead)
    }

    fn push(&self, sample: LoadSample) {
        let mut ring = self.ring();
        if ring.len() == SAMPLES_MAX {
            ring.pop_front();
        }
        ring.push_back(sample);
    }

    fn ring(&self) -> MutexGuard<'_, VecDeque<LoadSample>> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A worker said something: the load may have changed.
pub(crate) fn note(app: &App) {
    let armed = &app.samples.armed;
    if armed.load(Relaxed) || armed.swap(true, Relaxed) {
        return;
    }
    let app = app.clone();
    tokio::spawn(async move {
        tokio::select! {
            () = app.shutdown.cancelled() => return,
            () = tokio::time::sleep(EVERY) => {}
        }
        // From here on a message sets the next timer, so that none falls between.
        app.samples.armed.store(false, Relaxed);
        take(&app).await;
    });
}

async fn take(app: &App) {
    let Ok(stats) = app.handle.stats().await else { return };
    let looked = app.handle.look(|core| (core.now(), core.scheduler().worker_loads())).await;
    let Ok((at, loads)) = looked else { return };
    app.samples.push(sample(at, stats.ready, stats.dead, &loads));
}

fn sample(at: Timestamp, ready: u64, dead: u64, loads: &[WorkerLoad]) -> LoadSample {
    let mut longest: Vec<&WorkerLoad> = loads.iter().collect();
    longest.sort_by_key(|load| std::cmp::Reverse(load.queue_length));
    longest.truncate(WORKERS_MAX);
    LoadSample {
        at,
        utilisation: utilisation(loads),
        ready,
        dead,
        queue_lengths: longest.iter().map(|load| (load.name.clone(), load.queue_length)).collect(),
    }
}

/// How much of all slots is in use, from 0 to 1.
pub(crate) fn utilisation(loads: &[WorkerLoad]) -> f64 {
    let slots: f64 = loads.iter().map(|load| f64::from(load.slots)).sum();
    if slots == 0.0 {
        return 0.0;
    }
    loads.iter().map(|load| f64::from(load.leased.min(load.slots))).sum::<f64>() / slots
}

/// The variance of the workers' queue lengths.
pub(crate) fn queue_variance(loads: &[WorkerLoad]) -> f64 {
    if loads.is_empty() {
        return 0.0;
    }
    let count = loads.len() as f64;
    let lengths = || loads.iter().map(|load| f64::from(load.queue_length));
    let mean = lengths().sum::<f64>() / count;
    lengths().map(|length| (length - mean).powi(2)).sum::<f64>() / count
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(name: &str, slots: u32, leased: u32) -> WorkerLoad {
        let queue_length = leased.saturating_sub(slots);
        WorkerLoad {
            name: name.into(),
            key: 1,
            slots,
            leased,
            queue_length,
            draining: false,
            paused: false,
        }
    }

    #[test]
    fn utilisation_and_variance_are_those_of_the_queues() {
        let loads = [load("a", 2, 10), load("b", 2, 1)];
        assert_eq!(utilisation(&loads), 0.75);
        assert_eq!(queue_variance(&loads), 16.0);
        assert_eq!((utilisation(&[]), queue_variance(&[])), (0.0, 0.0));
    }

    #[test]
    fn old_samples_make_room_and_tell_how_many_letters_were_dead() {
        let samples = Samples::default();
        for number in 0..SAMPLES_MAX as u64 + 5 {
            samples.push(sample(Timestamp(number), 0, number * 2, &[]));
        }
        assert_eq!(samples.list().len(), SAMPLES_MAX);
        assert_eq!(samples.dead_before(Timestamp(7)), 14);
        assert_eq!(samples.dead_before(Timestamp(2)), 0, "none is that old");
    }

    #[test]
    fn a_sample_of_many_workers_lists_the_longest_queues() {
        let loads: Vec<WorkerLoad> =
            (0..100).map(|number| load(&format!("w{number}"), 1, number)).collect();
        let sample = sample(Timestamp(1), 0, 0, &loads);
        assert_eq!(sample.queue_lengths.len(), WORKERS_MAX);
        assert_eq!(sample.queue_lengths["w99"], 98);
    }
}
