//! When the level moves, whom it turns away, and the settings.

use proptest::prelude::*;

use super::*;

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn priority(number: u8) -> Priority {
    Priority::new(number).unwrap()
}

/// A shedder that was told of `intervals` bad intervals from time 0, and the time then.
fn after_bad_intervals(settings: Settings, intervals: u64) -> (Shedder, Duration) {
    let shedder = Shedder::new(settings).unwrap();
    for interval in 0..intervals {
        shedder.observe_age(millis(50), millis(interval * 100));
    }
    (shedder, millis(intervals * 100))
}

#[test]
fn the_level_goes_up_only_if_the_queue_was_never_short() {
    let shedder = Shedder::new(Settings::default()).unwrap();
    shedder.observe_age(millis(500), millis(0));
    shedder.observe_age(millis(5), millis(50));
    shedder.observe_age(millis(500), millis(99));
    assert_eq!(shedder.level(millis(100)), 0.0, "a burst is not overload");
    shedder.observe_age(millis(21), millis(150));
    assert_eq!(shedder.level(millis(200)), 0.25);
    shedder.observe_age(millis(15), millis(250));
    assert_eq!(shedder.level(millis(300)), 0.25, "between the marks it holds");
    shedder.observe_age(millis(9), millis(350));
    assert_eq!(shedder.level(millis(400)), 0.15);
    assert_eq!(shedder.level(millis(700)), 0.0, "silence is calm");
}

#[test]
fn utilisation_counts_too_and_the_worse_of_both_decides() {
    let settings =
        Settings { utilisation: Some(Marks { high: 0.95, low: 0.8 }), ..Settings::default() };
    let shedder = Shedder::new(settings).unwrap();
    shedder.observe_utilisation(f64::NAN, millis(0));
    shedder.observe_utilisation(1.0, millis(0));
    shedder.observe_age(millis(1), millis(0));
    assert_eq!(shedder.level(millis(100)), 0.25);
    shedder.observe_utilisation(0.5, millis(100));
    shedder.observe_age(millis(15), millis(100));
    assert_eq!(shedder.level(millis(200)), 0.25);
}

#[test]
fn low_priorities_go_first_and_the_protected_stay() {
    let (shedder, now) = after_bad_intervals(Settings::default(), 6);
    assert_eq!(shedder.level(now), 1.5);
    let shed_of =
        |number| (0..1000).filter(|_| shedder.admit(priority(number), now).is_err()).count();
    assert_eq!(shed_of(1), 1000);
    let half = shed_of(2);
    assert!((420..=580).contains(&half), "{half} of 1000 are not about half");
    assert_eq!((shed_of(3), shed_of(4), shed_of(5)), (0, 0, 0));
    let (shedder, now) = after_bad_intervals(Settings::default(), 100);
    assert_eq!(shedder.level(now), 4.0);
    assert!(shedder.admit(priority(4), now).is_err());
    assert!(shedder.admit(priority(5), now).is_ok());
    let statistics = shedder.statistics(now);
    assert_eq!((statistics.shed, statistics.admitted), ([0, 0, 0, 1, 0], [0, 0, 0, 0, 1]));
}

#[test]
fn without_protection_even_the_highest_goes_last() {
    let settings = Settings { protected: None, ..Settings::default() };
    let (shedder, now) = after_bad_intervals(settings, 20);
    let error = shedder.admit(Priority::HIGHEST, now).unwrap_err();
    assert_eq!(
        error.to_string(),
        "too much is waiting, and priority 5 is turned away at level 5.00; try again in 100ms"
    );
    assert!(shedder.admit(Priority::LOWEST, now + millis(5100)).is_ok(), "it ends by itself");
}

#[test]
fn the_same_seed_sheds_the_same_requests() {
    let run = |seed| {
        let (shedder, now) = after_bad_intervals(Settings { seed, ..Settings::default() }, 2);
        (0..64).map(|_| shedder.admit(Priority::LOWEST, now).is_ok()).collect::<Vec<_>>()
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn nonsense_is_refused_by_name() {
    let good = Settings::default();
    let table = [
        (Settings { age: None, ..good }, "age"),
        (Settings { age: Some(Marks { high: millis(1), low: millis(2) }), ..good }, "age"),
        (Settings { age: Some(Marks { high: millis(1), low: millis(0) }), ..good }, "age"),
        (Settings { utilisation: Some(Marks { high: 0.5, low: 0.6 }), ..good }, "utilisation"),
        (Settings { utilisation: Some(Marks { high: f64::NAN, low: 0.1 }), ..good }, "utilisation"),
        (Settings { interval: Duration::ZERO, ..good }, "interval"),
        (Settings { step_up: 0.0, ..good }, "step_up"),
        (Settings { step_down: f64::NAN, ..good }, "step_down"),
    ];
    for (settings, field) in table {
        assert_eq!(Shedder::new(settings).unwrap_err().field, field, "{settings:?}");
    }
    assert_eq!(Priority::new(0).unwrap_err().field, "priority");
    assert!(Priority::new(6).is_err());
}

proptest! {
    #[test]
    fn no_priority_is_shed_while_a_lower_one_may_get_in(
        seed in any::<u64>(),
        protected in prop::option::of(1_u8..=5),
        steps in prop::collection::vec((0_u64..60, 0_u64..150, 1_u8..=5), 1..200),
    ) {
        let settings = Settings { seed, protected: protected.map(priority), ..Settings::default() };
        let shedder = Shedder::new(settings).unwrap();
        let mut now = Duration::ZERO;
        for (age, wait, number) in steps {
            now += millis(wait);
            shedder.observe_age(millis(age), now);
            if shedder.admit(priority(number), now).is_err() {
                prop_assert!(protected.is_none_or(|protected| number < protected));
                for lower in 1..number {
                    prop_assert!(shedder.admit(priority(lower), now).is_err());
                }
            }
            prop_assert!((0.0..=5.0).contains(&shedder.level(now)));
        }
    }
}
