//! Workflows for people: how one stands, which there are, and cancel and resume from outside.
//!
//! What all of them gather from the tasks of a workflow is in `outline`.

use divvy_store::{MemberRecord, Members, Reader};
use divvy_types::limits::PAGE_ROWS_MAX;
use divvy_types::view::{
    CancelledWorkflow, Page, ResumedWorkflow, SelectWorkflows, WorkflowCounts, WorkflowSummary,
    WorkflowTask, WorkflowView,
};
use divvy_types::{IdEnd, Name, Seq, TaskId, TaskState, WorkflowId};

use crate::core::Core;
use crate::handle::Handle;
use crate::list::cursor;
use crate::outline::{Outline, SLICE};
use crate::query::{CANDIDATES_MAX, PREFIX_LEN_MIN, only};
use crate::request::{Error, Request};

/// Failed members and callbacks that a view of a workflow shows.
const SHOWN_MAX: usize = 20;
/// Stretches of the store that are looked through for one page of a list.
const LOOKS_MAX: usize = 4;
/// Members that are looked at for one page of a list, roughly: a page ends early behind a large workflow.
const WALKED_MAX: u64 = 100_000;
/// How often a cancel looks for members that came to be while it ran.
const CANCEL_PASSES_MAX: usize = 100;

/// What one walk over the members of a workflow finds.
#[derive(Default)]
struct Walk {
    outline: Outline,
    counts: WorkflowCounts,
    dead: Vec<WorkflowTask>,
    cancelled: Vec<WorkflowTask>,
    callbacks: Vec<(Seq, WorkflowTask)>,
    open: Vec<(TaskId, Seq)>,
}

impl Walk {
    fn add(&mut self, record: MemberRecord) {
        let role = self.outline.add(&record);
        let MemberRecord { seq, spec, end, .. } = record;
        let task = WorkflowTask {
            id: spec.id,
            kind: spec.kind.clone(),
            role,
            state: end.as_ref().map_or(TaskState::Ready, |end| end.state),
            error: end.as_ref().and_then(|end| end.error.clone()),
        };
        if !role.is_member() {
            if self.callbacks.len() < SHOWN_MAX {
                self.callbacks.push((seq, task));
            }
            return;
        }
        let Some(end) = end else {
            self.open.push((spec.id, seq));
            return;
        };
        *self.counts.of(end.state) += 1;
        let list = match end.state {
            TaskState::Dead => &mut self.dead,
            TaskState::Cancelled => &mut self.cancelled,
            _ => return,
        };
        if list.len() < SHOWN_MAX {
            list.push(task);
        }
    }

    fn view(mut self, id: WorkflowId) -> WorkflowView {
        self.dead.extend(self.cancelled);
        self.dead.truncate(SHOWN_MAX);
        let outline = self.outline;
        WorkflowView {
            id,
            state: outline.state(),
            total: outline.total,
            counts: self.counts,
            percent: outline.percent(),
            started_at: outline.started_at,
            ended_at: outline.ended_at(),
            name: outline.name,
            failed: self.dead,
            callbacks: self.callbacks.into_iter().map(|(_, task)| task).collect(),
        }
    }
}

impl Handle {
    /// The workflow that a text stands for: an id, or the start or the end of exactly one.
    pub async fn resolve_workflow(&self, text: &str) -> Result<WorkflowId, Error> {
        if let Ok(id) = text.parse() {
            return Ok(id);
        }
        let unknown = || Error::NoSuchWorkflow(text.chars().take(64).collect());
        let digits = text.chars().filter(|c| *c != '-').count();
        let range = TaskId::prefix_range(text).filter(|_| digits >= PREFIX_LEN_MIN);
        let (low, high) = range.ok_or_else(unknown)?;
        let end = IdEnd::parse(text);
        let read = move |reader: &mut dyn Reader| {
            let above = WorkflowId(high.0.saturating_add(1));
            let found = reader.workflows(Some(above), CANDIDATES_MAX)?;
            let starts = found.into_iter().map(|(id, _)| id).filter(|id| id.0 >= low.0);
            let mut found: Vec<WorkflowId> = starts.collect();
            if let Some(end) = end {
                found.extend(workflows_ending(reader, end)?);
            }
            Ok(found)
        };
        only(text, self.read(read).await?)?.ok_or_else(unknown)
    }

