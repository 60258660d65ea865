//! Whether calls to a part that fails are let through: a circuit breaker.
//!
//! It decides from the outcomes and times that it is told. It does not know what a call is, does not run it, has no
//! clock and sets no timer: what falls due is decided when somebody next asks or reports, as if it had been decided
//! on time. `shell::breaker` runs functions and futures under it.
//!
//! | state | calls | leaves it |
//! |---|---|---|
//! | closed | pass | when a rule trips: to open |
//! | open | are refused | at the first call after the open time: to half-open |
//! | half-open | a few pass, as probes | enough successes: to closed; one failed, slow or overdue probe: to open |
//! | forced open | are refused | by hand only |
//! | forced closed | pass, are counted, never trip | by hand only |
//!
//! Rules (each can be left out, any of them trips): a share of failures, a share of slow calls, both over the last
//! calls or over a time, and a run of failures. They are looked at when a call fails or is slow, never on a good one,
//! so a breaker opens only on a bad call.
//!
//! Why this way: a closed breaker costs one load to ask and a few uncontended additions to tell, whatever the number
//! of threads; only changes of state and probes take a lock. Each change of state starts a new *generation*, which
//! a [`Permit`] carries: what is reported for an earlier one is counted in the [`Metrics`] and decides nothing. (One
//! outcome per thread may slip into the window of a new generation, if the thread stands still between looking and
//! adding while the breaker opens and closes again. It decides nothing by itself.)
//!
//! At first start a breaker is closed and knows nothing; `calls_min` keeps the first few calls from being a rate.
//!
//! The pattern is from M. Nygard, *Release It!* (2007); the growing open time and the cap over a fleet follow the
//! outlier detection of Envoy.

mod circuit;
mod fleet;
mod half_open;
mod last_calls;
mod metrics;
mod permit;
mod report;
mod settings;
mod state;
#[cfg(test)]
mod tests;
mod transition;

pub use circuit::{Breaker, TRANSITIONS_MAX};
pub use fleet::{Fleet, FleetSettings};
pub use metrics::Metrics;
pub use permit::Permit;
pub use settings::{LAST_CALLS_MAX, PROBES_MAX, Settings, Window};
pub use state::{Cause, Outcome, Rejected, State, Transition};

#[cfg(doctest)]
#[doc = include_str!("../../../../docs/guides/breaker.md")]
mod guide {}
