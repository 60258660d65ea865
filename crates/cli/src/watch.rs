//! Waits until tasks are final and shows how far they are. How they are followed is the SDK's business.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use anyhow::Result;
use divvy::Follow;
use divvy::api::Api;
use divvy_types::view::TaskSummary;
use divvy_types::{TaskId, TaskState, WorkflowId};
use tokio::time::Instant;

use crate::commands::waits;
use crate::exit::{Code, Failure};
use crate::output::Output;
use crate::output::bars::{Bars, Stage};
use crate::output::words;

/// When nothing has begun after this long, people want to know why.
const HINT_AFTER: Duration = Duration::from_secs(3);
const REDRAW_EVERY: Duration = Duration::from_millis(500);

/// What to wait for.
pub(crate) struct Watch<'a> {
    api: &'a Api,
    output: &'a Output,
    stages: Vec<Stage>,
    tasks: HashMap<TaskId, Watched>,
    /// How many of them are not final.
    open: usize,
    workflow: Option<WorkflowId>,
    /// Tasks that may end without having been called, which is no failure.
    callbacks: HashSet<TaskId>,
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
            open: watched.len(),
            tasks: watched,
            workflow: None,
            callbacks: HashSet::new(),
            timeout: None,
            hint_at: Some(Instant::now() + HINT_AFTER),
        }
    }

    /// All of these tasks belong to this workflow.
    pub(crate) fn in_workflow(mut self, workflow: WorkflowId) -> Self {
        self.workflow = Some(workflow);
        self
    }

    /// These run only if the workflow ends in their way: a cancelled one did not fail.
    pub(crate) fn with_callbacks(mut self, callbacks: impl IntoIterator<Item = TaskId>) -> Self {
        self.callbacks.extend(callbacks);
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
        self.cancel_callbacks_not_called();
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
        let mut follow = match self.workflow {
            Some(workflow) => Follow::workflow(self.api, workflow).hasty(),
            None => Follow::tasks(self.api, self.tasks.keys().copied()).hasty(),
        };
        let mut redraw = tokio::time::interval(REDRAW_EVERY);
        while self.open > 0 {
            let news = follow.next();
            tokio::pin!(news);
            let news = loop {
                tokio::select! {
                    news = &mut news => break news?,
                    _ = redraw.tick() => {
                        bars.update(&self.counted());
                        self.hint(bars).await;
                    }
                }
            };
            let Some(news) = news else { return Ok(()) };
            for (id, state) in news {
                self.note(id, state);
            }
        }
        Ok(())
    }

    /// Says once why nothing has begun, in the server's words.
    async fn hint(&mut self, bars: &Bars) {
        if self.hint_at.is_none_or(|time| Instant::now() < time) {
            return;
        }
        self.hint_at = None;
        let begun =
            |watched: &Watched| watched.is_final() || watched.state == Some(TaskState::Leased);
        let Some(first) = self.tasks.keys().min().filter(|_| !self.tasks.values().any(begun))
        else {
            return;
        };
        // A server that is away has nothing to say; the wait itself bears with it.
        let task = self.api.get(&["tasks", &first.to_string()], &[]).await;
        let task = task.and_then(|reply| reply.parse::<TaskSummary>());
        if let Ok(Some(text)) = task.map(|task| waits(&task, words::now())) {
            bars.note(&format!("nothing runs yet: {text}"));
        }
    }

    fn note(&mut self, id: TaskId, state: TaskState) {
        if let Some(watched) = self.tasks.get_mut(&id) {
            self.open += usize::from(watched.is_final());
            watched.state = Some(state);
            self.open -= usize::from(watched.is_final());
        }
    }

    /// A callback that was not called is cancelled with the end of its workflow. Nothing is heard of it if the first look
    /// comes after that.
    fn cancel_callbacks_not_called(&mut self) {
        for id in self.callbacks.clone() {
            if self.tasks.get(&id).is_some_and(|watched| !watched.is_final()) {
                self.note(id, TaskState::Cancelled);
            }
        }
    }

    fn counted(&self) -> Vec<Stage> {
        let mut stages = self.stages.clone();
        for (id, watched) in &self.tasks {
            let stage = &mut stages[watched.stage];
            match watched.state {
                Some(TaskState::Leased) => stage.running += 1,
                Some(TaskState::Done) => stage.done += 1,
                Some(TaskState::Cancelled) if self.callbacks.contains(id) => stage.done += 1,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Color;

    #[test]
    fn a_callback_that_was_not_called_is_no_failure() {
        let api = Api::new("http://127.0.0.1:1").unwrap();
        let output = Output::new(false, true, Color::Never);
        let [member, callback] = [TaskId(1), TaskId(2)];
        let tasks = [(member, "noop"), (callback, "noop")];
        let mut watch = Watch::new(&api, &output, tasks).with_callbacks([callback]);
        watch.note(member, TaskState::Dead);
        // Nothing was heard of the callback.
        watch.cancel_callbacks_not_called();
        assert_eq!((watch.open, watch.tasks[&callback].state), (0, Some(TaskState::Cancelled)));
        let [stage] = &watch.counted()[..] else { panic!("one stage") };
        assert_eq!((stage.done, stage.failed), (1, 1));
    }
}
