//! The queues of a pool, and how tasks move between them.
//!
//! Each worker has an *inbox* per band, where others put tasks, and two queues that only its own thread fills: the
//! *queue* (first in, first out) for plain tasks and the *stack* (last in, first out) for scoped ones. There is a
//! *shared* inbox per band for tasks that were not placed. Nothing here decides who looks where, or who is woken.
//!
//! A batch travels through an inbox as one entry, so that its cost is that of one task; whoever takes it unpacks it
//! into its own queue, where others can take half of what is left.

use std::sync::atomic::{AtomicUsize, Ordering};

use crossbeam_deque::{Injector, Steal, Stealer, Worker};
use crossbeam_utils::CachePadded;

use crate::options::Band;
use crate::task::Task;

/// The most entries that move in one theft.
pub(crate) const STEAL_MAX: usize = 256;

/// The most entries that a worker takes from an inbox at once.
const TAKE_MAX: usize = 64;

/// What is taken from an inbox.
pub(crate) enum Entry {
    One(Task),
    /// At least one task.
    Many(Vec<Task>),
}

/// A queue that anybody may put into and take from. Single tasks keep their order, and so do batches. A batch does not
/// overtake the tasks that were there before it, unless these are more than [`TAKE_MAX`].
pub(crate) struct Inbox {
    singles: Injector<Task>,
    batches: Injector<Vec<Task>>,
    /// How many tasks the batches hold.
    batched: CachePadded<AtomicUsize>,
}

impl Inbox {
    pub(crate) fn new() -> Self {
        Self {
            singles: Injector::new(),
            batches: Injector::new(),
            batched: CachePadded::new(AtomicUsize::new(0)),
        }
    }

    #[inline]
    pub(crate) fn push(&self, task: Task) {
        self.singles.push(task);
    }

    pub(crate) fn push_many(&self, tasks: Vec<Task>) {
        self.batched.fetch_add(tasks.len(), Ordering::Relaxed);
        self.batches.push(tasks);
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.singles.is_empty() && self.batches.is_empty()
    }

    /// How many tasks are in it, roughly.
    pub(crate) fn len(&self) -> usize {
        self.singles.len() + self.batched.load(Ordering::Relaxed)
    }

    /// Takes the oldest single task or, without one, the oldest batch.
    pub(crate) fn take(&self) -> Option<Entry> {
        retry(|| self.singles.steal())
            .map(Entry::One)
            .or_else(|| self.take_batch().map(Entry::Many))
    }

    /// Takes a single task, moves more of them into `queue`, and takes a batch to run behind all of these. So a flood of
    /// the ones does not keep the others waiting, and a batch keeps behind what came before it.
    pub(crate) fn take_some(&self, queue: &Worker<Task>) -> Option<Entry> {
        // Looked at first: the single tasks that came before a batch which is seen here are seen below.
        let has_batch = !self.batches.is_empty();
        // Most of the time one of the two kinds is not used at all: a glance is cheaper than a try.
        let single = if self.singles.is_empty() {
            None
        } else {
            retry(|| self.singles.steal_batch_with_limit_and_pop(queue, TAKE_MAX))
        };
        if !has_batch {
            return single.map(Entry::One);
        }
        if single.is_some() {
            // A theft takes half; those that are left were there before the batch, too.
            let rest = std::iter::from_fn(|| retry(|| self.singles.steal()));
            rest.take(TAKE_MAX).for_each(|task| queue.push(task));
        }
        match (single, self.take_batch()) {
            (None, tasks) => tasks.map(Entry::Many),
            (Some(task), None) => Some(Entry::One(task)),
            (Some(task), Some(mut tasks)) => {
                tasks.insert(0, task);
                Some(Entry::Many(tasks))
            }
        }
    }

    fn take_batch(&self) -> Option<Vec<Task>> {
        if self.batches.is_empty() {
            return None;
        }
        let tasks = retry(|| self.batches.steal())?;
        self.batched.fetch_sub(tasks.len(), Ordering::Relaxed);
        Some(tasks)
    }
}

/// What others see of a worker's queues.
pub(crate) struct Queues {
    inbox: [Inbox; Band::ALL.len()],
    queue: Stealer<Task>,
    stack: Stealer<Task>,
    /// How long the worker's queue was when it last looked; written by the worker.
    queue_len: CachePadded<AtomicUsize>,
}

/// The ends of a worker's queues that only its thread holds.
pub(crate) struct Local {
    pub(crate) queue: Worker<Task>,
    pub(crate) stack: Worker<Task>,
}

impl Queues {
    pub(crate) fn new() -> (Self, Local) {
        let local = Local { queue: Worker::new_fifo(), stack: Worker::new_lifo() };
        let queues = Self {
            inbox: [Inbox::new(), Inbox::new()],
            queue: local.queue.stealer(),
            stack: local.stack.stealer(),
            queue_len: CachePadded::new(AtomicUsize::new(0)),
        };
        (queues, local)
    }

    #[inline]
    pub(crate) fn inbox(&self, band: Band) -> &Inbox {
        &self.inbox[band as usize]
    }

