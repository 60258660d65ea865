//! Leads every job from stage to stage, in the background of the server: submits the parts of a stage, hears what becomes
//! of them by the server's events, and lets [`Drive`](crate::job::drive::Drive) decide what follows.
//!
//! Nothing is lost with it: after a restart it reads the folders, submits the current stage of each job again, which is
//! harmless because names make the same tasks of it, and looks at what they have become.

use std::collections::{HashMap, HashSet};
use std::sync::PoisonError;
use std::time::Duration;

use divvy::api::{Api, Frame, Frames, parse_rows};
use divvy::types::view::{TaskChange, TaskDetail, TaskSummary};
use divvy::types::{TaskId, TaskState, WaitReason};
use divvy_workload::files::write_json;
use divvy_workload::now_ms;
use futures_util::{StreamExt as _, stream};
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use super::going::{Begun, Going};
use super::stagework::{self, QUEUE, tag, task_id, twins_tag};
use super::state::{Ended, JobState};
use super::view::StageView;
use super::{Jobs, JobsError, leftovers};
use crate::duckdb;
use crate::job::drive::{Action, Fate, TaskName};
use crate::job::tasks::FOLDER;
use crate::job::{Folder, JobError, Spec, StageDone, Summary};
use crate::web::metrics::Figures;

/// Between two looks at what runs.
const EVERY: Duration = Duration::from_secs(1);
/// Between two looks at everything, if nothing was missed as far as is known.
const NET_EVERY: Duration = Duration::from_secs(30);
/// Tasks that are submitted or looked at together.
const BATCH: usize = 500;
/// Tasks that are looked at side by side.
const LOOKS_AT_ONCE: usize = 16;
/// Tasks that run, of one job, that are looked at.
const RUNNING_MAX: usize = 1_000;

/// When what a job left is swept a second time: longer than a part needs to hear that it shall stop.
const SWEEP_AGAIN_AFTER: Duration = Duration::from_secs(15);

/// What to do where no worker sees the folder of jobs.
const FOLDER_CURE: &str =
    "start a worker that sees the server's folder of jobs: divvy work --flows DIR";

/// Whose task it is.
type Owner = (String, u32, TaskName);

struct Keeper {
    jobs: Jobs,
    figures: Figures,
    going: HashMap<String, Going>,
    /// Jobs that have ended, or cannot be read.
    over: HashSet<String>,
    owners: HashMap<TaskId, Owner>,
    /// Ends that could not be written down yet.
    unnoted: Vec<(String, Option<StageView>, Ended)>,
    /// Jobs that ended a moment ago: an attempt that had not heard of it may have written since.
    swept: Vec<(Instant, Folder)>,
}

impl Jobs {
    /// Leads all jobs until the server stops, and keeps the figures.
    pub(crate) async fn keep(self, figures: Figures, shutdown: CancellationToken) {
        let news = self.news.clone();
        let api = self.client.api().clone();
        let mut keeper = Keeper {
            jobs: self,
            figures,
            going: HashMap::new(),
            over: HashSet::new(),
            owners: HashMap::new(),
            unnoted: Vec::new(),
            swept: Vec::new(),
        };
        let mut events: Option<Frames> = None;
        let mut ticks = tokio::time::interval(EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut net = Instant::now();
        let work = async {
            keeper.take_in().await;
            loop {
                // Who listens makes the server tell every change of every task: only while a job goes.
                if keeper.going.is_empty() {
                    events = None;
                } else if events.is_none() {
                    events = listen(&api).await;
                    keeper.doubt();
                }
                tokio::select! {
                    heard = hear(&mut events) => match heard {
                        Some(frame) => keeper.heard(&frame).await,
                        None => events = None,
                    },
                    () = news.notified() => {
                        // Before a job begins: the end of its first part is heard.
                        if events.is_none() {
                            events = listen(&api).await;
                        }
                        keeper.take_in().await;
                    }
                    _ = ticks.tick() => {
                        if net.elapsed() >= NET_EVERY {
                            net = Instant::now();
                            keeper.doubt();
                        }
                        keeper.tick().await;
                    }
                }
            }
        };
        shutdown.run_until_cancelled(work).await;
    }
}

/// What happens to the parts of all jobs, from now on; nothing if the server does not tell it now.
async fn listen(api: &Api) -> Option<Frames> {
    let query = [("queue", QUEUE.to_owned()), ("progress", "true".to_owned())];
    Frames::open(api, &["events"], &query).await.ok()
}

/// The next event; nothing if the stream is gone. Waits for ever while there is none, because the ticks open another.
async fn hear(events: &mut Option<Frames>) -> Option<Frame> {
    match events {
        Some(frames) => frames.next().await.ok().flatten(),
        None => std::future::pending().await,
    }
}

impl Keeper {
    /// Something may have been missed.
    fn doubt(&mut self) {
        self.going.values_mut().for_each(|going| going.is_unsure = true);
    }

