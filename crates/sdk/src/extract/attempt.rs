//! Who this attempt is.

use divvy_types::{Name, TaskId, Timestamp, Token, WorkflowId};

use super::Extract;
use crate::context::Context;
use crate::failure::Failure;

/// Names the attempt. Hand `token` to outside systems that can refuse an older writer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The task.
    pub id: TaskId,
    /// Its kind.
    pub kind: Name,
    /// Which attempt this is, from 1.
    pub number: u32,
    /// Threads that it may use: one, or more when there are fewer tasks than slots on its worker.
    pub threads: u32,
    /// Greater than the token of any earlier attempt of this task.
    pub token: Token,
    /// The time before which it was not to run; for a task of a schedule, its tick.
    pub run_at: Option<Timestamp>,
    /// When the task should be done, if somebody said so.
    pub deadline: Option<Timestamp>,
    /// The workflow that the task belongs to.
    pub workflow: Option<WorkflowId>,
    /// Its place in distributed tracing, as W3C trace context writes it: the parent of spans that the handler makes.
    pub traceparent: String,
}

impl Extract for Attempt {
    fn extract(context: &Context) -> Result<Self, Failure> {
        let spec = context.spec();
        Ok(Self {
            id: spec.id,
            kind: spec.kind.clone(),
            number: context.attempt(),
            threads: context.threads(),
            token: context.token(),
            run_at: spec.run_at,
            deadline: spec.deadline,
            workflow: spec.workflow.as_ref().map(|workflow| workflow.id),
            traceparent: context.traceparent(),
        })
    }
}