    /// A workflow whole.
    pub async fn workflow(&self, id: WorkflowId) -> Result<WorkflowView, Error> {
        let mut walk = self.walk(id, Walk::add).await?;
        let open = std::mem::take(&mut walk.open);
        for slice in open.chunks(SLICE) {
            for (state, queued) in self.states_of(slice.to_vec()).await? {
                *walk.counts.of(state) += 1;
                walk.counts.queued += u64::from(queued);
            }
        }
        let waiting = walk.callbacks.iter().filter(|(_, task)| !task.state.is_final());
        let waiting = waiting.map(|(seq, task)| (task.id, *seq)).collect();
        let mut states = self.states_of(waiting).await?.into_iter();
        for (_, task) in walk.callbacks.iter_mut().filter(|(_, task)| !task.state.is_final()) {
            task.state = states.next().map_or(task.state, |(state, _)| state);
        }
        Ok(walk.view(id))
    }

    /// One page of the workflows that fit, the last to start first. `after` is what `next` of the page before said.
    pub async fn workflows(
        &self,
        select: SelectWorkflows,
        limit: usize,
        after: Option<String>,
    ) -> Result<Page<WorkflowSummary>, Error> {
        let limit = limit.clamp(1, PAGE_ROWS_MAX);
        let mut before = cursor(after)?;
        let mut found: Vec<(Seq, WorkflowSummary)> = Vec::new();
        let mut partial = true;
        for _ in 0..LOOKS_MAX {
            let wanted = select.clone();
            // One more than the page has tells that the page is not the last.
            let rows = limit + 1 - found.len();
            let look = move |reader: &mut dyn Reader| summaries(reader, &wanted, before, rows);
            let looked = self.read(look).await?;
            found.extend(looked.found);
            before = looked.searched_to;
            if found.len() > limit {
                found.truncate(limit);
                before = found.last().map(|(seq, _)| *seq);
                partial = false;
                break;
            }
            if before.is_none() {
                partial = false;
                break;
            }
        }
        let items = found.into_iter().map(|(_, summary)| summary).collect();
        Ok(Page { items, next: before.map(|seq| seq.0.to_string()), partial })
    }

    /// Cancels every task of a workflow that has not ended, those included that wait for its end. Tasks that members
    /// spawn meanwhile are found too.
    pub async fn cancel_workflow(
        &self,
        id: WorkflowId,
        reason: Name,
    ) -> Result<CancelledWorkflow, Error> {
        // What was submitted or spawned a moment ago must be found.
        self.ask(|reply| Request::Flush { reply }).await?;
        let (mut cancelled, mut asked) = (0, Seq(0));
        for pass in 0..CANCEL_PASSES_MAX {
            let (mut open, known) = self.open_tasks_of(id, asked, pass == 0).await?;
            if !known {
                return Err(Error::NoSuchWorkflow(id.to_string().into()));
            }
            if open.is_empty() {
                break;
            }
            asked = open.iter().map(|(seq, _)| *seq).max().unwrap_or(asked);
            // Dependents first, so that each is cancelled for the reason that was given.
            open.reverse();
            for slice in open.chunks(SLICE) {
                let ids = slice.iter().map(|(_, id)| *id).collect();
                let reason = reason.clone();
                cancelled +=
                    self.ask(|reply| Request::CancelMembers { ids, reason, reply }).await?;
            }
        }
        Ok(CancelledWorkflow { id, cancelled })
    }

