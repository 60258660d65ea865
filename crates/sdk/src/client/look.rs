//! What a client may ask about others than its own submissions: workers, and workflows by their ids.

use divvy_types::limits::PAGE_ROWS_MAX;
use divvy_types::view::{CancelledWorkflow, Page, TaskSummary, WorkerView, WorkflowView};
use divvy_types::{TaskState, WorkflowId};

use super::{CancelBody, Client, Error};
use crate::workflow::tasks_of;

impl Client {
    /// All connected workers, by name: what they offer, how many slots they have, what they hold.
    pub async fn workers(&self) -> Result<Vec<WorkerView>, Error> {
        let page: Page<WorkerView> = self.http().get("/workers").await?;
        Ok(page.items)
    }

    /// How a workflow stands: its counts, its first failures and the tasks that run at its end.
    ///
    /// # Errors
    /// With the code `no_such_workflow` if the server does not know it.
    pub async fn workflow(&self, id: WorkflowId) -> Result<WorkflowView, Error> {
        self.http().get(&format!("/workflows/{id}")).await
    }

    /// All tasks of a workflow with their progress, spawned ones too, newest first. Empty if the server does not know
    /// it.
    pub async fn workflow_tasks(&self, id: WorkflowId) -> Result<Vec<TaskSummary>, Error> {
        tasks_of(self.http(), id).await
    }

    /// All tasks in these states, newest first; nothing if there are more than `max`.
    pub async fn tasks_in(
        &self,
        states: &[TaskState],
        max: usize,
    ) -> Result<Option<Vec<TaskSummary>>, Error> {
        let states: String = states.iter().map(|state| format!("&state={state}")).collect();
        let (mut tasks, mut after) = (Vec::new(), String::new());
        loop {
            let page: Page<TaskSummary> =
                self.http().get(&format!("/tasks?limit={PAGE_ROWS_MAX}{states}{after}")).await?;
            tasks.extend(page.items);
            if tasks.len() > max {
                return Ok(None);
            }
            match page.next {
                Some(next) => after = format!("&after={next}"),
                None => return Ok(Some(tasks)),
            }
        }
    }

    /// Cancels every task of a workflow that has not ended; says how many were cancelled or are being stopped.
    pub async fn cancel_workflow(
        &self,
        id: WorkflowId,
        reason: Option<&str>,
    ) -> Result<u64, Error> {
        let path = format!("/workflows/{id}/cancel");
        let body: CancelledWorkflow = self.http().post(&path, &CancelBody { reason }).await?;
        Ok(body.cancelled)
    }
}
