//! Retry what failed in a workflow, and continue: which of its failed tasks are put back, and what they wait for.
//!
//! Put back is every dead member and every member that was cancelled because a dependency failed; those that people
//! cancelled only if it is asked for. They wait for their dependencies as before; what is done stays done, and its
//! result is handed on. A member whose required dependency stays failed stays so too, since it could not run. A
//! finished task whose failed child is put back is settling again, so that whoever joins on it waits for the child.
//! Tasks that were cancelled because the workflow failed wait for its end again; one that has run is not run again.
//!
//! Everything is recorded in one step, and so in one commit: after a crash all of it is put back, or nothing.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use divvy_scheduler::Input;
use divvy_scheduler::input::{RecoveredTask, Submission};
use divvy_store::{MemberRecord, Members, TaskRecord};
use divvy_types::fact::Replay;
use divvy_types::view::ResumedWorkflow;
use divvy_types::{Dependency, Seq, TaskId, TaskState, WorkflowId};

use crate::core::{Core, Known};
use crate::locate::SETTLED_LOOK_MAX;
use crate::request::{Error, Reply, Request};
use crate::workflows::membership;

/// Members that one resume puts back; a larger workflow is resumed by several.
const RESUME_MAX: usize = 100_000;
/// How the reason of a task begins that was cancelled because a dependency failed.
const DEPENDENCY_FAILED: &str = "dependency ";
/// Why a callback was cancelled that waits for a success.
const WORKFLOW_FAILED: &str = "the workflow failed";

/// A failed task that may be put back.
struct Candidate {
    seq: Seq,
    after: Vec<Dependency>,
    spawned_by: Option<Seq>,
    dead: bool,
}

/// The failed tasks of a workflow.
#[derive(Default)]
struct Failed {
    members: BTreeMap<TaskId, Candidate>,
    callbacks: BTreeMap<TaskId, Candidate>,
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
            let _ = reply.send(Err(Error::NoSuchWorkflow(id.to_string().into())));
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
        let (members, callbacks) = (failed.members.len() as u64, failed.callbacks.len() as u64);
        let left = failed.count - members;
        if callbacks > 0 {
            self.look_up_workflow(id)?;
        }
        self.reopen_spawners(&failed.members)?;
        for (task, candidate) in failed.members.iter().chain(&failed.callbacks) {
            self.ids.insert(*task, Known::open(candidate.seq));
        }
        for group in [failed.members, failed.callbacks] {
            let mut seqs: Vec<Seq> = group.into_values().map(|candidate| candidate.seq).collect();
            seqs.sort_unstable();
            for seq in seqs {
                self.put_member_back(seq)?;
            }
        }
        self.park(reply, Ok(ResumedWorkflow { id, resumed: members, callbacks, left }));
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
        let Self { reader, ids, .. } = self;
        reader.members(id, Members::Failed, &mut |record| {
            match ids.get(&record.spec.id) {
                // It was put back a moment ago.
                Some(known) if !known.departing => return true,
                Some(_) => failed.departing = true,
                None => {}
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
        let mut hopeless: Vec<TaskId> = Vec::new();
        for (task, candidate) in &failed.members {
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
        while let Some(task) = hopeless.pop() {
            if failed.members.remove(&task).is_some() {
                hopeless.extend(needed_by.remove(&task).into_iter().flatten());
            }
        }
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

    /// Lets finished tasks settle again whose children are put back.
    fn reopen_spawners(&mut self, members: &BTreeMap<TaskId, Candidate>) -> Result<(), Error> {
        let mut seen: BTreeSet<Seq> = BTreeSet::new();
        let spawners: BTreeSet<Seq> =
            members.values().filter_map(|candidate| candidate.spawned_by).collect();
        for spawner in spawners {
            let mut line: Vec<TaskRecord> = Vec::new();
            let mut next = Some(spawner);
            while let Some(seq) = next.filter(|seq| seen.insert(*seq)) {
                if self.scheduler.state(seq).is_some() {
                    break;
                }
                let Some(record) = self.reader.get(seq)? else { break };
                next = record.spawned_by;
                line.push(record);
            }
            for record in line.into_iter().rev() {
                let (seq, task) = (record.seq, record.spec.id);
                self.ids.insert(task, Known::open(seq));
                self.feed(Input::SpawnerReopened {
                    seq,
                    task,
                    spawned_by: record.spawned_by,
                    workflow: membership(&record.spec),
                });
            }
        }
        Ok(())
    }

    fn put_member_back(&mut self, seq: Seq) -> Result<(), Error> {
        let Some(record) = self.reader.get(seq)? else { return Ok(()) };
        let parents = self.parents_of_stored(&record.spec)?;
        let checkpointed = self.reader.checkpoint(seq)?.is_some();
        self.keys.take(seq, record.submitted_at, &record.spec);
        let task = RecoveredTask {
            task: Submission { seq, spec: Arc::new(record.spec), parents },
            submitted_at: record.submitted_at,
            spawned_by: record.spawned_by,
            attempts: 0,
            lost: 0,
            checkpointed,
            retry_at: None,
            held: None,
            replayed: true,
        };
        // The time says, after a restart, that attempts from before are not to be gone on with.
        let replay = Replay { due: Some(self.now), payload: None, keep_edges: true };
        self.feed(Input::TaskReplayed(task, replay));
        Ok(())
    }
}

impl Failed {
    fn add(&mut self, record: MemberRecord, all: bool) {
        let Some(end) = record.end else { return };
        let dead = end.state == TaskState::Dead;
        let reason = end.error.map(|error| error.message).unwrap_or_default();
        let MemberRecord { seq, spec, spawned_by, .. } = record;
        let id = spec.id;
        let member = membership(&spec).is_some();
        let after = spec.terms.after.clone();
        let candidate = Candidate { seq, after, spawned_by, dead };
        if member {
            self.count += 1;
            if dead || all || reason.starts_with(DEPENDENCY_FAILED) {
                self.members.insert(id, candidate);
            }
        } else if dead || reason == WORKFLOW_FAILED {
            self.callbacks.insert(id, candidate);
        }
    }
}

fn keep_oldest(members: &mut BTreeMap<TaskId, Candidate>, most: usize) {
    if members.len() <= most {
        return;
    }
    let mut seqs: Vec<Seq> = members.values().map(|candidate| candidate.seq).collect();
    seqs.sort_unstable();
    let last = seqs[most - 1];
    members.retain(|_, candidate| candidate.seq <= last);
}
