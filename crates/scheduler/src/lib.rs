//! Whose turn it is: the life of tasks, dependencies, priorities, leases, retries and dead letters.
//!
//! [`Scheduler`] is a pure machine (see [`divvy_types::machine`]): hand in one [`Input`], drain the [`Action`]s, hand
//! in the next.
//!
//! Reading order: [`input`] and [`action`] (the contract), `scheduler` (the state and its parts); `submit`, `finish`,
//! `fail` and `budgets`, `settle`, `cancel`, `lease`, `spill`, `recover`, `replay`, `workflows`, `groups`, `circles`,
//! `knot`, `checkpoint`, `reload` (one file per transition); `table` and `pages` (tasks by row and by number), `classes`, `streams`, `bands`,
//! `lanes` (where ready tasks are), `pick`, `shares`, `limits` (whose turn it is, and the rules of order); about workers:
//! `profile` and `matching` (who may), `score` and `placed` (who gets, and why), `learn`, `runtimes` and `quarantine` (who does
//! well), `elsewhere` and `lengths` (who does not get), `places`, `steal` and `rebalance` (what waits where, and moves);
//! [`view`], `explain`, [`admission`], `load`, `traffic` and `health` (what can be read), [`admit`] (what is let in).
//!
//! **Order and starvation.** A worker gets, of the tasks that it can run, the one of the highest priority, and in that
//! the one whose turn it is by queue, slack, fair share and age; the exact rules are at the top of `pick`. A task of
//! priority 1 that has waited `4 × ageing` (four minutes by default) gets its turn among priorities 5, however many of
//! these come in: at least one of 31 starts is of its priority.
//!
//! **Start.** Nothing is granted before [`Input::RecoveryEnded`], which a server with an empty store says too.
//!
//! **Invariant:** nothing here reads a clock, draws an unseeded random number, starts a thread, does I/O or depends on
//! the order of a hash map. The same inputs give the same actions.

pub mod action;
pub mod admission;
pub mod admit;
pub mod input;
pub mod options;
pub mod view;

mod away;
mod bands;
mod bits;
mod budgets;
mod cancel;
mod checkpoint;
mod circles;
mod classes;
mod clock;
mod elsewhere;
mod explain;
mod fail;
mod finish;
mod groups;
mod health;
mod knot;
mod lanes;
mod learn;
mod lease;
mod lengths;
mod limits;
mod load;
mod matching;
mod pages;
mod pick;
mod placed;
mod places;
mod priority;
mod profile;
mod quarantine;
mod queues;
mod rebalance;
mod recover;
mod reload;
mod replay;
mod runtimes;
mod scheduler;
mod score;
mod settle;
mod shares;
mod spill;
mod spread;
mod steal;
mod streams;
mod submit;
mod table;
mod tally;
mod timers;
mod traffic;
mod workers;
mod workflows;

pub use action::{Action, Grant, ReportAnswer};
pub use admission::Newcomer;
pub use circles::Joining;
pub use input::{
    AttemptEnd, AttemptEnded, FailedMember, Input, Parent, ParentState, RecoveredTask, Spawner,
    Submission,
};
pub use options::Options;
pub use scheduler::Scheduler;
pub use steal::Stolen;
pub use tally::{Tally, WAIT_BUCKETS, Waits, wait_bucket_end_us};
pub use traffic::{ClassLoad, RunTime, WorkerTraffic};
pub use view::{Counts, TaskStatus};