    /// Tells others how long the queue is. For the worker only.
    #[inline]
    pub(crate) fn publish(&self, local: &Local) {
        let len = local.queue.len() + local.stack.len();
        // A line that others read is written only if it changes.
        if self.queue_len.load(Ordering::Relaxed) != len {
            self.queue_len.store(len, Ordering::Relaxed);
        }
    }

    /// How many tasks wait, roughly and cheaply.
    pub(crate) fn len_published(&self) -> usize {
        let inboxes: usize = self.inbox.iter().map(Inbox::len).sum();
        inboxes + self.queue_len.load(Ordering::Relaxed)
    }

    /// How many tasks wait that others may take. `stealable` says it of each band.
    pub(crate) fn len_stealable(&self, stealable: [bool; 2]) -> usize {
        let mut len = self.stack.len();
        for band in Band::ALL {
            if stealable[band as usize] {
                len += self.inbox(band).len();
            }
        }
        if stealable[Band::Normal as usize] { len + self.queue.len() } else { len }
    }

    /// Whether something waits that others may take.
    pub(crate) fn has_stealable(&self, stealable: [bool; 2]) -> bool {
        let normal = stealable[Band::Normal as usize];
        !self.stack.is_empty()
            || (normal && !self.queue.is_empty())
            || Band::ALL
                .iter()
                .any(|band| stealable[*band as usize] && !self.inbox(*band).is_empty())
    }

    /// Whether the inboxes are empty.
    pub(crate) fn inbox_is_empty(&self) -> bool {
        self.inbox.iter().all(Inbox::is_empty)
    }

    /// Whether nothing waits at all.
    pub(crate) fn is_empty(&self) -> bool {
        self.inbox_is_empty() && self.queue.is_empty() && self.stack.is_empty()
    }

    /// Takes one scoped task for another worker.
    pub(crate) fn steal_scoped(&self, thief: &Local) -> Option<Task> {
        retry(|| self.stack.steal_batch_with_limit_and_pop(&thief.stack, STEAL_MAX))
    }

    /// Takes about half of what waits for another worker: one entry to run, the others into its queues.
    pub(crate) fn steal(&self, thief: &Local, stealable: [bool; 2]) -> Option<Entry> {
        if stealable[Band::High as usize]
            && let Some(entry) = self.inbox(Band::High).take()
        {
            return Some(entry);
        }
        if let Some(task) = self.steal_scoped(thief) {
            return Some(Entry::One(task));
        }
        if !stealable[Band::Normal as usize] {
            return None;
        }
        let steal = || self.queue.steal_batch_with_limit_and_pop(&thief.queue, STEAL_MAX);
        let task = retry(steal).map(Entry::One);
        task.or_else(|| self.inbox(Band::Normal).take_some(&thief.queue))
    }
}

/// Tries again while another thread was faster.
fn retry<T>(mut steal: impl FnMut() -> Steal<T>) -> Option<T> {
    loop {
        match steal() {
            Steal::Success(value) => return Some(value),
            Steal::Empty => return None,
            Steal::Retry => std::hint::spin_loop(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tasks(count: usize) -> Vec<Task> {
        (0..count).map(|_| Task::new(|| {})).collect()
    }

    fn len(entry: Option<Entry>) -> usize {
        match entry {
            None => 0,
            Some(Entry::One(_)) => 1,
            Some(Entry::Many(tasks)) => tasks.len(),
        }
    }

    #[test]
    fn an_inbox_counts_the_tasks_of_batches() {
        let inbox = Inbox::new();
        inbox.push_many(tasks(10));
        inbox.push(Task::new(|| {}));
        assert_eq!(inbox.len(), 11);
        assert_eq!(len(inbox.take()), 1);
        assert_eq!(len(inbox.take()), 10);
        assert_eq!((inbox.len(), inbox.is_empty()), (0, true));
    }

    #[test]
    fn single_tasks_and_a_batch_leave_an_inbox_together() {
        let (_, local) = Queues::new();
        let inbox = Inbox::new();
        for task in tasks(3) {
            inbox.push(task);
        }
        inbox.push_many(tasks(10));
        inbox.push_many(tasks(5));
        assert_eq!((len(inbox.take_some(&local.queue)), local.queue.len()), (11, 2));
        assert_eq!((len(inbox.take_some(&local.queue)), inbox.is_empty()), (5, true));
    }

    #[test]
    fn a_theft_takes_half_and_leaves_the_protected_band() {
        let (victim, local) = Queues::new();
        let (_, thief) = Queues::new();
        for task in tasks(100) {
            local.queue.push(task);
        }
        victim.inbox(Band::High).push(Task::new(|| {}));
        assert!(victim.steal(&thief, [false, true]).is_some());
        assert_eq!((local.queue.len(), thief.queue.len()), (50, 49));
        while victim.steal(&thief, [false, true]).is_some() {}
        assert_eq!(victim.inbox(Band::High).len(), 1);
        assert!(!victim.has_stealable([false, true]) && !victim.is_empty());
        assert_eq!(victim.len_stealable([false, true]), 0);
        assert!(victim.steal(&thief, [true, true]).is_some());
        assert!(victim.is_empty());
    }
}
