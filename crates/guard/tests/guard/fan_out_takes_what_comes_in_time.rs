//! Fifteen questions to six shards of very uneven latency, on a paused clock.

#![cfg(feature = "async")]

use std::cell::{Cell, RefCell};
use std::time::Duration;

use divvy_guard::fanout::{Outcome, Report, Settings};
use divvy_guard::shell::deadline;
use divvy_guard::shell::fanout::fan_out;
use divvy_guard::timeout::{LatencyTracker, SharedTracker};
use tokio::time::{Instant, sleep};

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Asks a shard: 100 ms and an exponential spike of 200 ms on average; one in ten fails.
fn ask(
    shard: &usize,
    rng: &RefCell<fastrand::Rng>,
) -> impl Future<Output = Result<Vec<String>, &'static str>> + use<> {
    let mut rng = rng.borrow_mut();
    let latency = 0.1 - 0.2 * (1.0 - rng.f64()).ln();
    let fails = rng.f64() < 0.1;
    let records = (0..rng.usize(3..=8)).map(|record| format!("r_{shard}_{record}")).collect();
    async move {
        sleep(Duration::from_secs_f64(latency)).await;
        if fails { Err("shard error") } else { Ok(records) }
    }
}

type Reports = Vec<Report<usize, Vec<String>, &'static str>>;

async fn fifteen_queries(seed: u64) -> (Reports, SharedTracker) {
    let rng = RefCell::new(fastrand::Rng::with_seed(seed));
    let tracker = SharedTracker::default();
    let mut reports = Vec::new();
    for _ in 0..15 {
        let expected = tracker.suggested();
        let report = fan_out(0..6, |shard| ask(shard, &rng), &tracker, Settings::default());
        let report = report.await.unwrap();
        assert_eq!(report.used_timeout, expected);
        reports.push(report);
    }
    (reports, tracker)
}

#[tokio::test(start_paused = true)]
async fn every_shard_is_counted_once_and_the_timeout_adapts() {
    let began = Instant::now();
    let (reports, tracker) = fifteen_queries(42).await;
    let mut reference = LatencyTracker::default();
    for report in &reports {
        let counted = report.shards_responded + report.shards_timed_out + report.shards_failed;
        assert_eq!((counted, report.shards_skipped), (6, 0));
        assert_eq!(report.used_timeout, reference.suggested());
        assert!(report.took <= report.used_timeout + millis(1));
        for latency in report.responder_latencies() {
            reference.record(latency);
        }
        let records: usize = report.total(Vec::len);
        assert!((3 * report.shards_responded..=8 * report.shards_responded).contains(&records));
    }
    assert_eq!(reports[0].used_timeout, millis(500), "nothing was known yet");
    let adapted = reports.iter().filter(|report| report.used_timeout != millis(500)).count();
    assert!(adapted >= 12, "{adapted} of 15 have adapted");
    assert_eq!(tracker.suggested(), reference.suggested(), "only answers were learned from");
    assert!(began.elapsed() < Duration::from_secs(30));
    assert!(reports.iter().any(|report| report.shards_failed > 0));
    assert!(reports.iter().any(|report| report.shards_timed_out > 0));
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_gives_the_same_reports() {
    let (first, _) = fifteen_queries(7).await;
    let (second, _) = fifteen_queries(7).await;
    assert_eq!(first, second);
    assert_ne!(first, fifteen_queries(8).await.0);
}

/// Counts itself as long as it lives.
struct Alive<'a>(&'a Cell<usize>);

impl<'a> Alive<'a> {
    fn new(count: &'a Cell<usize>) -> Self {
        count.set(count.get() + 1);
        Alive(count)
    }
}

impl Drop for Alive<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

#[tokio::test(start_paused = true)]
async fn nobody_lives_on_after_the_deadline_or_a_cancel() {
    let alive = Cell::new(0);
    let tracker = SharedTracker::default();
    let ask = |shard: &u64| {
        let guard = Alive::new(&alive);
        let wait = millis(shard * 200);
        async move {
            let _guard = guard;
            sleep(wait).await;
            Ok::<_, ()>(())
        }
    };
    let report = fan_out(0..6, ask, &tracker, Settings::default()).await.unwrap();
    assert_eq!((report.shards_responded, report.shards_timed_out), (3, 3));
    assert_eq!(alive.get(), 0, "after the deadline");
    let cancelled = fan_out(0..6, ask, &tracker, Settings::default());
    let outcome = tokio::time::timeout(millis(250), cancelled).await;
    assert!(outcome.is_err());
    assert_eq!(alive.get(), 0, "after a cancel");
    assert_eq!(tracker.snapshot().len(), 3, "a cancelled question teaches nothing");
}

#[tokio::test(start_paused = true)]
async fn enough_answers_end_it_and_few_are_asked_at_once() {
    let (now, peak) = (Cell::new(0), Cell::new(0));
    let ask = |shard: &u64| {
        let guard = Alive::new(&now);
        peak.set(peak.get().max(now.get()));
        let wait = millis(shard * 10);
        async move {
            let _guard = guard;
            sleep(wait).await;
            Ok::<_, ()>(())
        }
    };
    let settings = Settings { minimum: 3, enough: Some(3), concurrency: 2, ..Settings::default() };
    let report = fan_out(1..=9, ask, &SharedTracker::default(), settings).await.unwrap();
    assert_eq!((report.shards_responded, report.shards_skipped), (3, 6));
    assert_eq!(peak.get(), 2);
    assert_eq!(report.took, millis(40), "1 and 3 in a row beside 2");
    assert_eq!(report.shards[8].outcome, Outcome::Skipped);
    assert!(report.require().is_ok());
}

#[tokio::test(start_paused = true)]
async fn an_answer_at_the_very_deadline_counts() {
    let ask = |_: &u64| async {
        sleep(millis(500)).await;
        Ok::<_, ()>(())
    };
    let report = fan_out(0..6, ask, &SharedTracker::default(), Settings::default()).await.unwrap();
    assert_eq!(report.shards_responded, 6);
}

#[tokio::test(start_paused = true)]
async fn shards_that_all_become_slow_are_found_again() {
    let tracker = SharedTracker::default();
    tracker.record_all([millis(10); 20]);
    let ask = |_: &u64| async {
        sleep(millis(300)).await;
        Ok::<_, ()>(())
    };
    let stubborn = Settings { grow_when_silent: false, ..Settings::default() };
    for _ in 0..20 {
        let report = fan_out(0..6, ask, &tracker, stubborn).await.unwrap();
        assert_eq!(report.shards_timed_out, 6);
    }
    let mut rounds = 0;
    while fan_out(0..6, ask, &tracker, Settings::default()).await.unwrap().shards_responded == 0 {
        rounds += 1;
        assert!(rounds < 20, "stuck at {:?}", tracker.suggested());
    }
}

#[tokio::test(start_paused = true)]
async fn the_callers_deadline_cuts_it_short_and_teaches_nothing() {
    let tracker = SharedTracker::default();
    let ask = |_: &u64| std::future::pending::<Result<(), ()>>();
    let asked = async {
        // The scope ends a little later than the question, so that the report is still heard.
        let settings = Settings { timeout_max: millis(90), ..Settings::default() };
        fan_out(0..2, ask, &tracker, settings).await.unwrap()
    };
    let report = deadline::scope(millis(100), asked).await.unwrap();
    assert_eq!((report.used_timeout, report.shards_timed_out), (millis(90), 2));
    let cut = deadline::scope(millis(50), fan_out(0..2, ask, &tracker, Settings::default()));
    assert!(!matches!(cut.await, Ok(Ok(report)) if report.used_timeout > millis(50)));
}
