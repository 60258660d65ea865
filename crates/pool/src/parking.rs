//! Decides who sleeps and who is woken.
//!
//! A worker is *running*, *searching* (awake without work) or *sleeping*. Rules:
//! - Whoever makes work visible calls [`Parking::notify`]. If a worker searches already, nobody is woken: it will find
//!   the work. Else one sleeper is woken, and counts as searching from that moment, so that a flood of submits wakes
//!   one worker and not all.
//! - A searcher that finds work calls [`Parking::end_search`]. If it was the last one, it looks whether there is more
//!   and wakes the next: the wake-up goes on like a chain while there is work.
//! - A worker that finds nothing registers as sleeping first and looks once more afterwards.
//!
//! No wake-up is lost. A submitter does *push, fence, read the counts*; a worker that stops searching does *change the
//! counts, fence, look at the queues*. Both fences are sequentially consistent, so at least one of the two sees what
//! the other did: either the submitter sees that nobody searches, and wakes, or the worker sees the task.
//!
//! This file does not know queues. It is compiled twice: with the types of the standard library, and in
//! `model.rs` with those of loom, which tries every order of steps.

use super::sync::{
    AtomicBool, AtomicUsize, Mutex, MutexGuard, Ordering, Thread, current, fence, park,
};

/// One searching worker in the counts.
const SEARCHING: usize = 1;
/// One sleeping worker in the counts.
const SLEEPING: usize = 1 << (usize::BITS / 2);

/// How many workers search and sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) searching: usize,
    pub(crate) sleeping: usize,
}

impl Counts {
    fn of(word: usize) -> Self {
        Self { searching: word % SLEEPING, sleeping: word / SLEEPING }
    }
}

/// Where one worker sleeps.
struct Bed {
    /// Whether it is in the list of sleepers; changed under the lock of the list.
    asleep: AtomicBool,
    /// Set by whoever took it from the list, cleared by the worker.
    called: AtomicBool,
    thread: Mutex<Option<Thread>>,
}

/// The parking place of all workers of a pool.
pub(crate) struct Parking {
    counts: AtomicUsize,
    sleepers: Mutex<Vec<usize>>,
    beds: Vec<Bed>,
}

impl Parking {
    /// A place for this many workers, all of them running.
    pub(crate) fn new(workers: usize) -> Self {
        let bed = |_| Bed {
            asleep: AtomicBool::new(false),
            called: AtomicBool::new(false),
            thread: Mutex::new(None),
        };
        Self {
            counts: AtomicUsize::new(0),
            sleepers: Mutex::new(Vec::with_capacity(workers)),
            beds: (0..workers).map(bed).collect(),
        }
    }

    /// Must be called by the thread of a worker before it sleeps.
    pub(crate) fn register(&self, worker: usize) {
        *lock(&self.beds[worker].thread) = Some(current());
    }

    /// How many search and sleep now.
    pub(crate) fn counts(&self) -> Counts {
        Counts::of(self.counts.load(Ordering::Relaxed))
    }

    /// Whether this worker sleeps now.
    pub(crate) fn is_asleep(&self, worker: usize) -> bool {
        self.beds[worker].asleep.load(Ordering::Relaxed)
    }

    /// Work that any worker may take was made visible. `preferred` is woken before others.
    ///
    /// Answers false if nobody searches and nobody sleeps: all workers are busy.
    #[inline]
    pub(crate) fn notify(&self, preferred: Option<usize>) -> bool {
        fence(Ordering::SeqCst);
        let counts = self.counts();
        if counts.searching == 0 && counts.sleeping > 0 {
            self.wake_one(preferred);
        }
        counts.searching + counts.sleeping > 0
    }

    /// Work that only this worker may take was made visible.
    #[inline]
    pub(crate) fn notify_worker(&self, worker: usize) {
        fence(Ordering::SeqCst);
        if self.is_asleep(worker) {
            let sleepers = lock(&self.sleepers);
            if let Some(place) = sleepers.iter().position(|sleeper| *sleeper == worker) {
                self.wake(sleepers, place);
            }
        }
    }

