//! The flags that say which tasks are meant, the same for lists, bulk verbs and dead letters.

use clap::Args;
use divvy_types::{ErrorClass, Name, Select, TaskState, WorkflowId};

use crate::output::words;
use crate::values::{Moment, Span, one_of};

/// Only tasks that fit all of these.
#[derive(Args, Debug)]
#[group(id = "select", multiple = true)]
#[command(next_help_heading = "Filters")]
pub(crate) struct SelectArgs {
    /// Of this kind; a trailing * stands for any end
    #[arg(long)]
    kind: Option<Name>,
    /// Of this queue
    #[arg(long)]
    queue: Option<Name>,
    /// Of this workflow
    #[arg(long, value_name = "ID")]
    workflow: Option<WorkflowId>,
    /// Of workflows with this name; a trailing * stands for any end
    #[arg(long, value_name = "NAME")]
    workflow_name: Option<Name>,
    /// With this tag
    #[arg(long)]
    tag: Option<Name>,
    /// Run by this worker, now or last
    #[arg(long, value_name = "NAME")]
    worker: Option<Name>,
    /// Whose last error contains this text, or is of the group with it
    #[arg(long, value_name = "TEXT")]
    error: Option<Name>,
    /// Whose last error is of this class
    #[arg(long, value_parser = one_of::<ErrorClass>(&["failed", "timeout", "crashed", "worker_lost", "cancelled"]))]
    class: Option<ErrorClass>,
    /// Submitted at this time or later: a time, or a span back from now
    #[arg(long, value_name = "TIME|SPAN")]
    since: Option<Moment>,
    /// Submitted before this time
    #[arg(long, value_name = "TIME|SPAN")]
    until: Option<Moment>,
    /// Ended at this time or later
    #[arg(long, value_name = "TIME|SPAN")]
    ended_since: Option<Moment>,
    /// Ended before this time
    #[arg(long, value_name = "TIME|SPAN")]
    ended_until: Option<Moment>,
    /// Ended so long ago, or submitted if they are open
    #[arg(long, value_name = "SPAN")]
    older_than: Option<Span>,
}

impl SelectArgs {
    /// The filter, in these states or in any.
    pub(crate) fn select(&self, state: &[TaskState]) -> Select {
        let now = words::now();
        let back = |moment: Option<Moment>| moment.map(|moment| moment.back_from(now));
        Select {
            state: state.to_vec(),
            kind: self.kind.clone(),
            queue: self.queue.clone(),
            workflow: self.workflow,
            workflow_name: self.workflow_name.clone(),
            tag: self.tag.clone(),
            worker: self.worker.clone(),
            error: self.error.clone(),
            class: self.class,
            since: back(self.since),
            until: back(self.until),
            ended_since: back(self.ended_since),
            ended_until: back(self.ended_until),
            older_than_ms: self.older_than.map(Span::as_ms),
            older_than: None,
        }
    }
}
