//! One job that is under way, as the keeper remembers it: the stage that it is at, what its parts have said, and how far
//! those are that run. All that lasts is in the job's folder; this can be made anew from there at any time.

use std::collections::{BTreeMap, HashMap};

use divvy_workload::files::{read_json, write_json};
use divvy_workload::now_ms;

use super::stagework::Planned;
use super::state::JobFile;
use super::view::{LiveStage, StageView, StreamView};
use super::{Jobs, JobsError};
use crate::job::drive::{Action, Drive, TaskName};
use crate::job::tasks::STAGES;
use crate::job::{Folder, JobError, Kind as _, Next, PartDone, Spec, StageDone, Summary, kinds};
use crate::stream::{SoFar, Stream};

/// What parts that run say, of a view.
const NOTES_MAX: usize = 8;
/// Parts of a stage.
const PARTS_MAX: usize = 100_000;
/// Stages of a job.
const STAGES_MAX: usize = 10_000;

/// A job that is under way.
pub(super) struct Going {
    pub(super) spec: Spec,
    pub(super) folder: Folder,
    /// Stages that are done.
    pub(super) done: Vec<StageDone>,
    /// Which stage it is at.
    pub(super) index: u32,
    pub(super) planned: Planned,
    pub(super) drive: Drive,
    /// What is to be done and could not be done yet.
    pub(super) undone: Option<Action>,
    /// Whether something may have been missed.
    pub(super) is_unsure: bool,
    /// Why no part runs, if that is so.
    pub(super) wait: Option<String>,
    results: HashMap<TaskName, PartDone>,
    progress: BTreeMap<u32, Seen>,
    twins: u32,
}

/// How far a part is that runs.
#[derive(Default)]
struct Seen {
    done: u64,
    total: u64,
    note: String,
    is_running: bool,
}

/// What a job begins with.
pub(super) enum Begun {
    /// A stage.
    Stage(Box<Going>),
    /// Nothing is left to do.
    Finished(Summary),
}

impl Going {
    /// Begins the stage that comes after these, or goes on with it.
    ///
    /// # Errors
    /// If the job cannot go on.
    pub(super) fn begin(
        spec: Spec,
        folder: Folder,
        done: Vec<StageDone>,
    ) -> Result<Begun, JobError> {
        let index = u32::try_from(done.len()).unwrap_or(u32::MAX);
        let broken = |error: &dyn std::fmt::Display| JobError(error.to_string());
        let path = folder.plan(index);
        let planned = match read_json::<Planned>(&path).map_err(|error| broken(&error))? {
            Some(planned) => planned,
            None => match plan(&spec, &done)? {
                Next::Finished(summary) => return Ok(Begun::Finished(summary)),
                Next::Stage(stage) => {
                    let planned = Planned { at_ms: now_ms(), stage };
                    write_json(&path, &planned).map_err(|error| broken(&error))?;
                    planned
                }
            },
        };
        let parts = u32::try_from(planned.stage.parts.len()).unwrap_or(u32::MAX);
        let drive = Drive::begin(parts, planned.stage.speculate);
        Ok(Begun::Stage(Box::new(Self {
            spec,
            folder,
            done,
            index,
            planned,
            drive,
            undone: None,
            is_unsure: false,
            wait: None,
            results: HashMap::new(),
            progress: BTreeMap::new(),
            twins: 0,
        })))
    }

    /// The next thing to do.
    pub(super) fn next_action(&mut self) -> Option<Action> {
        self.undone.take().or_else(|| self.drive.poll_action())
    }

    /// A task was submitted or found.
    pub(super) fn met(&mut self, name: TaskName) {
        self.twins += name.twin;
    }

    /// Notes what a part that is done has said.
    pub(super) fn said(&mut self, name: TaskName, done: PartDone) {
        self.progress.remove(&name.part);
        self.results.insert(name, PartDone { twin: name.twin, ..done });
    }

    /// Notes how far a part is.
    pub(super) fn seen(&mut self, name: TaskName, done: u64, total: u64, note: &str) {
        if !self.results.contains_key(&name) {
            let note = note.to_owned();
            self.progress.insert(name.part, Seen { done, total, note, is_running: true });
        }
    }

