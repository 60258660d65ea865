//! Handlers: plain functions whose first argument is the task and whose others are extractors.
//!
//! Decides how a function becomes something that takes an attempt and gives its end. Which tier runs it is decided by
//! the registration, not here. A payload or a result that cannot be is dead at once: no retry would change it.

use std::sync::Arc;

use divvy_types::limits::{JSON_DEPTH_MAX, RESULT_BYTES_MAX};
use divvy_types::{AttemptOutcome, Payload};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use crate::context::{Context, MissingState, States};
use crate::extract::Extract;
use crate::failure::{Failure, Outcome};
use crate::task::Task;

/// An async function that runs tasks of one type: `async fn(MyTask, extractors…) -> Outcome<MyTask::Output>`.
///
/// `Arguments` only tells functions of different shape apart; the compiler finds it.
#[diagnostic::on_unimplemented(
    message = "this is not an async handler",
    label = "expected `async fn(task, up to four extractors) -> Outcome<Task::Output>`",
    note = "the first argument must implement divvy::Task and the output must be that task's Output",
    note = "the others must be extractors: State<T>, Cancel, Progress, Log, Checkpoint<T>, Upstream<T>, Upstreams<T>, \
            Parents, Attempt, Spawner",
    note = "the future must be Send; a synchronous function goes to on_blocking or on_cpu"
)]
pub trait AsyncHandler<Arguments>: Send + Sync + 'static {
    /// What it runs.
    type Task: Task;

    /// Whether the worker has all that it asks for.
    #[doc(hidden)]
    fn check(states: &States) -> Result<(), MissingState>;

    /// Begins an attempt.
    #[doc(hidden)]
    fn start(
        &self,
        context: &Context,
    ) -> Outcome<BoxFuture<'static, Outcome<<Self::Task as Task>::Output>>>;
}

/// A synchronous function that runs tasks of one type: `fn(MyTask, extractors…) -> Outcome<MyTask::Output>`.
///
/// `Arguments` only tells functions of different shape apart; the compiler finds it.
#[diagnostic::on_unimplemented(
    message = "this is not a synchronous handler",
    label = "expected `fn(task, up to four extractors) -> Outcome<Task::Output>`",
    note = "the first argument must implement divvy::Task and the output must be that task's Output",
    note = "the others must be extractors: State<T>, Cancel, Progress, Log, Checkpoint<T>, Upstream<T>, Upstreams<T>, \
            Parents, Attempt, Spawner",
    note = "an async function goes to on"
)]
pub trait SyncHandler<Arguments>: Send + Sync + 'static {
    /// What it runs.
    type Task: Task;

    /// Whether the worker has all that it asks for.
    #[doc(hidden)]
    fn check(states: &States) -> Result<(), MissingState>;

    /// Runs an attempt.
    #[doc(hidden)]
    fn run(&self, context: &Context) -> Outcome<<Self::Task as Task>::Output>;
}

macro_rules! handlers {
    ($($extractor:ident),*) => {
        impl<Function, Running, Taken, Problem, $($extractor,)*> AsyncHandler<(Taken, $($extractor,)*)> for Function
        where
            Function: Fn(Taken, $($extractor),*) -> Running + Send + Sync + 'static,
            Running: Future<Output = Result<Taken::Output, Problem>> + Send + 'static,
            Taken: Task,
            Problem: Into<Failure>,
            $($extractor: Extract,)*
        {
            type Task = Taken;

            fn check(_states: &States) -> Result<(), MissingState> {
                $(<$extractor as Extract>::check(_states)?;)*
                Ok(())
            }

            fn start(&self, context: &Context) -> Outcome<BoxFuture<'static, Outcome<Taken::Output>>> {
                let running = self(decode(context)?, $(<$extractor as Extract>::extract(context)?),*);
                Ok(async move { running.await.map_err(Into::into) }.boxed())
            }
        }

        impl<Function, Taken, Problem, $($extractor,)*> SyncHandler<(Taken, $($extractor,)*)> for Function
        where
            Function: Fn(Taken, $($extractor),*) -> Result<Taken::Output, Problem> + Send + Sync + 'static,
            Taken: Task,
            Problem: Into<Failure>,
            $($extractor: Extract,)*
        {
            type Task = Taken;

            fn check(_states: &States) -> Result<(), MissingState> {
                $(<$extractor as Extract>::check(_states)?;)*
                Ok(())
            }

            fn run(&self, context: &Context) -> Outcome<Taken::Output> {
                self(decode(context)?, $(<$extractor as Extract>::extract(context)?),*).map_err(Into::into)
            }
        }
    };
}
handlers!();
handlers!(First);
handlers!(First, Second);
handlers!(First, Second, Third);
handlers!(First, Second, Third, Fourth);

