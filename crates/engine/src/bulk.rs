//! One action on many tasks, chosen by a filter.
//!
//! Tasks are found page by page and treated through the same requests as single ones, a bounded number at once, so
//! that others wait no longer than behind any busy client. Each task is treated durably by itself: whoever is
//! interrupted, by a restart too, asks again and goes on with what is left. Pages go by the tasks' numbers, which
//! treating does not change: none is seen twice and none is missed.

use std::collections::BTreeMap;

use divvy_types::limits::PAGE_ROWS_MAX;
use divvy_types::view::TaskSummary;
use divvy_types::{Name, Select, TaskId, TaskState};
use futures_util::{StreamExt as _, stream};
use serde::{Deserialize, Serialize};

use crate::handle::Handle;
use crate::request::Error;

/// Tasks that one call treats at most; the report says where to go on.
pub const BULK_TASKS_MAX: usize = 100_000;
/// Pages that one call looks through at most, so that a call that finds little ends too.
const PAGES_MAX: usize = 1_000;
/// Tasks that are treated at once; they share commits.
const AT_ONCE: usize = 256;
/// Kinds that a report counts apart.
const KINDS_MAX: usize = 1_000;
/// What the counts of all further kinds stand under.
const OTHER_KINDS: &str = "(other kinds)";
/// Ids that a report shows.
const SAMPLE_MAX: usize = 20;

/// What to do with each task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum BulkAction {
    /// Stop it or keep it from running.
    Cancel,
    /// Run it now.
    Retry,
    /// Give it up: a dead letter becomes cancelled.
    Drop,
    /// Give it another priority, while it waits.
    Reprioritise,
}

impl BulkAction {
    /// The states in which a task can be treated so.
    pub fn states(self) -> &'static [TaskState] {
        match self {
            Self::Cancel => {
                &[TaskState::Blocked, TaskState::Scheduled, TaskState::Ready, TaskState::Leased]
            }
            Self::Retry => &[TaskState::Dead, TaskState::Cancelled, TaskState::Scheduled],
            Self::Drop => &[TaskState::Dead],
            Self::Reprioritise => &[TaskState::Blocked, TaskState::Scheduled, TaskState::Ready],
        }
    }

    /// The states that are meant if none is named: what is cancelled or scheduled is retried only if that is said.
    pub fn usual_states(self) -> &'static [TaskState] {
        match self {
            Self::Retry => &[TaskState::Dead],
            other => other.states(),
        }
    }
}

/// Which tasks, and what to do with them.
#[derive(Clone, Debug)]
pub struct Bulk {
    /// What to do.
    pub action: BulkAction,
    /// Which tasks; no state means the usual ones of the action.
    pub select: Select,
    /// Why, for a cancel.
    pub reason: Name,
    /// Which priority, for a reprioritise.
    pub priority: u8,
    /// Only count.
    pub dry_run: bool,
    /// At most so many tasks; not more than [`BULK_TASKS_MAX`].
    pub limit: usize,
    /// Where to go on: `next` of the report before.
    pub after: Option<String>,
}

/// What became of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BulkReport {
    /// Tasks that fit.
    pub matched: u64,
    /// Tasks that were treated.
    pub done: u64,
    /// Why the others were not: the first few of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left: Vec<Left>,
    /// How many fit, by kind.
    pub by_kind: BTreeMap<Name, u64>,
    /// How many fit, by the state they were in.
    pub by_state: BTreeMap<&'static str, u64>,
    /// Some of them.
    pub sample: Vec<TaskId>,
    /// Where to go on, if there may be more.
    pub next: Option<String>,
}

/// A task that was not treated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Left {
    /// The task.
    pub task: TaskId,
    /// Why not, in words.
    pub why: String,
}

impl BulkReport {
    fn count(&mut self, task: &TaskSummary) {
        self.matched += 1;
        let known = self.by_kind.len() < KINDS_MAX || self.by_kind.contains_key(&task.kind);
        let kind = if known { task.kind.clone() } else { Name::const_new(OTHER_KINDS) };
        *self.by_kind.entry(kind).or_default() += 1;
        *self.by_state.entry(task.state.as_str()).or_default() += 1;
        if self.sample.len() < SAMPLE_MAX {
            self.sample.push(task.id);
        }
    }
}

impl Handle {
    /// Treats all tasks that fit, or only counts them.
    pub async fn bulk(&self, bulk: Bulk) -> Result<BulkReport, Error> {
        let mut select = bulk.select.clone();
        if select.state.is_empty() {
            select.state = bulk.action.usual_states().to_vec();
        }
        let limit = bulk.limit.clamp(1, BULK_TASKS_MAX);
        let mut report = BulkReport { next: bulk.after.clone(), ..BulkReport::default() };
        for _ in 0..PAGES_MAX {
            let rows = (limit - report.matched as usize).min(PAGE_ROWS_MAX);
            let page = self.tasks(select.clone(), rows, report.next.take()).await?;
            page.items.iter().for_each(|task| report.count(task));
            let ids = page.items.iter().map(|task| task.id).collect();
            report.next = page.next;
            if !bulk.dry_run {
                self.treat(&bulk, ids, &mut report).await?;
            }
            if report.next.is_none() || report.matched as usize >= limit {
                break;
            }
        }
        Ok(report)
    }

    async fn treat(
        &self,
        bulk: &Bulk,
        ids: Vec<TaskId>,
        report: &mut BulkReport,
    ) -> Result<(), Error> {
        let ends = ids.into_iter().map(|id| async move {
            let end = match bulk.action {
                BulkAction::Cancel => self.cancel(id, bulk.reason.clone()).await,
                BulkAction::Retry => self.retry(id).await,
                BulkAction::Drop => self.drop_dead(id).await,
                BulkAction::Reprioritise => self.reprioritise(id, bulk.priority).await,
            };
            (id, end)
        });
        let mut ends = stream::iter(ends).buffer_unordered(AT_ONCE);
        while let Some((task, end)) = ends.next().await {
            match end {
                Ok(_) => report.done += 1,
                Err(error @ (Error::Conflict { .. } | Error::NotFound(_))) => {
                    if report.left.len() < SAMPLE_MAX {
                        report.left.push(Left { task, why: error.to_string() });
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
