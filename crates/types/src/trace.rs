//! Traces: how a task, its attempts and its workflow are named in distributed tracing.
//!
//! All ids follow from what the server and the worker both know, so nothing about tracing has to travel or be stored: a
//! workflow is one trace, or a task that belongs to none; each of its tasks and each attempt is a span. A program that
//! gets the [`Context`] of its attempt hangs its own spans below it.

use std::fmt;

use crate::{TaskId, TaskSpec, Token, WorkflowId};

/// Where a span is: the trace, and the span itself. Written as W3C trace context says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Context {
    /// Names the trace.
    pub trace: u128,
    /// Names the span within it.
    pub span: u64,
}

impl Context {
    /// The attempt of a task that has this token.
    pub fn of_attempt(spec: &TaskSpec, token: Token) -> Self {
        let workflow = spec.workflow.as_ref().map(|workflow| workflow.id);
        Self { trace: trace_of(spec.id, workflow), span: span_of_attempt(spec.id, token) }
    }
}

impl fmt::Display for Context {
    /// As in the header `traceparent` and the variable `TRACEPARENT`: version 00, and sampled.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-01", self.trace, self.span)
    }
}

/// The trace that a task belongs to.
pub fn trace_of(task: TaskId, workflow: Option<WorkflowId>) -> u128 {
    // An id of zeros names nothing.
    workflow.map_or(task.0, |workflow| workflow.0).max(1)
}

/// The span of a whole workflow.
pub fn span_of_workflow(id: WorkflowId) -> u64 {
    mixed(id.0, 1)
}

/// The span of a task, from its submission to its end.
pub fn span_of_task(id: TaskId) -> u64 {
    mixed(id.0, 2)
}

/// The span of an attempt.
pub fn span_of_attempt(id: TaskId, token: Token) -> u64 {
    mixed(id.0, token.0.wrapping_mul(2).wrapping_add(3))
}

/// The span of the wait before an attempt.
pub fn span_of_wait(id: TaskId, token: Token) -> u64 {
    mixed(id.0, token.0.wrapping_mul(2).wrapping_add(4))
}

/// Spreads both over 64 bits: the finish of SplitMix64 (Steele, Lea and Flood, 2014), once for each part.
fn mixed(id: u128, salt: u64) -> u64 {
    let parts = [id as u64, (id >> 64) as u64, salt];
    let mixed = parts.iter().fold(0u64, |state, part| {
        let mut bits = (state ^ part).wrapping_add(0x9E37_79B9_7F4A_7C15);
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^ (bits >> 31)
    });
    mixed.max(1)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_context_is_written_as_the_standard_says() {
        let spec = TaskSpec::new(TaskId(0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c), "noop");
        let text = Context::of_attempt(&spec, Token(7)).to_string();
        assert!(text.starts_with("00-0af7651916cd43dd8448eb211c80319c-"), "{text}");
        assert!(text.ends_with("-01") && text.len() == 55, "{text}");
        assert_eq!(
            text,
            Context::of_attempt(&spec, Token(7)).to_string(),
            "the same for both sides"
        );
    }

    #[test]
    fn spans_of_one_trace_differ() {
        let mut spans = BTreeSet::new();
        for task in 0..1_000 {
            spans.insert(span_of_task(TaskId(task)));
            for token in 0..10 {
                spans.insert(span_of_attempt(TaskId(task), Token(token)));
                spans.insert(span_of_wait(TaskId(task), Token(token)));
            }
        }
        spans.insert(span_of_workflow(WorkflowId(5)));
        assert_eq!(spans.len(), 21_001);
        assert_ne!(trace_of(TaskId(0), None), 0);
        assert_eq!(trace_of(TaskId(3), Some(WorkflowId(9))), 9);
    }
}
