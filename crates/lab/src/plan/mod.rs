//! Decides how many workers a load needs, at what cost and with what risk, before anything is bought.
//!
//! A [`Plan`] says what comes, how much work it is, what is wanted and what workers cost. [`answer()`] plays it: divvy's
//! real scheduler and, where workers come and go, its real autoscaler, in simulated time, over several seeds. Nothing of
//! the answer is a formula but the first guess ([`erlang`]), which is shown beside it.
//!
//! Reading order: [`input`] (what is asked), `demand` (what comes), `play` (one fleet, one run), `runs` (many, and their
//! seeds), `fluid` (where to begin), `search` (the cheapest fleet), `around` (the largest load, what each input matters),
//! [`mod@answer`] (what is found), [`show`] (the same as a report);
//! [`trace`], [`history`] and [`fit`] make inputs from what was seen; [`replay`] compares with what happened, and
//! [`rounds`] says whether the machine stayed the same meanwhile.
//!
//! **Invariant:** the same plan gives the same answer, whatever the machine and the number of threads.

pub mod answer;
pub mod erlang;
pub mod fit;
pub mod history;
pub mod input;
pub mod replay;
pub mod rounds;
pub mod show;
pub mod trace;

mod around;
mod demand;
mod fluid;
mod play;
mod runs;
mod search;
#[cfg(test)]
mod tests;

pub use answer::{Answer, Fleet, answer};
pub use input::{Plan, Wrong};
