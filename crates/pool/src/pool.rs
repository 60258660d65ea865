//! The pool itself: submits, runs, resizes, ends.
//!
//! A pool is shared by reference or in an `Arc`. It ends when it is dropped or by [`Pool::shutdown`]; both need it
//! whole, so nobody can submit to a pool that ends, except its own tasks, which a drain still runs.

use std::fmt;
use std::sync::Arc;

use crate::adaptive::Monitor;
use crate::handle::{self, Handle};
use crate::options::{Band, Error, Options, Start};
use crate::place::{self, Place};
use crate::queues::Entry;
use crate::scope::{self, Scope};
use crate::shared::{BATCH_MAX, Closing, Shared};
use crate::stats::{Load, Stats};
use crate::task::Task;
use crate::worker;

/// To whom a task goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum To {
    /// To whomever the placement of the pool picks; from inside a task to the own worker.
    #[default]
    Anyone,
    /// To the worker of this index; counted round if there are fewer.
    Worker(usize),
    /// To the worker of this key. Equal keys go to the same worker while the number of workers does not change, and
    /// few keys move when it does.
    Key(u64),
}

/// The way of a task: how urgent, to whom.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Route {
    /// How urgent.
    pub band: Band,
    /// To whom.
    pub to: To,
}

/// How a pool ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shutdown {
    /// Runs everything that waits, and what that submits.
    Drain,
    /// Finishes the tasks that run and hands the others back.
    Now,
}

/// What is left of a pool.
#[derive(Debug)]
pub struct Report {
    /// What the workers did, exactly.
    pub stats: Stats,
    /// Tasks that did not run. Run them elsewhere, or drop them: handles of dropped tasks say `Cancelled`.
    pub left: Vec<Task>,
}

/// Threads that run tasks and take them from each other.
pub struct Pool {
    shared: Arc<Shared>,
    monitor: Option<Monitor>,
}

impl Pool {
    /// Starts the threads.
    pub fn new(options: Options) -> Result<Self, Error> {
        options.check()?;
        let workers = match options.start {
            Start::AtOnce => options.workers,
            Start::OnDemand => 1,
        };
        let adaptive = options.adaptive.clone();
        let shared = Arc::new_cyclic(|itself| Shared::new(options, itself.clone()));
        let mut pool = Self { shared, monitor: None };
        pool.shared.resize(workers)?;
        if let Some(settings) = adaptive {
            pool.monitor = Some(Monitor::start(&pool.shared, settings)?);
        }
        Ok(pool)
    }

    /// Runs a closure on some worker.
    #[inline]
    pub fn submit(&self, run: impl FnOnce() + Send + 'static) {
        self.shared.submit(Band::Normal, Task::new(run));
    }

    /// Runs a closure before everything of the normal band.
    pub fn submit_high(&self, run: impl FnOnce() + Send + 'static) {
        self.shared.submit(Band::High, Task::new(run));
    }

    /// Runs a closure on the worker of this index, unless another steals it.
    #[inline]
    pub fn submit_to(&self, worker: usize, run: impl FnOnce() + Send + 'static) {
        let worker = worker % self.shared.active();
        self.shared.submit_to(worker, Band::Normal, Task::new(run));
    }

    /// Runs a closure on the worker of this key, unless another steals it.
    #[inline]
    pub fn submit_keyed(&self, key: u64, run: impl FnOnce() + Send + 'static) {
        self.submit_task(Route { to: To::Key(key), ..Route::default() }, Task::new(run));
    }

    /// Runs a closure by the given route.
    pub fn submit_routed(&self, route: Route, run: impl FnOnce() + Send + 'static) {
        self.submit_task(route, Task::new(run));
    }

    /// Runs a task that exists already, such as one that another pool handed back.
    pub fn submit_task(&self, route: Route, task: Task) {
        match self.resolve(route.to) {
            None => self.shared.submit(route.band, task),
            Some(worker) => self.shared.submit_to(worker, route.band, task),
        }
    }

    /// Runs many closures. They are placed in chunks, one per worker where the number allows, and at most one worker
    /// is woken by this call; it wakes the next.
    pub fn submit_many<F>(&self, tasks: impl IntoIterator<Item = F>)
    where
        F: FnOnce() + Send + 'static,
    {
        let tasks = tasks.into_iter();
        let workers = self.shared.active();
        let chunk = match tasks.size_hint().0 {
            0 => BATCH_MAX,
            count => count.div_ceil(workers).min(BATCH_MAX),
        };
        if worker::is_worker_of(&self.shared) {
            tasks.for_each(|task| worker::push_here(Task::new(task)));
            return self.shared.pushed_here();
        }
        let stealable = self.shared.stealable[Band::Normal as usize];
        let mut to_wake = None;
        each_chunk(tasks, chunk, |chunk| match self.shared.placer.place(&self.shared) {
            Place::Shared => {
                self.shared.inbox[Band::Normal as usize].push_many(chunk);
                to_wake = Some(None);
            }
            Place::Worker(worker) => {
                self.shared.put_many(worker, chunk);
                if stealable {
                    to_wake = Some(Some(worker));
                } else {
                    self.shared.notify_of(worker, Band::Normal);
                }
            }
        });
        if let Some(preferred) = to_wake {
            self.shared.notify(preferred);
        }
    }

