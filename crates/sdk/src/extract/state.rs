//! What a worker shares with its handlers: connections, settings, counters.

use std::any::type_name;

use super::Extract;
use crate::context::{Context, MissingState, States};
use crate::failure::Failure;

/// A clone of the value that the worker was given with `.state(…)`: wrap what is dear to clone in an `Arc`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State<T>(pub T);

impl<T: Clone + Send + Sync + 'static> Extract for State<T> {
    fn extract(context: &Context) -> Result<Self, Failure> {
        // The worker checked at its start that the state is there.
        context.state().map(Self).ok_or_else(|| Failure::dead(MissingState(type_name::<T>())))
    }

    fn check(states: &States) -> Result<(), MissingState> {
        states.require::<T>()
    }
}
