//! When a workflow has ended, and which of the tasks that wait for that may run.
//!
//! A workflow is *open* while a member of it is: waiting, running, or done with children that are not. When the last
//! member has settled, the workflow has failed if a member is dead or cancelled, else it has succeeded. A dead member
//! counts even if all who depend on it do so optionally. Then the callbacks of one sort become ready and those of the
//! other are cancelled; one that waits for a dependency besides stays until that is met, and is let go if the workflow
//! is still ended then. Members may join as long as the workflow is open, and again later; callbacks that have been
//! let go are not called back. A failed member that is put back has not failed any more.
//!
//! Counted is each member once when it comes to be open and once when it settles, wherever it waits. What ended before
//! the scheduler heard of a workflow is in the store: the engine looks it up before a callback comes
//! ([`crate::Input::WorkflowLookedUp`]). All of this is looked at when a step ends, so the order in a batch is of no
//! matter. The groups of a workflow are counted along; what becomes of who waits for one is decided in `groups`.

use std::collections::{BTreeMap, BTreeSet};

use divvy_types::{Member, Name, Seq, TaskSpec, Timestamp, WorkflowId, WorkflowRole};

use crate::groups::Group;
use crate::settle::cause;
use crate::table::{Row, Task};
use crate::{Action, FailedMember, Scheduler};

/// Failed members of one workflow or group that are remembered. Beyond, it has failed whatever is put back.
const FAILED_MAX: usize = 100_000;

/// A workflow with open members or waiting callbacks.
#[derive(Debug, Default)]
pub(crate) struct Flow {
    /// Members that have not settled, those in the store included.
    open: u64,
    /// Whether `failed` holds what the store knew too.
    looked_up: bool,
    rare: Option<Box<Rare>>,
}

/// What few workflows have.
#[derive(Debug, Default)]
struct Rare {
    failed: Failed,
    /// Tasks that wait for the end.
    callbacks: BTreeSet<Seq>,
    groups: BTreeMap<Name, Group>,
}

/// Members that have failed.
#[derive(Debug, Default)]
pub(crate) struct Failed {
    known: BTreeSet<Seq>,
    /// Whether more have failed than are remembered.
    more: bool,
}

impl Failed {
    pub(crate) fn any(&self) -> bool {
        self.more || !self.known.is_empty()
    }

    pub(crate) fn add(&mut self, seq: Seq) {
        if self.known.len() < FAILED_MAX {
            self.known.insert(seq);
        } else {
            self.more = true;
        }
    }

    pub(crate) fn remove(&mut self, seq: Seq) {
        self.known.remove(&seq);
    }
}

