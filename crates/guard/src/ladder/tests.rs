//! Moves by table, by scenario and by property, and the settings.

use proptest::prelude::*;

use super::*;

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn calm() -> Signals {
    Signals {
        latency: Some(Duration::from_millis(50)),
        load: Some(0.3),
        error_rate: Some(0.0),
        ..Signals::default()
    }
}

fn slow(millis: u64) -> Signals {
    Signals { latency: Some(Duration::from_millis(millis)), ..calm() }
}

#[test]
fn transitions_follow_the_table() {
    let open = Signals { breaker_open: true, ..calm() };
    let failing = |rate| Signals { error_rate: Some(rate), ..calm() };
    let loaded = |load| Signals { load: Some(load), ..calm() };
    // Signals that last for two seconds, and where the ladder of the default settings then stands.
    let table = [
        (calm(), "full"),
        (slow(250), "full"),
        (slow(251), "cached"),
        (slow(1001), "partial"),
        (failing(0.06), "cached"),
        (failing(0.3), "partial"),
        (failing(0.6), "static"),
        (loaded(1.0), "cached"),
        (loaded(1.2), "partial"),
        (loaded(2.0), "static"),
        (loaded(4.0), "refuse"),
        (open, "static"),
        (Signals { breaker_open: true, load: Some(4.0), ..calm() }, "refuse"),
        (Signals::default(), "full"),
        (loaded(f64::NAN), "full"),
    ];
    for (signals, expected) in table {
        let mut ladder = Ladder::new(Settings::default()).unwrap();
        ladder.observe(signals, seconds(1));
        assert_eq!(ladder.observe(signals, seconds(3)).name, expected, "{signals:?}");
    }
}

#[test]
fn it_goes_down_after_the_hold_time_and_at_once_for_a_breaker() {
    let mut ladder = Ladder::new(Settings::default()).unwrap();
    let slow = slow(300);
    assert_eq!(ladder.observe(slow, seconds(5)).name, "full");
    assert_eq!(ladder.rung(Duration::from_millis(5999)).name, "full");
    assert_eq!(ladder.rung(seconds(6)).name, "cached");
    let why = Why::Trouble(Condition::LatencyAbove(Duration::from_millis(250)));
    assert_eq!((ladder.why(), ladder.since()), (why, seconds(6)));
    let open = Signals { breaker_open: true, ..slow };
    assert_eq!(ladder.observe(open, seconds(7)).name, "static");
    assert_eq!(ladder.why(), Why::Trouble(Condition::BreakerOpen));
}

#[test]
fn a_short_spell_of_trouble_moves_nothing() {
    let mut ladder = Ladder::new(Settings::default()).unwrap();
    for second in (0..60).step_by(2) {
        ladder.observe(slow(300), seconds(second));
        ladder.observe(calm(), seconds(second) + Duration::from_millis(900));
    }
    assert_eq!(ladder.drain_moves(), (vec![], 0));
}

#[test]
fn it_climbs_one_rung_at_a_time() {
    let mut ladder = Ladder::new(Settings::default()).unwrap();
    ladder.observe(Signals { breaker_open: true, ..calm() }, seconds(0));
    assert_eq!(ladder.at(), 3);
    for second in 1..=31 {
        ladder.observe(calm(), seconds(second));
    }
    let climbed: Vec<_> = ladder.drain_moves().0;
    let steps: Vec<_> = climbed.iter().map(|one| (one.from, one.to, one.at.as_secs())).collect();
    assert_eq!(steps, [(0, 3, 0), (3, 2, 11), (2, 1, 21), (1, 0, 31)]);
    assert!(climbed[1..].iter().all(|one| one.why == Why::Recovered));
}

#[test]
fn relief_keeps_it_down_just_under_the_threshold() {
    let mut ladder = Ladder::new(Settings::default()).unwrap();
    ladder.observe(slow(300), seconds(0));
    ladder.observe(slow(300), seconds(1));
    for second in 2..100 {
        ladder.observe(slow(240), seconds(second));
    }
    assert_eq!(ladder.at(), 1, "240 ms is under 250 and over 0.8 × 250");
    for second in 100..=110 {
        ladder.observe(slow(190), seconds(second));
    }
    assert_eq!(ladder.at(), 0);
}

#[test]
fn old_signals_are_forgotten_so_that_it_climbs_to_try() {
    let mut ladder = Ladder::new(Settings::default()).unwrap();
    ladder.observe(Signals { load: Some(9.0), ..calm() }, seconds(0));
    ladder.rung(seconds(1));
    assert_eq!(ladder.at(), 4);
    ladder.rung(seconds(29));
    ladder.rung(seconds(31));
    assert_eq!(ladder.at(), 4);
    ladder.rung(seconds(41));
    assert_eq!(ladder.at(), 3);
}

