//! Workflows as a whole: what the store knows of them when the scheduler has to know it, and cancel.
//!
//! Which callbacks run is the scheduler's to decide; here is found what it cannot remember: the members that ended
//! before a task came that waits for the end of a workflow or a group, or before a restart. A resume is in
//! [`crate::resume`].

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use divvy_scheduler::Input;
use divvy_scheduler::input::{FailedMember, Submission};
use divvy_store::{Members, OpenTask, TaskRecord};
use divvy_types::{Lane, Member, Name, Seq, TaskId, TaskSpec, TaskState, WorkflowId};
use tokio::sync::oneshot;

use crate::core::{Core, Known};
use crate::locate::Located;
use crate::request::{Error, Reply, Request};

/// Failed members that are looked up for one workflow.
const FAILED_LOOK_MAX: usize = 100_000;

/// The workflow whose end a task waits for.
pub(crate) fn awaited(spec: &TaskSpec) -> Option<WorkflowId> {
    spec.workflow.as_ref().filter(|label| !label.role.is_member()).map(|label| label.id)
}

/// The workflow of which a new task waits for groups.
fn grouped(spec: &TaskSpec) -> Option<WorkflowId> {
    spec.workflow.as_ref().filter(|_| !spec.after_groups.is_empty()).map(|label| label.id)
}

/// The workflow of which must be known what has failed before a new task comes. A child of a callback does not wait
/// for the end of its workflow.
fn looked_into(spec: &TaskSpec, spawned: bool) -> Option<WorkflowId> {
    grouped(spec).or_else(|| awaited(spec).filter(|_| !spawned))
}

impl Core {
    /// Whether the ends of members that the batch asks for are on their way to the store.
    pub(crate) fn waits_for_workflow_facts(&self, specs: &[TaskSpec], spawned: bool) -> bool {
        let departing = |workflow: WorkflowId| {
            self.departing_workflows.contains_key(&workflow)
                && !self.scheduler.knows_workflow(workflow)
        };
        !self.departing_workflows.is_empty()
            && specs.iter().filter_map(|spec| looked_into(spec, spawned)).any(departing)
    }

    /// Tells the scheduler which members failed before it heard of the workflows that new tasks wait for.
    pub(crate) fn look_up_workflows(
        &mut self,
        tasks: &[Submission],
        spawned: bool,
    ) -> Result<(), Error> {
        let awaited: BTreeSet<WorkflowId> =
            tasks.iter().filter_map(|task| looked_into(&task.spec, spawned)).collect();
        awaited.into_iter().try_for_each(|workflow| self.look_up_workflow(workflow))
    }

    pub(crate) fn look_up_workflow(&mut self, workflow: WorkflowId) -> Result<(), Error> {
        if self.scheduler.knows_workflow(workflow) {
            return Ok(());
        }
        let mut failed: Vec<FailedMember> = Vec::new();
        let mut spawned: Vec<(usize, Seq)> = Vec::new();
        self.reader.members(workflow, Members::Failed, &mut |record| {
            if let Some(member) = record.spec.member() {
                spawned.extend(record.spawned_by.map(|spawner| (failed.len(), spawner)));
                let groups = member.group.map(|group| (group, record.seq)).into_iter().collect();
                failed.push(FailedMember { seq: record.seq, groups });
            }
            failed.len() < FAILED_LOOK_MAX
        })?;
        let mut above: BTreeMap<Seq, Vec<(Name, Seq)>> = BTreeMap::new();
        for (place, spawner) in spawned {
            if let Entry::Vacant(unknown) = above.entry(spawner) {
                unknown.insert(self.groups_above(workflow, spawner)?);
            }
            failed[place].groups.extend_from_slice(&above[&spawner]);
        }
        self.feed(Input::WorkflowLookedUp { workflow, failed });
        Ok(())
    }

    /// The groups of a workflow that a finished task and those that spawned it are in: they fail with its children.
    fn groups_above(
        &mut self,
        workflow: WorkflowId,
        spawner: Seq,
    ) -> Result<Vec<(Name, Seq)>, Error> {
        let mut groups = Vec::new();
        let mut next = Some(spawner);
        while let Some(seq) = next
            && let Some(record) = self.reader.get(seq)?
        {
            next = record.spawned_by;
            if let Some(Member { workflow: of, group: Some(group) }) = record.spec.member()
                && of == workflow
            {
                groups.push((group, seq));
            }
        }
        Ok(groups)
    }

    /// At start: what the open tasks alone do not show.
    pub(crate) fn recover_workflows(
        &mut self,
        open: &[OpenTask],
        spilled: Vec<(Member, u64)>,
    ) -> Result<(), Error> {
        for (member, count) in spilled {
            self.feed(Input::MembersRecovered { member, count });
        }
        let waiting: BTreeSet<WorkflowId> =
            open.iter().filter_map(|task| awaited(&task.spec)).collect();
        waiting.into_iter().try_for_each(|workflow| self.look_up_workflow(workflow))
    }

    pub(crate) fn workflows_released(&mut self, workflows: &[WorkflowId]) {
        for workflow in workflows {
            if let Some(groups) = self.departing_workflows.get_mut(workflow) {
                *groups -= 1;
                if *groups == 0 {
                    self.departing_workflows.remove(workflow);
                }
            }
        }
    }

    /// Whether a task would be a member of a workflow whose end an open dependency of it waits for.
    pub(crate) fn waits_for_own_workflow(&self, spec: &TaskSpec, parent: Seq) -> bool {
        let Some(Member { workflow, .. }) = spec.member() else { return false };
        let waits = |parent: &TaskSpec| awaited(parent) == Some(workflow);
        self.scheduler.state(parent) == Some(TaskState::Blocked)
            && self.scheduler.spec(parent).is_some_and(|parent| waits(parent))
    }

    /// Records that a task will not run that waits in the store.
    pub(crate) fn cancel_spilled(&mut self, record: &TaskRecord, reason: Name) {
        self.feed(Input::SpilledCancelled {
            seq: record.seq,
            task: record.spec.id,
            lane: Lane::of(&record.spec),
            member: record.spec.member(),
            reason,
        });
        // Until that is written, the store would show it open, and a second cancel would be refused.
        self.depart(record.spec.id, record.seq);
    }

    /// Cancels a slice of tasks. One that is between memory and store is looked at again when it is in the store, and not
    /// counted: it has just ended, or it just went there to wait.
    pub(crate) fn cancel_members(
        &mut self,
        ids: Vec<TaskId>,
        reason: Name,
        reply: Reply<u64>,
    ) -> Result<(), Error> {
        let mut count = 0;
        for id in ids {
            match self.locate(id)? {
                Located::Open(seq) if self.scheduler.spec(seq).is_some() => {
                    self.feed(Input::CancelRequested { seq, reason: reason.clone() });
                    count += 1;
                }
                Located::Stored(record) if record.outcome.is_none() => {
                    self.cancel_spilled(&record, reason.clone());
                    count += 1;
                }
                Located::Departing => {
                    let (reply, _) = oneshot::channel();
                    self.deferred.push(Request::Cancel { id, reason: reason.clone(), reply });
                }
                Located::Open(_) | Located::Stored(_) | Located::Unknown => {}
            }
        }
        self.park(reply, Ok(count));
        Ok(())
    }

    /// Notes that a task is found in the store as it is now only when the present group is committed.
    fn depart(&mut self, id: TaskId, seq: Seq) {
        self.ids.insert(id, Known { seq, departing: true });
        self.group.forgotten.push((id, seq));
    }
}
