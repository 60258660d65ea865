//! What one worker does: takes a task, runs it, takes the next; searches, steals and sleeps when there is none.
//!
//! Order: the high band (own inbox, then shared), scoped tasks of its own, its queue, its inbox, the shared inbox,
//! then other workers. Every [`FAIR_EVERY`] tasks the inboxes come before the queue, so that tasks which submit tasks
//! for ever do not keep them waiting. Does not know who submits and who starts threads.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::options::{Band, Victim};
use crate::place;
use crate::queues::{Entry, Local};
use crate::shared::{Closing, Shared, Slot};
use crate::stats::nanos;
use crate::task::Task;

/// After how many tasks a worker looks into its inboxes although its queue is not empty.
const FAIR_EVERY: u32 = 61;

/// After how many tasks a worker tells how long its queue is.
const PUBLISH_EVERY: u32 = 16;

/// How often a worker looks everywhere before it sleeps, with a longer pause each time.
const SEARCH_ROUNDS: u32 = 8;

/// From which round on a searcher gives its processor away between two looks.
const SEARCH_YIELD_FROM: u32 = 6;

thread_local! {
    static CURRENT: RefCell<Option<Rc<Context>>> = const { RefCell::new(None) };
}

/// A worker on its own thread.
pub(crate) struct Context {
    pub(crate) shared: Arc<Shared>,
    pub(crate) index: usize,
    pub(crate) local: Local,
    rng: RefCell<fastrand::Rng>,
    tick: Cell<u32>,
}

/// The worker that this thread is, if it is one.
pub(crate) fn current() -> Option<Rc<Context>> {
    // No thread is a worker any more while its thread-local values are dropped.
    CURRENT.try_with(|current| current.borrow().clone()).ok().flatten()
}

/// The worker that this thread is, if it is one of this pool.
pub(crate) fn current_of(shared: &Shared) -> Option<Rc<Context>> {
    current().filter(|context| std::ptr::eq(&raw const *context.shared, shared))
}

/// Whether this thread is a worker of this pool.
#[inline]
pub(crate) fn is_worker_of(shared: &Shared) -> bool {
    let is = |current: &RefCell<Option<Rc<Context>>>| {
        let current = current.borrow();
        current.as_ref().is_some_and(|context| std::ptr::eq(&raw const *context.shared, shared))
    };
    CURRENT.try_with(is).unwrap_or(false)
}

/// Puts a task into the queue of the worker that this thread is.
pub(crate) fn push_here(task: Task) {
    CURRENT.with_borrow(|current| {
        let context = current.as_ref().expect("the caller made sure that this is a worker");
        context.local.queue.push(task);
    });
}

/// Runs a worker on this thread until it has to leave; gives its queues back, empty. The worker counts as searching
/// already: whoever started the thread saw to that, as for one that is woken.
pub(crate) fn run(shared: Arc<Shared>, index: usize, local: Local) -> Local {
    let seed = place::mix(shared.options.seed ^ place::mix(index as u64 + 1));
    let context = Rc::new(Context {
        shared,
        index,
        local,
        rng: RefCell::new(fastrand::Rng::with_seed(seed)),
        tick: Cell::new(0),
    });
    context.shared.parking.register(index);
    CURRENT.set(Some(Rc::clone(&context)));
    if let Some(hook) = &context.shared.options.on_start
        && let Err(payload) = catch_unwind(AssertUnwindSafe(|| hook(index)))
    {
        context.slot().counters.panics.add(1);
        let _ = catch_unwind(AssertUnwindSafe(|| drop(payload)));
    }
    context.work();
    context.leave();
    CURRENT.set(None);
    match Rc::try_unwrap(context) {
        Ok(context) => context.local,
        Err(_) => unreachable!("a worker is borrowed only while a task of it runs"),
    }
}

impl Context {
    fn slot(&self) -> &Slot {
        &self.shared.slots[self.index]
    }

    fn work(&self) {
        if let Some(entry) = self.idle(true) {
            self.execute(entry);
        }
        loop {
            if self.slot().attention.load(Ordering::Relaxed) && self.must_leave() {
                return;
            }
            // Tasks of the own queue are passed straight on: each further move of a task costs some nanoseconds.
            if let Some(entry) = self.next_due() {
                self.execute(entry);
            } else if let Some(task) = self.next_own() {
                self.run_task(task);
            } else if let Some(entry) = self.receive().or_else(|| self.idle(false)) {
                self.execute(entry);
            }
        }
    }

