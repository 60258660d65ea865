//! A workflow in YAML, from text to task specs. Every mistake is told with its line before anything is submitted.

mod file;
mod order;
mod plan;

use crate::output::ids::fresh;
use crate::output::words;
use anyhow::Result;
use divvy_types::{Name, TaskId, TaskSpec, Workflow, WorkflowId, WorkflowRole};

/// A file larger than this belongs into several workflows.
pub(crate) const FILE_BYTES_MAX: u64 = 64 << 20;
/// The most tasks of one workflow.
const TASKS_MAX: usize = 100_000;

/// A workflow that is ready to be submitted.
#[derive(Debug)]
pub(crate) struct Parsed {
    /// Names the workflow.
    pub(crate) id: WorkflowId,
    /// What people call it.
    pub(crate) name: Name,
    /// Its tasks in the order of the file, with their names there.
    pub(crate) tasks: Vec<(String, TaskSpec)>,
}

impl Parsed {
    /// The tasks in the submissions that they take: one if it can be, which is accepted whole or not at all.
    pub(crate) fn batches(&self) -> Vec<Vec<TaskSpec>> {
        let specs = || self.tasks.iter().map(|(_, spec)| spec.clone()).collect();
        let batches = divvy::in_batches(specs());
        if batches.len() == 1 { batches } else { divvy::in_batches(order::parents_first(specs())) }
    }
}

/// Reads a workflow. `source` is what errors call the file. The same `key` makes the same ids.
pub(crate) fn parse(source: &str, yaml: &str, key: Option<&str>) -> Result<Parsed> {
    let file = file::parse(source, yaml)?;
    let id = match key {
        Some(key) => WorkflowId(TaskId::from_key(&format!("workflow\0{key}")).0),
        None => WorkflowId(fresh()),
    };
    let task_id = |name: &str| match key {
        Some(key) => TaskId::from_key(&format!("workflow\0{key}\0{name}")),
        None => TaskId(fresh()),
    };
    let name: Name = file.name.as_deref().unwrap_or("workflow").into();
    let label = Workflow { id, name: name.clone(), role: WorkflowRole::Member };
    let tasks = plan::specs(source, file, &label, task_id, words::now())?;
    if tasks.len() > TASKS_MAX {
        let text = format!("{source}: {} tasks, at most {TASKS_MAX} in one workflow", tasks.len());
        return Err(crate::exit::Failure::usage(text).into());
    }
    Ok(Parsed { id, name, tasks })
}
