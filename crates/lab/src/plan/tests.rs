//! Plans with answers that are known: queues of the textbooks, fields that make no sense.

use std::sync::atomic::AtomicBool;

use super::answer::{Answer, answer};
use super::demand;
use super::erlang;
use super::input::{Arrivals, Goal, PerHour, Plan, SizeClass, Stage, Worker};
use super::play::{Played, late_max, play, quantile};
use super::runs::{SEARCH_SEEDS, judging_seed, search_seed};
use super::{Fleet, show};
use crate::experiment::Progress;
use crate::report::text;

/// So many items per hour, each of 1 GB and one task of so many seconds, for one type of worker of one slot.
pub(super) fn one_stage(per_hour: f64, seconds: f64) -> Plan {
    let size = SizeClass { share: 100.0, from_gb: Some(1.0), to_gb: Some(1.0), mean_gb: None };
    Plan {
        title: String::new(),
        item: "item".into(),
        arrivals: Arrivals { per_hour: Some(PerHour::Same(per_hour)), ..Arrivals::default() },
        sizes: vec![size],
        stages: vec![Stage { name: "work".into(), sec_per_gb: seconds, ..Stage::default() }],
        goal: Goal { percentile: 95.0, within_sec: 60.0, deadline: true },
        priority: 0.0,
        workers: vec![Worker {
            name: "small".into(),
            price_hour: 1.0,
            max: 50,
            ..Worker::default()
        }],
        budget_month: None,
        fleet: Default::default(),
        days: 2.0,
        seeds: 2,
        assumptions: Vec::new(),
    }
}

fn answered(plan: &Plan) -> Answer {
    let stop = AtomicBool::new(false);
    let mut watch = |_: crate::experiment::Step<'_>| {};
    answer(plan, 2, &mut Progress::new(&mut watch, &stop)).unwrap()
}

fn fixed(count: u32) -> Fleet {
    Fleet::Fixed([("small".into(), count)].into())
}

fn is_met(plan: &Plan, played: &Played) -> bool {
    quantile(&played.ends, plan.goal.percentile / 100.0) <= plan.goal.within_sec
}

/// Waits in a queue with exponential run times, against Erlang's formula: M/M/c.
#[test]
fn a_textbook_queue_waits_as_the_textbook_says() {
    let (slots, mean_sec) = (4, 60.0);
    // 80 % load.
    let mut plan = one_stage(f64::from(slots) * 0.8 / mean_sec * 3_600.0, mean_sec);
    plan.sizes[0] = SizeClass { share: 100.0, mean_gb: Some(1.0), ..SizeClass::default() };
    plan.days = 10.0;
    let demand = demand::draw(&plan, 11);
    let played = play(&plan, &fixed(slots), &demand, 11, true).unwrap();
    let waited = |longer_sec: f64| {
        let count = played.starts.iter().filter(|wait| **wait > longer_sec).count();
        count as f64 / played.starts.len() as f64
    };
    let load = f64::from(slots) * 0.8;
    for wait in [0.1, 1.0, 2.0] {
        let told = erlang::waiting_longer_share(slots, load, wait);
        let found = waited(wait * mean_sec);
        assert!((found - told).abs() < 0.05, "waiting {wait}: {found}, not {told}");
    }
    assert!((played.busy_sec / played.paid_slot_sec - 0.8).abs() < 0.03);
}

/// Items at equal distances with equal work: D/D/c needs exactly arrivals × work slots, and nobody waits.
#[test]
fn the_cheapest_fleet_of_an_even_load_is_what_it_needs_and_no_more() {
    let mut plan = one_stage(360.0, 49.0);
    plan.arrivals.evenly = true;
    plan.days = 0.1;
    // One late item is too many, so that a fleet that begins with fewer does not do.
    plan.goal = Goal { percentile: 99.9, within_sec: 51.0, deadline: true };
    let found = answered(&plan);
    assert!(found.met);
    // One every 10 seconds, 49 seconds of work: five slots, and money for 5 × 720 hours.
    assert_eq!(found.best.fleet, fixed(5));
    assert!((found.best.month - 3_600.0).abs() < 1.0, "{}", found.best.month);
    assert!(found.best.end.p99.unwrap() < 50.1 && found.best.missed == 0.0);
    assert!((found.load.busy_slots - 4.9).abs() < 1e-9);
    // No more fits: a little more load and the queue grows.
    assert!(found.largest_load.unwrap().factor < 1.05);
}

/// A run that is given up says the same as the whole one: missed.
#[test]
fn a_run_that_is_given_up_would_have_missed_the_goal() {
    let mut plan = one_stage(300.0, 30.0);
    plan.days = 0.5;
    let demand = demand::draw(&plan, 3);
    let met = |count: u32, whole: bool| {
        let played = play(&plan, &fixed(count), &demand, 3, whole).unwrap();
        assert_eq!(played.misses <= late_max(&plan, demand.items.len()), is_met(&plan, &played));
        (is_met(&plan, &played), played.misses)
    };
    let fleets: Vec<u32> = (2..=7).collect();
    for count in &fleets {
        let (whole, early) = (met(*count, true), met(*count, false));
        assert_eq!(whole.0, early.0, "{count} workers");
        assert!(!whole.0 || whole == early);
    }
    assert!(!met(fleets[0], true).0 && met(fleets[5], true).0);
    assert_eq!([0, 1, 20, 1_001].map(|items| late_max(&plan, items)), [0, 0, 1, 50]);
}

