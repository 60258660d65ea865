//! What the report on hot partitions must say, whatever the seed.

use std::sync::atomic::AtomicBool;

use super::*;

/// Shorter than a quick run, and long enough to find the heat and to let it cool.
const SHORT: Times = Times {
    heat_from: Duration::from_secs(5),
    heat_to: Duration::from_secs(22),
    end: Duration::from_secs(70),
};

/// A share well above the limit.
const CLEAR: f64 = 0.03;

fn celebrities(way: Way, read_share: f64, seed: u64) -> Trial {
    trial::play(Case { way, profile: Profile::Celebrities, read_share }, SHORT, seed)
}

#[test]
fn a_run_reports_every_way_and_loses_no_write() {
    let stop = AtomicBool::new(false);
    let mut ignore = |_: crate::experiment::Step<'_>| {};
    let settings = Settings { seed: 7, quick: true };
    let report = run(&settings, &mut Progress::new(&mut ignore, &stop)).unwrap();
    assert!(report.verdicts[1..3].iter().all(|verdict| verdict.met), "{:?}", report.verdicts);
    assert_eq!(report.tables[0].rows.len(), READS.len() * Way::ALL.len());
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_does_not() {
    for way in Way::ALL {
        let play = |seed| celebrities(way, 0.5, seed);
        assert_eq!(play(1), play(1), "{way:?}");
        assert_ne!(play(1), play(2), "{way:?}");
    }
}

#[test]
fn a_plain_ring_drowns_and_copies_save_reads() {
    for seed in [1, 2, 3] {
        let plain = celebrities(Way::Plain, 0.99, seed);
        assert!(plain.is_overloaded && plain.peak > 2.5, "{}", plain.peak);
        assert_eq!((plain.operations, plain.copies, plain.away), (1.0, 0.0, 0.0));
        let copied = celebrities(Way::Replicated, 0.99, seed);
        assert!(!copied.is_overloaded && copied.peak < plain.peak / 1.5, "{}", copied.peak);
        assert!(copied.p99_settled < plain.p99_settled / 5.0);
        assert_eq!(copied.gross_alarms, 0.0);
        // Those close to the limit may need longer than the heat lasts here.
        let clear = copied.found.iter().filter(|key| key.share > CLEAR);
        assert!(clear.clone().count() > 3 && clear.clone().all(|key| key.after_s.is_some()));
        let hottest = copied.found[0];
        assert!(hottest.after_s.is_some_and(|after| after < 5.0) && hottest.spread == 8);
        assert!(copied.cooled_s.is_some());
    }
}

#[test]
fn a_bound_holds_at_once_and_sends_requests_away_from_their_owners() {
    for seed in [1, 2, 3] {
        let bounded = celebrities(Way::Bounded, 1.0, seed);
        assert!(!bounded.is_overloaded && bounded.away > 0.1, "{}", bounded.away);
        assert!(bounded.p99 < celebrities(Way::Plain, 1.0, seed).p99 / 5.0);
        // Only the owner may write, however much it has to do.
        let written = celebrities(Way::Bounded, 0.0, seed);
        assert_eq!((written.away, written.copies, written.operations), (0.0, 0.0, 1.0));
        assert!(written.is_overloaded);
    }
}

#[test]
fn copies_are_paid_by_writes_and_parts_by_reads() {
    for seed in [1, 2] {
        let cost = |way, read_share| celebrities(way, read_share, seed).operations;
        assert!(cost(Way::Replicated, 0.01) > cost(Way::Split, 0.01) + 0.5);
        assert!(cost(Way::Split, 0.99) > cost(Way::Replicated, 0.99) + 0.5);
    }
}

#[test]
fn what_is_split_is_read_whole_and_folded_when_it_has_cooled() {
    for seed in [1, 2, 3] {
        let split = celebrities(Way::Split, 0.5, seed);
        assert_eq!((split.reads_short, split.is_complete), (0, true));
        assert!(split.folds >= split.found.iter().filter(|key| key.share > CLEAR).count() as f64);
        assert!(split.cooled_s.is_some());
    }
}

#[test]
fn a_run_that_is_asked_to_stop_stops() {
    let stop = AtomicBool::new(true);
    let mut ignore = |_: crate::experiment::Step<'_>| {};
    let ended = run(&Settings::default(), &mut Progress::new(&mut ignore, &stop));
    assert!(matches!(ended, Err(Error::Stopped)));
}
