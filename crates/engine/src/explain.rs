//! Why a task is where it is: what the scheduler says of an open one, and the history of any.

use divvy_types::TaskId;
use divvy_types::overview::TaskExplanation;
use divvy_types::view::{Explanation, TaskDetail};

use crate::handle::Handle;
use crate::request::Error;

impl Handle {
    /// Everything that is known about why a task waits, runs where it does, or ended as it did.
    pub async fn explain(&self, id: TaskId) -> Result<TaskExplanation, Error> {
        let task = self.task(id).await?;
        if task.summary.state.is_final() {
            return Ok(with_history(from_record(&task), task));
        }
        let explained = self
            .look(move |core| {
                let seq = core.seq_of(id).filter(|_| !core.is_departing(id))?;
                core.scheduler().explain(core.now(), seq)
            })
            .await?;
        // A task that waits in the store only, or ended just now, is told from what was read of it.
        let explanation = explained.unwrap_or_else(|| from_record(&task));
        Ok(with_history(explanation, task))
    }
}

fn from_record(task: &TaskDetail) -> Explanation {
    let summary = &task.summary;
    let late = match (task.terms.deadline, summary.ended_at) {
        (Some(deadline), Some(ended_at)) => ended_at > deadline,
        _ => false,
    };
    Explanation {
        id: summary.id,
        state: summary.state,
        wait: summary.wait.clone(),
        wait_text: summary.wait_text.clone(),
        position: None,
        estimated_start: None,
        estimated_run_ms: None,
        deadline: task.terms.deadline,
        late,
        placement: None,
        candidates: Vec::new(),
    }
}

fn with_history(explanation: Explanation, task: TaskDetail) -> TaskExplanation {
    let TaskDetail { summary, terms, mut history, .. } = task;
    for attempt in &mut history {
        attempt.log = None;
    }
    TaskExplanation {
        explanation,
        kind: summary.kind,
        queue: summary.queue,
        priority: summary.priority,
        attempts: summary.attempts,
        attempts_max: terms.retry.limit.saturating_add(1),
        worker: summary.worker,
        progress: summary.progress,
        error: summary.error,
        submitted_at: summary.submitted_at,
        ended_at: summary.ended_at,
        after: terms.after.clone(),
        history,
    }
}
