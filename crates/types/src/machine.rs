//! How every pure machine is driven.
//!
//! 1. Call [`Machine::handle`] with **one** input.
//! 2. Call [`Machine::poll_action`] until it returns nothing, and carry each action out (or keep it for later).
//! 3. Sleep until [`Machine::next_deadline`] or until the next input, whichever is first. When the deadline is
//!    reached, hand in the input by which the machine learns that time passed.
//!
//! A machine has no clock: `now` is an argument and never goes back. It has no threads and no I/O. Random choices
//! come from a generator that it owns and that was seeded from outside. Hence a recorded list of inputs, replayed,
//! gives the same actions: a recorded incident is a test.
//!
//! Inputs are named in the past tense (`TaskCancelled`), actions in the imperative (`Grant`). What an action
//! promises to the outside may leave the process only after every fact recorded in the same or an earlier step is
//! durable; the engine sees to that.

use crate::Timestamp;

/// A pure state machine; the module text says how to drive it.
pub trait Machine {
    /// What happened outside.
    type Input;
    /// What is to be done outside.
    type Action;

    /// Takes one input at time `now`.
    fn handle(&mut self, now: Timestamp, input: Self::Input);
    /// The next thing to be done, in order.
    fn poll_action(&mut self) -> Option<Self::Action>;
    /// When the machine wants to be told that time passed, if ever.
    fn next_deadline(&self) -> Option<Timestamp>;
}
