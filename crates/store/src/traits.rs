//! What a store promises, and the shapes that it is read in.

use std::convert::Infallible;
use std::sync::Arc;

use divvy_types::select::Candidate;
use divvy_types::view::Upstream;
use divvy_types::{
    Fact, IdEnd, Lane, Member, Name, OpenTask, Payload, Select, Seq, TaskError, TaskId, TaskSpec,
    TaskState, Timestamp, Token, Verdict, WorkflowId,
};

use crate::members::{MemberRecord, Members};

/// Where facts go. Owned by one thread, which is the only writer.
pub trait Store: Send {
    /// How often this store was opened for writing, this time included. Durable, so tokens grow over restarts.
    fn epoch(&self) -> u64;

    /// About when it was last written to before this time, by what is recorded; nothing if that is not known.
    fn last_used(&self) -> Option<Timestamp>;

    /// Shows everything that is still open, once, before the first commit.
    ///
    /// Order: paused queues, then what was set, then unique keys, then open tasks by number, then spilled lanes, then
    /// spilled members of workflows.
    fn recover(&mut self, visit: &mut dyn FnMut(Recovered)) -> Result<(), Error>;

    /// Writes a group of facts, all or nothing, and returns when they are durable. `verdicts` is cleared and gets
    /// one answer per fact. After [`Error::Full`] and [`Error::Blocked`] nothing of the group is kept and the same
    /// group may be tried again; after any other error the process must stop.
    fn commit(&mut self, facts: &[Fact], verdicts: &mut Vec<Verdict>) -> Result<(), Error>;

    /// Whether there is room for more tasks. Cheap enough to ask before each group.
    fn room(&self) -> Room;

    /// Whether what is written is still found where it is looked for, or [`Error::Away`]. Cheap enough to ask after
    /// each group: what was written to files that have been deleted or moved must not be acknowledged.
    fn in_place(&self) -> Result<(), Error>;

    /// A view for another thread. It sees what is committed, at each call.
    fn reader(&self) -> Result<Box<dyn Reader>, Error>;

    /// One bounded slice of background work (history, retention, checkpoint). What is older than the retention at
    /// `expiry` is deleted; that is `now`, or earlier while the clock is in doubt.
    ///
    /// [`Error::Full`], [`Error::Blocked`] and [`Error::Damaged`] leave everything as it was before the slice; after
    /// any other error the process must stop.
    fn maintain(&mut self, now: Timestamp, expiry: Timestamp) -> Result<Maintenance, Error>;
}

/// Reads what is committed.
pub trait Reader: Send {
    /// The task with this id, open or not, if it is still kept.
    fn find(&mut self, id: TaskId) -> Result<Option<TaskRecord>, Error>;

    /// The task with this number.
    fn get(&mut self, seq: Seq) -> Result<Option<TaskRecord>, Error>;

    /// Ids between two, at most `max`: how a shortened id is resolved.
    fn ids_between(&mut self, low: TaskId, high: TaskId, max: usize) -> Result<Vec<TaskId>, Error>;

    /// Ids that end so, at most `max`: how a shortened id is resolved that is the end of one. Looks at all ids.
    fn ids_ending(&mut self, end: IdEnd, max: usize) -> Result<Vec<TaskId>, Error>;

    /// At most `rows` tasks that fit, newest first, all with smaller numbers than `before`. Payloads, results, logs and
    /// all attempts but the last are left out.
    ///
    /// Where an open task is and who holds it is not known here: what could fit is shown, except that a worker fits an
    /// open task only if it failed on it or is recorded to hold it. A bounded number of tasks is looked at where
    /// no index helps, so that a page may be short, or even empty, although more would fit; it says how far it looked.
    fn page(
        &mut self,
        select: &Select,
        before: Option<Seq>,
        rows: usize,
    ) -> Result<TaskPage, Error>;

    /// How these tasks and, recursively, the children that they spawned ended, for a dependent: level by level, by
    /// number within a level, open ones left out; cut if one of them is not kept any more. At most
    /// `rows`, whose results have at most `bytes` in all; results beyond are left empty, so 0 asks for states only.
    fn upstream(&mut self, tasks: &[Seq], rows: usize, bytes: usize) -> Result<Family, Error>;

    /// Shows the tasks of a workflow without their payloads, until `visit` says no. Oldest first as a rule, but tasks
    /// that were moved to history come after the others.
    fn members(
        &mut self,
        workflow: WorkflowId,
        which: Members,
        visit: &mut dyn FnMut(MemberRecord) -> bool,
    ) -> Result<(), Error>;

    /// Workflows with smaller ids, greatest first, and their names. Ids that clients make are ordered by time.
    fn workflows(
        &mut self,
        before: Option<WorkflowId>,
        rows: usize,
    ) -> Result<Vec<(WorkflowId, Name)>, Error>;

