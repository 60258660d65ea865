//! The command line of divvy: arguments, settings, wiring. A binary is this with a list of workloads.
//!
//! Reading order: [`main`] (how it begins and ends), `args` (what can be typed), `config` (settings and their origin), `commands` (what each does), `top` (a screen of its own),
//! `workloads` (what others bring). What the reader sees and how a run ends is in
//! `divvy-console`.
//!
//! **Invariant:** nothing here decides about tasks, and nothing here knows a workload by name. Commands speak to a
//! server over its public API only; `up` and `serve` start one in this process, and `up` starts workers as processes of
//! their own.

mod args;
mod commands;
mod complete;
mod config;
mod entry;
mod laboratory;
mod logging;
mod plan;
mod reload;
mod sample;
mod secrets;
mod service;
mod supervise;
mod top;
mod values;
mod watch;
#[cfg(test)]
mod whole_way;
mod workflow;
mod workloads;

pub(crate) use divvy_console::{confirm, exit, output, suggest, yaml};
pub use entry::main;