    /// A part does not run at the moment.
    pub(super) fn rests(&mut self, name: TaskName) {
        if let Some(seen) = self.progress.get_mut(&name.part) {
            seen.is_running = false;
        }
    }

    /// The stage, whose parts are all done.
    ///
    /// # Errors
    /// If a report is missing.
    pub(super) fn finished(&self, winners: &[u32]) -> Result<StageDone, JobError> {
        let mut parts = Vec::with_capacity(winners.len());
        for (part, twin) in (0..).zip(winners) {
            let Some(done) = self.results.get(&TaskName { part, twin: *twin }) else {
                return Err(JobError(format!("the report of part {part} is missing")));
            };
            parts.push(done.clone());
        }
        Ok(StageDone {
            name: self.planned.stage.name.clone(),
            started_at_ms: self.planned.at_ms,
            ended_at_ms: now_ms(),
            parts,
        })
    }

    /// The stage as people see it when it is done.
    pub(super) fn view_of(&self, done: &StageDone) -> StageView {
        StageView::of(done, self.twins)
    }

    /// The stage as people see it now.
    pub(super) fn live(&self) -> LiveStage {
        let stage = &self.planned.stage;
        let mut view = StageView {
            name: stage.name.clone(),
            parts: u32::try_from(stage.parts.len()).unwrap_or(u32::MAX),
            started_at_ms: self.planned.at_ms,
            twins: self.twins,
            ..StageView::default()
        };
        let mut best: BTreeMap<u32, &PartDone> = BTreeMap::new();
        for (name, done) in &self.results {
            best.entry(name.part).or_insert(done);
        }
        view.take(best.values().copied());
        view.done = self.drive.done();
        let running = self.progress.values().filter(|seen| seen.is_running).count();
        view.running = u32::try_from(running).unwrap_or(u32::MAX);
        view.bytes_total = stage.parts.iter().map(|part| part.bytes).sum();
        for seen in self.progress.values() {
            view.bytes_done += seen.done.min(seen.total.max(seen.done));
            if !seen.note.is_empty() && view.notes.len() < NOTES_MAX {
                view.notes.push(seen.note.clone());
            }
        }
        if view.running == 0 {
            view.notes.extend(self.wait.clone());
        }
        view.bytes_total = view.bytes_total.max(view.bytes_done);
        if self.spec.kind == Stream.name() {
            // What cannot be read now is shown later.
            view.stream = SoFar::read(&self.folder).ok().flatten().map(|so_far| StreamView {
                events: so_far.events,
                late: so_far.late,
                windows_open: so_far.windows_open,
                watermark_ms: so_far.watermark_ms,
                lag_ms: so_far.lag_ms(),
            });
        }
        LiveStage { stage: view }
    }
}

/// What comes next, if it makes sense.
fn plan(spec: &Spec, done: &[StageDone]) -> Result<Next, JobError> {
    let Some(kind) = kinds::find(&spec.kind) else {
        return Err(JobError(format!("this server knows no jobs of kind `{}`", spec.kind)));
    };
    let next = kind.next(spec, done)?;
    if let Next::Stage(stage) = &next {
        if !STAGES.contains(&stage.name.as_str()) {
            return Err(JobError(format!("there is no stage `{}`", stage.name)));
        }
        if stage.parts.len() > PARTS_MAX {
            let (count, name) = (stage.parts.len(), &stage.name);
            let cure = "make the splits larger: --split";
            return Err(JobError(format!(
                "stage `{name}` would have {count} parts, at most {PARTS_MAX}; {cure}"
            )));
        }
        if done.len() >= STAGES_MAX {
            return Err(JobError(format!("the job has {STAGES_MAX} stages and is not done")));
        }
    }
    Ok(next)
}

impl Jobs {
    /// Changes where a job is, whoever else writes.
    pub(super) async fn change(
        &self,
        id: &str,
        change: impl FnOnce(&mut JobFile),
    ) -> Result<(), JobsError> {
        let _writing = self.writing.lock().await;
        let mut state = self.state(id)?;
        change(&mut state);
        write_json(&self.folder(id).state(), &state)?;
        Ok(())
    }
}
