//! Who gets how much while all want more: fair keys and queues by weight, priorities once they have aged.

use std::collections::BTreeMap;

use crate::support::spec;
use crate::timeline::Timeline;
use divvy_types::TaskSpec;
use divvy_types::settings::FairBy;
use proptest::prelude::*;

const MS: u64 = 1_000;

fn one_ms(_: u64) -> u64 {
    MS
}

fn of(number: u64, key: &str) -> TaskSpec {
    let mut spec = spec(number);
    spec.fair_key = (!key.is_empty()).then(|| key.into());
    spec
}

/// How often something about the tasks that started occurs.
fn tally<K: Ord>(starts: &[u64], what: impl Fn(u64) -> K) -> BTreeMap<K, u64> {
    let mut tally = BTreeMap::new();
    for seq in starts {
        *tally.entry(what(*seq)).or_default() += 1;
    }
    tally
}

/// Each share is within so many percent of what its weight says.
fn assert_shares(counts: &BTreeMap<usize, u64>, weight: impl Fn(usize) -> u64, percent: f64) {
    let starts: u64 = counts.values().sum();
    let weights: u64 = counts.keys().map(|key| weight(*key)).sum();
    for (key, count) in counts {
        let due = starts as f64 * weight(*key) as f64 / weights as f64;
        let off = (*count as f64 - due).abs() / due * 100.0;
        assert!(off <= percent, "key {key} got {count} of {due:.1}, {off:.1} % off");
    }
}

/// A thousand keys: their demand falls with their number, their weights go from 1 to 3.
const KEYS: usize = 1_000;

fn key_weight(key: usize) -> u64 {
    key as u64 * 7 % 3 + 1
}

/// Starts per unit of weight in the thousand-key tests.
const ROUNDS: u64 = 20;

/// Tasks of key `n`, enough that it stays backlogged, and for the first ones very many more.
fn demand(key: usize) -> u64 {
    key_weight(key) * (ROUNDS + 2) + 5_000 / (key as u64 + 1)
}

fn thousand_keys(profiles: bool) {
    let mut timeline = Timeline::new(one_ms);
    timeline.set(|settings| {
        let queue = settings.queues.entry("default".into()).or_default();
        let weights = (0..KEYS).map(|key| (format!("k{key}").into(), key_weight(key) as u32));
        queue.fair_weights = weights.collect();
    });
    let mut owner = vec![0];
    let kinds = ["noop", "send", "encode"];
    for key in 0..KEYS {
        let tasks = (0..demand(key)).map(|n| {
            owner.push(key);
            let mut task = of(owner.len() as u64 - 1, &format!("k{key}"));
            if profiles {
                task.kind = kinds[n as usize % 3].into();
            }
            task
        });
        let tasks = tasks.collect();
        timeline.submit(tasks);
    }
    if profiles {
        timeline
            .join(1, 6, |worker| worker.kinds = kinds[..2].iter().map(|k| (*k).into()).collect());
        timeline
            .join(2, 6, |worker| worker.kinds = kinds[1..].iter().map(|k| (*k).into()).collect());
        timeline.join(3, 6, |worker| worker.kinds = kinds.iter().map(|k| (*k).into()).collect());
    } else {
        timeline.join(1, 10, |_| {});
    }
    let total: u64 = (0..KEYS).map(key_weight).sum();
    timeline.run_starts((total * ROUNDS) as usize);
    let counts = tally(&timeline.started(), |seq| owner[seq as usize]);
    assert_eq!(counts.len(), KEYS);
    assert_shares(&counts, key_weight, 5.0);
}

#[test]
fn a_thousand_keys_of_unequal_demand_get_what_their_weights_say() {
    thousand_keys(false);
}

#[test]
fn shares_hold_over_several_kinds_and_workers_that_serve_some_of_them() {
    thousand_keys(true);
}

