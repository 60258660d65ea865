//! The pool from outside: nothing is lost, nothing runs twice, and nothing waits for ever.

#![allow(clippy::unwrap_used, reason = "a panic is the verdict of a test, in its helpers too")]

mod nothing_is_lost_or_run_twice;
mod tasks_that_wait_for_each_other;
mod tiers_run_the_right_way;
mod values_scopes_and_ends;
mod workers_and_bands;
