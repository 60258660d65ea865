//! Tries every order of steps of [`crate::parking`] with loom: the same source, compiled with loom's types.
//!
//! A queue is a number of tasks. A lost wake-up leaves a worker asleep beside a task, which loom reports as a deadlock.

mod sync {
    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
    use loom::sync::{Arc, Condvar};
    pub(crate) use loom::sync::{Mutex, MutexGuard};

    /// A thread that can be unparked. Loom's own forgets a call that comes while the thread is at a mutex, which the
    /// standard library does not.
    #[derive(Clone)]
    pub(crate) struct Thread(Arc<(Mutex<bool>, Condvar)>);

    loom::thread_local! {
        static CURRENT: Thread = Thread(Arc::new((Mutex::new(false), Condvar::new())));
    }

    impl Thread {
        pub(crate) fn unpark(&self) {
            *self.0.0.lock().unwrap() = true;
            self.0.1.notify_one();
        }
    }

    pub(crate) fn current() -> Thread {
        CURRENT.with(Clone::clone)
    }

    pub(crate) fn park() {
        let thread = current();
        let mut called = thread.0.0.lock().unwrap();
        while !*called {
            called = thread.0.1.wait(called).unwrap();
        }
        *called = false;
    }
}

#[path = "parking.rs"]
#[allow(dead_code, reason = "the model does not need all that the pool needs")]
mod parking;

use loom::sync::{Arc, Condvar};
use loom::thread;
use parking::Parking;
use sync::{AtomicBool, AtomicUsize, Mutex, Ordering};

/// A pool in small: one shared queue, and one queue per worker that only its owner takes from.
struct World {
    parking: Parking,
    shared: AtomicUsize,
    own: Vec<AtomicUsize>,
    left: AtomicUsize,
    ended: AtomicBool,
    /// Tasks end only when this many run at once, if it is not 0.
    meeting: usize,
    met: Mutex<usize>,
    all_met: Condvar,
}

impl World {
    fn new(workers: usize, tasks: usize) -> Arc<Self> {
        Self::with_meeting(workers, tasks, 0)
    }

    fn with_meeting(workers: usize, tasks: usize, meeting: usize) -> Arc<Self> {
        Arc::new(Self {
            meeting,
            met: Mutex::new(0),
            all_met: Condvar::new(),
            parking: Parking::new(workers),
            shared: AtomicUsize::new(0),
            own: (0..workers).map(|_| AtomicUsize::new(0)).collect(),
            left: AtomicUsize::new(tasks),
            ended: AtomicBool::new(false),
        })
    }

    fn submit(&self) {
        self.shared.fetch_add(1, Ordering::Release);
        self.parking.notify(None);
    }

    fn submit_to(&self, worker: usize) {
        self.own[worker].fetch_add(1, Ordering::Release);
        self.parking.notify_worker(worker);
    }

    fn take(&self, worker: usize) -> bool {
        let take = |queue: &AtomicUsize| {
            queue.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |n| n.checked_sub(1)).is_ok()
        };
        take(&self.own[worker]) || take(&self.shared)
    }

    fn run_task(&self) {
        let mut met = self.met.lock().unwrap();
        *met += 1;
        self.all_met.notify_all();
        while *met < self.meeting {
            met = self.all_met.wait(met).unwrap();
        }
    }

    /// What a worker does, without the spinning: takes, runs, searches, sleeps.
    fn work(&self, worker: usize) {
        self.parking.register(worker);
        let mut searching = false;
        loop {
            if self.ended.load(Ordering::Acquire) {
                return;
            }
            if self.take(worker) {
                if searching && self.parking.end_search() && self.shared.load(Ordering::Relaxed) > 0
                {
                    self.parking.notify(None);
                }
                searching = false;
                self.run_task();
                if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
                    self.ended.store(true, Ordering::Release);
                    self.parking.wake_all();
                }
                continue;
            }
            searching = searching || self.parking.begin_search(1);
            self.parking.sleep(worker, searching, |_| {
                self.shared.load(Ordering::Relaxed) > 0
                    || self.own[worker].load(Ordering::Relaxed) > 0
                    || self.ended.load(Ordering::Relaxed)
            });
            searching = true;
        }
    }
}

const WORKER_0: fn(&World) = |world| world.work(0);
const WORKER_1: fn(&World) = |world| world.work(1);

/// Tries every order of steps, up to this many preemptions, of these threads and of what is done `here` beside them.
fn explore(
    preemptions: usize,
    world: fn() -> Arc<World>,
    threads: &'static [fn(&World)],
    here: fn(&World),
) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(move || {
        let world = world();
        let start = |run: &'static fn(&World)| {
            let world = Arc::clone(&world);
            thread::spawn(move || run(&world))
        };
        let threads: Vec<_> = threads.iter().map(start).collect();
        here(&world);
        for thread in threads {
            thread.join().unwrap();
        }
    });
}

fn submit_two(world: &World) {
    world.submit();
    world.submit();
}

#[test]
fn one_worker_and_one_submitter_lose_no_wake_up() {
    explore(4, || World::new(1, 2), &[WORKER_0], submit_two);
}

#[test]
fn one_worker_and_two_submitters_lose_no_wake_up() {
    explore(3, || World::new(1, 2), &[WORKER_0, World::submit], World::submit);
}

#[test]
fn two_workers_and_one_submitter_lose_no_wake_up() {
    explore(2, || World::new(2, 2), &[WORKER_0, WORKER_1], submit_two);
}

#[test]
fn a_task_that_only_one_worker_may_take_wakes_that_one() {
    explore(
        2,
        || World::new(2, 2),
        &[WORKER_0, WORKER_1],
        |world| {
            world.submit_to(1);
            world.submit_to(0);
        },
    );
}

#[test]
fn a_wake_up_goes_on_like_a_chain() {
    explore(2, || World::with_meeting(2, 2, 2), &[WORKER_0, WORKER_1], submit_two);
}
