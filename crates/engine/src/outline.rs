//! What every look at a workflow gathers from its tasks: its name, how many it has and how they ended, and when.
//!
//! Tasks are read in one walk off the loop. The loop is asked only where the open ones are, a slice at a time.

use divvy_store::{MemberRecord, Members};
use divvy_types::view::WorkflowState;
use divvy_types::{Name, Timestamp, WorkflowId, WorkflowRole};

use crate::handle::Handle;
use crate::request::Error;

/// Tasks that the loop is asked about, or cancels, at once.
pub(crate) const SLICE: usize = 1_000;

/// A workflow as its tasks tell of it. Those that run when it has ended are none of its members.
#[derive(Debug, Default)]
pub(crate) struct Outline {
    pub(crate) name: Name,
    pub(crate) total: u64,
    pub(crate) open: u64,
    pub(crate) failed: u64,
    pub(crate) started_at: Timestamp,
    last_end: Option<Timestamp>,
    is_begun: bool,
}

impl Outline {
    /// Takes a task into account; says what it is to the workflow.
    pub(crate) fn add(&mut self, task: &MemberRecord) -> WorkflowRole {
        let first = !std::mem::replace(&mut self.is_begun, true);
        let started = if first { task.submitted_at } else { self.started_at };
        self.started_at = started.min(task.submitted_at);
        let label = task.spec.workflow.as_deref();
        let role = label.map(|label| label.role).unwrap_or_default();
        if let Some(label) = label.filter(|_| self.name.is_empty()) {
            self.name = label.name.clone();
        }
        if !role.is_member() {
            return role;
        }
        self.total += 1;
        match &task.end {
            None => self.open += 1,
            Some(end) => {
                self.last_end = self.last_end.max(Some(end.at));
                self.failed += u64::from(end.state.is_failure());
            }
        }
        role
    }

    pub(crate) fn state(&self) -> WorkflowState {
        WorkflowState::of(self.open, self.failed)
    }

    /// When its last member ended, if all have.
    pub(crate) fn ended_at(&self) -> Option<Timestamp> {
        self.last_end.filter(|_| self.open == 0)
    }

    /// How many of a hundred members have ended.
    pub(crate) fn percent(&self) -> u8 {
        ((self.total - self.open) * 100).checked_div(self.total).unwrap_or(100) as u8
    }
}

impl Handle {
    /// Walks over all tasks of a workflow.
    pub(crate) async fn walk<W: Default + Send + 'static>(
        &self,
        id: WorkflowId,
        add: fn(&mut W, MemberRecord),
    ) -> Result<W, Error> {
        let walked = self.read(move |reader| {
            let mut walk: Option<W> = None;
            reader.members(id, Members::All, &mut |member| {
                add(walk.get_or_insert_default(), member);
                true
            })?;
            Ok(walk)
        });
        walked.await?.ok_or_else(|| Error::NoSuchWorkflow(id.to_string().into()))
    }
}