    /// Puts back what failed in a workflow, so that it continues.
    pub async fn resume_workflow(
        &self,
        id: WorkflowId,
        include_cancelled: bool,
    ) -> Result<ResumedWorkflow, Error> {
        // What failed a moment ago must be found.
        self.ask(|reply| Request::Flush { reply }).await?;
        self.ask(|reply| Request::ResumeWorkflow { id, include_cancelled, reply }).await
    }

    /// Open tasks of a workflow with greater numbers, oldest first, and whether the workflow is known at all.
    async fn open_tasks_of(
        &self,
        id: WorkflowId,
        after: Seq,
        first: bool,
    ) -> Result<(Vec<(Seq, TaskId)>, bool), Error> {
        self.read(move |reader| {
            let mut open: Vec<(Seq, TaskId)> = Vec::new();
            reader.members(id, Members::Open, &mut |member| {
                if member.seq > after {
                    open.push((member.seq, member.spec.id));
                }
                true
            })?;
            let mut known = !first || !open.is_empty();
            if !known {
                reader.members(id, Members::All, &mut |_| {
                    known = true;
                    false
                })?;
            }
            Ok((open, known))
        })
        .await
    }

    async fn states_of(&self, tasks: Vec<(TaskId, Seq)>) -> Result<Vec<(TaskState, bool)>, Error> {
        if tasks.is_empty() {
            return Ok(Vec::new());
        }
        let state = |core: &Core, task: (TaskId, Seq)| {
            (state_of(core, task), core.scheduler().is_queued_at_worker(task.1))
        };
        self.look(move |core| tasks.into_iter().map(|task| state(core, task)).collect()).await
    }
}

/// Workflows that fit, with the numbers of their first tasks, and how far was looked for them.
struct Looked {
    found: Vec<(Seq, WorkflowSummary)>,
    searched_to: Option<Seq>,
}

/// The next workflows that fit. Ends early when the members of those that were looked at are
/// many.
fn summaries(
    reader: &mut dyn Reader,
    select: &SelectWorkflows,
    before: Option<Seq>,
    rows: usize,
) -> Result<Looked, divvy_store::Error> {
    let page = reader.started_workflows(before, rows)?;
    let (mut found, mut walked) = (Vec::new(), 0);
    for (seq, id) in page.workflows {
        let summary = summary(reader, id)?;
        walked += summary.total;
        if select.matches(&summary) {
            found.push((seq, summary));
        }
        if walked > WALKED_MAX {
            return Ok(Looked { found, searched_to: Some(seq) });
        }
    }
    Ok(Looked { found, searched_to: page.searched_to })
}

fn summary(reader: &mut dyn Reader, id: WorkflowId) -> Result<WorkflowSummary, divvy_store::Error> {
    let mut outline = Outline::default();
    reader.members(id, Members::All, &mut |member| {
        outline.add(&member);
        true
    })?;
    Ok(WorkflowSummary {
        id,
        state: outline.state(),
        total: outline.total,
        open: outline.open,
        failed: outline.failed,
        percent: outline.percent(),
        started_at: outline.started_at,
        ended_at: outline.ended_at(),
        name: outline.name,
    })
}

/// The workflows whose ids end so, of all that there are.
fn workflows_ending(
    reader: &mut dyn Reader,
    end: IdEnd,
) -> Result<Vec<WorkflowId>, divvy_store::Error> {
    let (mut found, mut before) = (Vec::new(), None);
    loop {
        let page = reader.workflows(before, SLICE)?;
        found.extend(page.iter().map(|(id, _)| *id).filter(|id| end.is_of(id.0)));
        match page.last() {
            Some((last, _)) if page.len() == SLICE => before = Some(*last),
            _ => return Ok(found),
        }
    }
}

/// Where a task is that the store shows open.
pub(crate) fn state_of(core: &Core, (id, seq): (TaskId, Seq)) -> TaskState {
    if core.is_departing(id) {
        // Its end is being written: until that can be read, it is what it was.
        return TaskState::Leased;
    }
    let open = core.scheduler().state(seq).filter(|state| !state.is_final());
    // One that is not in memory waits in the store.
    open.unwrap_or(TaskState::Ready)
}
