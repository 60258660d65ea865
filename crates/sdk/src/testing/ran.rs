//! How a task on a bench stands, and assertions about it whose messages tell the whole story.

use std::fmt;

use divvy_store::TaskRecord;
use divvy_types::view::Progress;
use divvy_types::{Payload, TaskError, TaskId, TaskState};
use serde::de::DeserializeOwned;

/// How a task stands.
#[derive(Clone, Debug)]
pub struct Ran {
    pub(super) record: TaskRecord,
    pub(super) state: TaskState,
    pub(super) wait: Option<String>,
    pub(super) progress: Option<Progress>,
    pub(super) saved: Option<Payload>,
}

impl Ran {
    /// Its id.
    pub fn id(&self) -> TaskId {
        self.record.spec.id
    }

    /// Where it is.
    pub fn state(&self) -> TaskState {
        self.state
    }

    /// Attempts that counted so far.
    pub fn attempts(&self) -> u32 {
        self.record.counted
    }

    /// The error of the last attempt, or why it was cancelled.
    pub fn error(&self) -> Option<&TaskError> {
        let last = self.record.attempts.last().map(|attempt| &attempt.error);
        match &self.record.outcome {
            Some(outcome) => outcome.error.as_ref(),
            None => last,
        }
    }

    /// The log of the last attempt.
    pub fn log(&self) -> &str {
        let last = self.record.attempts.last().and_then(|attempt| attempt.log.as_deref());
        match &self.record.outcome {
            Some(outcome) => outcome.log.as_deref().unwrap_or_default(),
            None => last.unwrap_or_default(),
        }
    }

    /// How far the last attempt said that it was.
    pub fn progress(&self) -> Option<&Progress> {
        self.progress.as_ref()
    }

    /// What the last attempt saved with a checkpoint, if it saved anything.
    ///
    /// # Panics
    /// If it is no `T`.
    #[track_caller]
    pub fn checkpoint<T: DeserializeOwned>(&self) -> Option<T> {
        let parse = |saved: &Payload| match saved.parse() {
            Ok(value) => value,
            Err(error) => panic!("the checkpoint is not of that type: {error}\n{self}"),
        };
        self.saved.as_ref().map(parse)
    }

    /// Whether it has a deadline and ended after it. A task that has not ended is not late yet.
    pub fn is_late(&self) -> bool {
        let ended = self.record.outcome.as_ref().map(|outcome| outcome.at);
        matches!((self.record.spec.deadline, ended), (Some(due), Some(ended)) if ended > due)
    }

    /// What it returned.
    ///
    /// # Panics
    /// If it is not done, or returned something else.
    #[track_caller]
    pub fn output<O: DeserializeOwned>(&self) -> O {
        self.assert_done();
        let result =
            self.record.outcome.as_ref().map(|outcome| outcome.result.clone()).unwrap_or_default();
        result.parse().unwrap_or_else(|error| {
            panic!("the result is not of the expected type: {error}\n{self}")
        })
    }

    /// It finished.
    #[track_caller]
    pub fn assert_done(&self) -> &Self {
        self.assert_state(TaskState::Done)
    }

    /// It failed for good, with an error that contains `text`.
    #[track_caller]
    pub fn assert_dead(&self, text: &str) -> &Self {
        self.assert_state(TaskState::Dead).assert_error(text)
    }

    /// It was cancelled, for a reason that contains `text`.
    #[track_caller]
    pub fn assert_cancelled(&self, text: &str) -> &Self {
        self.assert_state(TaskState::Cancelled).assert_error(text)
    }

    /// Its last attempt failed and counted, and another will follow.
    #[track_caller]
    pub fn assert_retried(&self) -> &Self {
        let counted = self.record.attempts.last().is_some_and(|attempt| attempt.counted);
        assert!(self.is_waiting() && counted, "expected a retry to come\n{self}");
        self
    }

    /// Its last attempt asked to be called again later, and did not count.
    #[track_caller]
    pub fn assert_snoozed(&self) -> &Self {
        let snoozed = self.record.attempts.last().is_some_and(|attempt| !attempt.counted);
        assert!(self.is_waiting() && snoozed, "expected it to snooze\n{self}");
        self
    }

    /// It has not ended and does not run, for a reason that contains `text`.
    #[track_caller]
    pub fn assert_waiting(&self, text: &str) -> &Self {
        let wait = self.wait.as_deref().unwrap_or_default();
        assert!(
            self.is_waiting() && wait.contains(text),
            "expected it to wait because of `{text}`\n{self}"
        );
        self
    }

    fn is_waiting(&self) -> bool {
        !self.state.is_final() && self.state != TaskState::Leased
    }

    #[track_caller]
    fn assert_state(&self, state: TaskState) -> &Self {
        assert!(self.state == state, "expected a task that is {state}\n{self}");
        self
    }

    #[track_caller]
    fn assert_error(&self, text: &str) -> &Self {
        let message = self.error().map_or("", |error| error.message.as_str());
        assert!(message.contains(text), "expected an error with `{text}`\n{self}");
        self
    }
}

impl fmt::Display for Ran {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let spec = &self.record.spec;
        write!(f, "task {} of kind `{}` is {}", spec.id, spec.kind, self.state)?;
        if let Some(wait) = &self.wait {
            write!(f, ": {wait}")?;
        }
        for (index, attempt) in self.record.attempts.iter().enumerate() {
            write!(f, "\n  attempt {}: {}", index + 1, attempt.error)?;
        }
        if let Some(error) = self.record.outcome.as_ref().and_then(|outcome| outcome.error.as_ref())
        {
            write!(f, "\n  end: {error}")?;
        }
        Ok(())
    }
}
