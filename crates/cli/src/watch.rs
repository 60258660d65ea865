//! Waits until tasks are final, by listening to the server's events; shows how far they are.
//!
//! Subscribes first and looks at the states after that, so no change is missed. When events were lost or the
//! connection broke, it looks again. It never asks in a loop.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::Result;
use divvy_types::limits::PAGE_ROWS_MAX;
use divvy_types::view::TaskSummary;
use divvy_types::{TaskId, TaskState, WorkflowId};
use futures_util::{StreamExt, TryStreamExt, stream};
use tokio::time::Instant;

use crate::exit::{Code, Failure};
use crate::http::events::{Event, Events};
use crate::http::{Api, parse_rows};
use crate::output::Output;
use crate::output::bars::{Bars, Stage};
use crate::output::words;

/// How long a server may be away while we wait; it comes back where it was.
const PATIENCE: Duration = Duration::from_secs(30);
const RECONNECT_AFTER: Duration = Duration::from_millis(500);
const REFRESH_AT_ONCE: usize = 16;
/// More tasks than this are picked out of all changes here, because their ids would not fit into an address.
const FILTER_TASKS_MAX: usize = 50;
/// When nothing has begun after this long, people want to know why.
const HINT_AFTER: Duration = Duration::from_secs(3);
const REDRAW_EVERY: Duration = Duration::from_millis(500);

/// What to wait for.
pub(crate) struct Watch<'a> {
    api: &'a Api,
    output: &'a Output,
    stages: Vec<Stage>,
    tasks: HashMap<TaskId, Watched>,
    workflow: Option<WorkflowId>,
    timeout: Option<Duration>,
    hint_at: Option<Instant>,
}

struct Watched {
    stage: usize,
    state: Option<TaskState>,
}

impl<'a> Watch<'a> {
    /// Waits for these tasks, each in the stage that is named beside it.
    pub(crate) fn new<'n>(
        api: &'a Api,
        output: &'a Output,
        tasks: impl IntoIterator<Item = (TaskId, &'n str)>,
    ) -> Self {
        let mut stages: Vec<Stage> = Vec::new();
        let mut watched = HashMap::new();
        for (id, name) in tasks {
            let stage = stages.iter().position(|stage| stage.name == name).unwrap_or_else(|| {
                stages.push(Stage { name: name.to_owned(), ..Stage::default() });
                stages.len() - 1
            });
            if watched.insert(id, Watched { stage, state: None }).is_none() {
                stages[stage].total += 1;
            }
        }
        Self {
            api,
            output,
            stages,
            tasks: watched,
            workflow: None,
            timeout: None,
            hint_at: Some(Instant::now() + HINT_AFTER),
        }
    }

    /// All of these tasks belong to this workflow.
    pub(crate) fn in_workflow(mut self, workflow: WorkflowId) -> Self {
        self.workflow = Some(workflow);
        self
    }

    /// Gives up after this long.
    pub(crate) fn for_at_most(mut self, timeout: Option<Duration>) -> Self {
        self.timeout = timeout;
        self
    }

    /// Waits; the states at the end.
    pub(crate) async fn run(mut self) -> Result<HashMap<TaskId, TaskState>> {
        let mut bars = Bars::new(self.output, &self.stages);
        let outcome = match self.timeout {
            None => self.until_final(&mut bars).await,
            Some(timeout) => match tokio::time::timeout(timeout, self.until_final(&mut bars)).await
            {
                Ok(outcome) => outcome,
                Err(_) => Err(self.timed_out(timeout)),
            },
        };
        outcome?;
        bars.finish(&self.counted());
        Ok(self.tasks.into_iter().filter_map(|(id, watched)| Some((id, watched.state?))).collect())
    }

    fn timed_out(&self, timeout: Duration) -> anyhow::Error {
        let open = self.tasks.iter().filter(|(_, watched)| !watched.is_final());
        let first = open.clone().map(|(id, _)| *id).min();
        let message = format!(
            "{} not final after {}",
            words::count(open.count() as u64, "task"),
            words::span(timeout)
        );
        let failure = Failure::new(Code::TimedOut, message);
        match first {
            Some(id) => failure.cure(format!("see why: divvy explain {id}")).into(),
            None => failure.into(),
        }
    }

    async fn until_final(&mut self, bars: &mut Bars) -> Result<()> {
        let mut last_good = Instant::now();
        loop {
            let error = match self.follow(bars, &mut last_good).await {
                Ok(true) => return Ok(()),
                Ok(false) => None,
                Err(error) => Some(error),
            };
            let unreachable = |error: &anyhow::Error| {
                error
                    .downcast_ref::<Failure>()
                    .is_some_and(|failure| failure.code == Code::Unreachable)
            };
            if let Some(error) = error
                && (!unreachable(&error) || last_good.elapsed() > PATIENCE || !self.was_seen())
            {
                return Err(error);
            }
            tokio::time::sleep(RECONNECT_AFTER).await;
        }
    }

