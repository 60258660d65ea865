//! What the workers of a pool and its submitters share, and how work gets to a worker.
//!
//! Decides into which queue a task goes and who hears of it. Does not run tasks (`worker.rs`) and does not start
//! threads (`crew.rs`).

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering, fence};
use std::sync::{Mutex, Weak};
use std::time::{Duration, Instant};

use crossbeam_utils::CachePadded;

use crate::crew::{Seat, lock};
use crate::options::{Band, Options, Start};
use crate::parking::Parking;
use crate::place::{Place, Placer};
use crate::queues::{Entry, Inbox, Queues};
use crate::stats::{Counters, Load, Stats};
use crate::task::Task;
use crate::worker;

/// The most tasks that travel as one entry.
pub(crate) const BATCH_MAX: usize = 64;

/// Whether and how a pool ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Closing {
    Open = 0,
    /// Everything that waits still runs.
    Drain = 1,
    /// Nothing runs any more.
    Ended = 2,
}

/// The place of one worker.
pub(crate) struct Slot {
    pub(crate) queues: Queues,
    pub(crate) counters: CachePadded<Counters>,
    /// Whether a worker should be here; the pool was not made smaller.
    pub(crate) wanted: AtomicBool,
    /// Tells the worker to look at `wanted` and at `closing`.
    pub(crate) attention: AtomicBool,
    pub(crate) seat: Mutex<Seat>,
}

/// What all threads of a pool share.
pub(crate) struct Shared {
    pub(crate) options: Options,
    pub(crate) stealable: [bool; 2],
    pub(crate) slots: Box<[Slot]>,
    pub(crate) inbox: [Inbox; 2],
    pub(crate) parking: Parking,
    pub(crate) placer: Placer,
    /// How many workers there should be.
    pub(crate) active: AtomicUsize,
    /// How many slots have ever been used.
    pub(crate) used: AtomicUsize,
    /// How many threads run.
    pub(crate) alive: AtomicUsize,
    closing: AtomicU8,
    /// Held by whoever changes the number of workers.
    pub(crate) resizing: Mutex<()>,
    /// For the threads that are started on demand.
    pub(crate) itself: Weak<Self>,
    pub(crate) started: Instant,
}

impl Shared {
    pub(crate) fn new(options: Options, itself: Weak<Self>) -> Self {
        let slot = |_| {
            let (queues, local) = Queues::new();
            Slot {
                queues,
                counters: CachePadded::default(),
                wanted: AtomicBool::new(false),
                attention: AtomicBool::new(false),
                seat: Mutex::new(Seat::new(local)),
            }
        };
        let slots: Box<[Slot]> = (0..options.slots()).map(slot).collect();
        Self {
            stealable: Band::ALL.map(|band| options.is_stealable(band)),
            inbox: [Inbox::new(), Inbox::new()],
            parking: Parking::new(slots.len()),
            placer: Placer::new(&options),
            slots,
            active: AtomicUsize::new(0),
            used: AtomicUsize::new(0),
            alive: AtomicUsize::new(0),
            closing: AtomicU8::new(Closing::Open as u8),
            resizing: Mutex::new(()),
            itself,
            started: Instant::now(),
            options,
        }
    }

    pub(crate) fn now(&self) -> Duration {
        self.started.elapsed()
    }

    pub(crate) fn closing(&self) -> Closing {
        match self.closing.load(Ordering::SeqCst) {
            0 => Closing::Open,
            1 => Closing::Drain,
            _ => Closing::Ended,
        }
    }

    /// Begins or finishes to close, and makes every worker look.
    pub(crate) fn close(&self, closing: Closing) {
        self.closing.fetch_max(closing as u8, Ordering::SeqCst);
        // A worker that is being started on demand is there to be called when the lock is free.
        drop(lock(&self.resizing));
        self.call_all();
    }

    /// Makes every worker look at its orders.
    pub(crate) fn call_all(&self) {
        for slot in self.used_slots() {
            slot.attention.store(true, Ordering::SeqCst);
        }
        self.parking.wake_all();
    }

    pub(crate) fn used_slots(&self) -> &[Slot] {
        &self.slots[..self.used.load(Ordering::Acquire)]
    }

    pub(crate) fn active(&self) -> usize {
        self.active.load(Ordering::Relaxed).max(1)
    }

    /// Takes a task that was not placed: into the worker's own queue if a worker of this pool submits it, else where
    /// the placement says.
    #[inline]
    pub(crate) fn submit(&self, band: Band, task: Task) {
        if band == Band::Normal && worker::is_worker_of(self) {
            worker::push_here(task);
            return self.pushed_here();
        }
        match self.placer.place(self) {
            Place::Shared => {
                self.inbox[band as usize].push(task);
                self.notify(None);
            }
            Place::Worker(worker) => self.submit_to(worker, band, task),
        }
    }

    #[inline]
    pub(crate) fn submit_to(&self, worker: usize, band: Band, task: Task) {
        let slot = &self.slots[worker];
        slot.queues.inbox(band).push(task);
        self.check_wanted(slot);
        self.notify_of(worker, band);
    }

    /// Puts a batch into a worker's inbox. The caller notifies.
    pub(crate) fn put_many(&self, worker: usize, tasks: Vec<Task>) {
        let slot = &self.slots[worker];
        slot.queues.inbox(Band::Normal).push_many(tasks);
        self.check_wanted(slot);
    }

