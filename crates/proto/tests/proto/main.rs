//! The wire from outside: what survives it, and whether its code is that of its protocol.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod generated_code_follows_the_protocol;
mod specs_survive_the_wire;