    /// Reads the orders of the pool.
    fn must_leave(&self) -> bool {
        let slot = self.slot();
        slot.attention.store(false, Ordering::SeqCst);
        self.shared.closing() == Closing::Ended || !slot.wanted.load(Ordering::SeqCst)
    }

    /// What comes before the own queue: the high band, and now and then what was received.
    #[inline]
    fn next_due(&self) -> Option<Entry> {
        let tick = self.tick.get().wrapping_add(1);
        self.tick.set(tick);
        if tick.is_multiple_of(PUBLISH_EVERY) {
            self.slot().queues.publish(&self.local);
        }
        if let Some(entry) = self.next_high() {
            return Some(entry);
        }
        if tick.is_multiple_of(FAIR_EVERY) { self.receive() } else { None }
    }

    /// Takes from the inboxes, and announces what it moved into its own queue: nobody could see that on the way, and
    /// this worker may be busy for long. A searcher does not need this: it looks again when it stops to search.
    #[inline]
    fn receive(&self) -> Option<Entry> {
        let entry = self.next_received();
        let stealable = self.shared.stealable[Band::Normal as usize];
        if entry.is_some() && stealable && !self.local.queue.is_empty() {
            self.shared.notify(None);
        }
        entry
    }

    #[inline]
    fn next_own(&self) -> Option<Task> {
        if !self.local.stack.is_empty()
            && let Some(task) = self.local.stack.pop()
        {
            return Some(task);
        }
        self.local.queue.pop()
    }

    #[inline]
    fn next_high(&self) -> Option<Entry> {
        let own = self.slot().queues.inbox(Band::High);
        if !own.is_empty() {
            return own.take();
        }
        let shared = &self.shared.inbox[Band::High as usize];
        if shared.is_empty() { None } else { shared.take() }
    }

    /// The next task of the own inbox or the shared one.
    fn next_received(&self) -> Option<Entry> {
        let own = self.slot().queues.inbox(Band::Normal);
        let shared = &self.shared.inbox[Band::Normal as usize];
        let entry =
            own.take_some(&self.local.queue).or_else(|| shared.take_some(&self.local.queue));
        if entry.is_some() {
            self.slot().queues.publish(&self.local);
        }
        entry
    }

    /// Runs what was taken. Of a batch the first task runs, and the others wait in the queue for this worker or any.
    pub(crate) fn execute(&self, entry: Entry) {
        match entry {
            Entry::One(task) => self.run_task(task),
            Entry::Many(tasks) => {
                let mut tasks = tasks.into_iter();
                let first = tasks.next();
                let more = tasks.len() > 0;
                tasks.for_each(|task| self.local.queue.push(task));
                if more {
                    self.slot().queues.publish(&self.local);
                    if self.shared.stealable[Band::Normal as usize] {
                        self.shared.notify(None);
                    }
                }
                if let Some(task) = first {
                    self.run_task(task);
                }
            }
        }
    }

    #[inline]
    pub(crate) fn run_task(&self, task: Task) {
        let result = task.run_caught();
        let counters = &self.slot().counters;
        if let Err(payload) = result {
            counters.panics.add(1);
            // Dropping what was thrown is foreign code, which may throw again.
            let _ = catch_unwind(AssertUnwindSafe(|| drop(payload)));
        }
        counters.processed.add(1);
    }

    /// Searches and sleeps until there is something to run; nothing if the worker must look at its orders.
    /// `searching` says whether it counts as searching already.
    #[cold]
    fn idle(&self, searching: bool) -> Option<Entry> {
        let slot = self.slot();
        slot.queues.publish(&self.local);
        let counters = &slot.counters;
        let begin = nanos(self.shared.now()).max(1);
        counters.idle_since_ns.set(begin);
        let entry = self.search_and_sleep(searching);
        counters.idle_since_ns.set(0);
        counters.idle_ns.add(nanos(self.shared.now()).saturating_sub(begin));
        entry
    }

    fn search_and_sleep(&self, mut searching: bool) -> Option<Entry> {
        let parking = &self.shared.parking;
        let counters = &self.slot().counters;
        let limit = (self.shared.active() / 2).max(1);
        searching = searching || parking.begin_search(limit);
        loop {
            if searching {
                let entry = self.search();
                if entry.is_some() || self.slot().attention.load(Ordering::Relaxed) {
                    if parking.end_search() && self.others_could_help() {
                        self.shared.notify(None);
                    }
                    return entry;
                }
            }
            counters.parks.add(1);
            if parking.sleep(self.index, searching, |sleeping| self.look_before_sleep(sleeping)) {
                counters.wakes.add(1);
            }
            searching = true;
        }
    }

