//! The lab from outside: its models against theory, its scenarios, and the reports that they give.

#![allow(clippy::unwrap_used, reason = "a panic is the verdict of a test, in its helpers too")]

mod clusters_follow_theory;
mod clusters_that_are_scaled;
mod queues_follow_theory;
mod reports_can_be_read;
mod scenarios;
mod support;
mod three_tiers_of_real_processes;