#[test]
fn a_key_that_comes_late_gets_its_share_at_once_and_no_more() {
    let mut timeline = Timeline::new(one_ms);
    timeline.join(1, 1, |_| {});
    timeline
        .submit((1..=3_000).map(|number| of(number, ["a", "b"][number as usize % 2])).collect());
    timeline.run_starts(1_000);
    timeline.submit((10_001..=11_000).map(|number| of(number, "late")).collect());
    timeline.run_starts(1_300);
    let late: Vec<bool> = timeline.started()[1_000..].iter().map(|seq| *seq > 10_000).collect();
    for window in late.chunks(3) {
        let count = window.iter().filter(|late| **late).count();
        assert_eq!(count, 1, "of every three, one: {late:?}");
    }
}

#[test]
fn tasks_without_a_key_share_as_one() {
    let mut timeline = Timeline::new(one_ms);
    timeline.submit((1..=900).map(|number| of(number, "")).collect());
    timeline.submit((1_001..=1_300).map(|number| of(number, "a")).collect());
    timeline.submit((2_001..=2_300).map(|number| of(number, "b")).collect());
    timeline.join(1, 1, |_| {});
    timeline.run_starts(600);
    let counts = tally(&timeline.started(), |seq| (seq / 1_000) as usize);
    assert_eq!(counts, BTreeMap::from([(0, 200), (1, 200), (2, 200)]));
}

#[test]
fn an_urgent_task_goes_first_and_is_charged_to_its_key() {
    let mut timeline = Timeline::new(one_ms);
    let mut tasks: Vec<TaskSpec> =
        (1..=400).map(|number| of(number, ["a", "b"][number as usize % 2])).collect();
    // Ten of `a` that must start now.
    for task in tasks.iter_mut().filter(|task| task.id.0 > 380 && task.id.0 % 2 == 0) {
        task.deadline = Some(timeline.world.now.plus_ms(1));
    }
    timeline.submit(tasks);
    timeline.join(1, 1, |_| {});
    timeline.run_starts(100);
    let started = timeline.started();
    assert!(started[..10].iter().all(|seq| *seq > 380), "{started:?}");
    let counts = tally(&started, |seq| (seq % 2) as usize);
    assert_eq!(counts, BTreeMap::from([(0, 50), (1, 50)]), "the urgent ones were not charged");
}

#[test]
fn run_time_is_shared_where_the_queue_says_so() {
    // Tasks of `a` run ten times as long as those of `b`.
    let mut timeline = Timeline::new(|seq| if seq % 2 == 0 { 50 * MS } else { 5 * MS });
    timeline.set(|settings| {
        settings.queues.entry("default".into()).or_default().fair_by = FairBy::Time;
    });
    timeline
        .submit((1..=6_000).map(|number| of(number, ["a", "b"][number as usize % 2])).collect());
    timeline.join(1, 2, |_| {});
    timeline.run_starts(2_200);
    let counts = tally(&timeline.started(), |seq| (seq % 2) as usize);
    let ratio = counts[&1] as f64 / counts[&0] as f64;
    assert!((9.0..11.0).contains(&ratio), "{counts:?}");
}

#[test]
fn queues_are_served_three_to_one() {
    let mut timeline = Timeline::new(one_ms);
    timeline.set(|settings| {
        settings.queues.entry("mail".into()).or_default().weight = Some(3);
    });
    let tasks = (1..=8_000).map(|number| {
        let mut task = spec(number);
        task.queue = ["default", "mail"][number as usize % 2].into();
        task
    });
    timeline.submit(tasks.collect());
    timeline.join(1, 3, |_| {});
    timeline.run_starts(4_000);
    let counts = tally(&timeline.started(), |seq| (seq % 2) as usize);
    assert_shares(&counts, |queue| [1, 3][queue], 1.0);
}

#[test]
fn a_queue_that_was_paused_does_not_catch_up() {
    let mut timeline = Timeline::new(one_ms);
    timeline.set(|settings| {
        settings.queues.entry("mail".into()).or_default().weight = Some(1);
    });
    let tasks = (1..=6_000).map(|number| {
        let mut task = spec(number);
        task.queue = ["default", "mail"][number as usize % 2].into();
        task
    });
    timeline.submit(tasks.collect());
    let pause = |paused| divvy_scheduler::Input::QueuePaused { queue: "mail".into(), paused };
    timeline.feed(pause(true));
    timeline.join(1, 1, |_| {});
    timeline.run_starts(1_000);
    timeline.feed(pause(false));
    timeline.run_starts(1_200);
    let counts = tally(&timeline.started()[1_000..], |seq| (seq % 2) as usize);
    assert_eq!(counts.len(), 2, "{counts:?}");
    assert_shares(&counts, |_| 1, 2.0);
}

