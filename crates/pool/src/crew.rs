//! The threads of a pool: starts them, lets them go, waits for them.
//!
//! A slot keeps the ends of a worker's queues while no thread runs there, so that thieves see the same queues whichever
//! thread serves them. A thread that is told to leave and wanted again before it has left stays. Does not decide how
//! many workers there should be.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{Builder, JoinHandle};

use crate::options::{Error, Start};
use crate::queues::Local;
use crate::shared::{Closing, Shared};
use crate::worker;

/// Who serves a slot.
pub(crate) struct Seat {
    /// The ends of the queues; none while a thread has them.
    local: Option<Local>,
    thread: Option<JoinHandle<()>>,
}

impl Seat {
    pub(crate) fn new(local: Local) -> Self {
        Self { local: Some(local), thread: None }
    }
}

impl Shared {
    /// Makes the pool larger or smaller.
    pub(crate) fn resize(self: &Arc<Self>, workers: usize) -> Result<(), Error> {
        let _one_at_a_time = lock(&self.resizing);
        self.resize_alone(workers)
    }

    fn resize_alone(self: &Arc<Self>, workers: usize) -> Result<(), Error> {
        if !(1..=self.slots.len()).contains(&workers) {
            let problem = format!("is {workers}; it must be 1 to {}", self.slots.len());
            return Err(Error::Option { field: "workers", problem });
        }
        for index in 0..workers {
            self.seat(index)?;
            self.active.fetch_max(index + 1, Ordering::SeqCst);
        }
        self.active.store(workers, Ordering::SeqCst);
        for slot in &self.used_slots()[workers..] {
            slot.wanted.store(false, Ordering::SeqCst);
            slot.attention.store(true, Ordering::SeqCst);
        }
        for index in workers..self.used_slots().len() {
            self.parking.notify_worker(index);
        }
        Ok(())
    }

    /// Makes sure that a thread serves a slot.
    fn seat(self: &Arc<Self>, index: usize) -> Result<(), Error> {
        let slot = &self.slots[index];
        let mut seat = lock(&slot.seat);
        slot.wanted.store(true, Ordering::SeqCst);
        let Some(local) = seat.local.take() else { return Ok(()) };
        let name = format!("{}-{index}", self.options.name);
        let mut builder = Builder::new().name(name.clone());
        if let Some(bytes) = self.options.stack_bytes {
            builder = builder.stack_size(bytes);
        }
        // The queues go through a cell, so that they come back if the system refuses the thread.
        let hand = Arc::new(Mutex::new(Some(local)));
        let (shared, given) = (Arc::clone(self), Arc::clone(&hand));
        self.alive.fetch_add(1, Ordering::SeqCst);
        self.used.fetch_max(index + 1, Ordering::SeqCst);
        // Like a sleeper that is woken: nobody else is called while this one is on its way.
        self.parking.begin_search(usize::MAX);
        let started = builder.spawn(move || {
            let local = lock(&given).take();
            serve(shared, index, local.expect("the thread is started once"));
        });
        match started {
            Ok(thread) => seat.thread = Some(thread),
            Err(source) => {
                self.alive.fetch_sub(1, Ordering::SeqCst);
                if self.parking.end_search() {
                    self.parking.notify(None);
                }
                slot.wanted.store(index < self.active.load(Ordering::SeqCst), Ordering::SeqCst);
                seat.local = lock(&hand).take();
                return Err(Error::Thread { name, source });
            }
        }
        Ok(())
    }

    /// Starts one more worker if there may be one: all are busy.
    #[cold]
    pub(crate) fn grow_on_demand(&self) {
        debug_assert_eq!(self.options.start, Start::OnDemand);
        let _one_at_a_time = lock(&self.resizing);
        let counts = self.parking.counts();
        if counts.searching + counts.sleeping > 0 {
            // Another caller was faster, and the worker that it started calls the next.
            return;
        }
        let active = self.active();
        // A drain grows too: the tasks that run may wait for those in the queues.
        if active < self.slots.len() && self.closing() != Closing::Ended {
            // A refused thread is no harm: the task waits for a worker that is there.
            let _ = self.itself.upgrade().map(|shared| shared.resize_alone(active + 1));
        }
    }

    /// Waits until all threads have ended. The own thread, if it is a worker, is not waited for.
    pub(crate) fn join_all(&self) {
        // A worker may have started another one before it ended.
        while let Some(thread) =
            self.used_slots().iter().find_map(|slot| lock(&slot.seat).thread.take())
        {
            if thread.thread().id() != std::thread::current().id() {
                // A worker contains panics; one that escapes would be a fault of the pool and was reported already.
                let _ = thread.join();
            }
        }
    }
}

/// The life of a thread.
fn serve(shared: Arc<Shared>, index: usize, mut local: Local) {
    loop {
        local = worker::run(Arc::clone(&shared), index, local);
        let slot = &shared.slots[index];
        let mut seat = lock(&slot.seat);
        let closed = shared.closing() == Closing::Ended;
        if !slot.wanted.load(Ordering::SeqCst) || closed {
            seat.local = Some(local);
            break;
        }
        shared.parking.begin_search(usize::MAX);
    }
    shared.alive.fetch_sub(1, Ordering::SeqCst);
    if shared.closing() != Closing::Open {
        // The others count who is there to find out that they are the last.
        shared.parking.wake_all();
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
