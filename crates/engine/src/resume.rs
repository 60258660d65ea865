//! Retry what failed in a workflow, and continue: which of its failed tasks are put back, and what they wait for.
//!
//! Put back is every dead member and every member that was cancelled because a dependency failed; those that people
//! cancelled only if it is asked for. They wait for their dependencies as before; what is done stays done, and its
//! result is handed on. A member whose required dependency stays failed stays so too, since it could not run. A
//! finished task whose failed child is put back is settling again, so that whoever joins on it waits for the child.
//! A task whose unique key another one has stays failed, and of several that share a key the oldest is put back.
//! Tasks that were cancelled because the workflow failed wait for its end again; one that has run is not run again.
//!
//! Everything is recorded in one step, and so in one commit: after a crash all of it is put back, or nothing.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use divvy_scheduler::Input;
use divvy_scheduler::input::{RecoveredTask, Spawner};
use divvy_store::{MemberRecord, Members, TaskRecord};
use divvy_types::view::ResumedWorkflow;
use divvy_types::{
    Dependency, GroupDependency, Name, OpenTask, Seq, TaskId, TaskState, WorkflowId,
};

use crate::core::{Core, Known};
use crate::locate::SETTLED_LOOK_MAX;
use crate::request::{Error, Reply, Request};

/// Members that one resume puts back; a larger workflow is resumed by several.
const RESUME_MAX: usize = 100_000;
/// Members after which it is asked again whether all fit into memory.
const ROOM_EVERY: usize = 256;
/// How the reason of a task begins that was cancelled because a dependency failed.
const DEPENDENCY_FAILED: &str = "dependency ";
/// Why a callback was cancelled that waits for a success.
const WORKFLOW_FAILED: &str = "the workflow failed";

/// A failed task that may be put back.
struct Candidate {
    seq: Seq,
    after: Vec<Dependency>,
    after_groups: Vec<GroupDependency>,
    spawned_by: Option<Seq>,
    dead: bool,
    unique_key: Option<Name>,
}

/// The failed tasks of a workflow.
#[derive(Default)]
struct Failed {
    members: BTreeMap<TaskId, Candidate>,
    callbacks: BTreeMap<TaskId, Candidate>,
    /// Failed members of each group, those included that stay so.
    groups: BTreeMap<Name, Vec<TaskId>>,
    /// Those whose unique key another task has now.
    keyless: Vec<TaskId>,
    /// Failed members in all.
    count: u64,
    departing: bool,
}

impl Core {
    pub(crate) fn resume_workflow(
        &mut self,
        id: WorkflowId,
        include_cancelled: bool,
        reply: Reply<ResumedWorkflow>,
    ) -> Result<(), Error> {
        let mut failed = self.failed_tasks(id, include_cancelled)?;
        if failed.count == 0 && failed.callbacks.is_empty() && !self.is_workflow(id)? {
            self.park(reply, Err(Error::NoSuchWorkflow(id.to_string().into())));
            return Ok(());
        }
        keep_oldest(&mut failed.members, RESUME_MAX);
        self.drop_hopeless(&mut failed)?;
        if failed.members.is_empty() {
            // The workflow stays failed, so whoever waits for its success would be cancelled again at once.
            failed.callbacks.retain(|_, callback| callback.dead);
        }
        if failed.departing || self.departing_workflows.contains_key(&id) {
            self.deferred.push(Request::ResumeWorkflow { id, include_cancelled, reply });
            return Ok(());
        }
        let mut members = failed.members.values();
        if !failed.callbacks.is_empty() || members.any(|member| !member.after_groups.is_empty()) {
            self.look_up_workflow(id)?;
        }
        let (members, callbacks) = (in_order(&failed.members), in_order(&failed.callbacks));
        if !self.put_back_together(&failed)? {
            self.park(reply, Err(Error::MemoryFull));
            return Ok(());
        }
        // One that cannot run after all was cancelled again.
        let open = |seqs: Vec<Seq>| {
            seqs.into_iter().filter(|seq| self.scheduler.state(*seq).is_some()).count() as u64
        };
        let (resumed, callbacks) = (open(members), open(callbacks));
        let left = failed.count - resumed;
        self.park(reply, Ok(ResumedWorkflow { id, resumed, callbacks, left }));
        Ok(())
    }

    /// Whether any task of this workflow is known.
    pub(crate) fn is_workflow(&mut self, id: WorkflowId) -> Result<bool, Error> {
        let mut found = self.scheduler.open_members(id) > 0;
        if !found {
            self.reader.members(id, Members::All, &mut |_| {
                found = true;
                false
            })?;
        }
        Ok(found)
    }