    /// Takes in jobs that are new and cancels those that people want to end.
    async fn take_in(&mut self) {
        let ids = match self.jobs.ids() {
            Ok(ids) => ids,
            Err(error) => return tracing::warn!("jobs cannot be looked after: {error}"),
        };
        for id in ids {
            if self.over.contains(&id) {
                continue;
            }
            if self.going.contains_key(&id) {
                let is_cancelled = self.jobs.state(&id).is_ok_and(|state| state.is_cancelled);
                if is_cancelled && let Some(going) = self.going.get_mut(&id) {
                    going.drive.cancel();
                    self.settle(&id).await;
                }
                continue;
            }
            if let Err(error) = self.adopt(&id).await {
                tracing::warn!("job {id} cannot be led: {error}");
                self.over.insert(id);
            }
        }
    }

    /// Goes on with a job where it is.
    async fn adopt(&mut self, id: &str) -> Result<(), JobsError> {
        let (spec, state) = (self.jobs.spec(id)?, self.jobs.state(id)?);
        let folder = self.jobs.folder(id);
        if state.ended.is_some() {
            leftovers::sweep(&folder);
            self.over.insert(id.to_owned());
            return Ok(());
        }
        let done = self.jobs.done(id)?;
        self.begin(spec, folder, done).await;
        if let Some(going) = self.going.get_mut(id) {
            going.is_unsure = true;
            if state.is_cancelled {
                going.drive.cancel();
            }
        }
        self.settle(id).await;
        Ok(())
    }

    /// Begins the next stage of a job, or ends it.
    async fn begin(&mut self, spec: Spec, folder: Folder, done: Vec<StageDone>) {
        let id = spec.id.clone();
        let begun = Going::begin(spec.clone(), folder.clone(), done.clone());
        let ended = match begun {
            Ok(Begun::Stage(going)) => {
                self.show(&id, Some(&going));
                self.going.insert(id, *going);
                return;
            }
            Ok(Begun::Finished(summary)) => {
                leftovers::publish(&spec, &folder, &done, &summary).map(|_| summary)
            }
            Err(error) => Err(error),
        };
        match ended {
            Ok(summary) => self.end(&id, JobState::Done, None, Some(summary)).await,
            Err(JobError(why)) => self.end(&id, JobState::Failed, Some(why), None).await,
        }
    }

    /// Does what is to be done for a job until there is nothing left.
    async fn settle(&mut self, id: &str) {
        while let Some(action) = self.going.get_mut(id).and_then(Going::next_action) {
            if let Err(error) = self.act(id, &action).await {
                // The next tick tries again.
                tracing::warn!("job {id}: {error}; tries again");
                if let Some(going) = self.going.get_mut(id) {
                    going.undone = Some(action);
                }
                return;
            }
        }
    }

