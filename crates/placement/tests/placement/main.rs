//! Placement from outside: targets come and go, and work still finds the right one.

#![allow(clippy::unwrap_used, reason = "a panic is the verdict of a test, in its helpers too")]

mod a_watched_balancer_tells_who_is_ill;
mod all_targets_leave_and_others_come;
mod hot_partition_is_spread_over_several_owners;
mod only_targets_that_fit_are_picked;
mod ring_follows_targets_that_come_and_go;
mod the_slow_stage_of_a_chain_is_named;