    /// Whether there is more work, what this worker has just got included, and somebody who could be called for it.
    fn others_could_help(&self) -> bool {
        let shared = &self.shared;
        let somebody = shared.parking.counts().sleeping > 0 || shared.may_grow();
        somebody && shared.has_work_for_any()
    }

    fn search(&self) -> Option<Entry> {
        for round in 0..SEARCH_ROUNDS {
            if self.slot().attention.load(Ordering::Relaxed) {
                return None;
            }
            let entry = self.next_high().or_else(|| self.next_received()).or_else(|| self.steal());
            if entry.is_some() {
                return entry;
            }
            if round >= SEARCH_YIELD_FROM {
                std::thread::yield_now();
            } else {
                (0..1 << round).for_each(|_| std::hint::spin_loop());
            }
        }
        None
    }

    /// The last look, after this worker counts as sleeping.
    fn look_before_sleep(&self, sleeping: usize) -> bool {
        let shared = &self.shared;
        if self.slot().attention.load(Ordering::SeqCst) || shared.has_work_for(self.index) {
            return true;
        }
        // When all sleep and nothing waits, nothing can come any more: a pool that closes gets tasks from tasks only.
        if shared.closing() == Closing::Drain
            && sleeping == shared.alive.load(Ordering::SeqCst)
            && shared.is_empty()
        {
            shared.close(Closing::Ended);
            return true;
        }
        false
    }

    /// Takes about half of what waits at another worker.
    pub(crate) fn steal(&self) -> Option<Entry> {
        if !self.shared.options.stealing {
            return None;
        }
        let stealable = self.shared.stealable;
        let before = self.local.queue.len() + self.local.stack.len();
        let entry = self.visit(|slot| {
            if !slot.queues.has_stealable(stealable) {
                return None;
            }
            self.slot().counters.steal_attempts.add(1);
            slot.queues.steal(&self.local, stealable)
        })?;
        let moved = (self.local.queue.len() + self.local.stack.len()).saturating_sub(before);
        let taken = match &entry {
            Entry::One(_) => 1,
            Entry::Many(tasks) => tasks.len(),
        };
        let counters = &self.slot().counters;
        counters.steals.add(1);
        counters.stolen.add((taken + moved) as u64);
        self.slot().queues.publish(&self.local);
        Some(entry)
    }

    /// Takes one scoped task from another worker.
    pub(crate) fn steal_scoped(&self) -> Option<Task> {
        if !self.shared.options.stealing {
            return None;
        }
        let counters = &self.slot().counters;
        let task = self.visit(|slot| {
            counters.steal_attempts.add(1);
            slot.queues.steal_scoped(&self.local)
        })?;
        counters.steals.add(1);
        counters.stolen.add(1);
        Some(task)
    }

    /// Asks other workers in turn: those of the own group first, and the one with the most work first of all if the
    /// pool is set so.
    fn visit<T>(&self, mut ask: impl FnMut(&Slot) -> Option<T>) -> Option<T> {
        let slots = self.shared.used_slots();
        let groups = self.shared.options.groups.min(slots.len());
        let (from, to) =
            place::group(place::group_of(self.index, groups, slots.len()), groups, slots.len());
        self.visit_range(&slots[from..to], &mut ask).or_else(|| {
            if groups == 1 {
                return None;
            }
            let before = self.visit_range(&slots[..from], &mut ask);
            before.or_else(|| self.visit_range(&slots[to..], &mut ask))
        })
    }

    fn visit_range<T>(
        &self,
        slots: &[Slot],
        ask: &mut impl FnMut(&Slot) -> Option<T>,
    ) -> Option<T> {
        if slots.is_empty() {
            return None;
        }
        let me = self.slot();
        let others = || slots.iter().filter(|slot| !std::ptr::eq(*slot, me));
        if self.shared.options.victim == Victim::Busiest {
            let len = |slot: &&Slot| slot.queues.len_stealable(self.shared.stealable);
            let busiest = others().max_by_key(len)?;
            if let Some(answer) = ask(busiest) {
                return Some(answer);
            }
        }
        let start = self.rng.borrow_mut().usize(..slots.len());
        let (left, right) = slots.split_at(start);
        right.iter().chain(left).filter(|slot| !std::ptr::eq(*slot, me)).find_map(ask)
    }

    /// Hands everything on before the thread ends.
    fn leave(&self) {
        let shared = &self.shared;
        while let Some(task) = self.next_own() {
            shared.inbox[Band::Normal as usize].push(task);
            shared.parking.notify(None);
        }
        std::sync::atomic::fence(Ordering::SeqCst);
        shared.hand_on(self.slot());
        self.slot().queues.publish(&self.local);
    }
}
