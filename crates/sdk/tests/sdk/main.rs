//! The library as its users see it: tasks, workers and clients against a real server.

#![allow(clippy::unwrap_used, reason = "a panic is the verdict of a test, in its helpers too")]

mod batching;
mod bench;
mod client;
mod examples;
mod objects;
mod proxies;
mod schedules;
mod support;
