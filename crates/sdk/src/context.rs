//! What an attempt carries around: the task, its parents' results, the way to report, and the worker's state.
//!
//! Extractors read it; handlers do not see it. It does not know whether a worker or a test bench runs the attempt.

use std::any::{Any, TypeId, type_name};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use divvy_types::view::Upstream;
use divvy_types::{Payload, TaskSpec, Timestamp, Token, trace};

use crate::extract::Children;
use crate::failure::Failure;

/// One attempt, as extractors see it.
#[derive(Clone)]
pub struct Context {
    inner: Arc<Inner>,
}

struct Inner {
    attempt: divvy_worker::Attempt,
    surroundings: Surroundings,
    children: Arc<Children>,
}

impl Context {
    pub(crate) fn new(attempt: divvy_worker::Attempt, surroundings: Surroundings) -> Self {
        let children = Arc::new(Children::new(attempt.task.workflow.clone()));
        Self { inner: Arc::new(Inner { attempt, surroundings, children }) }
    }

    /// The task as it was submitted.
    pub fn spec(&self) -> &TaskSpec {
        &self.inner.attempt.task
    }

    /// The token of this attempt: greater than that of any earlier attempt of the task.
    pub fn token(&self) -> Token {
        self.inner.attempt.token
    }

    /// Where this attempt is in distributed tracing, as W3C trace context writes it: spans of a handler that take it for
    /// their parent stand in the trace of its workflow.
    pub fn traceparent(&self) -> String {
        trace::Context::of_attempt(self.spec(), self.token()).to_string()
    }

    /// Which attempt this is, from 1.
    pub fn attempt(&self) -> u32 {
        self.inner.attempt.attempt
    }

    /// Threads that it may use.
    pub fn threads(&self) -> u32 {
        self.inner.attempt.threads
    }

    /// How the tasks that this one waited for ended.
    pub fn upstream(&self) -> &[Upstream] {
        &self.inner.attempt.upstream
    }

    /// What an earlier attempt saved last; nothing if none did.
    pub fn resume_point(&self) -> Option<&Payload> {
        self.inner.attempt.resume_point.as_ref()
    }

    /// Saves data for a later attempt, in place of what was saved before.
    pub fn checkpoint(&self, data: Payload) -> Result<(), Failure> {
        self.inner.attempt.checkpoints().save(data).map_err(Failure::dead)
    }

    /// The state of this type that the worker was given.
    pub fn state<T: Clone + Send + Sync + 'static>(&self) -> Option<T> {
        self.inner.surroundings.states.get()
    }

    /// Whether there was more than can travel with a grant.
    pub(crate) fn upstream_cut(&self) -> bool {
        self.inner.attempt.upstream_cut
    }

    pub(crate) fn upstream_shared(&self) -> Arc<[Upstream]> {
        Arc::clone(&self.inner.attempt.upstream)
    }

    pub(crate) fn cancel(&self) -> divvy_worker::Cancel {
        self.inner.attempt.cancelled()
    }

    pub(crate) fn reporter(&self) -> divvy_worker::ProgressReporter {
        self.inner.attempt.progress()
    }

    pub(crate) fn children(&self) -> Arc<Children> {
        Arc::clone(&self.inner.children)
    }

    pub(crate) fn clock(&self) -> Clock {
        self.inner.surroundings.clock.clone()
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Context");
        out.field("id", &self.spec().id)
            .field("kind", &self.spec().kind)
            .field("attempt", &self.attempt());
        out.finish_non_exhaustive()
    }
}

/// What all attempts of one worker share.
#[derive(Clone, Default)]
pub(crate) struct Surroundings {
    pub(crate) states: Arc<States>,
    pub(crate) clock: Clock,
}

/// What time it is: for everybody, or on a test bench.
#[derive(Clone, Default)]
pub(crate) enum Clock {
    #[default]
    Wall,
    #[cfg_attr(
        not(feature = "testing"),
        expect(dead_code, reason = "only the test bench sets the time")
    )]
    Virtual(Arc<AtomicU64>),
}

impl Clock {
    pub(crate) fn now(&self) -> Timestamp {
        match self {
            Self::Wall => crate::task::clock(),
            Self::Virtual(micros) => Timestamp(micros.load(Ordering::Relaxed)),
        }
    }
}

/// The values that a worker shares with its handlers, one per type.
#[derive(Default)]
pub struct States {
    values: HashMap<TypeId, Box<dyn Any + Send + Sync>>,
}

impl States {
    /// Puts a value in; says whether its type was there already.
    pub(crate) fn insert<T: Clone + Send + Sync + 'static>(&mut self, value: T) -> bool {
        self.values.insert(TypeId::of::<T>(), Box::new(value)).is_some()
    }

    /// The value of this type.
    pub fn get<T: Clone + Send + Sync + 'static>(&self) -> Option<T> {
        self.values.get(&TypeId::of::<T>()).and_then(|value| value.downcast_ref::<T>()).cloned()
    }

    /// An error if there is no value of this type.
    pub fn require<T: Clone + Send + Sync + 'static>(&self) -> Result<(), MissingState> {
        if self.values.contains_key(&TypeId::of::<T>()) {
            Ok(())
        } else {
            Err(MissingState(type_name::<T>()))
        }
    }
}

impl fmt::Debug for States {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("States").field("count", &self.values.len()).finish()
    }
}

/// A handler asks for a `State` of a type that the worker does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("state of type `{0}` is missing; give it to the worker with .state(…)")]
pub struct MissingState(pub &'static str);
