//! Workers against a server that does exactly what a test tells it to, and the built-in kinds.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod ending;
mod exec_programs;
mod fake_server;
mod http_calls;
mod keeping_leases;
mod recalls;
mod reconnecting;
mod running;
mod saving;
mod stopping;
