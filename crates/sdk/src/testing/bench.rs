//! The bench as tests see it.

use std::time::Duration;

use divvy_types::{Name, TaskId, TaskState, Timestamp, WorkflowId};
use divvy_worker::CancelReason;

use super::drive::Drive;
use super::ran::Ran;
use crate::task::{Task, TaskOptions};
use crate::worker::Worker;
use crate::workflow::{Node, Workflow};

/// A bench that runs the handlers of `worker`.
///
/// # Panics
/// If the worker could not start either: a missing state, a kind with two handlers, no handler at all.
#[track_caller]
pub fn bench(worker: Worker) -> Bench {
    match worker.into_parts() {
        Ok(parts) => Bench { drive: Drive::new(parts) },
        Err(error) => panic!("{error}"),
    }
}

/// A worker, an engine and a store in memory, and a clock that only the test moves.
pub struct Bench {
    drive: Drive,
}

impl Bench {
    /// Submits a task and runs whatever can run now, that task's children and dependents included.
    ///
    /// # Panics
    /// If the task is not acceptable.
    pub async fn run<T: Task>(&mut self, task: T) -> Ran {
        self.run_with(task, |options| options).await
    }

    /// The same with changed options.
    pub async fn run_with<T: Task>(
        &mut self,
        task: T,
        change: impl FnOnce(TaskOptions) -> TaskOptions,
    ) -> Ran {
        let id = self.submit_with(task, change);
        self.drive.settle().await;
        self.task(id)
    }

    /// Submits a task and runs nothing.
    pub fn submit<T: Task>(&mut self, task: T) -> TaskId {
        self.submit_with(task, |options| options)
    }

    /// Submits a task with changed options and runs nothing.
    pub fn submit_with<T: Task>(
        &mut self,
        task: T,
        change: impl FnOnce(TaskOptions) -> TaskOptions,
    ) -> TaskId {
        let spec = match change(T::options()).spec(&task, self.now()) {
            Ok(spec) => spec,
            Err(error) => panic!("the task is not acceptable: {error}"),
        };
        let id = spec.id;
        if let Err(error) = self.drive.submit(vec![spec]) {
            panic!("the task is not acceptable: {error}");
        }
        id
    }

    /// Starts a workflow and runs whatever can run now.
    ///
    /// # Panics
    /// If the workflow is not acceptable.
    pub async fn start(&mut self, workflow: Workflow) -> BenchRun {
        let plan = match workflow.plan(self.now()) {
            Ok(plan) => plan,
            Err(error) => panic!("{error}"),
        };
        let tasks = plan.specs.iter().map(|spec| spec.id).collect();
        if let Err(error) = self.drive.submit(plan.specs) {
            panic!("the workflow is not acceptable: {error}");
        }
        self.drive.settle().await;
        BenchRun { id: plan.id, mark: plan.mark, tasks }
    }

    /// Runs everything: when nothing can run now, the clock jumps to the next retry or delay. Returns how every task
    /// of the bench ended, in the order of submission.
    ///
    /// # Panics
    /// If there is no end to it, such as with a task that always snoozes.
    pub async fn drain(&mut self) -> Vec<Ran> {
        self.drive.drain().await;
        let ids: Vec<TaskId> =
            self.drive.records().into_iter().map(|record| record.spec.id).collect();
        ids.into_iter().map(|id| self.task(id)).collect()
    }

    /// Moves the clock on and runs what becomes due on the way, each task at its time.
    pub async fn advance(&mut self, span: Duration) {
        self.drive.advance(span).await;
    }

    /// What time it is on the bench.
    pub fn now(&self) -> Timestamp {
        self.drive.now()
    }

    /// How a task stands.
    ///
    /// # Panics
    /// If no such task was submitted.
    pub fn task(&mut self, id: TaskId) -> Ran {
        let Some(record) = self.drive.record(id) else {
            panic!("no task {id} was submitted to this bench")
        };
        let (state, wait) = self.drive.status(&record);
        let (progress, saved) = (self.drive.progress(id), self.drive.saved(id));
        Ran { record, state, wait, progress, saved }
    }

