//! Tasks that are submitted together: all of them are accepted or none.

use divvy_types::limits::BATCH_TASKS_MAX;
use divvy_types::{SpecError, TaskSpec};

use super::handle::{Firsts, TaskHandle};
use super::{Client, Error, Submitted};
use crate::task::{Task, TaskOptions, clock};

/// Collects tasks for one submission. Nothing is sent before [`Batch::send`].
///
/// ```no_run
/// # use divvy::prelude::*;
/// # #[derive(Serialize, Deserialize)] struct Probe { url: String }
/// # impl Task for Probe { const KIND: &'static str = "video.probe"; type Output = u64; }
/// # async fn main_(client: Client) -> Result<(), divvy::Error> {
/// let mut batch = client.batch();
/// let probes: Vec<_> = (0..100).map(|n| batch.add(Probe { url: format!("clip-{n}") })).collect();
/// batch.send().await?;
/// # drop(probes); Ok(()) }
/// ```
#[derive(Debug)]
#[must_use = "a batch does nothing until it is sent"]
pub struct Batch {
    client: Client,
    specs: Vec<TaskSpec>,
    firsts: Firsts,
    problem: Option<Error>,
    strict: bool,
}

impl Batch {
    pub(crate) fn new(client: Client) -> Self {
        let (specs, firsts) = (Vec::new(), Firsts::default());
        Self { client, specs, firsts, problem: None, strict: false }
    }

    /// Adds a task. One that cannot be sent makes [`Batch::send`] fail.
    pub fn add<T: Task>(&mut self, task: T) -> TaskHandle<T::Output> {
        self.add_with(task, |options| options)
    }

    /// Adds a task with changed options.
    pub fn add_with<T: Task>(
        &mut self,
        task: T,
        change: impl FnOnce(TaskOptions) -> TaskOptions,
    ) -> TaskHandle<T::Output> {
        let id = crate::task::fresh_id();
        match change(T::options().id(id)).spec(&task, clock()) {
            Ok(spec) => {
                let handle = TaskHandle::new(self.client.clone(), spec.id);
                self.specs.push(spec);
                handle.with_firsts(self.firsts.clone())
            }
            Err(error) => {
                self.problem.get_or_insert(error);
                TaskHandle::new(self.client.clone(), id)
            }
        }
    }

    /// Refuses all tasks if one is expected to miss its deadline: [`Batch::send`] then fails with the code
    /// `deadline_unmeetable`. Otherwise its answer names them.
    pub fn strict(mut self) -> Self {
        self.strict = true;
        self
    }

    /// How many tasks it has.
    pub fn len(&self) -> usize {
        self.specs.len()
    }

    /// Whether it has no task.
    pub fn is_empty(&self) -> bool {
        self.specs.is_empty()
    }

    /// Submits all tasks; returns when they are durable.
    pub async fn send(self) -> Result<Submitted, Error> {
        if let Some(problem) = self.problem {
            return Err(problem);
        }
        if self.specs.len() > BATCH_TASKS_MAX {
            return Err(SpecError::BatchTooLarge { count: self.specs.len() }.into());
        }
        let submitted = match self.strict {
            true => self.client.submit_specs_strict(self.specs).await,
            false => self.client.submit_specs(self.specs).await,
        }?;
        self.firsts.learn(submitted.conflicts.iter().copied());
        Ok(submitted)
    }
}
