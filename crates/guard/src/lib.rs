//! Whether work may go: circuit breakers, rate limits, retries, timeouts, hedging, limits, shedding, degradation.
//!
//! Each module is a pure core: time is an argument (a `Duration` since any fixed moment that the caller chooses) and
//! chance comes from a seeded generator. With the feature `async`, `shell` adds a clock and wrappers that run
//! functions and futures under a core; with `tower`, layers for tower services.
//!
//! Reading order: [`breaker`], [`rate`], [`backoff`], [`budget`], [`retry`] (may it be tried, and when again);
//! [`timeout`], [`deadline`], [`fanout`], [`hedge`] (how long to wait, and for whom); [`concurrency`], [`bulkhead`],
//! [`shed`], [`ladder`] (how much at once, and what to give up first).
//!
//! **Invariant:** outside of `shell` nothing reads a clock, draws an unseeded random number, starts a thread or does
//! I/O. Whatever a guard hands out (a permit, a token, a place) is given back when the caller is cancelled.

pub mod backoff;
pub mod breaker;
pub mod budget;
pub mod bulkhead;
pub mod concurrency;
pub mod deadline;
pub mod fanout;
pub mod hedge;
pub mod ladder;
pub mod rate;
pub mod retry;
mod rolling;
pub mod setting;
pub mod shed;
#[cfg(feature = "async")]
pub mod shell;
pub mod timeout;