    /// Wakes everybody: something changed that is not a task.
    pub(crate) fn wake_all(&self) {
        fence(Ordering::SeqCst);
        loop {
            let sleepers = lock(&self.sleepers);
            let Some(last) = sleepers.len().checked_sub(1) else { return };
            self.wake(sleepers, last);
        }
    }

    /// Starts to search, unless `limit` workers do already.
    pub(crate) fn begin_search(&self, limit: usize) -> bool {
        if self.counts().searching >= limit {
            return false;
        }
        self.counts.fetch_add(SEARCHING, Ordering::SeqCst);
        true
    }

    /// Stops to search, with or without success. True if it was the last to search: then the caller must look whether
    /// there is more work and, if so, call [`Parking::notify`].
    #[must_use]
    pub(crate) fn end_search(&self) -> bool {
        let before = Counts::of(self.counts.fetch_sub(SEARCHING, Ordering::SeqCst));
        debug_assert!(before.searching > 0, "only a searcher stops to search");
        fence(Ordering::SeqCst);
        before.searching == 1
    }

    /// Sleeps until woken. `searching` says whether the worker counts as searching now; afterwards it does.
    ///
    /// `look` is called after the worker counts as sleeping, with how many sleep then; if it says that there is
    /// something to do, the worker does not sleep. Answers whether it was another who ended the sleep.
    pub(crate) fn sleep(
        &self,
        worker: usize,
        searching: bool,
        look: impl FnOnce(usize) -> bool,
    ) -> bool {
        let bed = &self.beds[worker];
        let sleeping = {
            let mut sleepers = lock(&self.sleepers);
            sleepers.push(worker);
            bed.asleep.store(true, Ordering::SeqCst);
            let change = SLEEPING - if searching { SEARCHING } else { 0 };
            Counts::of(self.counts.fetch_add(change, Ordering::SeqCst)).sleeping + 1
        };
        fence(Ordering::SeqCst);
        if look(sleeping) {
            let mut sleepers = lock(&self.sleepers);
            if let Some(place) = sleepers.iter().position(|sleeper| *sleeper == worker) {
                self.take_out(&mut sleepers, place);
                return false;
            }
            // Somebody took this worker from the list in the meantime; the call is on its way.
        }
        while !bed.called.swap(false, Ordering::AcqRel) {
            park();
        }
        true
    }

    fn wake_one(&self, preferred: Option<usize>) {
        let sleepers = lock(&self.sleepers);
        if self.counts().searching > 0 {
            return;
        }
        let wanted =
            preferred.and_then(|worker| sleepers.iter().position(|sleeper| *sleeper == worker));
        // The last one to fall asleep has the warmest cache.
        if let Some(place) = wanted.or_else(|| sleepers.len().checked_sub(1)) {
            self.wake(sleepers, place);
        }
    }

    fn wake(&self, mut sleepers: MutexGuard<'_, Vec<usize>>, place: usize) {
        let worker = self.take_out(&mut sleepers, place);
        drop(sleepers);
        let bed = &self.beds[worker];
        // A swap and not a store: so all changes of the flag are in one order, in loom's eyes too.
        bed.called.swap(true, Ordering::AcqRel);
        if let Some(thread) = lock(&bed.thread).as_ref() {
            thread.unpark();
        }
    }

    /// Takes a sleeper from the list; from now on it counts as searching.
    fn take_out(&self, sleepers: &mut Vec<usize>, place: usize) -> usize {
        let worker = sleepers.remove(place);
        self.beds[worker].asleep.store(false, Ordering::SeqCst);
        self.counts.fetch_sub(SLEEPING - SEARCHING, Ordering::SeqCst);
        worker
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("nothing panics while it holds a lock of the parking place")
}
