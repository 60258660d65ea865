//! The way back from a task: its value, or why there is none.
//!
//! The closure and its value share one allocation. Whoever claims the closure first runs it: the worker that takes the
//! task, or a worker that waits for the handle, so that a task may wait for a task it has just submitted, even in a
//! pool of one. Does not know queues.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread::Thread;

use crate::crew::lock;
use crate::shared::Shared;
use crate::task::Task;
use crate::worker;

/// Why a task has no value.
pub enum JoinError {
    /// The task panicked, with this payload.
    Panicked(Box<dyn Any + Send>),
    /// The task was dropped before it ran: the pool ended.
    Cancelled,
}

impl JoinError {
    /// The text of the panic, if it had one.
    pub fn panic_message(&self) -> Option<&str> {
        let Self::Panicked(payload) = self else { return None };
        let text = payload.downcast_ref::<&'static str>().copied();
        text.or_else(|| payload.downcast_ref::<String>().map(String::as_str))
    }
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self, self.panic_message()) {
            (Self::Cancelled, _) => {
                f.write_str("the task was dropped before it ran: its pool ended")
            }
            (Self::Panicked(_), Some(text)) => write!(f, "the task panicked: {text}"),
            (Self::Panicked(_), None) => f.write_str("the task panicked"),
        }
    }
}

impl fmt::Debug for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JoinError({self})")
    }
}

impl std::error::Error for JoinError {}

/// What is thrown on after a panic was put into its handle or scope: it only lets the worker count.
pub(crate) struct Contained;

/// A task's value to come. Wait with [`Handle::join`] or await it. Dropping it does not stop the task.
pub struct Handle<T> {
    promise: Arc<dyn Promise<T>>,
    /// The address of the pool, to know its workers by; none outside of pools.
    pool: Option<usize>,
    /// The one worker that may run it, if it must not run elsewhere.
    pinned: Option<usize>,
}

impl<T> Handle<T> {
    /// Waits for the value. A worker of the same pool that waits for a task which nobody has begun runs it itself,
    /// unless the task may run on another worker only.
    pub fn join(self) -> Result<T, JoinError> {
        if self.may_run_here() {
            self.promise.run_if_waiting();
        }
        loop {
            if let Some(result) = self.promise.take(&mut || Waiter::Thread(std::thread::current()))
            {
                return result;
            }
            std::thread::park();
        }
    }

    /// Whether the task has ended.
    pub fn is_finished(&self) -> bool {
        self.promise.is_done()
    }

    fn may_run_here(&self) -> bool {
        worker::current().is_some_and(|context| {
            Some(Arc::as_ptr(&context.shared).addr()) == self.pool
                && self.pinned.is_none_or(|worker| worker == context.index)
        })
    }
}

impl<T> Future for Handle<T> {
    type Output = Result<T, JoinError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let result = self.promise.take(&mut || Waiter::Waker(cx.waker().clone()));
        result.map_or(Poll::Pending, Poll::Ready)
    }
}

impl<T> fmt::Debug for Handle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").field("finished", &self.is_finished()).finish()
    }
}

/// Makes a task of a closure, and the handle of its value.
pub(crate) fn pair<T, F>(
    pool: Option<&Arc<Shared>>,
    pinned: Option<usize>,
    run: F,
) -> (Task, Handle<T>)
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    let packet =
        Arc::new(Packet { state: Mutex::new(State { stage: Stage::Waiting(run), waiter: None }) });
    let ticket = Ticket(Arc::clone(&packet));
    let task = Task::new(move || {
        if ticket.0.run() == Ran::Panicked {
            resume_unwind(Box::new(Contained));
        }
    });
    (task, Handle { promise: packet, pool: pool.map(|shared| Arc::as_ptr(shared).addr()), pinned })
}

enum Waiter {
    Thread(Thread),
    Waker(Waker),
}

enum Stage<T, F> {
    Waiting(F),
    Running,
    Done(Result<T, JoinError>),
    Taken,
}

struct State<T, F> {
    stage: Stage<T, F>,
    waiter: Option<Waiter>,
}

struct Packet<T, F> {
    state: Mutex<State<T, F>>,
}

#[derive(PartialEq)]
enum Ran {
    Finished,
    Panicked,
    Elsewhere,
}

impl<T: Send, F: FnOnce() -> T + Send> Packet<T, F> {
    fn run(&self) -> Ran {
        let Some(run) = self.claim() else { return Ran::Elsewhere };
        let result = catch_unwind(AssertUnwindSafe(run));
        let ran = if result.is_ok() { Ran::Finished } else { Ran::Panicked };
        self.finish(result.map_err(JoinError::Panicked));
        ran
    }

    fn claim(&self) -> Option<F> {
        let mut state = lock(&self.state);
        if !matches!(state.stage, Stage::Waiting(_)) {
            return None;
        }
        match std::mem::replace(&mut state.stage, Stage::Running) {
            Stage::Waiting(run) => Some(run),
            _ => unreachable!("it was waiting a moment ago, and the lock is held"),
        }
    }

    fn finish(&self, result: Result<T, JoinError>) {
        let waiter = {
            let mut state = lock(&self.state);
            state.stage = Stage::Done(result);
            state.waiter.take()
        };
        match waiter {
            Some(Waiter::Thread(thread)) => thread.unpark(),
            Some(Waiter::Waker(waker)) => waker.wake(),
            None => {}
        }
    }
}

/// What a handle sees of a packet.
trait Promise<T>: Send + Sync {
    fn run_if_waiting(&self);
    fn is_done(&self) -> bool;
    /// The result, once; without one, remembers whom to wake.
    fn take(&self, waiter: &mut dyn FnMut() -> Waiter) -> Option<Result<T, JoinError>>;
}

impl<T: Send, F: FnOnce() -> T + Send> Promise<T> for Packet<T, F> {
    fn run_if_waiting(&self) {
        self.run();
    }

    fn is_done(&self) -> bool {
        matches!(lock(&self.state).stage, Stage::Done(_) | Stage::Taken)
    }

    fn take(&self, waiter: &mut dyn FnMut() -> Waiter) -> Option<Result<T, JoinError>> {
        let mut state = lock(&self.state);
        match std::mem::replace(&mut state.stage, Stage::Taken) {
            Stage::Done(result) => Some(result),
            Stage::Taken => panic!("a handle was polled again after it had given its value"),
            earlier => {
                state.stage = earlier;
                state.waiter = Some(waiter());
                None
            }
        }
    }
}

/// Stands for the task in a queue: if it is dropped before the closure ran, the handle hears of it.
struct Ticket<T: Send, F: FnOnce() -> T + Send>(Arc<Packet<T, F>>);

impl<T: Send, F: FnOnce() -> T + Send> Drop for Ticket<T, F> {
    fn drop(&mut self) {
        if let Some(run) = self.0.claim() {
            drop(run);
            self.0.finish(Err(JoinError::Cancelled));
        }
    }
}
