//! Costs, energy, budgets, and what is out of reach.

use divvy_autoscale::Bound;
use divvy_types::pools::{Policy, Pool};

use crate::play::{Play, STEP, pool};

fn paid(price_hour: f64) -> Pool {
    let mut pool = pool(Policy::Queue);
    pool.types[0].price_hour = price_hour;
    pool
}

#[test]
fn costs_stand_beside_those_of_a_fixed_fleet_and_of_kubernetes() {
    let mut pool = Pool { min: 10, max: 20, ..paid(0.5) };
    (pool.types[0].watts_idle, pool.types[0].watts_busy) = (Some(50.0), Some(150.0));
    let mut play = Play::new(pool).with(10);
    play.cpu = Some(0.5);
    // 7 seconds of work per second for an hour: Kubernetes would have ten workers.
    play.ticks(1 + 240, 7 * STEP, 0);
    let costs = *play.scaler.costs();
    let near = |found: f64, expected: f64| (found - expected).abs() < 0.02 * expected;
    assert!(near(costs.per_hour, 5.0) && near(costs.total, 5.0), "{costs:?}");
    assert!(near(costs.fixed_total, 10.0) && near(costs.hpa_total, 5.0), "{costs:?}");
    assert!(near(costs.energy_kwh.unwrap(), 1.0), "{costs:?}");
    assert_eq!(costs.month, costs.total);
}

#[test]
fn without_stated_watts_there_is_no_energy() {
    let mut play = Play::new(paid(1.0));
    play.ticks(10, STEP, 0);
    assert_eq!(play.scaler.costs().energy_kwh, None);
}

#[test]
fn the_budget_of_an_hour_bounds_the_workers() {
    let mut pool = paid(2.0);
    pool.budget.hour = Some(9.0);
    let mut play = Play::new(pool);
    play.tick(0, 0);
    let decision = play.tick(0, 10_000);
    assert_eq!((decision.total(), decision.bound), (4, Some(Bound::Budget)));
}

#[test]
fn the_budget_of_a_month_is_never_overspent() {
    let mut pool = paid(1.0);
    pool.budget.month = Some(100.0);
    let mut play = Play::new(pool);
    let first = play.tick(0, 0).total().max(play.tick(0, 10_000).total());
    assert!(first <= 1, "four times the even pace of 100 in 720 hours is less than one: {first}");
    let mut pool = paid(0.01);
    pool.budget.month = Some(100.0);
    let mut play = Play::new(pool);
    // A sample every ten minutes for 29 days.
    for _ in 0..29 * 144 {
        play.at += 600 - STEP;
        play.tick(0, 10_000);
    }
    let spent = play.scaler.costs().month;
    assert!((90.0..=100.0).contains(&spent), "{spent}");
}

#[test]
fn what_is_out_of_reach_is_said_with_the_cheapest_that_would_do() {
    let mut pool = Pool { max: 5, ..paid(2.0) };
    pool.types[0].boot_sec = 90.0;
    let mut play = Play::new(pool);
    play.ticks(10, 20 * STEP, 0);
    let why = play.scaler.explain().unwrap();
    let told: Vec<String> =
        why.impossible.iter().map(|one| format!("{}; {}", one.problem, one.cheapest)).collect();
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0].contains("takes 90 s to start and min is 0"), "{told:?}");
    assert!(told[0].contains("min: 1 would do, for 2 per hour"), "{told:?}");
    assert!(told[1].contains("max (5) does 5.00 at most; max: 2"), "{told:?}");
    assert!(why.words[1].starts_with("The goal (p95 start within 30 s) is out of reach"));

    let mut pool = Pool { min: 1, ..paid(2.0) };
    pool.budget.hour = Some(3.0);
    let mut play = Play::new(pool);
    play.ticks(10, 20 * STEP, 0);
    let told = play.scaler.explain().unwrap().impossible;
    assert!(told[0].problem.contains("the budget of 3.00 per hour pays for less"), "{told:?}");
    let mut fine = Play::new(Pool { min: 1, ..paid(2.0) });
    fine.ticks(10, 20 * STEP, 0);
    assert_eq!(fine.scaler.explain().unwrap().impossible, []);
}

#[test]
fn an_explanation_says_what_was_understood_and_what_each_policy_wants() {
    let mut play = Play::new(paid(1.0));
    assert_eq!(play.scaler.explain(), None, "nothing was seen yet");
    play.ticks(20, 10 * STEP, 5);
    let why = play.scaler.explain().unwrap();
    assert_eq!(why.answers.len(), 7);
    assert!((why.inputs.work_rate - 10.0).abs() < 1e-9 && why.inputs.backlog_sec == 5.0);
    let words = why.words.join("\n");
    for part in [
        "workers are wanted: 10.00 s of work arrive per second",
        "No forecaster has earned trust yet",
        "What each policy would want: objective ",
        "It costs ",
        "by the rules of Kubernetes",
    ] {
        assert!(words.contains(part), "{part}: {words}");
    }
    let written = serde_json::to_string(&why).unwrap();
    let read: divvy_autoscale::Explanation = serde_json::from_str(&written).unwrap();
    assert_eq!((read.answers, read.words), (why.answers, why.words));
}

#[test]
fn a_kind_of_which_nothing_has_ended_is_guessed_and_that_is_said() {
    let mut play = Play::new(paid(1.0));
    play.tick(0, 0);
    play.at += STEP;
    let mut sample = play.sample(3, 3);
    sample.kinds.get_mut("work").unwrap().run_sec = None;
    assert!(play.follow(&sample).total() >= 3, "each may take as long as the goal allows");
    let words = play.scaler.explain().unwrap().words.join("\n");
    assert!(words.contains("No task of kind work has ended yet"), "{words}");
}
