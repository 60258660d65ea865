//! Clusters from outside: real processes on loopback, real kills.
//!
//! `DIVVY` names the binary of the server; without it, that of the main workspace's debug build is used.

#![allow(clippy::unwrap_used, reason = "a panic is the verdict of a test, in its helpers too")]

mod data;
mod people_ask_a_cluster;
mod queries_survive_whoever_dies;
mod world;
