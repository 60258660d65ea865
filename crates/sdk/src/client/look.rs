//! What a client may ask about others than its own submissions: workers, and workflows by their ids.

use std::collections::HashMap;

use divvy_types::view::{CancelledWorkflow, Page, TaskSummary, WorkerView, WorkflowView};
use divvy_types::{TaskState, WorkflowId};

use super::follow::{pages, tasks_of};
use super::{CancelBody, Client, Error};

impl Client {
    /// All connected workers, by name: what they offer, how many slots they have, what they hold.
    pub async fn workers(&self) -> Result<Vec<WorkerView>, Error> {
        let page: Page<WorkerView> = self.api().get(&["workers"], &[]).await?.parse()?;
        Ok(page.items)
    }

    /// How a workflow stands: its counts, its first failures and the tasks that run at its end.
    ///
    /// # Errors
    /// With the code `no_such_workflow` if the server does not know it.
    pub async fn workflow(&self, id: WorkflowId) -> Result<WorkflowView, Error> {
        self.api().get(&["workflows", &id.to_string()], &[]).await?.parse()
    }

    /// All tasks of a workflow with their progress, spawned ones too, newest first. Empty if the server does not know
    /// it.
    pub async fn workflow_tasks(&self, id: WorkflowId) -> Result<Vec<TaskSummary>, Error> {
        tasks_of(self.api(), &[id]).await
    }

    /// All tasks of many workflows, by workflow and newest first, in few requests. One that the server does not know is
    /// left out.
    pub async fn tasks_of_workflows(
        &self,
        ids: &[WorkflowId],
    ) -> Result<HashMap<WorkflowId, Vec<TaskSummary>>, Error> {
        let mut found: HashMap<_, Vec<TaskSummary>> = HashMap::new();
        for task in tasks_of(self.api(), ids).await? {
            // What a server says is no reason to panic: a task of no workflow was not asked for.
            if let Some(workflow) = &task.workflow {
                found.entry(workflow.id).or_default().push(task);
            }
        }
        Ok(found)
    }

    /// All tasks in these states, newest first; nothing if there are more than `max`.
    pub async fn tasks_in(
        &self,
        states: &[TaskState],
        max: usize,
    ) -> Result<Option<Vec<TaskSummary>>, Error> {
        let states: Vec<_> = states.iter().map(|state| ("state", state.to_string())).collect();
        pages(self.api(), &states, max).await
    }

    /// Cancels every task of a workflow that has not ended; says how many were cancelled or are being stopped.
    pub async fn cancel_workflow(
        &self,
        id: WorkflowId,
        reason: Option<&str>,
    ) -> Result<u64, Error> {
        let path = ["workflows", &id.to_string(), "cancel"];
        let reply = self.api().post(&path, &CancelBody { reason }).await?;
        let body: CancelledWorkflow = reply.parse()?;
        Ok(body.cancelled)
    }
}
