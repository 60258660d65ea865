//! Decides what a simulated cluster is: workers, tasks and messages in simulated time around divvy's real scheduler.
//!
//! Whose turn it is, who gets a task and what moves is decided by [`divvy_scheduler::Scheduler`] alone, which is driven
//! through its inputs and actions as in a server. What is simulated is the rest: tasks that arrive, messages that take
//! time, and workers that keep a waiting list, run tasks, fail, slow down, die and come back. A worker behaves as a
//! real one does: the highest priority of its list first, and a task that is asked back is given back if it has not
//! begun.
//!
//! With a [`Scaling`] how many workers there are is decided by [`divvy_autoscale::Scaler`] alone, which sees samples as
//! in a server; workers take time to boot, are drained before they stop, and spot workers are taken away.
//!
//! A [`Cluster`] is data: [`Member`]s, [`Load`]s and settings. [`scenario`] has ready ones. Arrivals, run times and
//! deadlines are drawn apart from everything else, so that two clusters with equal loads and one seed face the same
//! tasks. The same cluster gives the same [`Outcome`]. Nothing is stored: facts count as durable at once.

mod agenda;
mod crew;
mod draw;
mod given;
mod late;
mod member;
mod outcome;
mod scaled;
pub mod scenario;
mod setup;
mod watch;
mod world;

pub use crew::{AtStart, Hired, Interruptions, Scaled, Scaling};
pub use draw::{Arrivals, Due, RunTime};
pub use given::{Given, GivenTask};
pub use outcome::{End, Life, Outcome, Tally, jain};
pub use setup::{Cluster, Edges, Load, Member, TASKS_MAX, Turn};
