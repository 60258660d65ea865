//! Every situation meets its targets, and a seed gives the same report again.

use super::*;
use crate::experiments::tried;
use crate::{Experiment, Report};

#[track_caller]
fn meets_every_target(experiment: Experiment) -> Report {
    let report = tried(experiment, 1);
    let (met, all) = report.met();
    assert_eq!(met, all, "{:#?}\n{:#?}", report.verdicts, report.findings);
    report
}

#[test]
fn a_hot_spot_is_spread_by_stealing() {
    let report = meets_every_target(hot_spot::EXPERIMENT);
    assert_eq!(report, tried(hot_spot::EXPERIMENT, 1));
    assert_ne!(report.tables, tried(hot_spot::EXPERIMENT, 2).tables);
}

#[test]
fn stealing_costs_nothing_where_the_load_is_even() {
    meets_every_target(uniform::EXPERIMENT);
}

#[test]
fn workers_that_die_with_full_queues_lose_nothing() {
    meets_every_target(cascade::EXPERIMENT);
}

#[test]
fn short_tasks_of_a_burst_do_not_wait_behind_long_ones() {
    meets_every_target(bursty::EXPERIMENT);
}

#[test]
fn tasks_of_high_priority_are_never_moved() {
    meets_every_target(protection::EXPERIMENT);
}

#[test]
fn what_waits_at_a_slow_worker_is_taken_away() {
    meets_every_target(slow_worker::EXPERIMENT);
}

#[test]
fn a_worker_that_comes_and_goes_loses_nothing() {
    meets_every_target(flapping::EXPERIMENT);
}

#[test]
fn fast_workers_take_over_from_slow_ones() {
    meets_every_target(speeds::EXPERIMENT);
}

#[test]
fn keys_get_what_their_weights_promise() {
    meets_every_target(fairness::EXPERIMENT);
}

#[test]
fn a_key_over_its_limit_is_not_felt_by_the_others() {
    meets_every_target(limits::EXPERIMENT);
}

#[test]
fn least_slack_misses_a_third_of_the_deadlines_at_most() {
    meets_every_target(deadlines::EXPERIMENT);
}