    async fn act(&mut self, id: &str, action: &Action) -> Result<(), JobsError> {
        match action {
            Action::Submit(names) => self.submit(id, names).await,
            Action::Cancel(name) => {
                if let Some(going) = self.going.get(id) {
                    let task = task_id(id, going.index, *name);
                    // One that has ended meanwhile needs no order to stop.
                    match self.jobs.client.cancel(task, Some("the job needs it no more")).await {
                        Err(error) if error.is_temporary() => return Err(error.into()),
                        _ => {}
                    }
                }
                Ok(())
            }
            Action::PutBack(name) => {
                if let Some(going) = self.going.get(id) {
                    let task = task_id(id, going.index, *name);
                    self.jobs.client.retry(task).await?;
                }
                Ok(())
            }
            Action::Done(winners) => self.stage_done(id, winners).await,
            Action::Fail { part, why } => {
                let stage = self.going.get(id).map(|going| going.planned.stage.name.clone());
                let stage = stage.unwrap_or_default();
                let why = format!("part {part} of stage `{stage}`: {why}");
                self.end(id, JobState::Failed, Some(why), None).await;
                Ok(())
            }
            Action::Cancelled => {
                self.end(id, JobState::Cancelled, None, None).await;
                Ok(())
            }
        }
    }

    async fn submit(&mut self, id: &str, names: &[TaskName]) -> Result<(), JobsError> {
        let Some(going) = self.going.get_mut(id) else { return Ok(()) };
        let mut tasks = Vec::with_capacity(names.len());
        for name in names {
            going.met(*name);
            let owner = (id.to_owned(), going.index, *name);
            self.owners.insert(task_id(id, going.index, *name), owner);
            let stage = &going.planned.stage;
            match stagework::task(&going.spec, &going.folder, going.index, stage, *name) {
                Ok(task) => tasks.push(task),
                Err(JobError(why)) => {
                    self.end(id, JobState::Failed, Some(why), None).await;
                    return Ok(());
                }
            }
        }
        for batch in tasks.chunks(BATCH) {
            match self.jobs.client.submit_specs(batch.to_vec()).await {
                Err(error) if error.is_temporary() || error.code() == "overloaded" => {
                    return Err(error.into());
                }
                Err(error) => {
                    let why = format!("the server refuses its tasks: {error}");
                    self.end(id, JobState::Failed, Some(why), None).await;
                    return Ok(());
                }
                Ok(_) => {}
            }
        }
        Ok(())
    }

    /// Notes a stage that is done, and begins the next.
    async fn stage_done(&mut self, id: &str, winners: &[u32]) -> Result<(), JobsError> {
        let Some(going) = self.going.get_mut(id) else { return Ok(()) };
        let stage = match going.finished(winners) {
            Ok(stage) => stage,
            Err(JobError(why)) => {
                self.end(id, JobState::Failed, Some(why), None).await;
                return Ok(());
            }
        };
        let view = going.view_of(&stage);
        write_json(&going.folder.done(going.index), &stage)?;
        let at = going.index as usize;
        self.figures.stage(&view);
        self.jobs
            .change(id, |state| {
                // A try that was broken off may have added it.
                state.stages.truncate(at);
                state.stages.push(view);
            })
            .await?;
        let Some(mut going) = self.going.remove(id) else { return Ok(()) };
        self.owners.retain(|_, (job, _, _)| job != id);
        going.done.push(stage);
        self.begin(going.spec, going.folder, going.done).await;
        Ok(())
    }

    /// Ends a job and sweeps what only the work needed.
    async fn end(
        &mut self,
        id: &str,
        state: JobState,
        reason: Option<String>,
        summary: Option<Summary>,
    ) {
        let live = self.going.remove(id).map(|going| going.live().stage);
        self.owners.retain(|_, (job, _, _)| job != id);
        // First, because a disk that is full has room for the note then. An end that is not noted is found again.
        leftovers::sweep(&self.jobs.folder(id));
        self.swept.push((Instant::now(), self.jobs.folder(id)));
        self.figures.ended(state);
        self.over.insert(id.to_owned());
        let ended = Ended { at_ms: now_ms(), state, reason, summary };
        self.note_end(id.to_owned(), live, ended).await;
    }