#[test]
fn a_forced_rung_stays_until_it_is_released() {
    let mut ladder = Ladder::new(Settings::default()).unwrap();
    ladder.force(2, seconds(1)).unwrap();
    ladder.observe(Signals { breaker_open: true, ..calm() }, seconds(2));
    assert_eq!((ladder.at(), ladder.why()), (2, Why::Forced));
    assert_eq!(ladder.force(5, seconds(2)).unwrap_err().field, "rung");
    ladder.release(seconds(3));
    assert_eq!(ladder.at(), 3, "the breaker is open");
}

#[test]
fn many_dependencies_stand_on_their_own() {
    let mut ladders = Ladders::new();
    assert_eq!(ladders.lowest(seconds(0)), None);
    for name in ["search", "prices"] {
        ladders.add(name, Settings::default()).unwrap();
    }
    assert_eq!(
        ladders.observe("prices", Signals { breaker_open: true, ..calm() }, seconds(1)),
        Some(3)
    );
    assert_eq!(ladders.observe("search", calm(), seconds(1)), Some(0));
    assert_eq!(ladders.observe("stock", calm(), seconds(1)), None);
    assert_eq!(ladders.lowest(seconds(1)), Some(("prices", 3)));
    let moves = ladders.drain_moves();
    assert_eq!((moves.len(), moves[0].0.as_str(), moves[0].1.to), (1, "prices", 3));
    assert!(ladders.remove("prices") && !ladders.remove("prices"));
    let bad = Settings { relief: 2.0, ..Settings::default() };
    assert_eq!(
        ladders.add("stock", bad).unwrap_err().to_string(),
        "stock: relief is 2.0, expected above 0, at most 1; 0.8 is usual"
    );
    for number in 1..DEPENDENCIES_MAX {
        ladders.add(number.to_string(), Settings::default()).unwrap();
    }
    assert_eq!(ladders.add("one more", Settings::default()), Err(Refused::Full));
}

#[test]
fn moves_that_nobody_drains_are_bounded() {
    let mut ladder = Ladder::new(Settings::default()).unwrap();
    for step in 0..300 {
        ladder.force(step % 2, seconds(step as u64)).unwrap();
    }
    let (moves, dropped) = ladder.drain_moves();
    assert_eq!((moves.len(), dropped), (MOVES_MAX, 299 - MOVES_MAX as u64));
}

#[test]
fn nonsense_is_refused_by_name() {
    let good = Settings::default();
    let last_with = |condition| Settings {
        rungs: vec![Rung::new("full", [condition]), Rung::new("refuse", [])],
        ..Settings::default()
    };
    let table = [
        (Settings { rungs: vec![], ..good.clone() }, "rungs"),
        (
            Settings { rungs: vec![Rung::new("full", [Condition::BreakerOpen])], ..good.clone() },
            "leave_when",
        ),
        (Settings { relief: f64::NAN, ..good.clone() }, "relief"),
        (Settings { fresh_for: Duration::ZERO, ..good }, "fresh_for"),
        (last_with(Condition::LatencyAbove(Duration::ZERO)), "latency_above"),
        (last_with(Condition::LoadAbove(f64::INFINITY)), "load_above"),
        (last_with(Condition::ErrorRateAbove(1.0)), "error_rate_above"),
    ];
    for (settings, field) in table {
        assert_eq!(Ladder::new(settings).unwrap_err().field, field);
    }
}

proptest! {
    #[test]
    fn it_goes_up_by_one_and_down_only_for_a_reason(
        steps in prop::collection::vec(
            (0_u64..8_000, any::<bool>(), 0_u64..2000, 0.0_f64..4.0, 0.0_f64..1.0),
            1..100,
        ),
    ) {
        let settings = Settings::default();
        let mut ladder = Ladder::new(settings.clone()).unwrap();
        let (mut now, mut last_move) = (Duration::ZERO, None::<Move>);
        for (wait, breaker_open, latency, load, error_rate) in steps {
            now += Duration::from_millis(wait);
            let signals = Signals {
                breaker_open,
                latency: Some(Duration::from_millis(latency)),
                load: Some(load),
                error_rate: Some(error_rate),
            };
            ladder.observe(signals, now);
            for one in ladder.drain_moves().0 {
                if one.to < one.from {
                    prop_assert_eq!(one.to + 1, one.from);
                    let held = last_move.map_or(one.at, |last| one.at - last.at);
                    prop_assert!(held >= settings.hold_up, "up again after {:?}", held);
                } else {
                    prop_assert!(matches!(one.why, Why::Trouble(_)));
                }
                last_move = Some(one);
            }
        }
    }
}
