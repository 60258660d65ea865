//! The known situations of uneven load, played with the real scheduler: every task ends exactly once, and the claim of
//! each situation holds.

use std::time::Duration;

use divvy_lab::sim::cluster::scenario::{self, STRATEGIES};
use divvy_lab::sim::cluster::{Arrivals, Cluster, End, Load, Member, Outcome, RunTime, Turn};
use divvy_types::settings::{Settings, Strategy};
use divvy_types::{Matching, WaitReason};

const SECOND: Duration = Duration::from_secs(1);
const SEEDS: [u64; 3] = [1, 2, 3];

/// Runs a cluster; every task must end exactly once, and well.
#[track_caller]
fn done(cluster: &Cluster) -> Outcome {
    let outcome = cluster.run().unwrap();
    outcome.check_ended_once().unwrap();
    let dead = outcome.lives.iter().position(|life| life.end != Some(End::Done));
    assert_eq!(dead, None, "a task ended, but not well: {:?}", dead.map(|at| &outcome.lives[at]));
    outcome
}

/// The same situation in every way, for several seeds.
#[track_caller]
fn in_every_way(
    make: fn(Strategy, usize, u64) -> Cluster,
    tasks: usize,
    claim: impl Fn(&[Outcome; 4]),
) {
    for seed in SEEDS {
        let outcomes = STRATEGIES.map(|(_, strategy)| done(&make(strategy, tasks, seed)));
        claim(&outcomes);
    }
}

fn seconds(outcome: &Outcome) -> f64 {
    outcome.makespan().as_secs_f64()
}

#[track_caller]
fn at_most(share: f64, measured: f64, of: f64) {
    assert!(measured <= share * of, "{measured} is more than {share} of {of}");
}

#[test]
fn a_hot_spot_is_spread_over_workers_that_join_later() {
    in_every_way(scenario::hot_spot, 400, |[none, pull, push, hybrid]| {
        assert_eq!(none.moved(), 0, "nothing moves where nothing may");
        at_most(0.6, seconds(hybrid), seconds(none));
        at_most(0.6, seconds(pull), seconds(none));
        at_most(0.8, seconds(push), seconds(none));
        assert!(hybrid.evenness() > 0.8, "{}", hybrid.evenness());
    });
}

#[test]
fn a_hot_spot_is_spread_with_the_settings_that_nobody_touched() {
    let mut cluster = scenario::hot_spot(Strategy::Hybrid, 400, 1);
    cluster.settings = Settings::default();
    let none = done(&scenario::hot_spot(Strategy::None, 400, 1));
    at_most(0.6, seconds(&done(&cluster)), seconds(&none));
}

#[test]
fn even_load_stays_as_it_is() {
    in_every_way(scenario::uniform, 1_000, |[none, pull, push, hybrid]| {
        for way in [pull, push, hybrid] {
            at_most(1.02, seconds(way), seconds(none));
            let p99 = |outcome: &Outcome| outcome.waits(|_| true).p99.as_secs_f64();
            at_most(1.05, p99(way), p99(none));
        }
        assert!(none.evenness() > 0.95, "{}", none.evenness());
    });
}

#[test]
fn workers_that_die_with_full_queues_take_no_task_along() {
    in_every_way(scenario::cascade, 500, |outcomes| {
        for outcome in outcomes {
            let lost: u64 = outcome.members.iter().map(|member| member.lost).sum();
            let begins: u32 = outcome.lives.iter().map(|life| life.begins).sum();
            assert!(lost > 0, "the workers died idle");
            assert_eq!(u64::from(begins), 500 + lost, "only what was running runs twice");
        }
        at_most(1.02, seconds(&outcomes[3]), seconds(&outcomes[0]));
    });
}

