//! When: cron expressions in time zones, and the ticks that they mean.
//!
//! Reading order: [`expression`] (what can be written), [`cron`] and [`field`] (its fields), [`zone`] (where),
//! [`calendar`] (both together: the next tick, ticks between two times, and the rules for clocks that are set forward
//! or back), [`words`] (what it means, in words).
//!
//! The fields are matched by code of our own over `jiff`, which knows the calendar and the time zones; why no cron
//! library is used is in `docs/adr/0013-our-own-cron-matcher.md`.
//!
//! **Invariant:** nothing here reads a clock, a file or the zone of this machine. The same expression, zone and time
//! give the same tick everywhere.

pub mod calendar;
pub mod cron;
pub mod expression;
pub mod field;
pub mod words;
pub mod zone;

pub use calendar::Calendar;
pub use expression::{Expression, InvalidExpression};
pub use zone::{InvalidZone, Zone};
