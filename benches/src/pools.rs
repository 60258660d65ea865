//! Pools of threads under one interface, and the loads that they are given.

use std::fmt;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::Thread;

use divvy_pool::{Options, Pool};

/// Tasks per round.
pub const TASKS: usize = 20_000;

/// Workers of every contender.
const WORKERS: usize = 4;

/// Tasks per batch, for contenders that take batches.
const BATCH: usize = 64;

/// Turns of the loop that takes about a microsecond.
const MICROSECOND_TURNS: u32 = 1_000;

/// Of so many tasks, this many are for the first worker when the load is uneven.
const UNEVEN: (usize, usize) = (7, 10);

/// What a round submits.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    long: bool,
    uneven: bool,
}

/// Something that runs closures on threads.
pub trait Contender: Clone + Send + Sync + 'static {
    /// Starts it.
    fn new() -> Self;

    /// Submits from a thread outside: each closure with the worker that it is meant for.
    fn submit_all<F: FnOnce() + Send + 'static>(
        &self,
        tasks: impl Iterator<Item = (Option<usize>, F)>,
    );

    /// Submits from inside of a task.
    fn submit_inside(&self, task: impl FnOnce() + Send + 'static);
}

impl Load {
    /// Every load.
    pub const ALL: [Self; 4] = [
        Self { long: false, uneven: false },
        Self { long: false, uneven: true },
        Self { long: true, uneven: false },
        Self { long: true, uneven: true },
    ];

    /// One round from outside.
    pub fn from_outside(self, contender: &impl Contender) {
        let done = Done::after(TASKS);
        contender.submit_all((0..TASKS).map(|number| {
            let done = Arc::clone(&done);
            (self.worker_of(number), move || self.work(&done))
        }));
        done.wait();
    }

    /// One round from inside: one task per worker submits the others.
    pub fn from_inside(self, contender: &impl Contender) {
        let done = Done::after(TASKS);
        let shares: [usize; WORKERS] = if self.uneven {
            let rest = TASKS - TASKS * UNEVEN.0 / UNEVEN.1;
            std::array::from_fn(
                |worker| if worker == 0 { TASKS - rest } else { rest / (WORKERS - 1) },
            )
        } else {
            [TASKS / WORKERS; WORKERS]
        };
        let missing = TASKS - shares.iter().sum::<usize>();
        contender.submit_all((0..WORKERS).map(|worker| {
            let (done, inner) = (Arc::clone(&done), contender.clone());
            let share = shares[worker] + if worker == 0 { missing } else { 0 };
            let root = move || {
                for _ in 0..share {
                    let done = Arc::clone(&done);
                    inner.submit_inside(move || self.work(&done));
                }
            };
            (Some(worker), root)
        }));
        done.wait();
    }

    fn worker_of(self, number: usize) -> Option<usize> {
        if !self.uneven {
            return None;
        }
        Some(if number % UNEVEN.1 < UNEVEN.0 { 0 } else { 1 + number % (WORKERS - 1) })
    }

    fn work(self, done: &Done) {
        if self.long {
            let mut value = 1_u64;
            for turn in 0..MICROSECOND_TURNS {
                value = black_box(value.wrapping_mul(6_364_136_223_846_793_005) + u64::from(turn));
            }
        }
        done.one();
    }
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let length = if self.long { "microsecond" } else { "tiny" };
        write!(f, "{length} {}", if self.uneven { "uneven" } else { "even" })
    }
}

/// Counts tasks down and wakes the thread that waits for the last one.
struct Done {
    left: AtomicUsize,
    waiter: Thread,
}

impl Done {
    fn after(tasks: usize) -> Arc<Self> {
        Arc::new(Self { left: AtomicUsize::new(tasks), waiter: std::thread::current() })
    }

    fn one(&self) {
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.waiter.unpark();
        }
    }

    fn wait(&self) {
        while self.left.load(Ordering::Acquire) > 0 {
            std::thread::park();
        }
    }
}

/// Our pool, one submit per task.
#[derive(Clone)]
pub struct Divvy(Arc<Pool>);

