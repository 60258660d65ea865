//! Reading what is in memory, in the shapes of the trait.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use divvy_types::view::Upstream;
use divvy_types::{IdEnd, Lane, Name, Payload, Select, Seq, TaskId, TaskState, WorkflowId};

use super::state::Task;
use super::{Shared, lock};
use crate::{
    Error, Family, MemberEnd, MemberRecord, Members, OpenTask, Reader, TaskPage, TaskRecord,
    WorkflowPage,
};

/// A reader of the shared state.
#[derive(Debug)]
pub(super) struct MemoryReader(pub(super) Shared);

impl Reader for MemoryReader {
    fn find(&mut self, id: TaskId) -> Result<Option<TaskRecord>, Error> {
        let seq = lock(&self.0).ids.get(&id).copied();
        seq.map_or(Ok(None), |seq| self.get(seq))
    }

    fn get(&mut self, seq: Seq) -> Result<Option<TaskRecord>, Error> {
        Ok(lock(&self.0).tasks.get(&seq).map(|task| task.record(seq)))
    }

    fn ids_between(&mut self, low: TaskId, high: TaskId, max: usize) -> Result<Vec<TaskId>, Error> {
        if low > high {
            return Ok(Vec::new());
        }
        Ok(lock(&self.0).ids.range(low..=high).map(|(id, _)| *id).take(max).collect())
    }

    fn ids_ending(&mut self, end: IdEnd, max: usize) -> Result<Vec<TaskId>, Error> {
        let state = lock(&self.0);
        let ends = state.ids.keys().filter(|id| end.is_of(id.0));
        Ok(ends.copied().take(max).collect())
    }

    fn page(
        &mut self,
        select: &Select,
        before: Option<Seq>,
        rows: usize,
    ) -> Result<TaskPage, Error> {
        let state = lock(&self.0);
        let newest = state.tasks.range(..before.unwrap_or(Seq(u64::MAX))).rev();
        let mut page = TaskPage::default();
        for record in newest.map(|(seq, task)| task.record(*seq)) {
            let Ok(fits) = select.matches(&record);
            if fits && page.tasks.len() == rows {
                page.searched_to = page.tasks.last().map(|last| last.seq);
                break;
            }
            page.tasks.extend(fits.then(|| summary(record)));
        }
        Ok(page)
    }

    fn upstream(&mut self, tasks: &[Seq], rows: usize, bytes: usize) -> Result<Family, Error> {
        let state = lock(&self.0);
        let mut queue: VecDeque<(Seq, bool)> = tasks.iter().map(|seq| (*seq, false)).collect();
        let mut seen: BTreeSet<Seq> = BTreeSet::new();
        let (mut family, mut bytes_left) = (Family::default(), bytes);
        while let Some((seq, spawned)) = queue.pop_front() {
            if !seen.insert(seq) {
                continue;
            }
            let Some(task) = state.tasks.get(&seq) else {
                family.cut = true;
                continue;
            };
            let Some(end) = &task.outcome else { continue };
            let result =
                if end.state == TaskState::Done { end.result.clone() } else { Payload::null() };
            let (id, kind) = (task.spec.id, task.spec.kind.clone());
            let end = Upstream { task: id, kind, state: end.state, result, spawned };
            if !family.add(end, rows, &mut bytes_left) {
                break;
            }
            queue
                .extend(state.children.get(&seq).into_iter().flatten().map(|child| (*child, true)));
        }
        Ok(family)
    }

    fn members(
        &mut self,
        workflow: WorkflowId,
        which: Members,
        visit: &mut dyn FnMut(MemberRecord) -> bool,
    ) -> Result<(), Error> {
        let state = lock(&self.0);
        for (seq, task) in &state.tasks {
            let mine = task.spec.workflow.as_ref().is_some_and(|label| label.id == workflow);
            if !mine || !which.include(task.outcome.as_ref().map(|end| end.state)) {
                continue;
            }
            let TaskRecord { seq, submitted_at, spec, spawned_by, outcome, .. } =
                summary(task.record(*seq));
            let end = outcome.map(|end| MemberEnd {
                state: end.state,
                token: end.token,
                at: end.at,
                error: end.error,
            });
            if !visit(MemberRecord { seq, submitted_at, spec, spawned_by, end }) {
                break;
            }
        }
        Ok(())
    }