    /// How the task of a node stands.
    pub fn node<O>(&mut self, run: &BenchRun, node: Node<O>) -> Ran {
        self.task(run.task(node))
    }

    /// Cancels a task, as a person would.
    ///
    /// # Panics
    /// If it is final already.
    pub fn cancel(&mut self, id: TaskId, reason: impl Into<Name>) -> TaskState {
        self.drive.cancel(id, reason.into()).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Cancels every task of a workflow that has not ended, as a person would; says how many.
    ///
    /// # Panics
    /// If the run is of another bench.
    pub fn cancel_run(&mut self, run: &BenchRun, reason: impl Into<Name>) -> u64 {
        let cancelled = self.drive.cancel_workflow(run.id, reason.into());
        cancelled.unwrap_or_else(|error| panic!("{error}"))
    }

    /// Retries what failed in a workflow, and continues; says how many tasks were put back. They run with the next
    /// call that runs tasks.
    ///
    /// # Panics
    /// If the run is of another bench.
    pub fn resume(&mut self, run: &BenchRun) -> u64 {
        let resumed = self.drive.resume(run.id).unwrap_or_else(|error| panic!("{error}"));
        resumed.resumed + resumed.callbacks
    }

    /// Cancels the next attempt at the moment at which its handler starts.
    pub fn cancel_next(&mut self, reason: impl Into<Name>) {
        self.drive.interrupt_next(CancelReason::Stopped(reason.into()));
    }

    /// Recalls the next attempt at the moment at which its handler starts, as if its task moved to another worker: the
    /// handler is asked to stop, what it returns does not count, and the task runs again.
    pub fn recall_next(&mut self) {
        self.drive.interrupt_next(CancelReason::Recalled);
    }

    /// Puts a dead, cancelled or waiting task back, as a person would; it runs with the next call that runs tasks.
    ///
    /// # Panics
    /// If it is in no state for that.
    pub fn retry(&mut self, id: TaskId) -> TaskState {
        self.drive.retry(id).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Every task of type `T` that came to the bench, from the test or spawned, in the order of submission.
    ///
    /// # Panics
    /// If one of them cannot be read.
    pub fn submitted<T: Task>(&mut self) -> Vec<T> {
        let of_kind = self.drive.records().into_iter().filter(|record| record.spec.kind == T::KIND);
        let ids: Vec<TaskId> = of_kind.map(|record| record.spec.id).collect();
        ids.into_iter()
            .map(|id| {
                // A page may leave payloads out.
                let record = self.drive.record(id).expect("a task that was listed is there");
                record
                    .spec
                    .payload
                    .parse()
                    .unwrap_or_else(|error| panic!("task {id} is no `{}`: {error}", T::KIND))
            })
            .collect()
    }

    /// Checks how many tasks of type `T` came to the bench.
    #[track_caller]
    pub fn assert_submitted<T: Task>(&mut self, count: usize) {
        let found = self.submitted::<T>().len();
        assert_eq!(found, count, "tasks of kind `{}` that were submitted", T::KIND);
    }
}

impl std::fmt::Debug for Bench {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bench").field("now", &self.now()).finish_non_exhaustive()
    }
}

/// A workflow that was started on a bench.
#[derive(Clone, Debug)]
pub struct BenchRun {
    id: WorkflowId,
    mark: u64,
    tasks: Vec<TaskId>,
}

impl BenchRun {
    /// The task of a node.
    ///
    /// # Panics
    /// If the node belongs to another workflow.
    pub fn task<O>(&self, node: Node<O>) -> TaskId {
        assert_eq!(node.mark(), self.mark, "the node belongs to another workflow");
        self.tasks[node.place() as usize]
    }
}
