//! Extractors: what a handler may ask for after its task.
//!
//! | argument | is |
//! |---|---|
//! | [`State<T>`] | a clone of what the worker was given with `.state(…)` |
//! | [`Cancel`] | the order to stop, to ask or to wait for |
//! | [`Progress`] | says how far the attempt is |
//! | [`Log`] | adds lines to the attempt's log |
//! | [`Checkpoint<T>`] | what an earlier attempt saved, and the way to save more |
//! | [`Upstream<T>`] | the result of the one parent of task type `T`; `Option<Upstream<T>>` if it may have failed |
//! | [`Upstreams<T>`] | the results of all parents of task type `T`, and of children that parents spawned |
//! | [`Parents`] | how every parent ended, untyped |
//! | [`Attempt`] | id, kind, number and token of the attempt |
//! | [`Spawner`] | adds tasks that come into being with this task's finish |
//!
//! Own extractors implement [`Extract`].

mod attempt;
mod cancel;
mod checkpoint;
mod report;
mod spawn;
mod state;
mod upstream;

pub use attempt::Attempt;
pub use cancel::Cancel;
pub use checkpoint::Checkpoint;
pub use report::{Log, Progress};
pub(crate) use spawn::Children;
pub use spawn::{Child, ChildGroup, Spawner};
pub use state::State;
pub use upstream::{Parents, Upstream, Upstreams};

use crate::context::{Context, MissingState, States};
use crate::failure::Failure;

/// Something that a handler may take as an argument after its task.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an argument of a handler",
    label = "not an extractor",
    note = "after the task a handler takes State<T>, Cancel, Progress, Log, Checkpoint<T>, Upstream<T>, Upstreams<T>, \
            Parents, Attempt or Spawner; your own values go in with Worker::state and come out as State<T>"
)]
pub trait Extract: Sized + Send + 'static {
    /// Takes it out of the attempt. A failure here is the failure of the attempt.
    fn extract(context: &Context) -> Result<Self, Failure>;

    /// Checked when the worker starts, so that a worker that cannot serve a handler does not start.
    fn check(states: &States) -> Result<(), MissingState> {
        let _ = states;
        Ok(())
    }
}
