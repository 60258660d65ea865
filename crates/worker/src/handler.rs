//! What a worker can run: kinds, their handlers, and the tier of each.
//!
//! Does not know slots or connections; [`crate::Worker`] decides when a handler runs.

use std::any::Any;
use std::collections::BTreeMap;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;

use divvy_types::limits::KIND_LEN_MAX;
use divvy_types::spec::check_name;
use divvy_types::{AttemptOutcome, ErrorClass, Failure, FailureVerdict, Name, TaskError};
use futures_util::FutureExt as _;

use crate::{Attempt, Error, Tier};

/// A future on the heap.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Runs attempts as futures, on the async or the process tier.
pub trait Handler: Send + Sync + 'static {
    /// One attempt. The future is dropped when the attempt was asked to stop and did not within the grace time.
    fn run(&self, attempt: Attempt) -> BoxFuture<'static, AttemptOutcome>;
}

/// Runs attempts on a thread, on the blocking or the cpu tier.
pub trait BlockingHandler: Send + Sync + 'static {
    /// One attempt. A thread cannot be ended from outside: long work looks at [`Attempt::cancelled`] now and then.
    fn run(&self, attempt: Attempt) -> AttemptOutcome;
}

impl<F, R> Handler for F
where
    F: Fn(Attempt) -> R + Send + Sync + 'static,
    R: Future<Output = AttemptOutcome> + Send + 'static,
{
    fn run(&self, attempt: Attempt) -> BoxFuture<'static, AttemptOutcome> {
        Box::pin(self(attempt))
    }
}

impl<F> BlockingHandler for F
where
    F: Fn(Attempt) -> AttemptOutcome + Send + Sync + 'static,
{
    fn run(&self, attempt: Attempt) -> AttemptOutcome {
        self(attempt)
    }
}

/// The kinds that a worker serves.
#[derive(Clone, Default)]
pub struct Registry {
    kinds: BTreeMap<Name, Entry>,
    /// The first kind that was registered twice; told when the worker is made.
    taken: Option<Name>,
}

#[derive(Clone)]
pub(crate) struct Entry {
    pub(crate) tier: Tier,
    pub(crate) code: Code,
}

#[derive(Clone)]
pub(crate) enum Code {
    Future(Arc<dyn Handler>),
    Thread(Arc<dyn BlockingHandler>),
}

impl Registry {
    /// No kinds yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Serves a kind on the async tier.
    pub fn on(&mut self, kind: impl Into<Name>, handler: Arc<dyn Handler>) -> &mut Self {
        self.insert(kind.into(), Tier::Async, Code::Future(handler))
    }

    /// Serves a kind on the process tier: async code that drives a child process.
    pub fn on_process(&mut self, kind: impl Into<Name>, handler: Arc<dyn Handler>) -> &mut Self {
        self.insert(kind.into(), Tier::Process, Code::Future(handler))
    }

    /// Serves a kind on the blocking tier.
    pub fn on_blocking(
        &mut self,
        kind: impl Into<Name>,
        handler: Arc<dyn BlockingHandler>,
    ) -> &mut Self {
        self.insert(kind.into(), Tier::Blocking, Code::Thread(handler))
    }

    /// Serves a kind on the cpu tier.
    pub fn on_cpu(
        &mut self,
        kind: impl Into<Name>,
        handler: Arc<dyn BlockingHandler>,
    ) -> &mut Self {
        self.insert(kind.into(), Tier::Cpu, Code::Thread(handler))
    }

    /// Serves what `other` serves too.
    pub fn merge(&mut self, other: Self) -> &mut Self {
        if let Some(kind) = other.taken {
            self.taken.get_or_insert(kind);
        }
        for (kind, entry) in other.kinds {
            self.insert(kind, entry.tier, entry.code);
        }
        self
    }

    /// Serves only these of its kinds from now on. Those of the list that it does not serve are returned.
    pub fn keep_only(&mut self, kinds: &[Name]) -> Vec<Name> {
        let unknown =
            kinds.iter().filter(|kind| !self.kinds.contains_key(*kind)).cloned().collect();
        self.kinds.retain(|kind, _| kinds.contains(kind));
        unknown
    }

