//! Follows tasks until they are final, by the server's events.
//!
//! Subscribes first, then looks, then listens: whatever happens after the look is heard. When changes were left out or
//! the stream broke, it looks again. Nothing is asked again and again. A server may be away for a while; it comes back
//! where it was.

use std::collections::{HashMap, HashSet};

use divvy_client::{Api, Error, Patience};
use divvy_types::limits::{PAGE_ROWS_MAX, SELECT_WORKFLOWS_MAX};
use divvy_types::view::{Page, TaskSummary};
use divvy_types::{TaskId, TaskState, WorkflowId};
use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, StreamExt as _, TryStreamExt as _, stream};

use super::events::{Event, Events};

/// Tasks that are looked at side by side.
const LOOKS_AT_ONCE: usize = 16;
/// More tasks than this are picked out of all changes here, because their ids would not fit into an address.
const FILTER_TASKS_MAX: usize = 50;

/// Tasks with their new states.
pub type News = Vec<(TaskId, TaskState)>;

/// Follows tasks until all of them are final.
pub struct Follow {
    api: Api,
    scope: Scope,
    states: HashMap<TaskId, TaskState>,
    counts: RunProgress,
    events: Option<Events>,
    /// Whether the tasks were looked at since the stream was opened.
    looked: bool,
    over: bool,
    patience: Patience,
}

enum Scope {
    Tasks(HashSet<TaskId>),
    Workflow(WorkflowId),
}

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

impl Follow {
    /// Follows these tasks.
    pub fn tasks(api: &Api, tasks: impl IntoIterator<Item = TaskId>) -> Self {
        Self::new(api, Scope::Tasks(tasks.into_iter().collect()))
    }

    /// Follows all tasks of a workflow; those that are spawned on the way join.
    pub fn workflow(api: &Api, workflow: WorkflowId) -> Self {
        Self::new(api, Scope::Workflow(workflow))
    }

    fn new(api: &Api, scope: Scope) -> Self {
        Self {
            api: api.clone(),
            scope,
            states: HashMap::new(),
            counts: RunProgress::default(),
            events: None,
            looked: false,
            over: false,
            patience: Patience::default(),
        }
    }

    /// Gives up at once if the server cannot be reached in the beginning. Once it was, there is patience.
    #[must_use]
    pub fn hasty(self) -> Self {
        Self { patience: Patience::once_answered(), ..self }
    }

    /// How many of the tasks are where.
    pub fn progress(&self) -> RunProgress {
        self.counts
    }

    /// Waits for the next news. Nothing after all tasks were final.
    ///
    /// # Errors
    /// If a task is not known, or the server was away for too long.
    pub async fn next(&mut self) -> Result<Option<News>, Error> {
        while !self.over {
            match self.advance().await {
                Ok(news) if news.is_empty() && !self.over => {}
                Ok(news) => return Ok(Some(news)),
                Err(error) => self.bear(error).await?,
            }
        }
        Ok(None)
    }

    async fn advance(&mut self) -> Result<News, Error> {
        let Some(events) = &mut self.events else {
            self.looked = false;
            self.events = Some(Events::open(&self.api, &self.scope.query()).await?);
            return Ok(News::new());
        };
        if !self.looked {
            let news = self.look().await?;
            tracing::debug!("listens for changes of tasks");
            return Ok(news);
        }
        match events.next().await? {
            None => {
                self.patience.renew();
                self.events = None;
                self.patience.rest().await;
                Ok(News::new())
            }
            Some(Event::Lagged) => self.look().await,
            Some(Event::Change(change)) => {
                let (id, state) = (change.id, change.state);
                if !self.scope.covers(id) || !self.note(id, state) {
                    return Ok(News::new());
                }
                // Only a look says that a workflow is over: tasks may have been spawned.
                let mut news = if self.all_final() { self.look().await? } else { News::new() };
                news.insert(0, (id, state));
                Ok(news)
            }
        }
    }

    /// Bears with a server that is away, for a while.
    async fn bear(&mut self, error: Error) -> Result<(), Error> {
        if self.events.is_some() && self.looked {
            self.patience.renew();
        }
        self.events = None;
        self.patience.bear(error).await
    }

    /// Looks at what is not final, as far as is known.
    async fn look(&mut self) -> Result<News, Error> {
        let seen = match &self.scope {
            Scope::Tasks(tasks) => self.look_at_each(tasks).await?,
            Scope::Workflow(workflow) => {
                let tasks = tasks_of(&self.api, &[*workflow]).await?;
                let called = tasks.into_iter().filter(|task| !was_not_called(task));
                let seen: News = called.map(|task| (task.id, task.state)).collect();
                let ids: HashSet<TaskId> = seen.iter().map(|(id, _)| *id).collect();
                self.states.retain(|id, _| ids.contains(id));
                seen
            }
        };
        let changed =
            |(id, state): &(TaskId, TaskState)| self.states.insert(*id, *state) != Some(*state);
        let news = seen.into_iter().filter(changed).collect();
        self.counts = RunProgress::of(self.states.values().copied());
        self.over = self.all_final();
        self.looked = true;
        self.patience.renew();
        Ok(news)
    }

