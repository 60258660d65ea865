//! The words of divvy: data that every layer speaks, and nothing that acts.
//!
//! Reading order: [`id`], [`time`], [`spec`] (what a task is), [`terms`], [`retry`] and [`need`]
//! (what may be said about it), [`flat`] (how that is read), [`limits`], [`settings`] and [`pools`] (what a server may be told), [`state`] (where it is),
//! [`wait`] (why it is not running), [`alike`] (which errors belong together), [`cut`] (texts that are too long), [`hidden`] (characters that are not seen),
//! [`submitted`] (what became of a submission), [`fact`] (what is written down), [`open`] (what is known of a task from that), [`report`] (how an attempt ended), [`schedule`] (tasks that come by themselves),
//! [`select`] (which tasks are meant), [`view`] (what people see of tasks and workers), [`overview`] and [`alerts`] (and of the server as a whole), [`worker`] (how one introduces itself), [`scope`] (what a caller may do), [`experiment`] (what one found), [`trace`] (how tracing names all that), [`machine`] (how the
//! pure machines are driven).
//!
//! **Invariant:** nothing here reads a clock, draws a random number, opens a file or starts a thread.

pub mod alerts;
pub mod alike;
pub mod bounded;
pub mod cut;
pub mod experiment;
pub mod fact;
pub mod flat;
pub mod hidden;
pub mod id;
pub mod limits;
pub mod machine;
pub mod name;
pub mod need;
pub mod open;
pub mod overview;
pub mod payload;
pub mod pools;
pub mod pulse;
pub mod refusal;
pub mod report;
pub mod retry;
pub mod schedule;
#[cfg(feature = "schema")]
pub mod schema;
pub mod scope;
pub mod select;
pub mod settings;
pub mod shell;
pub mod spec;
pub mod state;
pub mod submitted;
pub mod terms;
pub mod time;
pub mod trace;
pub mod view;
mod view_graph;
mod view_workflow;
pub mod wait;
pub mod worker;

pub use fact::{Fact, Lane, Verdict};
pub use id::{IdEnd, Seq, TaskId, Token, WorkerKey, WorkflowId};
pub use machine::Machine;
pub use name::Name;
pub use open::OpenTask;
pub use payload::Payload;
pub use refusal::{REFUSAL_MARK, Refusal};
pub use report::{AttemptOutcome, ErrorClass, Failure, FailureVerdict, TaskError};
pub use retry::{RetryPolicy, RetryRule, RetryTerms};
pub use schedule::{Schedule, ScheduleView};
pub use scope::{Scope, Scopes};
pub use select::Select;
pub use settings::Settings;
pub use spec::{
    Dependency, GroupDependency, Member, NewTask, SpecError, TaskSpec, Workflow, WorkflowRole,
};
pub use state::TaskState;
pub use submitted::{Conflict, Submitted};
pub use terms::{Matching, OnConflict, Terms, Unique};
pub use time::Timestamp;
pub use wait::{Times, WaitReason};
pub use worker::{WorkerHello, WorkerTier};
