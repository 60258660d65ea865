//! Reads of the store that fail: who is told, and why the engine goes on.
//!
//! A row that cannot be read, or a file that cannot be opened for a while, concerns the request that needs it. The
//! loop drops the reply of such a request; [`crate::Handle`] then asks here what happened and answers with that. Only
//! a failed commit is fatal: there memory would be ahead of the disk.
//!
//! What stays fatal is a start: a server must not begin without knowing all that is open.

use std::sync::Arc;

use divvy_store::{
    Error, Family, MemberRecord, Members, OpenTask, Reader, TaskPage, TaskRecord, WorkflowPage,
};
use divvy_types::{IdEnd, Lane, Name, Payload, Select, Seq, TaskId, TaskState, WorkflowId};

use crate::stats::Stats;

/// A reader whose failures are counted and told.
pub(crate) struct Counted {
    reader: Box<dyn Reader>,
    stats: Arc<Stats>,
}

impl Counted {
    pub(crate) fn new(reader: Box<dyn Reader>, stats: Arc<Stats>) -> Self {
        Self { reader, stats }
    }

    fn note<T>(&self, read: Result<T, Error>) -> Result<T, Error> {
        read.inspect_err(|error| {
            tracing::error!(%error, "what a request needs cannot be read");
            self.stats.count_failed_read(&error.to_string());
        })
    }
}

impl Reader for Counted {
    fn find(&mut self, id: TaskId) -> Result<Option<TaskRecord>, Error> {
        let read = self.reader.find(id);
        self.note(read)
    }

    fn get(&mut self, seq: Seq) -> Result<Option<TaskRecord>, Error> {
        let read = self.reader.get(seq);
        self.note(read)
    }

    fn ids_between(&mut self, low: TaskId, high: TaskId, max: usize) -> Result<Vec<TaskId>, Error> {
        let read = self.reader.ids_between(low, high, max);
        self.note(read)
    }

    fn ids_ending(&mut self, end: IdEnd, max: usize) -> Result<Vec<TaskId>, Error> {
        let read = self.reader.ids_ending(end, max);
        self.note(read)
    }

    fn page(
        &mut self,
        select: &Select,
        before: Option<Seq>,
        rows: usize,
    ) -> Result<TaskPage, Error> {
        let read = self.reader.page(select, before, rows);
        self.note(read)
    }

    fn upstream(&mut self, tasks: &[Seq], rows: usize, bytes: usize) -> Result<Family, Error> {
        let read = self.reader.upstream(tasks, rows, bytes);
        self.note(read)
    }

    fn members(
        &mut self,
        workflow: WorkflowId,
        which: Members,
        visit: &mut dyn FnMut(MemberRecord) -> bool,
    ) -> Result<(), Error> {
        let read = self.reader.members(workflow, which, visit);
        self.note(read)
    }

    fn workflows(
        &mut self,
        before: Option<WorkflowId>,
        rows: usize,
    ) -> Result<Vec<(WorkflowId, Name)>, Error> {
        let read = self.reader.workflows(before, rows);
        self.note(read)
    }

    fn started_workflows(
        &mut self,
        before: Option<Seq>,
        rows: usize,
    ) -> Result<WorkflowPage, Error> {
        let read = self.reader.started_workflows(before, rows);
        self.note(read)
    }

    fn checkpoint(&mut self, task: Seq) -> Result<Option<Payload>, Error> {
        let read = self.reader.checkpoint(task);
        self.note(read)
    }

    fn spilled(
        &mut self,
        lane: Lane,
        after: Option<Seq>,
        rows: usize,
        bytes: usize,
    ) -> Result<Vec<OpenTask>, Error> {
        let read = self.reader.spilled(lane, after, rows, bytes);
        self.note(read)
    }

    fn final_counts(&mut self) -> Result<Vec<(TaskState, u64)>, Error> {
        let read = self.reader.final_counts();
        self.note(read)
    }
}
