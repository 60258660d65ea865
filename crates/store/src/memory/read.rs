//! Reading what is in memory, in the shapes of the trait.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use divvy_types::view::Upstream;
use divvy_types::{Lane, Name, Payload, Seq, TaskId, TaskState, WorkflowId};

use super::state::Task;
use super::{Shared, lock};
use crate::{
    Error, Family, MemberEnd, MemberRecord, Members, OpenTask, PageQuery, Reader, TaskRecord,
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

    fn page(&mut self, query: &PageQuery) -> Result<Vec<TaskRecord>, Error> {
        let state = lock(&self.0);
        let before = query.before.unwrap_or(Seq(u64::MAX));
        let newest = state.tasks.range(..before).rev().filter(|(_, task)| matches(query, task));
        Ok(newest.take(query.rows).map(|(seq, task)| summary(task.record(*seq))).collect())
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
            let end =
                outcome.map(|end| MemberEnd { state: end.state, at: end.at, error: end.error });
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

fn matches(query: &PageQuery, task: &Task) -> bool {
    let state = task.outcome.as_ref().map(|end| end.state);
    let in_state =
        |states: &Vec<TaskState>| state.map_or(states.is_empty(), |state| states.contains(&state));
    let of_kind = |wanted: &str| match wanted.strip_suffix('*') {
        Some(start) => task.spec.kind.starts_with(start),
        None => task.spec.kind == wanted,
    };
    query.states.as_ref().is_none_or(in_state)
        && query.kind.as_deref().is_none_or(of_kind)
        && query.queue.as_ref().is_none_or(|queue| task.spec.queue == *queue)
        && query.tag.as_ref().is_none_or(|tag| task.spec.tags.contains(tag))
        && query
            .workflow
            .is_none_or(|id| task.spec.workflow.as_ref().is_some_and(|workflow| workflow.id == id))
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