    /// Writes down how a job ended; the next tick tries again if that fails.
    async fn note_end(&mut self, id: String, live: Option<StageView>, ended: Ended) {
        let (stage, end) = (live.clone(), ended.clone());
        let noted = self.jobs.change(&id, |file| {
            file.stages.extend(stage);
            file.ended = Some(end);
        });
        if let Err(error) = noted.await {
            tracing::warn!("the end of job {id} cannot be noted: {error}; tries again");
            self.unnoted.push((id, live, ended));
            return;
        }
        self.show(&id, None);
        tracing::info!("job {id} is {}", ended.state.as_str());
    }

    /// What people see of a job's stage.
    fn show(&self, id: &str, going: Option<&Going>) {
        let mut live = self.jobs.live.lock().unwrap_or_else(PoisonError::into_inner);
        match going {
            Some(going) => drop(live.insert(id.to_owned(), going.live())),
            None => drop(live.remove(id)),
        }
    }

    /// Something happened to a task.
    async fn heard(&mut self, frame: &Frame) {
        if frame.name == "lagged" {
            return self.doubt();
        }
        let Ok(change) = serde_json::from_str::<TaskChange>(&frame.data) else { return };
        let Some((id, index, name)) = self.owners.get(&change.id).cloned() else { return };
        let Some(going) = self.going.get_mut(&id).filter(|going| going.index == index) else {
            return;
        };
        if change.state.is_final() {
            let task = self.jobs.client.task(change.id).detail().await;
            match task {
                Ok(task) => self.learn(&id, name, &task),
                Err(_) => going.is_unsure = true,
            }
            self.settle(&id).await;
        } else if let Some(progress) = &change.progress {
            going.seen(name, progress.done, progress.total, &progress.message);
            going.drive.handle(name, Fate::Runs, now_ms());
        } else if change.state != TaskState::Leased {
            going.rests(name);
            going.drive.handle(name, Fate::Waits, now_ms());
        }
    }

    /// Tells the drive what became of a task.
    fn learn(&mut self, id: &str, name: TaskName, task: &TaskDetail) {
        let Some(going) = self.going.get_mut(id) else { return };
        let (fate, done) = stagework::fate(name, task);
        if let Some(done) = done {
            going.said(name, done);
        }
        going.drive.handle(name, fate, now_ms());
    }

    async fn tick(&mut self) {
        self.swept.retain(|(at, folder)| {
            let is_recent = at.elapsed() < SWEEP_AGAIN_AFTER;
            if !is_recent {
                leftovers::sweep(folder);
            }
            is_recent
        });
        for (id, live, ended) in std::mem::take(&mut self.unnoted) {
            self.note_end(id, live, ended).await;
        }
        let ids: Vec<String> = self.going.keys().cloned().collect();
        for id in &ids {
            self.look(id).await;
            if let Some(going) = self.going.get_mut(id) {
                going.drive.tick(now_ms());
            }
            self.settle(id).await;
            if let Some(going) = self.going.get(id) {
                self.show(id, Some(going));
            }
        }
        let stages: Vec<StageView> = self.going.values().map(|going| going.live().stage).collect();
        self.figures.set(&stages);
    }