#[test]
fn workers_that_die_one_after_the_other_until_one_is_left_take_no_task_along() {
    let cluster = Cluster::new(1)
        .settings(scenario::settings(Strategy::Hybrid))
        .members(6, |number| {
            let member = Member::new(format!("worker-{number}"), 2).prefetch(20);
            if number == 0 { member } else { member.turn(SECOND * number, Turn::Dies) }
        })
        .load(Load::new("work", 150));
    let mut cluster = cluster;
    // Workers fall faster here than a task is granted anew, so five of them may fall with the same task.
    cluster.settings.poison_after.0 = 100;
    cluster.loads[0].task.retry.limit = 100;
    let outcome = done(&cluster);
    assert!(outcome.members[0].finished > 100, "{:?}", outcome.members);
}

#[test]
fn short_tasks_of_a_burst_leave_the_queue_behind_a_long_one() {
    in_every_way(scenario::bursty, 1_200, |[none, pull, _, hybrid]| {
        let p99 = |outcome: &Outcome| outcome.waits(|_| true).p99.as_secs_f64();
        at_most(0.9, p99(hybrid), p99(none));
        at_most(0.9, p99(pull), p99(none));
        at_most(1.02, seconds(hybrid), seconds(none));
    });
}

#[test]
fn tasks_of_high_priority_are_never_moved() {
    in_every_way(scenario::protection, 400, |outcomes| {
        for outcome in outcomes {
            let protected = outcome.lives.iter().filter(|life| life.priority >= 4);
            assert_eq!(protected.filter(|life| life.given_back > 0).count(), 0);
        }
        assert!(outcomes[3].moved() > 50, "the others are moved: {}", outcomes[3].moved());
        let p99 = |outcome: &Outcome| outcome.waits(|life| life.priority >= 4).p99.as_secs_f64();
        at_most(1.01, p99(&outcomes[3]), p99(&outcomes[0]));
    });
}

#[test]
fn tasks_of_high_priority_are_moved_where_nobody_protects_them() {
    let mut cluster = scenario::protection(Strategy::Hybrid, 400, 1);
    cluster.settings.load_balancing.priority.preserve_high_priority = false;
    cluster.loads.remove(0);
    let outcome = done(&cluster);
    assert!(outcome.moved() > 10, "{}", outcome.moved());
}

#[test]
fn without_workers_tasks_wait_and_say_so_and_run_when_one_comes() {
    let alone = Cluster::new(1)
        .settings(scenario::settings(Strategy::Hybrid))
        .load(Load::new("work", 20))
        .until(SECOND * 60);
    let outcome = alone.run().unwrap();
    assert_eq!(outcome.done(|_| true), 0);
    for life in &outcome.lives {
        assert!(
            matches!(life.wait, Some(WaitReason::NoWorker { workers: 0, .. })),
            "{:?}",
            life.wait
        );
    }
    assert_eq!((outcome.messages, outcome.load.total_steals), (0, 0));
    done(&alone.member(Member::new("late", 4).joins(SECOND * 30)));
}

#[test]
fn a_single_worker_does_all_and_nobody_steals_from_it() {
    for (name, strategy) in STRATEGIES {
        let cluster = Cluster::new(1)
            .settings(scenario::settings(strategy))
            .member(Member::new("only", 2).prefetch(50))
            .load(Load::new("work", 100));
        let outcome = done(&cluster);
        assert_eq!((outcome.moved(), outcome.load.total_steals), (0, 0), "{name}");
        assert!((seconds(&outcome) - 50.0).abs() < 0.5, "{name}: {}", seconds(&outcome));
    }
}

#[test]
fn workers_without_capabilities_run_what_needs_none_and_steal_nothing_else() {
    let cluster = Cluster::new(1)
        .settings(scenario::settings(Strategy::Hybrid))
        .member(Member::new("gpu", 1).prefetch(100).has(["gpu"]))
        .members(4, |number| Member::new(format!("plain-{number}"), 1).prefetch(20).joins(SECOND))
        .load(Load::new("render", 30).need("gpu"))
        .load(Load::new("plain", 30));
    let outcome = done(&cluster);
    let at = |load: usize| outcome.lives.iter().filter(move |life| life.load == load);
    assert!(at(0).all(|life| life.worker == Some(0) && life.given_back == 0), "needs are kept");
    assert!(at(1).filter(|life| life.worker != Some(0)).count() >= 20, "the rest is spread");
}