    fn workflows(
        &mut self,
        before: Option<WorkflowId>,
        rows: usize,
    ) -> Result<Vec<(WorkflowId, Name)>, Error> {
        let state = lock(&self.0);
        let labels = state.tasks.values().filter_map(|task| task.spec.workflow.as_ref());
        let mut found: BTreeMap<WorkflowId, Name> = BTreeMap::new();
        for label in labels.filter(|label| before.is_none_or(|before| label.id < before)) {
            found.entry(label.id).or_insert_with(|| label.name.clone());
        }
        Ok(found.into_iter().rev().take(rows).collect())
    }

    fn started_workflows(
        &mut self,
        before: Option<Seq>,
        rows: usize,
    ) -> Result<WorkflowPage, Error> {
        let state = lock(&self.0);
        let mut firsts: BTreeMap<WorkflowId, Seq> = BTreeMap::new();
        for (seq, task) in &state.tasks {
            if let Some(label) = &task.spec.workflow {
                firsts.entry(label.id).or_insert(*seq);
            }
        }
        let started = firsts.into_iter().map(|(id, seq)| (seq, id));
        let wanted = started.filter(|(seq, _)| before.is_none_or(|before| *seq < before));
        let sorted: BTreeSet<(Seq, WorkflowId)> = wanted.collect();
        let workflows: Vec<_> = sorted.iter().rev().take(rows).copied().collect();
        let more = sorted.len() > rows;
        let searched_to = workflows.last().map(|(seq, _)| *seq).filter(|_| more);
        Ok(WorkflowPage { workflows, searched_to })
    }

    fn checkpoint(&mut self, task: Seq) -> Result<Option<Payload>, Error> {
        Ok(lock(&self.0).tasks.get(&task).and_then(Task::checkpoint))
    }

    fn spilled(
        &mut self,
        lane: Lane,
        after: Option<Seq>,
        rows: usize,
        bytes: usize,
    ) -> Result<Vec<OpenTask>, Error> {
        let state = lock(&self.0);
        let waiting = state.spill.range((lane, Seq(0))..=(lane, Seq(u64::MAX)));
        let mut tasks = Vec::new();
        let mut size = 0;
        for (_, seq) in waiting.filter(|(_, seq)| after.is_none_or(|after| *seq > after)) {
            let Some(task) = state.tasks.get(seq).filter(|task| task.outcome.is_none()) else {
                continue;
            };
            if tasks.len() >= rows || (!tasks.is_empty() && size >= bytes) {
                break;
            }
            size += task.spec.payload.data().len();
            tasks.push(task.open(*seq));
        }
        Ok(tasks)
    }

    fn final_counts(&mut self) -> Result<Vec<(TaskState, u64)>, Error> {
        let state = lock(&self.0);
        let count = |wanted| {
            let ended = state
                .tasks
                .values()
                .filter(|task| task.outcome.as_ref().is_some_and(|end| end.state == wanted));
            (wanted, ended.count() as u64)
        };
        Ok([TaskState::Done, TaskState::Dead, TaskState::Cancelled].map(count).into())
    }
}

/// Leaves out what a list does not show.
fn summary(mut record: TaskRecord) -> TaskRecord {
    record.spec.payload = Payload::null();
    record.attempts.drain(..record.attempts.len().saturating_sub(1));
    record.attempts.iter_mut().for_each(|attempt| attempt.log = None);
    if let Some(end) = &mut record.outcome {
        end.result = Payload::null();
        end.log = None;
    }
    record
}
