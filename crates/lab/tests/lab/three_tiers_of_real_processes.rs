//! The three-tier experiment with real child processes.

use std::sync::atomic::AtomicBool;

use divvy_lab::report::Cell;
use divvy_lab::{Error, Progress, Report, Settings, child, find};

fn run(seed: u64) -> Result<Report, Error> {
    let stop = AtomicBool::new(false);
    let mut ignore = |_: divvy_lab::experiment::Step<'_>| {};
    let settings = Settings { seed, quick: true };
    (find("three-tier").unwrap().run)(&settings, &mut Progress::new(&mut ignore, &stop))
}

#[test]
fn every_request_is_parsed_in_a_process_and_labelled_on_a_thread() {
    let Err(error) = run(1) else { panic!("there is no program yet") };
    assert!(error.to_string().contains("child::provide"), "{error}");

    child::provide(env!("CARGO_BIN_EXE_divvy-lab-child"));
    let report = run(1).unwrap();
    // The other verdict is about speed, which a busy machine may spoil.
    assert!(report.verdicts[0].met, "{:?}", report.verdicts);
    let requests = &report.tables[1].rows;
    assert_eq!(requests.len(), 10);
    for (number, row) in requests.iter().enumerate() {
        assert_eq!(row[1], Cell::from(20_u64));
        assert_eq!(row[2], Cell::from(format!("item_{}", number * 20 + 1)));
    }
}
