//! What a handler gets: the task, and the ways to say how far it is and to hear that it shall stop.
//!
//! Knows nothing of connections: progress and log text are noted here, and whoever sends heartbeats collects them.

use std::fmt;
use std::sync::{Arc, OnceLock};

use divvy_types::view::{Progress, Upstream};
use divvy_types::{
    AttemptOutcome, ErrorClass, Failure, FailureVerdict, Name, Payload, TaskError, TaskId,
    TaskSpec, Token,
};
use tokio_util::sync::CancellationToken;

use crate::checkpoint::Checkpointer;
use crate::notes::{Notes, Noticeboard};

/// One attempt at a task, handed to its handler.
#[derive(Debug)]
pub struct Attempt {
    /// The task: its id, kind, payload and the rest.
    pub task: TaskSpec,
    /// Fences this attempt; greater than that of any earlier attempt.
    pub token: Token,
    /// Which attempt this is, from 1.
    pub attempt: u32,
    /// Threads that it may use: its share of the tier's slots when it began, more than one when the server had too few
    /// tasks to fill them.
    pub threads: u32,
    /// How the dependencies ended.
    pub upstream: Arc<[Upstream]>,
    /// Whether there was more than can travel with a grant: rows or results of `upstream` are missing.
    pub upstream_cut: bool,
    /// What an earlier attempt saved last; nothing if none did.
    pub resume_point: Option<Payload>,
    pub(crate) context: Arc<Context>,
}

impl Attempt {
    /// An attempt without a worker around it, for tests of handlers, and the view from outside on it.
    pub fn detached(
        task: TaskSpec,
        token: Token,
        attempt: u32,
        upstream: Arc<[Upstream]>,
    ) -> (Self, AttemptProbe) {
        let context = Arc::new(Context::new(task.id, token, None));
        let probe = AttemptProbe { context: Arc::clone(&context) };
        let (upstream_cut, resume_point) = (false, None);
        let threads = 1;
        (
            Self { task, token, attempt, threads, upstream, upstream_cut, resume_point, context },
            probe,
        )
    }

    /// Tells how far the attempt is; cheap to clone and to call often.
    pub fn progress(&self) -> ProgressReporter {
        ProgressReporter { context: Arc::clone(&self.context) }
    }

    /// Adds a line to the attempt's log. The end of the log is kept.
    pub fn log(&self, line: &str) {
        self.context.log(line);
    }

    /// Saves data for a later attempt, should this one not finish the task.
    pub fn checkpoints(&self) -> Checkpointer {
        Checkpointer { context: Arc::clone(&self.context) }
    }

    /// Tells whether, and why, the attempt shall stop.
    pub fn cancelled(&self) -> Cancel {
        Cancel { context: Arc::clone(&self.context) }
    }
}

/// Tells how far an attempt is.
#[derive(Clone, Debug)]
pub struct ProgressReporter {
    context: Arc<Context>,
}

impl ProgressReporter {
    /// So many of so many units are done; a total of 0 means that it is not known.
    pub fn set(&self, done: u64, total: u64) {
        self.context.note(|notes| notes.set_progress(done, total));
    }

    /// What the attempt does at the moment.
    pub fn message(&self, text: &str) {
        self.context.note(|notes| notes.set_message(text));
    }

    /// Adds a line to the attempt's log.
    pub fn log(&self, line: &str) {
        self.context.log(line);
    }
}

/// Tells whether an attempt shall stop. A handler that watches this ends in its own way; one that does not is
/// dropped (async) or left behind (threads) after a grace time. What it returns after it was asked to stop does not
/// count any more.
#[derive(Clone, Debug)]
pub struct Cancel {
    context: Arc<Context>,
}

impl Cancel {
    /// Whether the attempt shall stop.
    pub fn is_cancelled(&self) -> bool {
        self.context.cancel.is_cancelled()
    }

    /// Waits until the attempt shall stop.
    pub async fn wait(&self) {
        self.context.cancel.cancelled().await;
    }

    /// Why it shall stop, once it shall.
    pub fn reason(&self) -> Option<CancelReason> {
        self.context.reason.get().cloned()
    }

