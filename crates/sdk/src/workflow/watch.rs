//! How far a run is, from the server's events.
//!
//! Subscribes, lists the tasks of the run, then follows their changes. Tasks that are spawned on the way join. When
//! all that are known have ended, the list is read once more: only that says that the run is over.

use std::collections::HashMap;

use divvy_types::view::{Page, TaskSummary};
use divvy_types::{TaskId, TaskState, WorkflowId};

use super::run::was_not_called;
use crate::client::events::{Event, Events, Patience};
use crate::client::{Error, Http};

/// Rows of one page of the list.
const PAGE_ROWS: usize = 1_000;

/// How many tasks of a run are where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunProgress {
    /// Tasks known so far; spawned children are added as they come into being.
    pub total: u64,
    /// Tasks that wait for others, for a time or for a worker.
    pub waiting: u64,
    /// Tasks that run.
    pub running: u64,
    /// Tasks that are done.
    pub done: u64,
    /// Tasks that failed for good.
    pub dead: u64,
    /// Tasks that were cancelled.
    pub cancelled: u64,
}

impl RunProgress {
    /// Whether every known task has ended.
    pub fn is_over(&self) -> bool {
        self.waiting + self.running == 0
    }

    /// Counts tasks by their states.
    pub(crate) fn of(states: impl IntoIterator<Item = TaskState>) -> Self {
        let mut counts = Self::default();
        for state in states {
            counts.total += 1;
            *counts.place(state) += 1;
        }
        counts
    }

    fn place(&mut self, state: TaskState) -> &mut u64 {
        match state {
            TaskState::Blocked | TaskState::Scheduled | TaskState::Ready => &mut self.waiting,
            TaskState::Leased => &mut self.running,
            TaskState::Done => &mut self.done,
            TaskState::Dead => &mut self.dead,
            TaskState::Cancelled => &mut self.cancelled,
        }
    }
}

/// Follows a run until it is over.
pub(crate) struct Watch {
    http: Http,
    workflow: WorkflowId,
    events: Option<Events>,
    states: HashMap<TaskId, TaskState>,
    counts: RunProgress,
    told: Option<RunProgress>,
    patience: Patience,
    over: bool,
}

impl Watch {
    pub(crate) fn new(http: Http, workflow: WorkflowId) -> Self {
        let (states, counts, patience) = (HashMap::new(), RunProgress::default(), Patience::new());
        Self { http, workflow, events: None, states, counts, told: None, patience, over: false }
    }

    /// The next news; nothing after the run was over.
    pub(crate) async fn next(&mut self) -> Result<Option<RunProgress>, Error> {
        loop {
            if self.over {
                return Ok(None);
            }
            if let Err(error) = self.advance().await {
                self.events = None;
                self.patience.bear(error).await?;
                continue;
            }
            if self.told != Some(self.counts) || self.over {
                self.told = Some(self.counts);
                return Ok(self.told);
            }
        }
    }

    async fn advance(&mut self) -> Result<(), Error> {
        let Some(events) = &mut self.events else {
            self.events =
                Some(Events::open(&self.http, &format!("workflow={}", self.workflow)).await?);
            return self.look().await;
        };
        match events.next().await? {
            None => {
                self.events = None;
                self.patience.rest().await;
            }
            Some(Event::Lagged) => self.look().await?,
            Some(Event::Change(change)) => {
                match self.states.insert(change.id, change.state) {
                    Some(before) => *self.counts.place(before) -= 1,
                    None => self.counts.total += 1,
                }
                *self.counts.place(change.state) += 1;
                if self.counts.is_over() {
                    self.look().await?;
                }
            }
        }
        Ok(())
    }

    async fn look(&mut self) -> Result<(), Error> {
        let tasks = tasks_of(&self.http, self.workflow).await?;
        self.patience.renew();
        let called = tasks.into_iter().filter(|task| !was_not_called(task));
        self.states = called.map(|task| (task.id, task.state)).collect();
        self.counts = RunProgress::of(self.states.values().copied());
        self.over = self.counts.total > 0 && self.counts.is_over();
        Ok(())
    }
}

/// All tasks of a workflow, newest first.
pub(crate) async fn tasks_of(http: &Http, workflow: WorkflowId) -> Result<Vec<TaskSummary>, Error> {
    let mut tasks = Vec::new();
    let mut after = String::new();
    loop {
        let page: Page<TaskSummary> =
            http.get(&format!("/tasks?workflow={workflow}&limit={PAGE_ROWS}{after}")).await?;
        tasks.extend(page.items);
        match page.next {
            Some(next) => after = format!("&after={next}"),
            None => return Ok(tasks),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_is_counted_once() {
        let counts = RunProgress::of(TaskState::ALL);
        assert_eq!(
            counts,
            RunProgress { total: 7, waiting: 3, running: 1, done: 1, dead: 1, cancelled: 1 }
        );
        assert!(!counts.is_over());
        assert!(RunProgress::of([TaskState::Done, TaskState::Dead]).is_over());
    }
}
