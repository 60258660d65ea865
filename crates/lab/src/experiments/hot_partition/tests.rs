use std::sync::atomic::AtomicBool;

use super::*;

/// Shorter than a quick run, and long enough to find the heat and to let it cool.
const SHORT: Times = Times {
    heat_from: Duration::from_secs(5),
    heat_to: Duration::from_secs(20),
    end: Duration::from_secs(80),
};

fn celebrities(way: Way, read_share: f64, seed: u64) -> Trial {
    trial::play(Case { way, profile: Profile::Celebrities, read_share }, SHORT, seed)
}

#[test]
fn a_run_repeats_and_meets_what_follows_from_the_design() {
    let stop = AtomicBool::new(false);
    let mut ignore = |_: crate::experiment::Step<'_>| {};
    let mut quick = |seed| {
        let settings = Settings { seed, quick: true };
        run(&settings, &mut Progress::new(&mut ignore, &stop)).unwrap()
    };
    let report = quick(7);
    assert_eq!(report, quick(7));
    assert!(report.verdicts[..3].iter().all(|verdict| verdict.met), "{:?}", report.verdicts);
    assert_eq!(report.tables[0].rows.len(), READS.len() * Way::ALL.len());
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
        assert_eq!((copied.missed, copied.gross_alarms), (0.0, 0.0));
        assert!(copied.found_worst_s < 15.0 && copied.cooled_s.is_some());
    }
}

#[test]
fn a_bound_holds_at_once_and_sends_requests_away_from_their_owners() {
    for seed in [1, 2, 3] {
        let bounded = celebrities(Way::Bounded, 0.99, seed);
        assert!(!bounded.is_overloaded && bounded.away > 0.1, "{}", bounded.away);
        assert!(bounded.p99 < celebrities(Way::Plain, 0.99, seed).p99 / 5.0);
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
        assert!(split.folds >= trial::keys_above_limit(Profile::Celebrities) as f64);
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
