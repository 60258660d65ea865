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

use crate::options::{Band, Start, Victim};
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

/// Puts an entry into the queue of the worker that this thread is; gives it back if it is none of this pool.
#[inline]
pub(crate) fn push_local(shared: &Shared, entry: Entry) -> Result<(), Entry> {
    let mut entry = Some(entry);
    let _ = CURRENT.try_with(|current| {
        let current = current.borrow();
        let Some(context) = current.as_ref() else { return };
        if !std::ptr::eq(&raw const *context.shared, shared) {
            return;
        }
        match entry.take() {
            Some(Entry::One(task)) => context.local.queue.push(task),
            Some(Entry::Many(tasks)) => {
                tasks.into_iter().for_each(|task| context.local.queue.push(task))
            }
            None => {}
        }
    });
    entry.map_or(Ok(()), Err)
}

/// Runs a worker on this thread until it has to leave; gives its queues back, empty.
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
    if let Some(hook) = &context.shared.options.on_start {
        let _ = catch_unwind(AssertUnwindSafe(|| hook(index)));
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
        loop {
            if self.slot().attention.load(Ordering::Relaxed) && self.must_leave() {
                return;
            }
            match self.next().or_else(|| self.idle()) {
                Some(entry) => {
                    self.call_for_more();
                    self.execute(entry);
                }
                // Somebody called for attention.
                None => continue,
            }
        }
    }

    /// Of many tasks that come while one worker sleeps, each sees that somebody is about to look, so none of them starts
    /// a thread. Whoever looked takes one of them and may block; so it is the one who calls for the next thread.
    #[inline]
    fn call_for_more(&self) {
        if self.shared.options.start == Start::OnDemand && self.more_work() {
            self.shared.notify(None);
        }
    }

    /// Reads the orders of the pool.
    fn must_leave(&self) -> bool {
        let slot = self.slot();
        slot.attention.store(false, Ordering::SeqCst);
        self.shared.closing() == Closing::Ended || !slot.wanted.load(Ordering::SeqCst)
    }

    /// The next task without asking other workers.
    #[inline]
    fn next(&self) -> Option<Entry> {
        let tick = self.tick.get().wrapping_add(1);
        self.tick.set(tick);
        if tick.is_multiple_of(PUBLISH_EVERY) {
            self.slot().queues.publish(&self.local);
        }
        if let Some(entry) = self.next_high() {
            return Some(entry);
        }
        if tick.is_multiple_of(FAIR_EVERY)
            && let Some(entry) = self.next_received()
        {
            return Some(entry);
        }
        if let Some(task) = self.local.stack.pop().or_else(|| self.local.queue.pop()) {
            return Some(Entry::One(task));
        }
        self.next_received()
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
        let batches_first = self.tick.get().is_multiple_of(2);
        let take = || {
            own.take_some(&self.local.queue, batches_first)
                .or_else(|| shared.take_some(&self.local.queue, batches_first))
        };
        let entry = take();
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
        let result = catch_unwind(AssertUnwindSafe(|| task.run()));
        let counters = &self.slot().counters;
        if let Err(payload) = result {
            counters.panics.add(1);
            // Dropping what was thrown is foreign code, which may throw again.
            let _ = catch_unwind(AssertUnwindSafe(|| drop(payload)));
        }
        counters.processed.add(1);
    }

    /// Searches and sleeps until there is something to run; nothing if the worker must look at its orders.
    #[cold]
    fn idle(&self) -> Option<Entry> {
        let slot = self.slot();
        slot.queues.publish(&self.local);
        let counters = &slot.counters;
        let begin = nanos(self.shared.now()).max(1);
        counters.idle_since_ns.set(begin);
        let entry = self.search_and_sleep();
        counters.idle_since_ns.set(0);
        counters.idle_ns.add(nanos(self.shared.now()).saturating_sub(begin));
        entry
    }

    fn search_and_sleep(&self) -> Option<Entry> {
        let parking = &self.shared.parking;
        let counters = &self.slot().counters;
        let limit = (self.shared.active() / 2).max(1);
        let mut searching = parking.begin_search(limit);
        loop {
            if searching {
                let entry = self.search();
                if entry.is_some() || self.slot().attention.load(Ordering::Relaxed) {
                    if parking.end_search() && self.more_work() {
                        parking.notify(None);
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

    /// Whether others could run something, what this worker has just got included.
    fn more_work(&self) -> bool {
        self.shared.has_work_for_any()
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
        let batches_first = self.tick.get().is_multiple_of(2);
        let before = self.local.queue.len() + self.local.stack.len();
        let entry = self.visit(|slot| {
            if !slot.queues.has_stealable(stealable) {
                return None;
            }
            self.slot().counters.steal_attempts.add(1);
            slot.queues.steal(&self.local, stealable, batches_first)
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
        let normal = Band::Normal;
        while let Some(task) = self.local.stack.pop().or_else(|| self.local.queue.pop()) {
            shared.inbox[normal as usize].push(Entry::One(task));
            shared.parking.notify(None);
        }
        std::sync::atomic::fence(Ordering::SeqCst);
        shared.hand_on(self.slot());
        self.slot().queues.publish(&self.local);
    }
}