    /// At most `rows` workflows, the last to start first, all whose first tasks have smaller numbers than `before`. A
    /// bounded number of tasks is looked at, as for [`Reader::page`].
    fn started_workflows(
        &mut self,
        before: Option<Seq>,
        rows: usize,
    ) -> Result<WorkflowPage, Error>;

    /// What an attempt of this task saved last, if the task is open or a dead letter.
    fn checkpoint(&mut self, task: Seq) -> Result<Option<Payload>, Error>;

    /// The next spilled tasks of a lane after `after`, in order: at most `rows` and about `bytes` of payload.
    /// Tasks that are final are left out.
    fn spilled(
        &mut self,
        lane: Lane,
        after: Option<Seq>,
        rows: usize,
        bytes: usize,
    ) -> Result<Vec<OpenTask>, Error>;

    /// How many kept tasks are in each final state.
    fn final_counts(&mut self) -> Result<Vec<(TaskState, u64)>, Error>;
}

/// How tasks and the children that they spawned ended.
#[derive(Clone, Debug, Default)]
pub struct Family {
    /// Each that ended.
    pub ends: Vec<Upstream>,
    /// Whether rows or results were left out because there are too many, or because they are not kept any more.
    pub cut: bool,
}

impl Family {
    /// Adds an end, or notes that it did not fit.
    pub(crate) fn add(&mut self, mut end: Upstream, rows: usize, bytes_left: &mut usize) -> bool {
        if self.ends.len() >= rows {
            self.cut = true;
            return false;
        }
        let size = end.result.data().len();
        match bytes_left.checked_sub(size) {
            Some(left) => *bytes_left = left,
            None => {
                self.cut = true;
                end.result = Payload::null();
            }
        }
        self.ends.push(end);
        true
    }
}

/// Some tasks, and how far was looked for them.
#[derive(Clone, Debug, Default)]
pub struct TaskPage {
    /// The tasks, newest first.
    pub tasks: Vec<TaskRecord>,
    /// All tasks that fit are shown down to this number, itself included; nothing if none was left out.
    pub searched_to: Option<Seq>,
}

/// Some workflows, and how far was looked for them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkflowPage {
    /// The number of the first task that is kept, and the workflow.
    pub workflows: Vec<(Seq, WorkflowId)>,
    /// All workflows are shown that start at this number or later; nothing if none was left out.
    pub searched_to: Option<Seq>,
}

/// What recovery shows.
#[derive(Debug)]
pub enum Recovered {
    /// A queue that is paused.
    PausedQueue(Name),
    /// Something that was set and not removed.
    Setting {
        /// What.
        key: Name,
        /// JSON.
        value: Name,
    },
    /// A unique key whose task is open or whose window has not passed when it was last looked at.
    UniqueKey {
        /// The key.
        key: Name,
        /// The task that has it.
        task: TaskId,
        /// Its number.
        seq: Seq,
        /// Whether it is open.
        open: bool,
        /// When that was submitted.
        at: Timestamp,
        /// Until when its window lasts.
        until: Option<Timestamp>,
    },
    /// A task that is not final and not spilled.
    Open(OpenTask),
    /// A lane with tasks that wait in the store.
    Spilled(SpilledLane),
    /// How many members of a workflow, or of a group of it, wait in the store.
    SpilledMembers {
        /// The workflow, and the group.
        member: Member,
        /// How many.
        count: u64,
    },
    /// The numbers to go on from; last.
    End {
        /// The greatest task number in use.
        last_seq: Seq,
        /// No time-ordered id (see [`TaskId::is_time_ordered`]) in use is greater; nothing if there is none.
        last_ordered_id: Option<TaskId>,
    },
}

/// A lane of the spill.
#[derive(Clone, Debug)]
pub struct SpilledLane {
    /// Which.
    pub lane: Lane,
    /// How many tasks wait in it.
    pub count: u64,
    /// One of its tasks, to know the class by.
    pub sample: Arc<TaskSpec>,
}

/// A task as the store has it.
#[derive(Clone, Debug)]
pub struct TaskRecord {
    /// Its number.
    pub seq: Seq,
    /// When it was accepted.
    pub submitted_at: Timestamp,
    /// What it is.
    pub spec: TaskSpec,
    /// The task whose finish spawned it.
    pub spawned_by: Option<Seq>,
    /// Attempts that failed, oldest first.
    pub attempts: Vec<AttemptRecord>,
    /// How many attempts count against the retry limit, the finishing one included.
    pub counted: u32,
    /// How it ended, if it did.
    pub outcome: Option<Outcome>,
    /// Who was last recorded to hold it, if it is open.
    pub held: Option<Name>,
}

impl Candidate for TaskRecord {
    type Error = Infallible;

    fn state(&self) -> Result<Option<TaskState>, Infallible> {
        Ok(self.outcome.as_ref().map(|end| end.state))
    }

    fn kind(&self) -> Result<&str, Infallible> {
        Ok(&self.spec.kind)
    }

