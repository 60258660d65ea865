//! What the report on crawls must say, whatever the seed.

use super::*;
use crate::experiments::tried;

#[test]
fn the_real_frontier_is_never_early_and_the_textbook_nearly_always() {
    for seed in [1, 2] {
        let report = tried(EXPERIMENT, seed);
        let manners: Vec<_> =
            report.verdicts.iter().filter(|each| !each.what.starts_with("memory")).collect();
        assert!(manners.len() == 6 && manners.iter().all(|each| each.met), "{manners:?}");
    }
    let stop = std::sync::atomic::AtomicBool::new(false);
    let mut ignore = |_: crate::experiment::Step<'_>| {};
    let mut progress = Progress::new(&mut ignore, &stop);
    let settings = Settings { seed: 1, quick: true };
    let data = measure(QUICK.0, &QUICK.1, &settings, &mut progress).unwrap();
    let [(_, real), (_, spilled), (_, simple)] = &data[..] else { panic!("three ways") };
    assert!(simple.log.early * 4 > simple.log.requests, "{:?}", simple.log.early);
    assert!(simple.log.at_once > 10 && simple.log.forbidden > 0);
    assert!(
        real.pages > 1_000 && spilled.pages * 10 > real.pages * 9,
        "{} {}",
        real.pages,
        spilled.pages
    );
    assert!(spilled.in_memory < spilled.queued && spilled.bytes < real.bytes);
    // It asks more hosts, and knocks less often at each that never answers.
    let knocks = |side: &Outcome| side.log.to_dead as f64 / side.log.reached() as f64;
    assert!(knocks(real) < knocks(simple), "{} {}", knocks(real), knocks(simple));
}

#[test]
fn a_run_repeats() {
    assert_eq!(tried(EXPERIMENT, 3), tried(EXPERIMENT, 3));
}

#[test]
fn addresses_lead_back_to_their_pages() {
    let web = Web::new(1_000, 1);
    for host in [0, 7, 999] {
        for number in [0, 3, 123_456_789] {
            let page = web::Page { host, number };
            assert_eq!(Web::page(&format!("{}{}", Web::name(host), web.path(page))), page);
        }
        assert_eq!(Web::page(&Web::name(host)).host, host);
    }
    assert_eq!(Web::domain("https://www3.site-1.example"), "site-1.example");
}
