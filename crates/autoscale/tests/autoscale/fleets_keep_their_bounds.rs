//! Minimum, maximum, paces, hands, types, spot and draining workers.

use divvy_autoscale::{Bound, Fleet};
use divvy_types::pools::{Policy, Pool, WorkerType};

use crate::play::{Play, STEP, at, pool};

#[test]
fn minimum_and_maximum_hold_and_say_so() {
    let mut play = Play::new(Pool { min: 2, max: 5, ..pool(Policy::Queue) });
    let none = play.tick(0, 0);
    assert_eq!((none.total(), none.bound), (2, Some(Bound::Minimum)));
    let many = play.tick(0, 10_000);
    assert_eq!((many.total(), many.bound), (5, Some(Bound::Maximum)));
    play.scaler.reload(Pool { min: 1, max: 3, ..pool(Policy::Queue) });
    assert_eq!(play.tick(0, 10_000).total(), 3, "a reload holds with the next sample");
}

#[test]
fn a_number_that_was_set_by_hand_holds_within_the_bounds_until_it_is_unset() {
    let mut play = Play::new(Pool { min: 1, max: 8, ..pool(Policy::Queue) });
    play.ticks(5, 3 * STEP, 0);
    for (set, total) in [(6, 6), (99, 8), (0, 1)] {
        assert_eq!(play.scaler.set(at(play.at), Some(set)).total(), total);
        let decision = play.tick(3 * STEP, 0);
        assert_eq!((decision.total(), decision.bound), (total, Some(Bound::Set)), "{set}");
    }
    let last = play.scaler.changes().next_back().unwrap();
    assert_eq!((last.from, last.to, last.reason.as_str()), (8, 1, "0 were set by hand"));
    play.scaler.set(at(play.at), None);
    assert_eq!(play.scaler.is_set(), None);
    assert!(play.tick(3 * STEP, 0).total() >= 4);
}

#[test]
fn a_paused_pool_stays_as_it_is_but_keeps_its_bounds() {
    let mut play = Play::new(Pool { min: 1, max: 8, ..pool(Policy::Queue) });
    let before = play.ticks(5, 3 * STEP, 0);
    play.scaler.pause(true);
    let paused = play.tick(0, 9_999);
    assert_eq!((paused.total(), paused.bound), (before, Some(Bound::Paused)));
    play.scaler.reload(Pool { min: 1, max: 2, ..pool(Policy::Queue) });
    assert_eq!(play.tick(0, 9_999).total(), 2);
    play.scaler.reload(Pool { min: 1, max: 8, ..pool(Policy::Queue) });
    play.scaler.pause(false);
    assert_eq!(play.tick(0, 9_999).total(), 8);
}

#[test]
fn up_and_down_have_their_own_steps_cool_downs_and_windows() {
    let mut pool = pool(Policy::Queue);
    pool.up.step = Some(3);
    (pool.down.step, pool.down.cool_down_sec) = (Some(1), 60.0);
    let mut play = Play::new(pool);
    play.tick(0, 0);
    let up: Vec<u32> = (0..4).map(|_| play.tick(0, 300).total()).collect();
    assert_eq!(up, [3, 6, 9, 10]);
    assert_eq!(play.scaler.last().bound, None);
    let down: Vec<u32> = (0..9).map(|_| play.tick(0, 0).total()).collect();
    assert_eq!(down, [10, 10, 10, 9, 9, 9, 9, 8, 8]);
    assert_eq!(play.scaler.last().bound, Some(Bound::CoolDown));
}

#[test]
fn a_window_lets_one_odd_sample_change_nothing() {
    let mut pool = pool(Policy::Queue);
    (pool.up.window_sec, pool.down.window_sec) = (20.0, 60.0);
    let mut play = Play::new(pool).with(10);
    play.tick(0, 300);
    assert_eq!(play.total(), 10);
    assert_eq!(play.tick(0, 900).total(), 10, "more was wanted only once");
    assert_eq!(play.tick(0, 900).total(), 30);
    let down: Vec<u32> = (0..5).map(|_| play.tick(0, 0).total()).collect();
    assert_eq!(down, [30, 30, 30, 0, 0], "fewer must have been right for a minute");
}

#[test]
fn draining_workers_are_called_back_before_new_ones_start() {
    let mut play = Play::new(pool(Policy::Queue)).with(4);
    play.tick(0, 120);
    play.at += STEP;
    let mut sample = play.sample(0, 300);
    sample.fleet.insert("worker".into(), Fleet { running: 4, draining: 2, ..Fleet::default() });
    let decision = play.follow(&sample);
    assert_eq!((decision.total(), decision.recall["worker"]), (10, 2));
    assert!(play.tick(0, 300).recall.is_empty(), "nobody drains any more");
}