    /// Follows one connection: true when all are final, false when it ended before.
    async fn follow(&mut self, bars: &mut Bars, last_good: &mut Instant) -> Result<bool> {
        let mut query = Vec::new();
        if let Some(workflow) = self.workflow {
            query.push(("workflow", workflow.to_string()));
        } else if self.tasks.len() <= FILTER_TASKS_MAX {
            query.extend(self.tasks.keys().map(|id| ("task", id.to_string())));
        }
        let mut events = Events::open(self.api, &query).await?;
        self.refresh().await?;
        tracing::debug!("listens for changes of {} task(s)", self.tasks.len());
        let mut redraw = tokio::time::interval(REDRAW_EVERY);
        loop {
            *last_good = Instant::now();
            if self.tasks.values().all(Watched::is_final) {
                return Ok(true);
            }
            tokio::select! {
                event = events.next() => match event {
                    Some(Event::Change(change)) => self.note(change.id, change.state),
                    Some(Event::Lagged) => self.refresh().await?,
                    None => return Ok(false),
                },
                _ = redraw.tick() => {
                    bars.update(&self.counted());
                    self.hint(bars).await?;
                }
            }
        }
    }

    /// Says once why nothing has begun, in the server's words.
    async fn hint(&mut self, bars: &Bars) -> Result<()> {
        if self.hint_at.is_none_or(|time| Instant::now() < time) {
            return Ok(());
        }
        self.hint_at = None;
        let begun =
            |watched: &Watched| watched.is_final() || watched.state == Some(TaskState::Leased);
        let Some(first) = self.tasks.keys().min().filter(|_| !self.tasks.values().any(begun))
        else {
            return Ok(());
        };
        let reply = self.api.get(&["tasks", &first.to_string()], &[]).await?;
        if let Some(text) = reply.parse::<TaskSummary>()?.wait_text {
            bars.note(&format!("nothing runs yet: {text}"));
        }
        Ok(())
    }

    fn was_seen(&self) -> bool {
        self.tasks.values().any(|watched| watched.state.is_some())
    }

    fn note(&mut self, id: TaskId, state: TaskState) {
        // An event from before the last look must not undo an end that was seen there.
        if let Some(watched) = self.tasks.get_mut(&id).filter(|watched| !watched.is_final()) {
            watched.state = Some(state);
        }
    }

    /// Looks at all tasks that were not final when last seen.
    async fn refresh(&mut self) -> Result<()> {
        let seen = match self.workflow {
            Some(workflow) => self.look_at_workflow(workflow).await?,
            None => self.look_at_each().await?,
        };
        for (id, state) in seen {
            self.note(id, state);
        }
        Ok(())
    }

    async fn look_at_each(&self) -> Result<Vec<(TaskId, TaskState)>> {
        let open = self.tasks.iter().filter(|(_, watched)| !watched.is_final()).map(|(id, _)| *id);
        stream::iter(open)
            .map(|id| async move {
                let reply = self.api.get(&["tasks", &id.to_string()], &[]).await?;
                anyhow::Ok((id, reply.parse::<TaskSummary>()?.state))
            })
            .buffer_unordered(REFRESH_AT_ONCE)
            .try_collect()
            .await
    }

    async fn look_at_workflow(&self, workflow: WorkflowId) -> Result<Vec<(TaskId, TaskState)>> {
        let mut seen = Vec::new();
        let mut after = None;
        loop {
            let mut query =
                vec![("workflow", workflow.to_string()), ("limit", PAGE_ROWS_MAX.to_string())];
            query.extend(after.map(|cursor| ("after", cursor)));
            let page = self.api.get(&["tasks"], &query).await?.rows()?;
            let rows: Vec<TaskSummary> = parse_rows(&page.items)?;
            seen.extend(rows.into_iter().map(|task| (task.id, task.state)));
            after = page.next;
            if after.is_none() {
                return Ok(seen);
            }
        }
    }

    fn counted(&self) -> Vec<Stage> {
        let mut stages = self.stages.clone();
        for watched in self.tasks.values() {
            let stage = &mut stages[watched.stage];
            match watched.state {
                Some(TaskState::Leased) => stage.running += 1,
                Some(TaskState::Done) => stage.done += 1,
                Some(TaskState::Dead | TaskState::Cancelled) => stage.failed += 1,
                _ => {}
            }
        }
        stages
    }
}

impl Watched {
    fn is_final(&self) -> bool {
        self.state.is_some_and(TaskState::is_final)
    }
}
