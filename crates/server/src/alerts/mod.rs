//! Alerts: the rules about the health of a server, when one fires and is over, and who is told.
//!
//! Reading order: `rules` (what is measured and what is said of it: pure functions of a [`Scene`]), `options` (what a
//! settings file may say), `machine` (when a rule fires and is over: pure, time is an argument), `watch` (looks, steps
//! the machine, remembers), `memory` (what lasts), `courier` (tells the sinks with durable tasks), `sinks` (webhooks and
//! commands).
//!
//! The same rules stand behind `GET /api/v1/alerts`, `divvy_alert` in `/metrics`, `divvy status`, `divvy doctor --live`,
//! `divvy top` and the dashboard.
//!
//! **Invariant:** whoever is told of an alert hears in turns that it fired and that it is over, each once, also if the
//! server is killed between any two steps. Only a message that was taken and not yet recorded then comes again, under the
//! same id.

mod courier;
mod machine;
mod memory;
mod options;
mod rules;
mod sinks;
mod trend;
mod watch;

pub use options::{AlertOptions, Command, RuleOptions, Sink, Webhook};
pub use rules::{RULES, Rule};

pub(crate) use rules::Scene;
pub(crate) use watch::{Looked, Watch, look, run};

#[cfg(test)]
mod tests;