    async fn look_at_each(&self, tasks: &HashSet<TaskId>) -> Result<News, Error> {
        let is_open = |id: &&TaskId| !self.states.get(*id).is_some_and(|state| state.is_final());
        stream::iter(tasks.iter().filter(is_open).copied())
            .map(|id| async move {
                let reply = self.api.get(&["tasks", &id.to_string()], &[]).await?;
                Ok((id, reply.parse::<TaskSummary>()?.state))
            })
            .buffer_unordered(LOOKS_AT_ONCE)
            .try_collect()
            .await
    }

    /// Writes a change down; says whether it was one.
    fn note(&mut self, id: TaskId, state: TaskState) -> bool {
        match self.states.get(&id).copied() {
            // A change from before the last look must not undo an end that was seen there.
            Some(before) if before == state || before.is_final() => return false,
            Some(before) => *self.counts.place(before) -= 1,
            None => self.counts.total += 1,
        }
        *self.counts.place(state) += 1;
        self.states.insert(id, state);
        true
    }

    fn all_final(&self) -> bool {
        let expected = match &self.scope {
            Scope::Tasks(tasks) => tasks.len() as u64,
            Scope::Workflow(_) => 1,
        };
        self.counts.total >= expected && self.counts.is_over()
    }
}

impl Scope {
    fn query(&self) -> Vec<(&'static str, String)> {
        match self {
            Self::Workflow(workflow) => vec![("workflow", workflow.to_string())],
            Self::Tasks(tasks) if tasks.len() <= FILTER_TASKS_MAX => {
                tasks.iter().map(|id| ("task", id.to_string())).collect()
            }
            Self::Tasks(_) => Vec::new(),
        }
    }

    fn covers(&self, id: TaskId) -> bool {
        match self {
            Self::Workflow(_) => true,
            Self::Tasks(tasks) => tasks.contains(&id),
        }
    }
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

/// Whether a task would have run if the workflow had ended otherwise.
pub(crate) fn was_not_called(task: &TaskSummary) -> bool {
    let callback = task.workflow.as_ref().is_some_and(|workflow| !workflow.role.is_member());
    callback && task.state == TaskState::Cancelled
}

/// All tasks of these workflows; those of each are newest first.
pub(crate) fn tasks_of<'a>(
    api: &'a Api,
    workflows: &'a [WorkflowId],
) -> BoxFuture<'a, Result<Vec<TaskSummary>, Error>> {
    // In a box, so that it is compiled here and not by every crate that awaits it.
    async move {
        let mut tasks = Vec::new();
        for some in workflows.chunks(SELECT_WORKFLOWS_MAX) {
            let ids: Vec<String> = some.iter().map(ToString::to_string).collect();
            let query = [("workflow", ids.join(","))];
            tasks.extend(pages(api, &query, usize::MAX).await?.unwrap_or_default());
        }
        Ok(tasks)
    }
    .boxed()
}

/// All tasks that `query` asks for, newest first; nothing if there are more than `max`.
pub(crate) async fn pages(
    api: &Api,
    query: &[(&str, String)],
    max: usize,
) -> Result<Option<Vec<TaskSummary>>, Error> {
    let (mut tasks, mut after) = (Vec::new(), None);
    loop {
        let mut query = query.to_vec();
        query.push(("limit", PAGE_ROWS_MAX.to_string()));
        query.extend(after.map(|cursor| ("after", cursor)));
        let page: Page<TaskSummary> = api.get(&["tasks"], &query).await?.parse()?;
        tasks.extend(page.items);
        after = page.next;
        if tasks.len() > max {
            return Ok(None);
        }
        if after.is_none() {
            return Ok(Some(tasks));
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

    #[test]
    fn an_end_that_was_seen_is_not_undone_by_an_older_change() {
        let api = Api::new("http://127.0.0.1:1").unwrap();
        let mut follow = Follow::tasks(&api, [TaskId(1), TaskId(2)]);
        assert!(follow.note(TaskId(1), TaskState::Done));
        assert!(!follow.note(TaskId(1), TaskState::Leased));
        assert!(follow.note(TaskId(2), TaskState::Leased) && !follow.all_final());
        assert!(follow.note(TaskId(2), TaskState::Dead) && follow.all_final());
        let ended = RunProgress { total: 2, done: 1, dead: 1, ..Default::default() };
        assert_eq!(follow.progress(), ended);
    }
}