impl Contender for Divvy {
    fn new() -> Self {
        Self(Arc::new(Pool::new(Options::with_workers(WORKERS)).expect("the pool starts")))
    }

    fn submit_all<F: FnOnce() + Send + 'static>(
        &self,
        tasks: impl Iterator<Item = (Option<usize>, F)>,
    ) {
        for (worker, task) in tasks {
            match worker {
                Some(worker) => self.0.submit_to(worker, task),
                None => self.0.submit(task),
            }
        }
    }

    fn submit_inside(&self, task: impl FnOnce() + Send + 'static) {
        self.0.submit(task);
    }
}

/// Our pool, in batches.
#[derive(Clone)]
pub struct DivvyBatch(Divvy);

impl Contender for DivvyBatch {
    fn new() -> Self {
        Self(Divvy::new())
    }

    fn submit_all<F: FnOnce() + Send + 'static>(
        &self,
        tasks: impl Iterator<Item = (Option<usize>, F)>,
    ) {
        let mut batches: [Vec<F>; WORKERS + 1] = std::array::from_fn(|_| Vec::new());
        let submit = |place: usize, batch: &mut Vec<F>| {
            let batch = std::mem::replace(batch, Vec::with_capacity(BATCH));
            match place {
                WORKERS => self.0.0.submit_many(batch),
                worker => self.0.0.submit_many_to(worker, batch),
            }
        };
        for (worker, task) in tasks {
            let place = worker.unwrap_or(WORKERS);
            batches[place].push(task);
            if batches[place].len() == BATCH {
                submit(place, &mut batches[place]);
            }
        }
        for (place, batch) in batches.iter_mut().enumerate() {
            if !batch.is_empty() {
                submit(place, batch);
            }
        }
    }

    fn submit_inside(&self, task: impl FnOnce() + Send + 'static) {
        self.0.submit_inside(task);
    }
}

/// Rayon's pool. It takes no addresses.
#[derive(Clone)]
pub struct Rayon(Arc<rayon::ThreadPool>);

impl Contender for Rayon {
    fn new() -> Self {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(WORKERS).build();
        Self(Arc::new(pool.expect("the pool starts")))
    }

    fn submit_all<F: FnOnce() + Send + 'static>(
        &self,
        tasks: impl Iterator<Item = (Option<usize>, F)>,
    ) {
        tasks.for_each(|(_, task)| self.0.spawn_fifo(task));
    }

    fn submit_inside(&self, task: impl FnOnce() + Send + 'static) {
        rayon::spawn_fifo(task);
    }
}

/// Tokio's runtime, with a future that does not wait. It takes no addresses.
#[derive(Clone)]
pub struct Tokio(Arc<tokio::runtime::Runtime>);

impl Contender for Tokio {
    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(WORKERS).build();
        Self(Arc::new(runtime.expect("the runtime starts")))
    }

    fn submit_all<F: FnOnce() + Send + 'static>(
        &self,
        tasks: impl Iterator<Item = (Option<usize>, F)>,
    ) {
        tasks.for_each(|(_, task)| drop(self.0.spawn(async move { task() })));
    }

    fn submit_inside(&self, task: impl FnOnce() + Send + 'static) {
        drop(tokio::spawn(async move { task() }));
    }
}

/// Threads that take boxed closures from one channel. It takes no addresses.
#[derive(Clone)]
pub struct Channel(crossbeam_channel::Sender<Box<dyn FnOnce() + Send>>);

impl Contender for Channel {
    fn new() -> Self {
        let (sender, receiver) = crossbeam_channel::unbounded::<Box<dyn FnOnce() + Send>>();
        for _ in 0..WORKERS {
            let receiver = receiver.clone();
            std::thread::spawn(move || receiver.iter().for_each(|task| task()));
        }
        Self(sender)
    }

    fn submit_all<F: FnOnce() + Send + 'static>(
        &self,
        tasks: impl Iterator<Item = (Option<usize>, F)>,
    ) {
        tasks.for_each(|(_, task)| self.submit_inside(task));
    }

    fn submit_inside(&self, task: impl FnOnce() + Send + 'static) {
        // The threads live as long as a sender does.
        let _ = self.0.send(Box::new(task));
    }
}
