//! Why a task is where it is: what the scheduler says of an open one, and the history of any.

use divvy_types::TaskId;
use divvy_types::overview::TaskExplanation;
use divvy_types::view::{Explanation, TaskDetail};

use crate::handle::Handle;
use crate::request::Error;

impl Handle {
    /// Everything that is known about why a task waits, runs where it does, or ended as it did.
    pub async fn explain(&self, id: TaskId) -> Result<TaskExplanation, Error> {
        let mut task = self.task(id).await?;
        if task.summary.state.is_final() {
            return Ok(with_history(from_record(&task), task));
        }
        let told = self
            .look(move |core| {
                let seq = core.seq_of(id).filter(|_| !core.is_departing(id))?;
                let explained = core.scheduler().explain(core.now(), seq)?;
                Some((core.scheduler().status(seq)?, explained))
            })
            .await?;
        // A task that waits in the store only, or ended just now, is told from what was read of it.
        let Some((status, explanation)) = told else {
            return Ok(with_history(from_record(&task), task));
        };
        task.summary.state = status.state;
        task.summary.wait_text = status.wait.as_ref().map(ToString::to_string);
        task.summary.wait = status.wait;
        Ok(with_history(explanation, task))
    }
}

fn from_record(task: &TaskDetail) -> Explanation {
    let late = match (task.terms.deadline, task.summary.ended_at) {
        (Some(deadline), Some(ended_at)) => ended_at > deadline,
        _ => false,
    };
    Explanation { deadline: task.terms.deadline, late, ..Explanation::default() }
}

fn with_history(explanation: Explanation, task: TaskDetail) -> TaskExplanation {
    let TaskDetail { summary, terms, mut history, .. } = task;
    for attempt in &mut history {
        attempt.log = None;
    }
    let attempts_max = terms.retry.limit.saturating_add(1);
    TaskExplanation { summary, explanation, attempts_max, after: terms.into_inner().after, history }
}
