//! What the report on rings must say, whatever the seed.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use super::*;

fn quick(seed: u64) -> Report {
    let stop = AtomicBool::new(false);
    let mut ignore = |_: crate::experiment::Step<'_>| {};
    run(&Settings { seed, quick: true }, &mut Progress::new(&mut ignore, &stop)).unwrap()
}

fn data(seed: u64) -> Data {
    let stop = AtomicBool::new(false);
    let mut ignore = |_: crate::experiment::Step<'_>| {};
    let settings = Settings { seed, quick: true };
    measure(&settings, 6, &mut Progress::new(&mut ignore, &stop)).unwrap()
}

#[test]
fn every_target_is_met_for_several_seeds_and_a_run_repeats() {
    for seed in [1, 2, 3] {
        let report = quick(seed);
        let (met, all) = report.met();
        assert_eq!(met, all, "{:?}", report.verdicts);
    }
    assert_eq!(quick(1), quick(1));
    // The three servers are what they are; the other rings have names from the seed.
    assert_eq!(quick(1).tables[0], quick(2).tables[0]);
    assert_ne!(quick(1).tables[4], quick(2).tables[4]);
}

#[test]
fn counts_add_up_and_the_library_and_the_comparison_agree() {
    let data = data(5);
    for (at, (points, distribution, simulated)) in data.rings.iter().enumerate() {
        assert_eq!(distribution.total(), KEYS as u64);
        let (scheme, shifts) = &data.shifts[at];
        assert_eq!(*scheme, Scheme::Ring(*points));
        for (said, seen) in simulated.iter().zip(shifts) {
            assert_eq!((said.moved, said.minimum), (seen.moved, seen.minimum));
            assert_eq!(said.after, seen.after);
            assert_eq!(said.moved, said.moves.iter().map(|each| each.keys).sum::<u64>());
        }
    }
    let totals: BTreeMap<u64, usize> = data.shifts.iter().flat_map(|(_, shifts)| shifts).fold(
        BTreeMap::new(),
        |mut totals, shift| {
            *totals.entry(shift.after.total()).or_default() += 1;
            totals
        },
    );
    assert_eq!(totals, BTreeMap::from([(KEYS as u64, 2 * SCHEMES.len())]));
}

#[test]
fn only_a_remainder_moves_most_keys_and_only_rings_move_none_in_vain() {
    for (scheme, shifts) in data(1).shifts {
        for shift in shifts {
            let moved = shift.moved as f64 / KEYS as f64;
            assert_eq!(moved > 0.5, scheme == Scheme::Modulo, "{scheme:?}: {moved}");
            let is_ring = matches!(scheme, Scheme::Ring(_));
            assert!(!is_ring || shift.needless == 0, "{scheme:?}");
        }
    }
}

#[test]
fn a_tighter_cap_is_evener_and_displaces_more() {
    let rows = data(4).capped;
    for pair in rows.windows(2) {
        assert!(pair[1].peak <= pair[0].peak + 1e-9);
        assert!(pair[1].displaced >= pair[0].displaced);
    }
    let last = rows.last().unwrap();
    assert!(last.peak < rows[0].peak && last.displaced > 0.0);
}

#[test]
fn a_run_that_is_asked_to_stop_stops() {
    let stop = AtomicBool::new(true);
    let mut ignore = |_: crate::experiment::Step<'_>| {};
    let ended = run(&Settings::default(), &mut Progress::new(&mut ignore, &stop));
    assert!(matches!(ended, Err(Error::Stopped)));
}