fn of_priority(number: u64, priority: u8) -> TaskSpec {
    let mut task = spec(number);
    task.priority = priority;
    task
}

#[test]
fn priorities_are_strict_before_they_have_aged() {
    let mut timeline = Timeline::new(one_ms);
    let tasks = (1..=10_000).map(|number| of_priority(number, 1 + (number % 5) as u8));
    timeline.submit(tasks.collect());
    timeline.join(1, 1, |_| {});
    timeline.run_starts(500);
    assert!(timeline.started().iter().all(|seq| seq % 5 == 4));
}

#[test]
fn aged_priorities_get_sixteen_to_one() {
    let mut timeline = Timeline::new(one_ms);
    let tasks = (1..=10_000).map(|number| of_priority(number, 1 + (number % 5) as u8));
    timeline.submit(tasks.collect());
    timeline.run_until(4 * 60_000 * MS);
    timeline.join(1, 1, |_| {});
    timeline.run_starts(31 * 100);
    let counts = tally(&timeline.started(), |seq| (seq % 5) as usize);
    assert_shares(&counts, |step| 1 << step, 1.0);
    let mut since = BTreeMap::new();
    for (place, seq) in timeline.started().iter().enumerate() {
        let gap = place - since.insert(seq % 5, place).unwrap_or(place);
        // Those that are level take one turn each.
        let most = 31usize.div_ceil(1 << (seq % 5)) + 5;
        assert!(gap <= most, "priority {} waited {gap} starts", 1 + seq % 5);
    }
}

#[test]
fn a_task_of_a_resumed_queue_has_aged_meanwhile() {
    let mut timeline = Timeline::new(one_ms);
    let pause = |paused| divvy_scheduler::Input::QueuePaused { queue: "mail".into(), paused };
    let mut low = of_priority(1, 1);
    low.queue = "mail".into();
    timeline.submit(vec![low]);
    timeline.feed(pause(true));
    timeline.submit(vec![of_priority(2, 1)]);
    timeline.run_until(5 * 60_000 * MS);
    // Of the queue that goes on, an old one starts and a young one stays.
    timeline.submit((10..=99).map(|number| of_priority(number, 5)).collect());
    timeline.submit(vec![of_priority(3, 1)]);
    timeline.join(1, 1, |_| {});
    timeline.run_until(5 * 60_000 * MS + 80 * MS);
    timeline.feed(pause(false));
    timeline.submit((100..=199).map(|number| of_priority(number, 5)).collect());
    let before = timeline.starts.len();
    timeline.run_starts(before + 40);
    assert!(timeline.started()[before..].contains(&1), "{:?}", timeline.started());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// The bound of `pick`: after four ageing times, priority 1 gets at least one of 31 starts.
    #[test]
    fn the_lowest_priority_is_not_starved_by_a_flood_of_others(
        flood in prop::collection::vec((2u8..=5, 1u64..4), 200..400),
        low in 1u64..6,
        slots in 1u32..4,
        ageing_sec in 1u64..5,
    ) {
        let mut timeline = Timeline::new(one_ms);
        timeline.set(|settings| settings.ordering.ageing_sec = ageing_sec as f64);
        timeline.submit((1..=low).map(|number| of_priority(number, 1)).collect());
        timeline.submit((10..2_000).map(|number| of_priority(number, 5)).collect());
        timeline.run_until(4 * ageing_sec * 1_000 * MS);
        timeline.join(1, slots, |_| {});
        let mut number = 2_000;
        for (step, (priority, count)) in flood.iter().enumerate() {
            timeline.submit((1..=*count).map(|n| of_priority(number + n, *priority)).collect());
            number += count;
            timeline.run_until(4 * ageing_sec * 1_000 * MS + (step as u64 + 1) * MS);
        }
        for n in 1..=low {
            let place = timeline.started().iter().position(|seq| *seq == n);
            prop_assert!(place.is_some_and(|place| place < 31 * n as usize), "{n} at {place:?}");
        }
    }
}