    fn failed_tasks(&mut self, id: WorkflowId, all: bool) -> Result<Failed, Error> {
        let mut failed = Failed::default();
        let Self { reader, ids, keys, now, .. } = self;
        reader.members(id, Members::Failed, &mut |record| {
            match ids.get(&record.spec.id) {
                // It was put back a moment ago.
                Some(known) if !known.departing => return true,
                Some(_) => failed.departing = true,
                None => {}
            }
            if keys.is_taken_from(*now, record.spec.id, &record.spec) {
                failed.keyless.push(record.spec.id);
            }
            failed.add(record, all);
            true
        })?;
        Ok(failed)
    }

    /// Leaves out members with a required dependency that stays failed, and whoever depends on them.
    fn drop_hopeless(&mut self, failed: &mut Failed) -> Result<(), Error> {
        let mut ends: BTreeMap<TaskId, Vec<TaskId>> = BTreeMap::new();
        let mut needed_by: BTreeMap<TaskId, Vec<TaskId>> = BTreeMap::new();
        let mut hopeless = std::mem::take(&mut failed.keyless);
        for task in &hopeless {
            failed.callbacks.remove(task);
        }
        let departing = |edge: &Dependency| self.is_departing(edge.task);
        let mut tasks = failed.members.values().chain(failed.callbacks.values());
        failed.departing |= tasks.any(|candidate| candidate.after.iter().any(departing));
        for (task, candidate) in &failed.members {
            let required = candidate.after_groups.iter().filter(|edge| !edge.optional);
            for failure in required.filter_map(|edge| failed.groups.get(&edge.group)).flatten() {
                if failed.members.contains_key(failure) {
                    needed_by.entry(*failure).or_default().push(*task);
                } else {
                    hopeless.push(*task);
                }
            }
            for edge in candidate.after.iter().filter(|edge| !edge.optional) {
                let failures = match ends.entry(edge.task) {
                    Entry::Occupied(known) => known.into_mut(),
                    Entry::Vacant(free) => {
                        free.insert(self.failures_behind(edge.task, &mut failed.departing)?)
                    }
                };
                for failure in failures {
                    if failed.members.contains_key(failure) {
                        needed_by.entry(*failure).or_default().push(*task);
                    } else {
                        hopeless.push(*task);
                    }
                }
            }
        }
        let mut leave_out = |failed: &mut Failed, mut hopeless: Vec<TaskId>| {
            while let Some(task) = hopeless.pop() {
                if failed.members.remove(&task).is_some() {
                    hopeless.extend(needed_by.remove(&task).into_iter().flatten());
                }
            }
        };
        leave_out(failed, hopeless);
        let second = failed.second_of_their_keys();
        leave_out(failed, second);
        Ok(())
    }

    /// The failed tasks that make a dependency a failed one: itself, or children that it spawned.
    fn failures_behind(
        &mut self,
        task: TaskId,
        departing: &mut bool,
    ) -> Result<Vec<TaskId>, Error> {
        if let Some(known) = self.ids.get(&task) {
            *departing |= known.departing;
            return Ok(Vec::new());
        }
        let Some(record) = self.reader.find(task)? else { return Ok(Vec::new()) };
        match record.outcome.as_ref().map(|end| end.state) {
            None => Ok(Vec::new()),
            Some(TaskState::Done) => {
                let family = self.reader.upstream(&[record.seq], SETTLED_LOOK_MAX, 0)?.ends;
                let failed = family.iter().filter(|member| member.state.is_failure());
                let failed: Vec<TaskId> = failed.map(|member| member.task).collect();
                // A child that was put back a moment ago is open.
                Ok(failed.into_iter().filter(|child| !self.ids.contains_key(child)).collect())
            }
            Some(_) => Ok(vec![task]),
        }
    }

    /// Opens all of these in one step, so that they wait for each other whatever their order; none if memory has no
    /// room for them.
    fn put_back_together(&mut self, failed: &Failed) -> Result<bool, Error> {
        let members = failed.members.values();
        let nearest = members.filter_map(|candidate| candidate.spawned_by).collect();
        let spawners = self.spawners_of(nearest, &|task| failed.members.contains_key(&task))?;
        let mut records: Vec<TaskRecord> = Vec::new();
        for group in [&failed.members, &failed.callbacks] {
            for (count, seq) in in_order(group).into_iter().enumerate() {
                records.extend(self.reader.get(seq)?);
                // Looked at meanwhile too, so that what does not fit is not gathered.
                if count % ROOM_EVERY == 0 && !self.has_room_for_all(&records) {
                    return Ok(false);
                }
            }
        }
        if !self.has_room_for_all(&records) {
            return Ok(false);
        }
        let spawned = spawners.iter().map(|spawner| (spawner.task, spawner.seq));
        let own = records.iter().map(|record| (record.spec.id, record.seq));
        self.ids.extend(spawned.chain(own).map(|(task, seq)| (task, Known::open(seq))));
        let mut tasks: Vec<RecoveredTask> = Vec::with_capacity(records.len());
        for record in records {
            tasks.push(self.member_to_put_back(record)?);
        }
        self.feed(Input::TasksResumed { spawners, tasks });
        Ok(true)
    }

