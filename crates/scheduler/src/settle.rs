//! What the end of a task means for others.
//!
//! A task is *settled* when it is done and every child that it spawned, and theirs, is settled, or when it is dead or
//! cancelled. Dependents wait for parents to settle. A failed parent cancels dependents over required edges, at once
//! and transitively; over optional edges it only counts as settled. The failure of a child is a failure of its
//! spawner. The work is a list, not a recursion, so a chain of any length is fine.

use divvy_types::view::TaskChange;
use divvy_types::{
    ErrorClass, Fact, Member, Name, Seq, TaskError, TaskId, TaskSpec, TaskState, Timestamp,
};

use crate::lanes::End;
use crate::table::{Awaits, Edge, Row};
use crate::workflows;
use crate::{Action, Scheduler};

/// Characters of the cause that dependents are told.
const CAUSE_LEN_MAX: usize = 400;
/// From this many on, a list of dependents is tidied before it grows.
const DEPENDENTS_TIDY_MIN: usize = 64;

/// A task that is done, but whose children are not.
#[derive(Debug, Default)]
pub(crate) struct Settling {
    /// Not known between the first child and the task itself, during recovery.
    pub(crate) id: Option<TaskId>,
    pub(crate) since: Timestamp,
    pub(crate) spawned_by: Option<Seq>,
    pub(crate) open_children: u32,
    /// All of them, also those that have settled meanwhile.
    pub(crate) children: Vec<Seq>,
    pub(crate) dependents: Vec<Edge>,
    /// Which child failed, and why.
    pub(crate) cause: Option<Name>,
    /// What it is a member of.
    pub(crate) member: Option<Member>,
}

/// A task that has settled.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) dependents: Vec<Edge>,
    pub(crate) spawned_by: Option<Seq>,
    /// Which task failed and why, such as `<id> failed: <error>`; nothing if all is well.
    pub(crate) cause: Option<Name>,
}

/// `<id> <what happened>: <why>`, cut to a sensible length.
pub(crate) fn cause(id: Option<TaskId>, what: &str, why: &str) -> Name {
    let text = match id {
        Some(id) => format!("{id} {what}: {why}"),
        None => format!("{what}: {why}"),
    };
    text.chars().take(CAUSE_LEN_MAX).collect()
}

/// What whoever watches is told of a task that was cancelled.
pub(crate) fn cancelled(spec: &TaskSpec, reason: &Name, now: Timestamp) -> TaskChange {
    let error = Some(TaskError::new(ErrorClass::Cancelled, reason));
    TaskChange { error, ..TaskChange::of(spec, TaskState::Cancelled, now) }
}

/// Adds a dependent, and drops those that are gone before the list grows.
pub(crate) fn add_dependent(list: &mut Vec<Edge>, edge: Edge, waits: impl Fn(Seq) -> bool) {
    if list.len() >= DEPENDENTS_TIDY_MIN && list.len() == list.capacity() {
        list.retain(|edge| waits(edge.seq));
    }
    list.push(edge);
}

impl Scheduler {
    /// Tells dependents, spawners and workflows of every task that ended in this step.
    pub(crate) fn settle(&mut self, now: Timestamp) {
        loop {
            while let Some(ended) = self.ended.pop() {
                for edge in ended.dependents {
                    self.parent_settled(now, edge, ended.cause.as_ref());
                }
                if let Some(spawner) = ended.spawned_by {
                    self.child_settled(now, spawner, ended.cause);
                }
            }
            if !self.call_back(now) {
                break;
            }
        }
        self.let_go(now);
    }

    pub(crate) fn parent_settled(&mut self, now: Timestamp, edge: Edge, cause: Option<&Name>) {
        let Some(row) = self.tasks.row_of(edge.seq) else { return };
        let life = self.tasks[row].links.as_ref().map_or(0, |links| links.life);
        if self.tasks[row].state != TaskState::Blocked || edge.life != life {
            return;
        }
        if let Some(cause) = cause
            && !edge.optional
        {
            let reason = Name::from(format!("dependency {cause}"));
            return self.cancel(now, row, reason, cause.clone());
        }
        let links = self.tasks[row].links();
        links.missing -= 1;
        match (links.missing, links.callback, links.groups) {
            (1.., ..) => {}
            (0, true, _) => self.look_at_workflow_of(row),
            (0, false, Awaits::Now) => self.due.push(edge.seq),
            (0, false, _) => self.unblock(now, row),
        }
    }

    /// Nothing that a blocked task waited for is missing any more. It may still have to wait for its time: that of its
    /// spec or, if it was recovered, that of its next attempt.
    pub(crate) fn unblock(&mut self, now: Timestamp, row: Row) {
        let due = self.tasks[row].ready_at;
        if due > now {
            self.schedule(row, now, due);
        } else {
            self.make_ready(row, now, now, End::Back);
        }
    }

    fn child_settled(&mut self, now: Timestamp, spawner: Seq, cause: Option<Name>) {
        if let Some(cause) = cause {
            self.child_failed(now, spawner, cause);
        }
        let Some(settling) = self.settling.get_mut(&spawner) else { return };
        settling.open_children -= 1;
        if settling.open_children == 0 {
            self.settled(spawner);
        }
    }

    /// The last child of a task has settled, and so has the task.
    pub(crate) fn settled(&mut self, seq: Seq) {
        let Some(settling) = self.settling.remove(&seq) else { return };
        if let Some(task) = settling.id {
            self.actions.push_back(Action::Forget { seq, task });
        }
        let Settling { dependents, spawned_by, cause, member, .. } = settling;
        let end = cause.as_ref().map_or(workflows::End::Well, workflows::End::ChildFailed);
        self.member_ended(seq, member, end, true);
        self.ended.push(Ended { dependents, spawned_by, cause });
    }

    /// Marks the spawner, and whoever spawned it, as failed, and cancels who required them.
    fn child_failed(&mut self, now: Timestamp, spawner: Seq, cause_of_child: Name) {
        let (mut next, mut cause_below) = (Some(spawner), cause_of_child);
        while let Some(seq) = next
            && let Some(settling) = self.settling.get_mut(&seq)
        {
            if settling.cause.is_some() {
                return;
            }
            let cause = cause(settling.id, "failed", &format!("its child {cause_below}"));
            settling.cause = Some(cause.clone());
            next = settling.spawned_by;
            let (optional, required) =
                settling.dependents.drain(..).partition(|edge| edge.optional);
            settling.dependents = optional;
            let required: Vec<Edge> = required;
            let member = settling.member.clone();
            if let Some(Member { workflow, group: Some(group) }) = member {
                self.group_failed(seq, workflow, &group, &cause);
            }
            for edge in required {
                self.parent_settled(now, edge, Some(&cause));
            }
            cause_below = cause;
        }
    }

    /// Records that an open task will not run, and takes it out of memory. It must have left lane, lease and timers.
    pub(crate) fn cancel(&mut self, now: Timestamp, row: Row, reason: Name, cause: Name) {
        let task = self.remove(row);
        self.stop_awaiting(&task);
        self.member_ended(task.seq, task.spec.member(), workflows::End::Failed(&cause), true);
        let links = task.links.map(|links| *links).unwrap_or_default();
        self.record(Fact::Cancelled {
            seq: task.seq,
            at: now,
            reason: reason.clone(),
            spilled: None,
        });
        self.announce(|| cancelled(&task.spec, &reason, now));
        self.forget(task.seq, &task.spec);
        self.ended.push(Ended {
            dependents: links.dependents,
            spawned_by: links.spawned_by,
            cause: Some(cause),
        });
    }
}
