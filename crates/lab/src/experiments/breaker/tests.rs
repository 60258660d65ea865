//! What the report must say, whatever the seed.

use super::*;
use crate::experiments::tried;
use crate::report::Cell;

fn number(cell: &Cell) -> f64 {
    match cell {
        Cell::Number(value) => *value,
        other => panic!("{other:?} is no number"),
    }
}

#[test]
fn claims_hold_for_any_seed_and_a_run_repeats() {
    for seed in 1..=5 {
        let report = tried(EXPERIMENT, seed);
        assert_eq!(report.met(), (4, 4), "{:?}", report.verdicts);
        if seed == 1 {
            let same = serde_json::to_string(&tried(EXPERIMENT, seed)).unwrap();
            assert_eq!(serde_json::to_string(&report).unwrap(), same);
        }
        assert!(!report.findings[0].contains("stayed closed"), "no draw opened it");
        let [calls, outcomes, many, metrics] = &report.tables[..] else { panic!("four tables") };
        assert_eq!((calls.rows.len(), metrics.rows.len()), (CALLS, 10));
        for row in &outcomes.rows {
            assert_eq!(row[2..6].iter().map(number).sum::<f64>(), CALLS as f64, "{row:?}");
        }
        for (index, row) in metrics.rows.iter().enumerate() {
            let counted: f64 = row[2..5].iter().map(number).sum();
            assert_eq!(counted, (index as f64 + 1.0) * 10.0, "{row:?}");
        }
        // Neither guard loses the most; a breaker never adds to what the timeout loses.
        for rows in many.rows.chunks(3) {
            let [bare, timeout, breaker] = [0, 1, 2].map(|row| number(&rows[row][7]));
            assert!(bare > timeout && timeout > breaker, "{bare} {timeout} {breaker}");
        }
    }
    assert_ne!(tried(EXPERIMENT, 1).tables[0], tried(EXPERIMENT, 2).tables[0]);
}

#[test]
fn refused_calls_are_told_as_such_and_take_no_time() {
    let report = tried(EXPERIMENT, 3);
    let refused = report.tables[0].rows.iter().filter(|row| row[2] == "circuit open".into());
    for row in refused {
        assert_eq!(number(&row[3]), 0.0);
        assert_eq!(row[4], "open".into());
    }
}
