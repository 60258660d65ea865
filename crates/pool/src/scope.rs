//! Tasks that borrow from the stack of whoever starts them.
//!
//! A scope does not return before all its tasks have ended, so what lives around it can be lent to them. A worker that
//! waits runs scoped tasks meanwhile: its own, the youngest first, then stolen ones. It takes nothing else: a foreign
//! task on top of the waiting one could hold it up for long.

#![allow(unsafe_code, reason = "the lifetime of a borrowing task is erased to queue it")]

use std::any::Any;
use std::fmt;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::Thread;

use crate::crew::lock;
use crate::handle::Contained;
use crate::options::Band;
use crate::shared::Shared;
use crate::task::Task;
use crate::worker;

/// How often a waiting worker looks for scoped tasks before it sleeps.
const WAIT_ROUNDS: u32 = 32;

/// The place to start scoped tasks; see [`crate::Pool::scope`].
pub struct Scope<'scope, 'env: 'scope> {
    shared: &'env Shared,
    state: Arc<State>,
    /// Neither lifetime may be shortened or lengthened by the compiler, as in `std::thread::Scope`.
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

struct State {
    /// Tasks that have not ended.
    open: AtomicUsize,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    owner: Thread,
    owner_is_worker: bool,
    /// Tasks that came from a thread which is no worker, while the owner is one: in a pool of one nobody else could
    /// run them.
    for_owner: Mutex<Vec<Task>>,
}

impl<'scope> Scope<'scope, '_> {
    /// Starts a task that may borrow whatever lives longer than the scope.
    pub fn spawn(&'scope self, run: impl FnOnce() + Send + 'scope) {
        self.state.open.fetch_add(1, Ordering::Relaxed);
        let scoped = Scoped { run, end: End(Arc::clone(&self.state)) };
        // SAFETY: the task borrows for `'scope`. It counts as open until `End` is dropped, which happens after the
        // closure ran or was dropped, and `scope` does not return, normally or by a panic, while a task is open.
        let task = unsafe { Task::erased(move || scoped.call()) };
        match worker::current_of(self.shared) {
            Some(context) => {
                context.local.stack.push(task);
                if self.shared.options.stealing {
                    self.shared.notify(None);
                }
            }
            None if self.state.owner_is_worker => {
                lock(&self.state.for_owner).push(task);
                self.state.owner.unpark();
            }
            None => self.shared.submit(Band::Normal, task),
        }
    }
}

impl fmt::Debug for Scope<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let open = self.state.open.load(Ordering::Relaxed);
        f.debug_struct("Scope").field("open", &open).finish_non_exhaustive()
    }
}

/// Runs `body`, waits for what it started, then returns or goes on with the first panic.
pub(crate) fn scope<'env, T>(
    shared: &'env Shared,
    body: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T,
) -> T {
    let state = Arc::new(State {
        open: AtomicUsize::new(0),
        panic: Mutex::new(None),
        owner: std::thread::current(),
        owner_is_worker: worker::current_of(shared).is_some(),
        for_owner: Mutex::new(Vec::new()),
    });
    let scope = Scope { shared, state, scope: PhantomData, env: PhantomData };
    let result = catch_unwind(AssertUnwindSafe(|| body(&scope)));
    let must_not_unwind = Abort;
    wait(shared, &scope.state);
    std::mem::forget(must_not_unwind);
    let thrown = lock(&scope.state.panic).take();
    match (result, thrown) {
        (Err(payload), _) | (Ok(_), Some(payload)) => resume_unwind(payload),
        (Ok(value), None) => value,
    }
}

/// Ends the process when it is dropped: tasks may still use what the stack frame below holds.
struct Abort;

impl Drop for Abort {
    fn drop(&mut self) {
        std::process::abort();
    }
}

/// Waits until no task is open.
fn wait(shared: &Shared, state: &State) {
    let context = worker::current_of(shared);
    let mut rounds = 0;
    while state.open.load(Ordering::Acquire) > 0 {
        let task = context.as_ref().and_then(|context| {
            let own = context.local.stack.pop().or_else(|| lock(&state.for_owner).pop());
            own.or_else(|| context.steal_scoped()).map(|task| context.run_task(task))
        });
        match task {
            Some(()) => rounds = 0,
            None if context.is_some() && rounds < WAIT_ROUNDS => {
                rounds += 1;
                std::hint::spin_loop();
            }
            None => std::thread::park(),
        }
    }
}

/// A scoped closure. It is dropped before the task counts as ended: fields drop in this order.
struct Scoped<F> {
    run: F,
    end: End,
}

impl<F: FnOnce()> Scoped<F> {
    fn call(self) {
        let Self { run, end } = self;
        let result = catch_unwind(AssertUnwindSafe(run));
        if let Err(payload) = result {
            lock(&end.0.panic).get_or_insert(payload);
            drop(end);
            resume_unwind(Box::new(Contained));
        }
    }
}

/// Counts a task as ended when dropped.
struct End(Arc<State>);

impl Drop for End {
    fn drop(&mut self) {
        if self.0.open.fetch_sub(1, Ordering::Release) == 1 {
            self.0.owner.unpark();
        }
    }
}