    /// The same as a token of `tokio-util`, for code that takes one.
    pub fn token(&self) -> CancellationToken {
        self.context.cancel.child_token()
    }
}

/// Why an attempt shall stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CancelReason {
    /// The server said so, with these words: the task was cancelled, or the lease was lost.
    Stopped(Name),
    /// It took longer than the task's `timeout_ms`, which is this many milliseconds.
    TimedOut(u64),
    /// The worker stops; the task goes back to the server.
    WorkerStops,
    /// The server wants the task back, for another worker.
    Recalled,
}

impl fmt::Display for CancelReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stopped(reason) if reason.is_empty() => f.write_str("stopped by the server"),
            Self::Stopped(reason) => f.write_str(reason),
            Self::TimedOut(ms) => write!(f, "the attempt took longer than its timeout_ms of {ms}"),
            Self::WorkerStops => f.write_str("the worker stops"),
            Self::Recalled => f.write_str("the task moves to another worker"),
        }
    }
}

impl CancelReason {
    /// How an attempt ends that was stopped for this reason.
    pub(crate) fn outcome(&self) -> AttemptOutcome {
        let (class, verdict) = match self {
            Self::Stopped(_) => (ErrorClass::Cancelled, FailureVerdict::Cancelled),
            Self::TimedOut(_) => (ErrorClass::Timeout, FailureVerdict::Retry),
            Self::WorkerStops | Self::Recalled => return AttemptOutcome::Released,
        };
        AttemptOutcome::Failed(Failure { verdict, error: TaskError::new(class, self.to_string()) })
    }
}

/// The view from outside on an attempt made by [`Attempt::detached`].
#[derive(Clone, Debug)]
pub struct AttemptProbe {
    context: Arc<Context>,
}

impl AttemptProbe {
    /// Asks the attempt to stop. The first reason holds.
    pub fn cancel(&self, reason: CancelReason) {
        self.context.cancel(reason);
    }

    /// How far the attempt says it is.
    pub fn progress(&self) -> Progress {
        self.context.notes().progress()
    }

    /// The end of its log.
    pub fn log(&self) -> String {
        self.context.notes().log_tail().to_owned()
    }

    /// What it saved last.
    pub fn checkpoint(&self) -> Option<Payload> {
        self.context.notes().saved.data().cloned()
    }
}

/// What the worker and the handler share about one attempt.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) task: TaskId,
    pub(crate) token: Token,
    cancel: CancellationToken,
    reason: OnceLock<CancelReason>,
    notes: std::sync::Mutex<Notes>,
    /// Where changed notes are announced; nothing for a detached attempt.
    board: Option<Arc<Noticeboard>>,
}

impl Context {
    pub(crate) fn new(task: TaskId, token: Token, board: Option<Arc<Noticeboard>>) -> Self {
        Self {
            task,
            token,
            cancel: CancellationToken::new(),
            reason: OnceLock::new(),
            notes: std::sync::Mutex::default(),
            board,
        }
    }

    /// Asks the attempt to stop; says whether this was the first to ask.
    pub(crate) fn cancel(&self, reason: CancelReason) -> bool {
        let first = self.reason.set(reason).is_ok();
        self.cancel.cancel();
        first
    }

    pub(crate) fn reason(&self) -> Option<&CancelReason> {
        self.reason.get()
    }

    pub(crate) async fn cancelled(&self) {
        self.cancel.cancelled().await;
    }

    /// The notes; a handler that panicked while it wrote them leaves them usable.
    pub(crate) fn notes(&self) -> std::sync::MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn log(self: &Arc<Self>, line: &str) {
        self.note(|notes| notes.push_line(line));
    }

    pub(crate) fn note(self: &Arc<Self>, change: impl FnOnce(&mut Notes)) {
        let newly_dirty = {
            let mut notes = self.notes();
            change(&mut notes);
            notes.mark_dirty()
        };
        if newly_dirty && let Some(board) = &self.board {
            board.announce(Arc::clone(self));
        }
    }
}
