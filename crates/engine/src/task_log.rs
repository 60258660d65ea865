//! The log of a task: what its attempts said, and what the running one says.
//!
//! Knows nothing of who reads it, or how often.

use divvy_types::view::Attempt;
use divvy_types::{TaskId, TaskState, Token};

use crate::handle::Handle;
use crate::request::Error;

/// The log of a task.
#[derive(Clone, Debug)]
pub struct TaskLog {
    /// Where the task is.
    pub state: TaskState,
    /// Attempts that ended, oldest first.
    pub attempts: Vec<AttemptLog>,
    /// The end of what the running attempt has said so far.
    pub live: String,
}

/// What an attempt that ended said.
#[derive(Clone, Debug)]
pub struct AttemptLog {
    /// Names the attempt; a later one has a greater token.
    pub token: Token,
    /// A line: which attempt it was, where, when and how it ended.
    pub heading: String,
    /// The end of what it said; if anything, whole lines.
    pub text: String,
}

impl TaskLog {
    /// The line above what the running attempt says.
    pub const RUNNING: &'static str = "--- running\n";

    /// All of it, attempt by attempt.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for attempt in &self.attempts {
            text.push_str(&attempt.heading);
            text.push_str(&attempt.text);
        }
        if !self.live.is_empty() {
            text.push_str(Self::RUNNING);
            text.push_str(&self.live);
        }
        text
    }
}

impl Handle {
    /// The log of a task.
    pub async fn log(&self, id: TaskId) -> Result<TaskLog, Error> {
        let detail = self.task(id).await?;
        let attempts = (1..).zip(&detail.history).map(|(number, one)| said(number, one)).collect();
        let live = self
            .look(move |core| {
                core.seq_of(id).and_then(|seq| core.live.of(seq)).map(|news| news.log.clone())
            })
            .await?;
        Ok(TaskLog { state: detail.summary.state, attempts, live: live.unwrap_or_default() })
    }
}

fn said(number: u32, attempt: &Attempt) -> AttemptLog {
    let end = attempt.error.as_ref().map_or_else(|| "done".to_owned(), ToString::to_string);
    let mut text = attempt.log.as_ref().map(ToString::to_string).unwrap_or_default();
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    let Attempt { token, at, worker, .. } = attempt;
    let heading = format!("--- attempt {number} on {worker}, {at}: {end}\n");
    AttemptLog { token: *token, heading, text }
}
