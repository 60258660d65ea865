//! What each policy does, alone, with figures that can be checked by hand.

use std::time::Duration;

use divvy_autoscale::{Due, Sample};
use divvy_types::pools::{Goal, Policy};

use crate::play::{Play, STEP, at, pool};

#[test]
fn the_queue_wants_arrivals_times_run_time() {
    let mut play = Play::new(pool(Policy::Queue));
    // 10 tasks of one second each second need 10 workers, and a few against chance.
    let total = play.ticks(30, 10 * STEP, 0);
    assert!((11..=13).contains(&total), "{total}");
    assert!(play.scaler.last().reason.contains("10.00 s of work arrive per second"));
    let total = play.ticks(30, 20 * STEP, 0);
    assert!((21..=24).contains(&total), "{total}");
}

#[test]
fn the_queue_drains_what_waits_within_the_goal() {
    let mut play = Play::new(pool(Policy::Queue));
    play.ticks(2, 0, 0);
    // 600 seconds of work within 30 seconds.
    assert_eq!(play.tick(0, 600).total(), 20);
    assert_eq!(play.tick(0, 0).total(), 0, "nothing is left to do");
}

#[test]
fn a_task_uses_one_worker_however_long_it_is() {
    for policy in [Policy::Queue, Policy::Objective] {
        let mut play = Play::new(pool(policy));
        play.run_sec = 3_600.0;
        play.tick(0, 0);
        assert_eq!(play.tick(0, 3).total(), 3, "{policy:?}");
        // They run now, and another one waits.
        play.at += STEP;
        let mut sample = play.sample(0, 1);
        sample.kinds.get_mut("work").unwrap().running = 3;
        assert_eq!(play.follow(&sample).total(), 4, "{policy:?}");
    }
}

#[test]
fn a_deadline_asks_for_more_than_patience_does() {
    let late = |due: Option<u64>| -> u32 {
        let goal = Goal::Misses { under: 0.01 };
        let mut play = Play::new(divvy_types::pools::Pool { goal, ..pool(Policy::Queue) });
        play.run_sec = 10.0;
        play.tick(0, 0);
        play.at += STEP;
        let mut sample: Sample = play.sample(0, 100);
        let kind = sample.kinds.get_mut("work").unwrap();
        kind.due = due.into_iter().map(|left| Due { at: at(play.at + left), tasks: 100 }).collect();
        play.follow(&sample).total()
    };
    // A thousand seconds of work: in 300 seconds by patience, in 50 by the deadline.
    assert_eq!((late(None), late(Some(50))), (4, 20));
}

#[test]
fn thresholds_hold_a_band_and_rest_after_a_change() {
    let mut play = Play::new(pool(Policy::Reactive)).with(10);
    let mut used = |cpu: f64, ticks: u64| {
        play.cpu = Some(cpu);
        play.ticks(ticks, 0, 0)
    };
    assert_eq!(used(0.6, 20), 10, "between the thresholds nothing changes");
    assert_eq!(used(0.95, 8), 10, "the mean of five minutes is not there yet");
    let grown = used(0.95, 15);
    assert!((12..=14).contains(&grown), "it grows to the target: {grown}");
    // Use falls: one worker every three minutes.
    let before = used(0.2, 40);
    assert_eq!(used(0.2, 12), before - 1);
}

#[test]
fn the_target_is_tracked_quickly_up_and_with_slack_down() {
    let mut play = Play::new(pool(Policy::Target)).with(10);
    let mut used = |cpu: f64| {
        play.cpu = Some(cpu);
        play.tick(0, 0).total()
    };
    // 0.65 is within a tenth of the target; 0.84 of ten workers is 0.7 of twelve.
    assert_eq!([used(0.7), used(0.65), used(0.84), used(0.7)], [10, 10, 12, 12]);
    assert_eq!(used(0.35), 6);
}