/// A handler with its types forgotten.
#[derive(Clone)]
pub(crate) struct Registration {
    pub(crate) kind: &'static str,
    pub(crate) check: fn(&States) -> Result<(), MissingState>,
    pub(crate) code: Code,
}

/// The function, by the tier that it runs on.
#[derive(Clone)]
pub(crate) enum Code {
    Async(AsyncCode),
    Process(AsyncCode),
    Blocking(SyncCode),
    Cpu(SyncCode),
}

pub(crate) type AsyncCode =
    Arc<dyn Fn(Context) -> BoxFuture<'static, AttemptOutcome> + Send + Sync>;

pub(crate) type SyncCode = Arc<dyn Fn(Context) -> AttemptOutcome + Send + Sync>;

impl Registration {
    pub(crate) fn asynchronous<Arguments, H: AsyncHandler<Arguments>>(handler: H) -> Self {
        Self::future(handler, Code::Async)
    }

    pub(crate) fn process<Arguments, H: AsyncHandler<Arguments>>(handler: H) -> Self {
        Self::future(handler, Code::Process)
    }

    fn future<Arguments, H: AsyncHandler<Arguments>>(
        handler: H,
        tier: fn(AsyncCode) -> Code,
    ) -> Self {
        let run = move |context: Context| -> BoxFuture<'static, AttemptOutcome> {
            match handler.start(&context) {
                Ok(running) => async move { finish::<H::Task>(&context, running.await) }.boxed(),
                Err(failure) => std::future::ready(failure.into_outcome()).boxed(),
            }
        };
        Self { kind: <H::Task as Task>::KIND, check: H::check, code: tier(Arc::new(run)) }
    }

    pub(crate) fn blocking<Arguments, H: SyncHandler<Arguments>>(handler: H) -> Self {
        Self {
            kind: <H::Task as Task>::KIND,
            check: H::check,
            code: Code::Blocking(sync_code(handler)),
        }
    }

    pub(crate) fn cpu<Arguments, H: SyncHandler<Arguments>>(handler: H) -> Self {
        Self { kind: <H::Task as Task>::KIND, check: H::check, code: Code::Cpu(sync_code(handler)) }
    }
}

fn sync_code<Arguments, H: SyncHandler<Arguments>>(handler: H) -> SyncCode {
    Arc::new(move |context| {
        let outcome = handler.run(&context);
        finish::<H::Task>(&context, outcome)
    })
}

fn decode<T: Task>(context: &Context) -> Outcome<T> {
    context.spec().payload.parse().map_err(|error| {
        Failure::dead(format_args!(
            "the payload is not what a task of kind `{}` has: {error}",
            T::KIND
        ))
    })
}

fn finish<T: Task>(context: &Context, outcome: Outcome<T::Output>) -> AttemptOutcome {
    conclude(context, T::KIND, outcome.map(|output| serde_json::to_vec(&output)))
}

/// What is left to do with a result that is JSON already: compiled once, not for every kind.
fn conclude(
    context: &Context,
    kind: &str,
    outcome: Outcome<serde_json::Result<Vec<u8>>>,
) -> AttemptOutcome {
    let finished = outcome.and_then(|data| Ok((encode(kind, data)?, context.children().take()?)));
    match finished {
        Ok((result, spawned)) => AttemptOutcome::Finished { result, spawned },
        Err(failure) => failure.into_outcome(),
    }
}

fn encode(kind: &str, data: serde_json::Result<Vec<u8>>) -> Outcome<Payload> {
    let refused =
        |problem: String| Failure::dead(format_args!("the result of kind `{kind}` {problem}"));
    let data = data.map_err(|error| refused(format!("cannot be written as JSON: {error}")))?;
    if data.len() > RESULT_BYTES_MAX {
        let bytes = data.len();
        let cure = "put the data into a file or an object store and return where it is";
        return Err(refused(format!("has {bytes} bytes, at most {RESULT_BYTES_MAX}; {cure}")));
    }
    // Shorter text cannot be nested too deep, and serde_json writes nothing but JSON.
    if data.len() <= JSON_DEPTH_MAX {
        return Ok(Payload::trusted("", data.into()));
    }
    Payload::json(data).map_err(|error| refused(error.to_string()))
}