#[test]
fn a_need_that_nobody_meets_waits_and_names_what_is_missing() {
    let mut load = Load::new("render", 5).need("gpu>=2");
    load.task.matching = Some(Matching::Exact);
    let cluster = Cluster::new(1)
        .member(Member::new("plain", 1))
        .load(load)
        .load(Load::new("plain", 5))
        .until(SECOND * 30);
    let outcome = cluster.run().unwrap();
    assert_eq!((outcome.done(|life| life.load == 0), outcome.done(|life| life.load == 1)), (0, 5));
    let wait = outcome.lives[0].wait.as_ref().unwrap().to_string();
    assert!(wait.contains("gpu") && wait.contains("plain"), "{wait}");
}

#[test]
fn what_waits_at_a_slow_worker_is_taken_away() {
    in_every_way(scenario::slow_worker, 400, |[none, pull, _, hybrid]| {
        at_most(0.6, seconds(hybrid), seconds(none));
        at_most(0.6, seconds(pull), seconds(none));
        assert!(hybrid.members[0].finished < none.members[0].finished);
    });
}

#[test]
fn a_flapping_worker_loses_no_task() {
    in_every_way(scenario::flapping, 1_200, |outcomes| {
        for outcome in outcomes {
            let begins: u32 = outcome.lives.iter().map(|life| life.begins).sum();
            let lost: u64 = outcome.members.iter().map(|member| member.lost).sum();
            assert!(lost > 10, "the worker was idle when it died: {lost}");
            assert_eq!(u64::from(begins), 1_200 + lost, "only what was running runs twice");
        }
        at_most(1.02, seconds(&outcomes[3]), seconds(&outcomes[0]));
    });
}

#[test]
fn a_worker_that_vanishes_and_returns_before_it_is_missed_costs_one_lease_at_most() {
    let cluster = Cluster::new(1)
        .settings(scenario::settings(Strategy::Hybrid))
        .member(
            Member::new("blinks", 2)
                .prefetch(4)
                .turn(SECOND * 3, Turn::Vanishes)
                .turn(SECOND * 4, Turn::Returns),
        )
        .member(Member::new("stays", 2).prefetch(4))
        .load(Load::new("work", 60));
    assert!(done(&cluster).makespan() < SECOND * 40);
}

#[test]
fn fast_workers_take_over_what_waits_at_slow_ones() {
    in_every_way(scenario::speeds, 600, |[none, pull, _, hybrid]| {
        at_most(0.8, seconds(hybrid), seconds(none));
        at_most(0.8, seconds(pull), seconds(none));
        let (slow, fast) = (hybrid.members[0].finished, hybrid.members[4].finished);
        assert!(fast > 6 * slow, "{fast} against {slow}");
    });
}

#[test]
fn a_worker_that_fails_a_kind_does_not_keep_it_from_the_others() {
    let mut load = Load::new("hard", 300)
        .arrive(Arrivals::Poisson { from: Duration::ZERO, per_second: 5.0 })
        .run_for(RunTime::Fixed(SECOND / 2));
    load.task.retry.limit = 50;
    let cluster = Cluster::new(1)
        .member(Member::new("broken", 4).fails("hard", 1.0))
        .member(Member::new("sound", 4))
        .load(load)
        .load(Load::new("easy", 100));
    let outcome = done(&cluster);
    let failed = outcome.members[0].began - outcome.members[0].finished;
    assert!(
        failed < 60,
        "a worker that keeps failing a kind is quarantined: it failed {failed} times"
    );
}