#[test]
fn the_rules_of_kubernetes_are_kept() {
    let mut play = Play::new(pool(Policy::Hpa)).with(10);
    let used = |play: &mut Play, cpu: f64| {
        play.cpu = Some(cpu);
        play.tick(0, 0).total()
    };
    assert_eq!(used(&mut play, 0.76), 10, "a tenth from the target changes nothing");
    assert_eq!(used(&mut play, 0.84), 12, "ceil(10 × 84 ÷ 70)");
    assert_eq!(used(&mut play, 0.35), 12, "on the way down the most of five minutes holds");
    let down: Vec<u32> = (0..20).map(|_| used(&mut play, 0.35)).collect();
    assert_eq!(down.iter().filter(|total| **total == 12).count(), 18, "{down:?}");
    // Without workers that take tasks it cannot more than double or add four.
    let mut small = Play::new(pool(Policy::Hpa)).with(1);
    assert_eq!(used(&mut small, 1.0), 2);
}

#[test]
fn a_fixed_fleet_is_at_its_maximum() {
    assert_eq!(Play::new(pool(Policy::Fixed)).tick(0, 0).total(), 100);
}

#[test]
fn requests_are_work_too_and_slow_answers_ask_for_workers() {
    let mut play = Play::new(pool(Policy::Queue)).with(10);
    let serve = |play: &mut Play, requests: f64, cpu: f64, p95: f64| {
        play.at += STEP;
        let mut sample = play.sample(0, 0);
        sample.kinds.clear();
        (sample.requests_per_second, sample.cpu) = (Some(requests), Some(cpu));
        sample.p95_sec = Some(p95);
        play.follow(&sample).total()
    };
    // Ten workers at half use serve 100 requests per second: 400 need four times that.
    for _ in 0..20 {
        let running = f64::from(play.fleet["worker"].running.max(1));
        serve(&mut play, 100.0, (5.0 / running).min(1.0), 0.1);
    }
    let before = play.total();
    let after = (0..30).map(|_| serve(&mut play, 400.0, 1.0, 0.1)).max().unwrap();
    assert!((5..=8).contains(&before) && after >= 3 * before, "{before} {after}");

    let goal = Goal::Start { share: 0.95, within: Duration::from_secs(1) };
    let mut slow = Play::new(divvy_types::pools::Pool { goal, ..pool(Policy::Target) }).with(10);
    assert!(serve(&mut slow, 100.0, 0.7, 1.5) >= 15);
    assert!(slow.scaler.last().reason.contains("longer than the goal allows"));
}

#[test]
fn requests_beside_tasks_or_to_idle_workers_are_no_work() {
    let wanted = |requests: Option<f64>, tasks: u64| -> Vec<u32> {
        let mut play = Play::new(pool(Policy::Queue)).with(10);
        let look = |_| {
            play.at += STEP;
            let mut sample = play.sample(tasks, 0);
            if tasks == 0 {
                sample.kinds.clear();
            }
            // Memory that idle workers hold is no sign of work.
            (sample.cpu, sample.memory) = (Some(if tasks == 0 { 0.0 } else { 0.9 }), Some(0.6));
            sample.requests_per_second = requests;
            play.follow(&sample).total()
        };
        (0..30).map(look).collect()
    };
    for tasks in [0, 20] {
        assert_eq!(wanted(Some(500.0), tasks), wanted(None, tasks), "{tasks} tasks");
    }
}

#[test]
fn the_objective_weighs_money_against_lateness() {
    let workers = |late_task: f64| -> u32 {
        let mut pool = pool(Policy::Objective);
        (pool.types[0].price_hour, pool.types[0].boot_sec) = (1.0, 60.0);
        pool.budget.late_task = Some(late_task);
        let mut play = Play::new(pool).with(10);
        play.ticks(20, 10 * STEP, 0);
        play.tick(10 * STEP, 2_000).total()
    };
    let (cheap, dear) = (workers(0.0), workers(1.0));
    assert!(cheap < dear, "{cheap} {dear}");
}

#[test]
fn a_pool_without_work_stops_and_one_task_starts_it() {
    for policy in [Policy::Objective, Policy::Queue, Policy::Predictive] {
        let mut play = Play::new(pool(policy));
        assert!(play.ticks(10, 4 * STEP, 0) >= 4, "{policy:?}");
        assert_eq!(play.ticks(40, 0, 0), 0, "{policy:?} stops");
        assert_eq!(play.tick(1, 1).total(), 1, "{policy:?} starts again");
    }
}
