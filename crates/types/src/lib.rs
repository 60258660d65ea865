//! The words of divvy: data that every layer speaks, and nothing that acts.
//!
//! Reading order: [`id`], [`time`], [`spec`] (what a task is), [`limits`], [`state`] (where it is),
//! [`wait`] (why it is not running), [`cut`] (texts that are too long), [`fact`] (what is written down), [`report`] (how an attempt ended),
//! [`view`] (what people see), [`machine`] (how the pure machines are driven).
//!
//! **Invariant:** nothing here reads a clock, draws a random number, opens a file or starts a thread.

pub mod cut;
pub mod fact;
pub mod id;
pub mod limits;
pub mod machine;
pub mod payload;
pub mod report;
pub mod spec;
pub mod state;
pub mod time;
pub mod view;
pub mod wait;

pub use compact_str::CompactString as Name;
pub use fact::{Fact, Lane, Verdict};
pub use id::{Seq, TaskId, Token, WorkerKey, WorkflowId};
pub use machine::Machine;
pub use payload::Payload;
pub use report::{AttemptOutcome, ErrorClass, Failure, FailureVerdict, TaskError};
pub use spec::{Dependency, RetryPolicy, SpecError, TaskSpec, Workflow};
pub use state::TaskState;
pub use time::Timestamp;
pub use wait::WaitReason;
