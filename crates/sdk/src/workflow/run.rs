//! A workflow at a server.

use std::fmt;

use divvy_types::limits::{BATCH_EDGES_MAX, BATCH_TASKS_MAX};
use divvy_types::view::{ResumedWorkflow, TaskSummary};
use divvy_types::{Name, TaskId, TaskSpec, TaskState, WorkflowId};
use futures_util::stream::{self, Stream};

use super::{Node, Workflow};
use crate::client::{
    Client, Error, Firsts, Follow, RunProgress, TaskHandle, tasks_of, was_not_called,
};
use crate::task::clock;

/// Payload of one submission; a workflow with more is submitted in pieces.
const PIECE_BYTES_MAX: usize = 16 << 20;

/// A workflow that was started.
#[derive(Clone, Debug)]
pub struct Run {
    client: Client,
    id: WorkflowId,
    name: Name,
    mark: u64,
    tasks: Vec<TaskId>,
    firsts: Firsts,
}

impl Run {
    pub(crate) async fn start(client: Client, workflow: Workflow) -> Result<Self, Error> {
        let plan = workflow.plan(clock())?;
        let tasks = plan.specs.iter().map(|spec| spec.id).collect();
        let mut conflicts = Vec::new();
        for piece in in_batches(callbacks_last(plan.specs)) {
            conflicts.extend(client.submit_specs(piece).await?.conflicts);
        }
        let firsts = Firsts::default();
        firsts.learn(conflicts);
        Ok(Self { client, id: plan.id, name: plan.name, mark: plan.mark, tasks, firsts })
    }

    /// Names the run.
    pub fn id(&self) -> WorkflowId {
        self.id
    }

    /// One task of the run.
    ///
    /// # Panics
    /// If the node belongs to another workflow.
    pub fn task<O>(&self, node: Node<O>) -> TaskHandle<O> {
        assert_eq!(node.mark(), self.mark, "the node belongs to another workflow");
        let handle = TaskHandle::new(self.client.clone(), self.tasks[node.place() as usize]);
        handle.with_firsts(self.firsts.clone())
    }

    /// Waits until every task has ended, spawned children too, and says how. Listens and does not poll.
    pub async fn wait(&self) -> Result<RunSummary, Error> {
        self.wait_with(|_| ()).await
    }

    /// Waits, and tells `news` of each step on the way.
    pub async fn wait_with(&self, mut news: impl FnMut(RunProgress)) -> Result<RunSummary, Error> {
        let mut steps = Steps::new(self);
        while let Some(progress) = steps.next().await? {
            news(progress);
        }
        self.summary().await
    }

    /// The steps on the way as a stream, which ends when the run is over.
    pub fn progress(&self) -> impl Stream<Item = Result<RunProgress, Error>> + Send + use<> {
        stream::unfold(Some(Steps::new(self)), |steps| async {
            let mut steps = steps?;
            match steps.next().await {
                Ok(progress) => progress.map(|progress| (Ok(progress), Some(steps))),
                Err(error) => Some((Err(error), None)),
            }
        })
    }

    /// How the run stands now.
    pub async fn summary(&self) -> Result<RunSummary, Error> {
        let tasks = tasks_of(self.client.api(), &[self.id]).await?;
        let called = |task: &TaskSummary| !was_not_called(task);
        let tasks: Vec<TaskSummary> = tasks.into_iter().filter(called).collect();
        let progress = RunProgress::of(tasks.iter().map(|task| task.state));
        let failed = tasks
            .into_iter()
            .filter(|task| matches!(task.state, TaskState::Dead | TaskState::Cancelled))
            .collect();
        Ok(RunSummary { name: self.name.clone(), progress, failed })
    }

    /// Cancels every task that has not ended; says how many were cancelled or are being stopped.
    pub async fn cancel(&self) -> Result<u64, Error> {
        self.client.cancel_workflow(self.id, None).await
    }

    /// Retries what failed, and continues: dead tasks, and those that were cancelled because of them, are put back and
    /// wait for their dependencies as before. What is done stays done. Tasks that people cancelled stay so.
    pub async fn resume(&self) -> Result<ResumedWorkflow, Error> {
        let path = ["workflows", &self.id.to_string(), "resume"];
        self.client.api().post(&path, &serde_json::json!({})).await?.parse()
    }
}

