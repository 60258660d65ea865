//! Windows over events that come out of order: what belongs to which window, when a window is closed, and what came too
//! late. The model is that of Akidau and others, The Dataflow Model, VLDB 2015.
//!
//! **Contract.** Each event of a partition goes to [`Watermarks::observe`] and [`Windows::add`]; now and then, in between,
//! [`Watermarks::current`] says how far event time has come, and [`Windows::advance`] hands out what that closes. Time is
//! an argument: event time in the events, and the time of the clock only to see which partitions are idle.
//!
//! Everything can be saved and loaded, so that positions in the input, state and the length of the output can be kept
//! together; what came after that is then read again and gives the same.
//!
//! Reading order: `spec` (which windows there are), `watermark` (how far event time has come), `panes` (windows of a fixed
//! size), `sessions` (windows that events make), `windows` (both behind one face).

mod panes;
mod sessions;
mod spec;
#[cfg(test)]
mod tests;
mod watermark;
mod windows;

pub use spec::{
    LATENESS_MS_MAX, Spec, SpecError, TIME_MS_MAX, Trigger, WINDOW_MS_MAX, WINDOWS_PER_EVENT_MAX,
};
pub use watermark::Watermarks;
pub use windows::{Aggregate, Fired, Taken, Windows};