    fn queue(&self) -> Result<&str, Infallible> {
        Ok(&self.spec.queue)
    }

    fn workflow(&self) -> Result<Option<WorkflowId>, Infallible> {
        Ok(self.spec.workflow.as_ref().map(|workflow| workflow.id))
    }

    fn submitted_at(&self) -> Result<Timestamp, Infallible> {
        Ok(self.submitted_at)
    }

    fn ended_at(&self) -> Result<Option<Timestamp>, Infallible> {
        Ok(self.outcome.as_ref().map(|end| end.at))
    }

    fn worker(&self) -> Result<Option<Name>, Infallible> {
        let last = self.outcome.as_ref().map(|end| &end.worker).filter(|name| !name.is_empty());
        Ok(last.or_else(|| self.attempts.last().map(|attempt| &attempt.worker)).cloned())
    }

    fn may_be_with(&self, worker: &str) -> Result<bool, Infallible> {
        let last = self.attempts.last().map(|attempt| &attempt.worker);
        Ok(last.into_iter().chain(&self.held).any(|name| *name == worker))
    }

    fn error(&self) -> Result<Option<TaskError>, Infallible> {
        Ok(match &self.outcome {
            Some(end) => end.error.clone(),
            None => self.attempts.last().map(|attempt| attempt.error.clone()),
        })
    }

    fn workflow_name(&self) -> Result<Option<Name>, Infallible> {
        Ok(self.spec.workflow.as_ref().map(|workflow| workflow.name.clone()))
    }

    fn has_tag(&self, tag: &str) -> Result<bool, Infallible> {
        Ok(self.spec.tags.iter().any(|found| found == tag))
    }
}

/// Why a dropped dead letter counts as cancelled.
pub(crate) const DROPPED: &str = "dead letter dropped";

/// How many attempts count against the retry limit: the failed ones that do, and the one that ended the task.
pub(crate) fn counted(attempts: &[AttemptRecord], outcome: Option<&Outcome>) -> u32 {
    let failed = attempts.iter().filter(|attempt| attempt.counted).count();
    let last = outcome.is_some_and(|end| end.token.0 > 0);
    u32::try_from(failed).unwrap_or(u32::MAX).saturating_add(u32::from(last))
}

/// A failed attempt.
#[derive(Clone, Debug, PartialEq)]
pub struct AttemptRecord {
    /// Its token.
    pub token: Token,
    /// When it ended.
    pub at: Timestamp,
    /// Who ran it.
    pub worker: Name,
    /// What went wrong.
    pub error: TaskError,
    /// The end of its log.
    pub log: Option<Name>,
    /// Whether it counts against the retry limit.
    pub counted: bool,
}

/// The end of a task.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Done, dead or cancelled.
    pub state: TaskState,
    /// The attempt that ended it; zero for a cancel.
    pub token: Token,
    /// When.
    pub at: Timestamp,
    /// Who ran it; empty for a cancel.
    pub worker: Name,
    /// What it returned, if it is done.
    pub result: Payload,
    /// What went wrong, or why it was cancelled.
    pub error: Option<TaskError>,
    /// The end of its log.
    pub log: Option<Name>,
}

/// Whether there is room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// Go on.
    Enough,
    /// The disk is nearly full: only what ends tasks may still be written.
    Low,
}

/// What a slice of background work came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Maintenance {
    /// There is more to do; call again when idle.
    More,
    /// Nothing to do for a while.
    Rest,
}

/// What can go wrong with a store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Another process has it open.
    #[error(
        "data folder {0} is in use by another divvy server; stop that one or give another --data folder"
    )]
    InUse(String),
    /// Something is in the way for a while, such as the lock of another program. Nothing of the group was kept.
    #[error("store {path} cannot be used now: {message}")]
    Blocked {
        /// The file.
        path: String,
        /// What is in the way.
        message: String,
    },
    /// What is found at the path of the data folder is not what is open.
    #[error(
        "data folder {path} is not the one that this server opened: {problem}; put it back, or stop the server"
    )]
    Away {
        /// The folder.
        path: String,
        /// What is found there.
        problem: String,
    },
    /// No room on the disk. Nothing of the group was kept.
    #[error("the disk that holds {0} is full; free some space")]
    Full(String),
    /// The file is not what was written.
    #[error("store {path} is damaged: {place}; restore a backup, or look with: divvy store check")]
    Damaged {
        /// The file.
        path: String,
        /// What is wrong and where.
        place: String,
    },
    /// The file was written by a version that this one does not know.
    #[error("store {path} has format {found}, this divvy knows {known}; use a matching version")]
    Version {
        /// The file.
        path: String,
        /// What it says.
        found: i64,
        /// What we know.
        known: i64,
    },
    /// The file system or the database failed.
    #[error("store {path}: {message}")]
    Io {
        /// The file.
        path: String,
        /// What it says.
        message: String,
    },
}