    /// The kinds, in order.
    pub fn kinds(&self) -> impl ExactSizeIterator<Item = &Name> {
        self.kinds.keys()
    }

    /// The tier that a kind runs on, if it is served.
    pub fn tier(&self, kind: &str) -> Option<Tier> {
        self.kinds.get(kind).map(|entry| entry.tier)
    }

    /// Runs one attempt here and now, without slots, time-outs or a server; panics are contained. Blocking handlers
    /// run on a thread of the runtime's blocking pool. For tests and in-memory benches.
    pub async fn execute(&self, attempt: Attempt) -> AttemptOutcome {
        match self.kinds.get(&attempt.task.kind).map(|entry| entry.code.clone()) {
            None => no_handler(&attempt.task.kind),
            Some(Code::Future(handler)) => start_future(&*handler, attempt).await,
            Some(Code::Thread(handler)) => {
                let thread = tokio::task::spawn_blocking(move || run_on_thread(&*handler, attempt));
                thread.await.unwrap_or_else(|_| crashed(&"the runtime stopped"))
            }
        }
    }

    pub(crate) fn get(&self, kind: &str) -> Option<&Entry> {
        self.kinds.get(kind)
    }

    pub(crate) fn uses(&self, tier: Tier) -> bool {
        self.kinds.values().any(|entry| entry.tier == tier)
    }

    pub(crate) fn validate(&self) -> Result<(), Error> {
        if let Some(kind) = &self.taken {
            return Err(Error::KindTaken { kind: kind.to_string() });
        }
        for kind in self.kinds.keys() {
            check_name("kind", kind, KIND_LEN_MAX)
                .map_err(|e| Error::option("kinds", format!("hold a bad {e}")))?;
        }
        if self.kinds.is_empty() { Err(Error::NoHandlers) } else { Ok(()) }
    }

    fn insert(&mut self, kind: Name, tier: Tier, code: Code) -> &mut Self {
        if self.kinds.insert(kind.clone(), Entry { tier, code }).is_some() {
            self.taken.get_or_insert(kind);
        }
        self
    }
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map().entries(self.kinds.iter().map(|(kind, entry)| (kind, entry.tier))).finish()
    }
}

/// The handler's future with panics contained, those of making it too.
pub(crate) fn start_future(
    handler: &dyn Handler,
    attempt: Attempt,
) -> impl Future<Output = AttemptOutcome> + Send + Unpin + use<> {
    let future = catch_unwind(AssertUnwindSafe(|| handler.run(attempt)))
        .unwrap_or_else(|panic| Box::pin(std::future::ready(crashed(&*panic))));
    AssertUnwindSafe(future).catch_unwind().map(|end| end.unwrap_or_else(|panic| crashed(&*panic)))
}

/// Runs a blocking handler with panics contained.
pub(crate) fn run_on_thread(handler: &dyn BlockingHandler, attempt: Attempt) -> AttemptOutcome {
    catch_unwind(AssertUnwindSafe(|| handler.run(attempt))).unwrap_or_else(|panic| crashed(&*panic))
}

/// The end of an attempt whose kind this worker does not serve.
pub(crate) fn no_handler(kind: &str) -> AttemptOutcome {
    failed(
        ErrorClass::Failed,
        FailureVerdict::Retry,
        format!("this worker has no handler for kind `{kind}`"),
    )
}

/// The end of an attempt that failed.
pub(crate) fn failed(
    class: ErrorClass,
    verdict: FailureVerdict,
    message: impl AsRef<str>,
) -> AttemptOutcome {
    AttemptOutcome::Failed(Failure { verdict, error: TaskError::new(class, message) })
}

fn crashed(panic: &(dyn Any + Send)) -> AttemptOutcome {
    let text = panic.downcast_ref::<&str>().copied();
    let text =
        text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message");
    failed(ErrorClass::Crashed, FailureVerdict::Retry, format!("panicked: {text}"))
}