/// What the search chose by is not what it is judged by.
#[test]
fn no_seed_of_the_search_is_one_that_fleets_are_judged_by() {
    let search: Vec<u64> = (0..SEARCH_SEEDS).map(search_seed).collect();
    assert!(search.len() > 1 && search.windows(2).all(|pair| pair[0] != pair[1]));
    assert!((0..100).map(judging_seed).all(|seed| !search.contains(&seed)));
}

#[test]
fn an_answer_is_the_same_whatever_the_threads_and_fits_a_terminal() {
    let mut plan = one_stage(300.0, 30.0);
    plan.days = 0.2;
    plan.priority = 10.0;
    plan.budget_month = Some(1.0);
    plan.fleet = [("small".into(), 1)].into();
    let spot = Worker {
        name: "spot".into(),
        spot: true,
        price_hour: 0.3,
        interruptions_hour: 0.5,
        boot_sec: 60.0,
        ..plan.workers[0].clone()
    };
    plan.workers.push(spot);
    let stop = AtomicBool::new(false);
    let mut watch = |_: crate::experiment::Step<'_>| {};
    let one = answer(&plan, 1, &mut Progress::new(&mut watch, &stop)).unwrap();
    let two = answered(&plan);
    let json = |answer: &Answer| serde_json::to_string(answer).unwrap();
    assert_eq!(json(&one), json(&two));
    let report = show::report(&two);
    let text = text::render(&report, 80, false);
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    for words in [
        "First guess",
        "p99",
        "priority",
        "a month",
        "What is assumed",
        "Little's law",
        "3 other seeds",
    ] {
        assert!(text.contains(words), "{words} is missing:\n{text}");
    }
    assert!(show::why_not(&two).unwrap().contains("the cheapest fleet that meets the goal costs"));
    assert_eq!(report.charts.len(), 5);
}

#[test]
fn a_goal_that_no_fleet_meets_is_told_with_what_would_do() {
    let mut plan = one_stage(60.0, 100.0);
    plan.days = 0.1;
    let found = answered(&plan);
    assert!(!found.met);
    let words = show::why_not(&found).unwrap();
    assert!(words.contains("no number of workers meets the goal"), "{words}");
    assert!(
        words.contains("even if none waits") && words.contains("would do for 2 min"),
        "{words}"
    );
    plan.goal.within_sec = 120.0;
    plan.workers[0].max = 1;
    let found = answered(&plan);
    let words = show::why_not(&found).unwrap();
    assert!(!found.met && words.contains("within the max of its types"), "{words}");
    assert!(words.contains(" small, at "), "{words}");
}

#[test]
fn fields_that_make_no_sense_are_named_with_their_path_and_cure() {
    type Break = fn(&mut Plan);
    let cases: [(&str, Break); 17] = [
        ("workers.0.price_hour: small has -1; write a number from 0 on", |p| {
            p.workers[0].price_hour = -1.0
        }),
        ("workers.0.min: small has a min of 9 above its max of 3", |p| {
            (p.workers[0].min, p.workers[0].max) = (9, 3);
        }),
        ("workers.0.slots: small has 0", |p| p.workers[0].slots = 0),
        ("workers.0.interruptions_hour", |p| p.workers[0].interruptions_hour = 1.0),
        ("workers: the list is empty", |p| p.workers.clear()),
        ("priority: 101 is not a share in percent; write a number from 0 to 100", |p| {
            p.priority = 101.0
        }),
        ("sizes.0.share: 120", |p| p.sizes[0].share = 120.0),
        ("sizes: the shares add up to 60 %", |p| p.sizes[0].share = 60.0),
        ("sizes.0: from_gb 3 is above to_gb 1", |p| p.sizes[0].from_gb = Some(3.0)),
        ("goal.percentile: 130", |p| p.goal.percentile = 130.0),
        ("goal.percentile: 100 cannot be planned for", |p| p.goal.percentile = 100.0),
        ("goal.within_sec: 0", |p| p.goal.within_sec = 0.0),
        ("arrivals.per_hour: nothing ever comes", |p| {
            p.arrivals.per_hour = Some(PerHour::Same(0.0))
        }),
        ("arrivals.per_hour: the list has 2 hours", |p| {
            p.arrivals.per_hour = Some(PerHour::OfDay(vec![1.0, 2.0]));
        }),
        ("arrivals: how many come is not said", |p| p.arrivals = Arrivals::default()),
        ("fleet.tiny: there is no worker type `tiny`; the types are: small", |p| {
            p.fleet = [("tiny".into(), 3)].into();
        }),
        ("stages.0.after: work waits for `probe`, which is no stage above it", |p| {
            p.stages[0].after = vec!["probe".into()];
        }),
    ];
    for (words, change) in cases {
        let mut plan = one_stage(10.0, 5.0);
        change(&mut plan);
        let error = plan.check().unwrap_err().to_string();
        assert!(error.starts_with(words), "{words}: {error}");
    }
    assert_eq!(one_stage(10.0, 5.0).check(), Ok(()));
}

#[test]
fn quantiles_are_those_of_sorted_values() {
    let sorted = [1.0, 2.0, 3.0, 4.0];
    assert_eq!([0.01, 0.5, 0.75, 0.95].map(|share| quantile(&sorted, share)), [1.0, 2.0, 3.0, 4.0]);
    assert_eq!(quantile(&[], 0.5), 0.0);
}