/// How a member ended.
#[derive(Clone, Copy, Debug)]
pub(crate) enum End<'a> {
    /// It is done, and so are the children that it spawned.
    Well,
    /// It is dead or was cancelled: this is what happened.
    Failed(&'a Name),
    /// It is done, but a child of it has failed. That is a failure of its group, not of its workflow.
    ChildFailed(&'a Name),
}

impl Flow {
    fn has_failed(&self) -> bool {
        self.rare.as_ref().is_some_and(|rare| rare.failed.any())
    }

    fn has_callbacks(&self) -> bool {
        self.rare.as_ref().is_some_and(|rare| !rare.callbacks.is_empty())
    }

    fn fail(&mut self, seq: Seq) {
        self.rare.get_or_insert_default().failed.add(seq);
    }

    pub(crate) fn groups(&self) -> Option<&BTreeMap<Name, Group>> {
        self.rare.as_ref().map(|rare| &rare.groups)
    }

    pub(crate) fn groups_mut(&mut self) -> Option<&mut BTreeMap<Name, Group>> {
        self.rare.as_mut().map(|rare| &mut rare.groups)
    }

    pub(crate) fn group(&mut self, name: &Name) -> &mut Group {
        let groups = &mut self.rare.get_or_insert_default().groups;
        if !groups.contains_key(name) {
            groups.insert(name.clone(), Group::default());
        }
        groups.get_mut(name).expect("a group that was made if it was missing")
    }
}

/// The workflow whose end a task is to wait for. A child of a callback runs because that does.
pub(crate) fn called_back_by(spec: &TaskSpec, spawned_by: Option<Seq>) -> Option<WorkflowId> {
    let workflow = spec.workflow.as_ref().filter(|_| spawned_by.is_none())?;
    (!workflow.role.is_member()).then_some(workflow.id)
}

impl Scheduler {
    /// Whether it is known which members of a workflow have failed.
    pub fn knows_workflow(&self, workflow: WorkflowId) -> bool {
        self.workflows.get(&workflow).is_some_and(|flow| flow.looked_up)
    }

    /// How many members of a workflow have not settled.
    pub fn open_members(&self, workflow: WorkflowId) -> u64 {
        self.workflows.get(&workflow).map_or(0, |flow| flow.open)
    }

    /// Workflows with open members or waiting callbacks after this one, by id.
    pub fn open_workflows(&self, after: Option<WorkflowId>) -> impl Iterator<Item = WorkflowId> {
        use std::ops::Bound::{Excluded, Unbounded};
        let range = (after.map_or(Unbounded, Excluded), Unbounded);
        self.workflows.range(range).map(|(id, _)| *id)
    }

    /// At start: open members wait in the store.
    pub(crate) fn members_recovered(&mut self, Member { workflow, group }: &Member, count: u64) {
        let flow = self.workflows.entry(*workflow).or_default();
        flow.open += count;
        if let Some(group) = group {
            flow.group(group).open += count;
        }
    }

    pub(crate) fn workflow_looked_up(&mut self, workflow: WorkflowId, failed: Vec<FailedMember>) {
        let open = |seq: Seq| self.tasks.row_of(seq).is_some() || self.settling.contains_key(&seq);
        // One that is open was put back, and the store has not heard of that yet.
        let failed: Vec<FailedMember> =
            failed.into_iter().filter(|member| !open(member.seq)).collect();
        let flow = self.workflows.entry(workflow).or_default();
        flow.looked_up = true;
        for FailedMember { seq, groups } in failed {
            flow.fail(seq);
            for (group, member) in groups {
                flow.group(&group).failed.add(member);
            }
        }
    }

    /// A member came to be open.
    pub(crate) fn member_opened(&mut self, seq: Seq, member: Option<&Member>) {
        let Some(Member { workflow, group }) = member else { return };
        let flow = self.workflows.entry(*workflow).or_default();
        flow.open += 1;
        if let Some(group) = group {
            flow.group(group).open += 1;
        }
        self.not_failed_any_more(seq, member);
    }

    /// A failed member is put back, or about to be.
    pub(crate) fn not_failed_any_more(&mut self, seq: Seq, member: Option<&Member>) {
        let Some(Member { workflow, group }) = member else { return };
        let flow = self.workflows.get_mut(workflow);
        let Some(rare) = flow.and_then(|flow| flow.rare.as_mut()) else { return };
        rare.failed.remove(seq);
        if let Some(group) = group.as_ref().and_then(|group| rare.groups.get_mut(group)) {
            group.failed.remove(seq);
        }
    }

    /// A member has settled, or was cancelled on arrival (then it was not open).
    pub(crate) fn member_ended(
        &mut self,
        seq: Seq,
        member: Option<Member>,
        end: End<'_>,
        was_open: bool,
    ) {
        let Some(Member { workflow, group }) = member else { return };
        let flow = self.workflows.entry(workflow).or_default();
        flow.open = flow.open.saturating_sub(u64::from(was_open));
        if let End::Failed(_) = end {
            flow.fail(seq);
        }
        if flow.open == 0 {
            self.ended_workflows.push(workflow);
        }
        let Some(name) = group else { return };
        let group = flow.group(&name);
        if was_open {
            group.ended(seq);
        }
        if group.open == 0 {
            self.due.extend(group.waiters());
        }
        match end {
            End::Failed(why) | End::ChildFailed(why) => {
                self.group_failed(seq, workflow, &name, why);
            }
            End::Well if group.is_idle() => {
                flow.groups_mut().map(|groups| groups.remove(&name));
            }
            End::Well => {}
        }
    }

    /// Lets a blocked task wait for the end of a workflow too.
    pub(crate) fn await_workflow(&mut self, row: Row, workflow: WorkflowId) {
        let task = &mut self.tasks[row];
        let seq = task.seq;
        task.links().callback = true;
        let flow = self.workflows.entry(workflow).or_default();
        flow.rare.get_or_insert_default().callbacks.insert(seq);
        self.ended_workflows.push(workflow);
    }

    /// A task leaves that may have waited for the end of its workflow.
    pub(crate) fn stop_awaiting(&mut self, task: &Task) {
        if !task.links.as_ref().is_some_and(|links| links.callback) {
            return;
        }
        let Some(workflow) = task.spec.workflow.as_ref().map(|workflow| workflow.id) else {
            return;
        };
        if let Some(rare) = self.workflows.get_mut(&workflow).and_then(|flow| flow.rare.as_mut()) {
            rare.callbacks.remove(&task.seq);
            self.ended_workflows.push(workflow);
        }
    }

    /// Calls back for the workflows that ended in this step, and forgets those that are over. Says whether there was
    /// any, since a cancelled callback may have dependents.
    pub(crate) fn call_back(&mut self, now: Timestamp) -> bool {
        if self.recovering || self.ended_workflows.is_empty() {
            return false;
        }
        for workflow in std::mem::take(&mut self.ended_workflows) {
            let Some(flow) = self.workflows.get_mut(&workflow).filter(|flow| flow.open == 0) else {
                continue;
            };
            let failed = flow.has_failed();
            let mut waiting = match &mut flow.rare {
                Some(rare) => std::mem::take(&mut rare.callbacks),
                None => BTreeSet::new(),
            };
            waiting.retain(|seq| self.workflow_ended(now, *seq, failed));
            if waiting.is_empty() {
                self.workflows.remove(&workflow);
                self.actions.push_back(Action::ForgetWorkflow { workflow });
            } else if let Some(flow) = self.workflows.get_mut(&workflow) {
                flow.rare.get_or_insert_default().callbacks = waiting;
            }
        }
        true
    }

    /// After recovery, workflows may have ended without anyone having been called back. Tasks that wait for groups are
    /// looked at as they come.
    pub(crate) fn look_at_all_workflows(&mut self) {
        let waiting =
            self.workflows.iter().filter(|(_, flow)| flow.open == 0 || flow.has_callbacks());
        self.ended_workflows = waiting.map(|(workflow, _)| *workflow).collect();
    }

    /// The last dependency of a callback has settled.
    pub(crate) fn look_at_workflow_of(&mut self, row: Row) {
        let workflow = self.tasks[row].spec.workflow.as_ref().map(|workflow| workflow.id);
        self.ended_workflows.extend(workflow);
    }

    /// Lets a callback go or cancels it; says whether it has to wait on.
    fn workflow_ended(&mut self, now: Timestamp, seq: Seq, failed: bool) -> bool {
        let Some(row) = self.tasks.row_of(seq) else { return false };
        let task = &mut self.tasks[row];
        let wanted = if failed { WorkflowRole::OnFailure } else { WorkflowRole::OnSuccess };
        let fits = task.spec.workflow.as_ref().is_some_and(|workflow| workflow.role == wanted);
        let links = task.links();
        if fits && links.missing > 0 {
            return true;
        }
        links.callback = false;
        if fits {
            self.unblock(now, row);
            return false;
        }
        let reason = if failed { "the workflow failed" } else { "the workflow succeeded" };
        let cause = cause(Some(task.spec.id), "was cancelled", reason);
        self.cancel(now, row, Name::const_new(reason), cause);
        false
    }
}