    /// After a push: a worker that leaves stops being wanted first and empties its inbox afterwards, so either it
    /// finds the task or it is seen here that it leaves.
    #[inline]
    fn check_wanted(&self, slot: &Slot) {
        fence(Ordering::SeqCst);
        if !slot.wanted.load(Ordering::Relaxed) {
            self.hand_on(slot);
        }
    }

    #[inline]
    pub(crate) fn notify_of(&self, worker: usize, band: Band) {
        if self.stealable[band as usize] {
            self.notify(Some(worker));
        } else {
            self.parking.notify_worker(worker);
        }
    }

    #[inline]
    pub(crate) fn notify(&self, preferred: Option<usize>) {
        if !self.parking.notify(preferred) && self.may_grow() {
            self.grow_on_demand();
        }
    }

    /// Whether one more worker may be started for work that all others are too busy for.
    #[inline]
    pub(crate) fn may_grow(&self) -> bool {
        self.options.start == Start::OnDemand && self.active() < self.slots.len()
    }

    /// After a worker pushed into its own queue.
    pub(crate) fn pushed_here(&self) {
        // Without stealing nobody else could take it, and the worker itself is awake.
        if self.stealable[Band::Normal as usize] {
            self.notify(None);
        }
    }

    /// Moves what is in the inboxes of a worker that left to the shared ones.
    #[cold]
    pub(crate) fn hand_on(&self, slot: &Slot) {
        for band in Band::ALL {
            while let Some(entry) = slot.queues.inbox(band).take() {
                let inbox = &self.inbox[band as usize];
                match entry {
                    Entry::One(task) => inbox.push(task),
                    Entry::Many(tasks) => inbox.push_many(tasks),
                }
                self.notify(None);
            }
        }
    }

    /// Whether there is something that `worker` could run, not counting its own queue and stack.
    pub(crate) fn has_work_for(&self, worker: usize) -> bool {
        !self.slots[worker].queues.inbox_is_empty() || self.has_work_for_any()
    }

    /// Whether there is something that any idle worker could run.
    pub(crate) fn has_work_for_any(&self) -> bool {
        self.inbox.iter().any(|inbox| !inbox.is_empty())
            || (self.options.stealing
                && self.used_slots().iter().any(|slot| slot.queues.has_stealable(self.stealable)))
    }

    /// Whether nothing waits anywhere.
    pub(crate) fn is_empty(&self) -> bool {
        self.inbox.iter().all(Inbox::is_empty)
            && self.used_slots().iter().all(|slot| slot.queues.is_empty())
    }

    pub(crate) fn stats(&self) -> Stats {
        let now = self.now();
        let workers = self.used_slots().iter().map(|slot| slot.counters.read(now)).collect();
        Stats { age: now, workers }
    }

    pub(crate) fn load(&self) -> Load {
        let counts = self.parking.counts();
        let alive = self.alive.load(Ordering::Relaxed);
        Load {
            queued: self.used_slots().iter().map(|slot| slot.queues.len_published()).collect(),
            shared: self.inbox.iter().map(Inbox::len).sum(),
            busy: alive.saturating_sub(counts.searching + counts.sleeping),
            searching: counts.searching,
            sleeping: counts.sleeping,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pool of two slots without threads: nobody is wanted and nobody takes.
    fn without_threads(options: Options) -> Shared {
        let shared = Shared::new(options, Weak::new());
        shared.used.store(2, Ordering::Relaxed);
        shared.active.store(2, Ordering::Relaxed);
        shared
    }

    fn task() -> Task {
        Task::new(|| {})
    }

    #[test]
    fn what_is_put_on_a_worker_that_left_is_handed_on_by_the_submitter() {
        let shared = without_threads(Options::with_workers(2));
        shared.slots[1].wanted.store(true, Ordering::Relaxed);
        for band in Band::ALL {
            shared.submit_to(0, band, task());
            shared.submit_to(1, band, task());
            assert_eq!(shared.inbox[band as usize].len(), 1, "{band:?}");
            assert_eq!(shared.slots[1].queues.inbox(band).len(), 1, "{band:?}");
        }
        shared.put_many(0, vec![task(), task()]);
        assert_eq!(shared.inbox[Band::Normal as usize].len(), 3);
        assert!(shared.slots[0].queues.is_empty() && !shared.is_empty());
    }

    #[test]
    fn only_what_a_worker_may_take_keeps_it_awake() {
        let shared = without_threads(Options::with_workers(2));
        shared.slots.iter().for_each(|slot| slot.wanted.store(true, Ordering::Relaxed));
        shared.submit_to(1, Band::High, task());
        assert!(shared.has_work_for(1) && !shared.has_work_for(0) && !shared.has_work_for_any());
        shared.submit_to(1, Band::Normal, task());
        assert!(shared.has_work_for(0));
        let alone = without_threads(Options { stealing: false, ..Options::with_workers(2) });
        alone.slots.iter().for_each(|slot| slot.wanted.store(true, Ordering::Relaxed));
        alone.submit_to(1, Band::Normal, task());
        assert!(alone.has_work_for(1) && !alone.has_work_for(0));
    }
}
