//! Decides what tasks are that someone else has drawn: each with its time, its work and what it waits for.
//!
//! A [`super::Load`] draws tasks of one sort. Where one arrival means several tasks that belong together, such as the
//! stages of a video of some size, the one who knows what belongs together draws them and hands them over here.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use divvy_types::TaskSpec;
use divvy_types::limits::AFTER_MAX;

use super::draw::Drawn;
use super::setup::{TASKS_MAX, bad};
use crate::experiment::Error;

/// Tasks that were drawn elsewhere.
#[derive(Clone, Debug, Default)]
pub struct Given {
    /// What the tasks are like; ids, deadlines and dependencies are replaced.
    pub sorts: Vec<TaskSpec>,
    /// The tasks, by rising time.
    pub tasks: Vec<GivenTask>,
    /// Tasks that belong together, such as those of one video: the place of the first, and the one after the last.
    /// Those due earlier come first. Only [`super::Cluster::give_up_after`] asks for them.
    pub groups: Vec<(usize, usize)>,
    /// Whether the scheduler is told when tasks are due; if not, they are only judged by it.
    pub told: bool,
    /// The same as runs need it, drawn by the first of them.
    pub(super) drawn: OnceLock<Arc<Drawn>>,
}

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenTask {
    /// When it comes.
    pub at: Duration,
    /// The place of its sort; it becomes the load of its life.
    pub sort: usize,
    /// How long it runs on a worker of speed 1.
    pub run: Duration,
    /// By when it should be done, from the start of the run.
    pub due: Option<Duration>,
    /// Places of the tasks that it waits for, all before its own.
    pub parents: Vec<usize>,
}

impl Given {
    /// Tasks of these sorts; the scheduler is told when they are due.
    pub fn new(sorts: Vec<TaskSpec>, tasks: Vec<GivenTask>) -> Self {
        Self { sorts, tasks, told: true, ..Self::default() }
    }

    /// When the last task of a group is due.
    pub(super) fn due(&self, (from, to): (usize, usize)) -> Option<Duration> {
        self.tasks[from..to].iter().filter_map(|task| task.due).max()
    }

    pub(super) fn check(&self) -> Result<(), Error> {
        if self.tasks.len() > TASKS_MAX {
            return bad("given.tasks", self.tasks.len(), "at most 10,000,000 tasks fit");
        }
        if !self.tasks.is_sorted_by_key(|task| task.at) {
            return bad("given.tasks", "not by rising time", "sort them by when they come");
        }
        for sort in &self.sorts {
            if let Err(error) = sort.validate() {
                return bad("given.sorts", error, "give tasks that a server would take");
            }
        }
        for (place, task) in self.tasks.iter().enumerate() {
            if task.sort >= self.sorts.len() {
                return bad("given.tasks.sort", task.sort, "name the place of a sort");
            }
            if task.parents.len() > AFTER_MAX {
                let cure = "a task can wait for at most 1,000 others";
                return bad("given.tasks.parents", task.parents.len(), cure);
            }
            if let Some(parent) = task.parents.iter().find(|parent| **parent >= place) {
                return bad("given.tasks.parents", parent, "name the place of an earlier task");
            }
        }
        if let Some((from, to)) =
            self.groups.iter().find(|(from, to)| from > to || *to > self.tasks.len())
        {
            return bad("given.groups", format!("{from} to {to}"), "name places of tasks");
        }
        if !self.groups.is_sorted_by_key(|group| self.due(*group)) {
            return bad("given.groups", "not by rising time", "sort them by when they are due");
        }
        Ok(())
    }
}