/// The steps of a run on its way, each told once.
struct Steps {
    follow: Follow,
    told: Option<RunProgress>,
}

impl Steps {
    fn new(run: &Run) -> Self {
        Self { follow: Follow::workflow(run.client.api(), run.id), told: None }
    }

    /// The next step; nothing after the run was over.
    async fn next(&mut self) -> Result<Option<RunProgress>, Error> {
        while self.follow.next().await?.is_some() {
            let progress = self.follow.progress();
            if self.told != Some(progress) {
                self.told = Some(progress);
                return Ok(self.told);
            }
        }
        Ok(None)
    }
}

/// A task that waits for the end of the workflow comes when all others are known: the end must not come between two
/// submissions. The order is kept otherwise.
fn callbacks_last(specs: Vec<TaskSpec>) -> Vec<TaskSpec> {
    let member =
        |spec: &TaskSpec| spec.workflow.as_ref().is_none_or(|workflow| workflow.role.is_member());
    let (mut members, callbacks): (Vec<_>, Vec<_>) = specs.into_iter().partition(member);
    members.extend(callbacks);
    members
}

/// How a run stands.
#[derive(Clone, Debug)]
pub struct RunSummary {
    /// The workflow's name.
    pub name: Name,
    /// How many tasks are where.
    pub progress: RunProgress,
    /// The tasks that are dead or cancelled.
    pub failed: Vec<TaskSummary>,
}

impl RunSummary {
    /// This summary if every task is done, else an error that says which is not.
    pub fn into_success(self) -> Result<Self, UnfinishedRun> {
        if self.progress.done == self.progress.total {
            Ok(self)
        } else {
            Err(UnfinishedRun(Box::new(self)))
        }
    }
}

impl fmt::Display for RunSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RunProgress { total, waiting, running, done, dead, cancelled } = self.progress;
        write!(f, "{}: {done} of {total} done", self.name)?;
        for (count, word) in
            [(waiting, "waiting"), (running, "running"), (dead, "dead"), (cancelled, "cancelled")]
        {
            if count > 0 {
                write!(f, ", {count} {word}")?;
            }
        }
        Ok(())
    }
}

/// Not every task of a run is done.
#[derive(Clone, Debug, thiserror::Error)]
#[error("workflow {0}{detail}", detail = first_failure(.0))]
pub struct UnfinishedRun(pub Box<RunSummary>);

fn first_failure(summary: &RunSummary) -> String {
    // A dead task explains the cancelled ones that waited for it.
    let dead = summary.failed.iter().find(|task| task.state == TaskState::Dead);
    match dead.or_else(|| summary.failed.first()) {
        None => String::new(),
        Some(task) => {
            let error = task.error.as_ref().map_or_else(String::new, |error| format!(": {error}"));
            format!("; task {} of kind `{}` is {}{error}", task.id, task.kind, task.state)
        }
    }
}

/// Cuts tasks that are too many, or too large, for one submission. The order stays: what waits for others must come
/// after them, and what waits for the end of a workflow last.
pub fn in_batches(specs: Vec<TaskSpec>) -> Vec<Vec<TaskSpec>> {
    let mut pieces = Vec::new();
    let mut piece = Vec::new();
    let (mut edges, mut bytes) = (0, 0);
    for spec in specs {
        edges += spec.edges();
        bytes += spec.payload.data().len();
        if !piece.is_empty()
            && (piece.len() == BATCH_TASKS_MAX
                || edges > BATCH_EDGES_MAX
                || bytes > PIECE_BYTES_MAX)
        {
            pieces.push(std::mem::take(&mut piece));
            (edges, bytes) = (spec.edges(), spec.payload.data().len());
        }
        piece.push(spec);
    }
    pieces.push(piece);
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_workflow_is_cut_in_order() {
        let specs: Vec<TaskSpec> = (0..25_000).map(|n| TaskSpec::new(TaskId(n), "noop")).collect();
        let pieces = in_batches(specs.clone());
        assert_eq!(pieces.iter().map(Vec::len).collect::<Vec<_>>(), [10_000, 10_000, 5_000]);
        assert_eq!(pieces.concat(), specs);
    }
}