fn spot_pool() -> Pool {
    let of = |name: &str, price_hour: f64, spot: bool| WorkerType {
        name: name.into(),
        price_hour,
        spot,
        ..WorkerType::default()
    };
    let (firm, spot) = (of("firm", 1.0, false), of("spot", 0.3, true));
    Pool { types: vec![firm, spot], on_demand: 0.25, ..pool(Policy::Queue) }
}

#[test]
fn spot_workers_that_will_be_taken_away_are_replaced_ahead() {
    let mut play = Play::new(spot_pool());
    play.tick(0, 0);
    let decision = play.tick(0, 600);
    assert_eq!(
        (decision.wanted["firm"], decision.wanted["spot"]),
        (5, 15),
        "a quarter is not spot"
    );
    play.fleet.get_mut("spot").unwrap().leaving = 4;
    assert_eq!(play.tick(0, 600).total(), 24, "those that leave are wanted on top");
    let changes = play.scaler.changes().len();
    let spot = play.fleet.get_mut("spot").unwrap();
    (spot.running, spot.leaving) = (spot.running - 4, 0);
    assert_eq!(play.tick(0, 600).total(), 20);
    assert_eq!(play.scaler.changes().len(), changes, "an exchange is no scaling");
}

#[test]
fn the_cheapest_types_reach_the_capacity() {
    let of = |name: &str, slots: u32, price_hour: f64| WorkerType {
        name: name.into(),
        slots,
        price_hour,
        ..WorkerType::default()
    };
    let types = vec![of("small", 1, 1.0), of("large", 8, 6.0), of("odd", 4, 5.0)];
    let mut play = Play::new(Pool { types, max: 20, ..pool(Policy::Queue) });
    play.tick(0, 0);
    // 17 seconds of work per second: two large ones and a small one.
    let wanted = play.tick(0, 17 * 30).wanted;
    assert_eq!(wanted, [("large".into(), 2), ("small".into(), 1)].into());
    let wanted = play.tick(0, 9_999).wanted;
    assert!(
        wanted["large"] >= 19,
        "where few places are left the largest reaches furthest: {wanted:?}"
    );
    let wanted = play.tick(0, 5 * 30).wanted;
    assert_eq!(wanted, [("large".into(), 1)].into());
}

#[test]
fn a_worker_that_is_paid_for_anyway_is_kept_until_then() {
    let mut pool = pool(Policy::Queue);
    (pool.types[0].price_hour, pool.types[0].billing_sec) = (1.0, 600.0);
    let mut play = Play::new(pool);
    play.tick(0, 0);
    assert_eq!(play.tick(0, 300).total(), 10);
    let kept = play.tick(0, 0);
    assert_eq!((kept.total(), kept.bound), (10, Some(Bound::Billing)));
    assert_eq!(play.ticks(38, 0, 0), 10);
    assert_eq!(play.ticks(2, 0, 0), 0, "ten minutes are over");
}

#[test]
fn a_fleet_that_goes_up_and_down_again_and_again_is_named() {
    let mut play = Play::new(pool(Policy::Queue));
    play.ticks(10, STEP, 0);
    assert_eq!(play.scaler.flapping(), None);
    (0..8).for_each(|number| {
        play.tick(0, if number % 2 == 0 { 600 } else { 0 });
    });
    let flapping = play.scaler.flapping().expect("it turned seven times within two minutes");
    assert!(flapping.turns >= 6 && flapping.high >= 20, "{flapping:?}");
    assert!(flapping.words.contains("raise down.window_sec"));
    let words = play.scaler.explain().unwrap().words;
    assert!(words.iter().any(|word| word.starts_with("The fleet flaps")), "{words:?}");
    play.at += 7_200;
    play.tick(0, 0);
    assert_eq!(play.scaler.flapping(), None, "an hour later it is forgotten");
}

#[test]
fn tasks_that_come_in_heaps_do_not_make_the_fleet_go_up_and_down() {
    for policy in [Policy::Queue, Policy::Objective] {
        let mut play = Play::new(pool(policy));
        play.run_sec = 300.0;
        // A heap of eight each minute, and a large one now and then: 50 slots in the mean.
        let heap = |minute: u64| if minute % 9 == 4 { 24 } else { 8 };
        let mut totals = Vec::new();
        for minute in 0..120 {
            totals.push(play.tick(heap(minute), 0).total());
            totals.push(play.ticks(60 / STEP - 1, 0, 0));
        }
        let settled = &totals[80..];
        let (least, most) = (settled.iter().min().unwrap(), settled.iter().max().unwrap());
        assert!(*most <= 75, "{policy:?}: {least} to {most}: {settled:?}");
        assert!(*most <= least * 2, "{policy:?}: {least} to {most}: {settled:?}");
        let changes = settled.windows(2).filter(|pair| pair[0] != pair[1]).count();
        assert!(changes <= settled.len() / 4, "{policy:?}: {changes} changes: {settled:?}");
    }
}