    /// Looks at what runs, and at everything that is open if something may have been missed.
    async fn look(&mut self, id: &str) {
        let Some(going) = self.going.get_mut(id) else { return };
        if std::mem::take(&mut going.is_unsure) {
            let open: Vec<TaskName> = going.drive.open().filter(|name| name.twin == 0).collect();
            // Twins first: see the rules of the drive.
            match self.twins(id).await {
                Ok(twins) => {
                    self.look_at(id, twins).await;
                    self.look_at(id, open).await;
                }
                Err(_) => self.doubt(),
            }
        }
        let Some(tasks) = self.tasks(id, "leased", RUNNING_MAX).await else { return };
        let wait = match tasks.is_empty() {
            true => self.tasks(id, "ready", 1).await.and_then(|tasks| waits_for(tasks.first()?)),
            false => None,
        };
        if let Some(going) = self.going.get_mut(id) {
            going.wait = wait;
        }
        for task in tasks.iter().filter(|task| task.wait.is_none()) {
            let Some((_, index, name)) = self.owners.get(&task.id).cloned() else { continue };
            let Some(going) = self.going.get_mut(id).filter(|going| going.index == index) else {
                return;
            };
            let progress = task.progress.clone().unwrap_or_default();
            going.seen(name, progress.done, progress.total, &progress.message);
            going.drive.handle(name, Fate::Runs, now_ms());
        }
    }

    /// The twins of a job's stage that were submitted.
    async fn twins(&self, id: &str) -> Result<Vec<TaskName>, divvy::Error> {
        let Some(going) = self.going.get(id).filter(|going| going.planned.stage.speculate) else {
            return Ok(Vec::new());
        };
        let mut found = HashSet::new();
        let mut query = vec![("tag", twins_tag(id, going.index)), ("limit", BATCH.to_string())];
        loop {
            let page = self.jobs.client.api().get(&["tasks"], &query).await?.rows()?;
            found.extend(parse_rows::<TaskSummary>(&page.items)?.iter().map(|task| task.id));
            let Some(next) = page.next else { break };
            query.truncate(2);
            query.push(("after", next));
        }
        let parts = u32::try_from(going.planned.stage.parts.len()).unwrap_or(u32::MAX);
        let names = (0..parts).map(|part| TaskName { part, twin: 1 });
        Ok(names.filter(|name| found.contains(&task_id(id, going.index, *name))).collect())
    }

    /// Tasks of a job in this state; nothing if the server does not say.
    async fn tasks(&self, id: &str, state: &str, limit: usize) -> Option<Vec<TaskSummary>> {
        let query = [("tag", tag(id)), ("state", state.to_owned()), ("limit", limit.to_string())];
        let reply = self.jobs.client.api().get(&["tasks"], &query).await.ok()?;
        parse_rows(&reply.rows().ok()?.items).ok()
    }

    /// Looks at each of these tasks; one that is not there was never submitted.
    async fn look_at(&mut self, id: &str, names: Vec<TaskName>) {
        let Some(index) = self.going.get(id).map(|going| going.index) else { return };
        let client = self.jobs.client.clone();
        let mut found = stream::iter(names)
            .map(|name| {
                let client = client.clone();
                let task = task_id(id, index, name);
                async move { (name, client.task(task).detail().await) }
            })
            .buffered(LOOKS_AT_ONCE);
        while let Some((name, task)) = found.next().await {
            match task {
                Ok(task) => {
                    let owner = (id.to_owned(), index, name);
                    if self.owners.insert(task.summary.id, owner).is_none()
                        && let Some(going) = self.going.get_mut(id)
                    {
                        going.met(name);
                    }
                    self.learn(id, name, &task);
                }
                Err(error) if error.is_temporary() => self.doubt(),
                Err(_) => {}
            }
        }
    }
}

/// What a task waits for, with the cure where it is one of ours.
fn waits_for(task: &TaskSummary) -> Option<String> {
    let text = task.wait_text.clone()?;
    match &task.wait {
        Some(WaitReason::MissingCapability { missing, .. })
            if missing.iter().any(|name| name.as_str() == duckdb::CAPABILITY) =>
        {
            Some(format!("{text}; {}", duckdb::CURE))
        }
        Some(WaitReason::MissingCapability { missing, .. })
            if missing.iter().any(|name| name.as_str() == FOLDER) =>
        {
            Some(format!("{text}; {FOLDER_CURE}"))
        }
        _ => Some(text),
    }
}