    fn has_room_for_all(&self, records: &[TaskRecord]) -> bool {
        self.scheduler.has_room_in_memory(records.iter().map(|record| &record.spec))
    }

    /// The finished tasks above those that are put back, up to the first of each line, spawners first.
    pub(crate) fn spawners_of(
        &mut self,
        nearest: BTreeSet<Seq>,
        is_put_back: &dyn Fn(TaskId) -> bool,
    ) -> Result<Vec<Spawner>, Error> {
        let mut found: BTreeMap<Seq, Spawner> = BTreeMap::new();
        for spawner in nearest {
            let mut next = Some(spawner);
            while let Some(seq) = next.filter(|seq| !found.contains_key(seq)) {
                let Some(record) = self.reader.get(seq)? else { break };
                next = record.spawned_by;
                let spawner = Spawner {
                    seq,
                    task: record.spec.id,
                    failed: self.stays_failed(seq, is_put_back)?,
                    spawned_by: record.spawned_by,
                    member: record.spec.member(),
                };
                found.insert(seq, spawner);
            }
        }
        // A spawner has a smaller number than whom it spawned.
        Ok(found.into_values().collect())
    }

    /// Whether a task below a finished one has failed and is not put back.
    fn stays_failed(
        &mut self,
        seq: Seq,
        is_put_back: &dyn Fn(TaskId) -> bool,
    ) -> Result<bool, Error> {
        let family = self.reader.upstream(&[seq], SETTLED_LOOK_MAX, 0)?.ends;
        let mut failed = family.iter().filter(|member| member.state.is_failure());
        // One that is open was put back a moment ago.
        let open = |task| self.ids.get(&task).is_some_and(|known| !known.departing);
        Ok(failed.any(|member| !is_put_back(member.task) && !open(member.task)))
    }

    fn member_to_put_back(&mut self, record: TaskRecord) -> Result<RecoveredTask, Error> {
        let TaskRecord { seq, submitted_at, spec, spawned_by, .. } = record;
        let parents = self.parents_of_stored(&spec)?;
        let checkpointed = self.reader.checkpoint(seq)?.is_some();
        self.keys.take(seq, submitted_at, &spec);
        let open = OpenTask {
            spawned_by,
            checkpointed,
            replayed: true,
            ..OpenTask::new(seq, Arc::new(spec), submitted_at)
        };
        Ok(RecoveredTask { open, parents })
    }
}

impl Failed {
    /// Members whose unique key an older one has; callbacks of that sort are left out at once.
    fn second_of_their_keys(&mut self) -> Vec<TaskId> {
        let tasks = self.members.iter().chain(&self.callbacks);
        let mut keyed: Vec<(Seq, TaskId, Name)> = tasks
            .filter_map(|(task, candidate)| {
                Some((candidate.seq, *task, candidate.unique_key.clone()?))
            })
            .collect();
        keyed.sort_unstable();
        let mut taken = BTreeSet::new();
        keyed.retain(|(_, _, key)| !taken.insert(key.clone()));
        let second: Vec<TaskId> = keyed.into_iter().map(|(_, task, _)| task).collect();
        for task in &second {
            self.callbacks.remove(task);
        }
        second
    }

    fn add(&mut self, record: MemberRecord, all: bool) {
        let Some(end) = record.end else { return };
        let dead = end.state == TaskState::Dead;
        let reason = end.error.map(|error| error.message).unwrap_or_default();
        let MemberRecord { seq, spec, spawned_by, .. } = record;
        let id = spec.id;
        let member = spec.member();
        let (after, after_groups) = (spec.after.clone(), spec.after_groups.clone());
        let unique_key = spec.unique.as_ref().map(|unique| unique.key.clone());
        let candidate = Candidate { seq, after, after_groups, spawned_by, dead, unique_key };
        if let Some(member) = member {
            self.count += 1;
            if let Some(group) = member.group {
                self.groups.entry(group).or_default().push(id);
            }
            if dead || all || reason.starts_with(DEPENDENCY_FAILED) {
                self.members.insert(id, candidate);
            }
        } else if dead || reason == WORKFLOW_FAILED {
            self.callbacks.insert(id, candidate);
        }
    }
}

fn in_order(group: &BTreeMap<TaskId, Candidate>) -> Vec<Seq> {
    let mut seqs: Vec<Seq> = group.values().map(|candidate| candidate.seq).collect();
    seqs.sort_unstable();
    seqs
}

fn keep_oldest(members: &mut BTreeMap<TaskId, Candidate>, most: usize) {
    if members.len() <= most {
        return;
    }
    let last = in_order(members)[most - 1];
    members.retain(|_, candidate| candidate.seq <= last);
}