    /// Runs many closures on the worker of this index, unless others steal them.
    pub fn submit_many_to<F>(&self, worker: usize, tasks: impl IntoIterator<Item = F>)
    where
        F: FnOnce() + Send + 'static,
    {
        let worker = worker % self.shared.active();
        let mut any = false;
        each_chunk(tasks.into_iter(), BATCH_MAX, |chunk| {
            self.shared.put_many(worker, chunk);
            any = true;
        });
        if any {
            self.shared.notify_of(worker, Band::Normal);
        }
    }

    /// Runs a closure on some worker and hands its value back.
    pub fn run<T, F>(&self, run: F) -> Handle<T>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        self.run_routed(Route::default(), run)
    }

    /// Runs a closure by the given route and hands its value back.
    pub fn run_routed<T, F>(&self, route: Route, run: F) -> Handle<T>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let worker = self.resolve(route.to);
        let pinned = worker.filter(|_| !self.shared.stealable[route.band as usize]);
        let (task, handle) = handle::pair(Some(&self.shared), pinned, run);
        let to = worker.map_or(To::Anyone, To::Worker);
        self.submit_task(Route { band: route.band, to }, task);
        handle
    }

    /// Runs tasks that may borrow from the caller, and returns when all of them have ended.
    ///
    /// A caller that is a worker runs scoped tasks while it waits. If a task panics, the others still run, and then
    /// the first panic goes on in the caller. A scoped task must not wait for a [`Handle`] of a task that itself waits
    /// for a scope: it may run on top of that very task.
    pub fn scope<'env, T>(
        &'env self,
        body: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T,
    ) -> T {
        scope::scope(&self.shared, body)
    }

    /// Runs two closures, at the same time if another worker is free, and returns both values.
    pub fn join<A: Send, B: Send>(
        &self,
        first: impl FnOnce() -> A + Send,
        second: impl FnOnce() -> B + Send,
    ) -> (A, B) {
        let mut second_value = None;
        let first_value = self.scope(|scope| {
            scope.spawn(|| second_value = Some(second()));
            first()
        });
        (first_value, second_value.expect("a scope ends when its tasks have ended, or panics"))
    }

    /// How many workers there should be.
    pub fn workers(&self) -> usize {
        self.shared.active()
    }

    /// Changes the number of workers. Workers that leave finish their task and hand their queues on; new ones start
    /// at once. Fails above `workers_max`, for 0, or if the system refuses a thread.
    pub fn resize(&self, workers: usize) -> Result<(), Error> {
        self.shared.resize(workers)
    }

    /// What the workers did so far.
    pub fn stats(&self) -> Stats {
        self.shared.stats()
    }

    /// What waits and who works at this moment.
    pub fn load(&self) -> Load {
        self.shared.load()
    }

    /// The index of the worker that this thread is, if it is one of this pool.
    pub fn current_worker(&self) -> Option<usize> {
        worker::current_of(&self.shared).map(|context| context.index)
    }

    /// Ends the pool and waits for its threads. Called by a task of the pool itself it does not wait, and the report
    /// is a snapshot without tasks.
    pub fn shutdown(mut self, how: Shutdown) -> Report {
        let left = self.end(how);
        Report { stats: self.shared.stats(), left }
    }

    fn end(&mut self, how: Shutdown) -> Vec<Task> {
        // The monitor is gone before the threads are, so that it starts none of them again.
        drop(self.monitor.take());
        self.shared.close(match how {
            Shutdown::Drain => Closing::Drain,
            Shutdown::Now => Closing::Ended,
        });
        if worker::current_of(&self.shared).is_some() {
            return Vec::new();
        }
        self.shared.join_all();
        let mut left = Vec::new();
        let inboxes = self.shared.inbox.iter();
        let slots = self.shared.slots.iter();
        let own = slots.flat_map(|slot| Band::ALL.map(|band| slot.queues.inbox(band)));
        for inbox in inboxes.chain(own) {
            while let Some(entry) = inbox.take() {
                match entry {
                    Entry::One(task) => left.push(task),
                    Entry::Many(tasks) => left.extend(tasks),
                }
            }
        }
        left
    }

    fn resolve(&self, to: To) -> Option<usize> {
        let workers = self.shared.active();
        match to {
            To::Anyone => None,
            To::Worker(worker) => Some(worker % workers),
            To::Key(key) => Some(place::home_of(key, workers)),
        }
    }
}

impl Drop for Pool {
    /// Drains. Called by a task of the pool itself it does not wait.
    fn drop(&mut self) {
        if self.shared.closing() == Closing::Open {
            drop(self.end(Shutdown::Drain));
        }
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("options", &self.shared.options).finish_non_exhaustive()
    }
}

/// Calls `put` with chunks of tasks.
fn each_chunk<F>(tasks: impl Iterator<Item = F>, size: usize, mut put: impl FnMut(Vec<Task>))
where
    F: FnOnce() + Send + 'static,
{
    let mut chunk = Vec::new();
    for task in tasks {
        if chunk.capacity() == 0 {
            chunk.reserve_exact(size);
        }
        Task::push_new(&mut chunk, task);
        if chunk.len() == size {
            put(std::mem::take(&mut chunk));
        }
    }
    if !chunk.is_empty() {
        put(chunk);
    }
}

#[cfg(doctest)]
#[doc = include_str!("../../../docs/guides/pool.md")]
mod guide {}
