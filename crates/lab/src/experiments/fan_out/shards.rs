//! The shards, and one run of queries to them in one of several ways.
//!
//! What a shard does is drawn from the query, the shard and the attempt, so every way of asking meets the same shards,
//! and only a hedge draws anew.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use divvy_guard::budget::{self, Budget};
use divvy_guard::fanout::{Outcome, Settings};
use divvy_guard::hedge::{self, Statistics};
use divvy_guard::shell::clock::{Clock, RuntimeClock};
use divvy_guard::shell::fanout::fan_out;
use divvy_guard::shell::hedge::Hedger;
use divvy_guard::timeout::{self, SharedTracker};
use tokio::time::sleep;

pub(super) const QUERIES: usize = 15;
pub(super) const SHARDS: u64 = 6;
const LATENCY_LEAST_S: f64 = 0.1;
const LATENCY_SPIKE_S: f64 = 0.2;
const FAILING: f64 = 0.1;
/// Longer than any shard takes: the way of those who wait for all.
const FOR_EVER: Duration = Duration::from_secs(3_600);
/// How many hedges a success pays for. Two in ten are more than a hedge at the 95th percentile asks for.
const HEDGE_SHARE: f64 = 0.2;

/// How long is waited for shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// As long as the tracker suggests.
    Adaptive,
    /// As long as the tracker suggests, and slow shards are asked a second time.
    Hedged,
    /// Half a second.
    Fixed,
    /// Until all have spoken.
    All,
}

impl Way {
    pub(super) const ALL: [Self; 4] = [Self::Adaptive, Self::Hedged, Self::Fixed, Self::All];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Adaptive => "adaptive",
            Self::Hedged => "adaptive, hedged",
            Self::Fixed => "fixed 0.5 s",
            Self::All => "wait for all",
        }
    }
}

/// What came of one query.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Query {
    pub(super) responded: usize,
    pub(super) timed_out: usize,
    pub(super) failed: usize,
    pub(super) records: usize,
    pub(super) used_timeout: Duration,
    pub(super) took: Duration,
    /// The slowest answer that came in time.
    pub(super) slowest: Option<Duration>,
    /// Shards that were still at work after the report.
    pub(super) left_over: usize,
}

/// What came of all of them.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Run {
    pub(super) queries: Vec<Query>,
    /// What the tracker suggests after the last one.
    pub(super) suggested: Duration,
    /// Records in all shards, failures left aside.
    pub(super) records_possible: usize,
    pub(super) hedges: Statistics,
}

/// What a shard does when it is asked.
struct Draw {
    latency: Duration,
    fails: bool,
    records: Vec<String>,
}

fn draw(seed: u64, query: usize, shard: u64, attempt: u32) -> Draw {
    let part = (query as u64) << 24 | shard << 8 | u64::from(attempt);
    let mut random = fastrand::Rng::with_seed(seed ^ part.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let latency = LATENCY_LEAST_S - LATENCY_SPIKE_S * (1.0 - random.f64()).ln();
    let fails = random.f64() < FAILING;
    let records = (0..random.usize(3..=8)).map(|record| format!("r_{shard}_{record}")).collect();
    Draw { latency: Duration::from_secs_f64(latency), fails, records }
}

/// Asks all queries one after the other.
pub(super) async fn ask_all(way: Way, seed: u64) -> Run {
    let tracker = SharedTracker::default();
    let settings = Settings {
        timeout: match way {
            Way::Adaptive | Way::Hedged => None,
            Way::Fixed => Some(Duration::from_millis(500)),
            Way::All => Some(FOR_EVER),
        },
        ..Settings::default()
    };
    let clock = RuntimeClock::default();
    let budget = budget::Settings { share: HEDGE_SHARE, floor_per_second: 0.0, ..<_>::default() };
    let budget = Arc::new(Budget::new(budget).expect("the settings are sound"));
    let hedger = hedger(Arc::clone(&budget), clock);
    let at_work = Rc::new(Cell::new(0));
    let (mut queries, mut records_possible) = (Vec::with_capacity(QUERIES), 0);
    for query in 0..QUERIES {
        let ask = |shard: &u64| {
            let shard = *shard;
            let (hedger, at_work) = (&hedger, &at_work);
            async move {
                if way == Way::Hedged {
                    let one = |attempt| answer(draw(seed, query, shard, attempt), at_work);
                    hedger.call(one).await
                } else {
                    answer(draw(seed, query, shard, 0), at_work).await
                }
            }
        };
        let report = fan_out(0..SHARDS, ask, &tracker, settings).await;
        let report = report.expect("the settings are sound for six shards");
        for shard in &report.shards {
            if matches!(shard.outcome, Outcome::Responded(_)) {
                budget.success(clock.now());
            }
        }
        records_possible +=
            (0..SHARDS).map(|shard| draw(seed, query, shard, 0).records.len()).sum::<usize>();
        queries.push(Query {
            responded: report.shards_responded,
            timed_out: report.shards_timed_out,
            failed: report.shards_failed,
            records: report.total(Vec::len),
            used_timeout: report.used_timeout,
            took: report.took,
            slowest: report.responder_latencies().max(),
            left_over: at_work.get(),
        });
    }
    Run { queries, suggested: tracker.suggested(), records_possible, hedges: hedger.statistics() }
}

fn hedger(budget: Arc<Budget>, clock: RuntimeClock) -> Hedger {
    let seen = timeout::Settings { window: 200, ..timeout::Settings::default() };
    let seen = Arc::new(SharedTracker::new(seen).expect("the settings are sound"));
    let may_spend = move || budget.try_spend(clock.now());
    Hedger::new(hedge::Settings::default(), seen, may_spend).expect("the settings are sound")
}

async fn answer(draw: Draw, at_work: &Rc<Cell<usize>>) -> Result<Vec<String>, &'static str> {
    let _at_work = AtWork::new(at_work);
    sleep(draw.latency).await;
    if draw.fails { Err("shard error") } else { Ok(draw.records) }
}

/// Counts itself for as long as it lives, so that a shard that nobody stopped is seen.
struct AtWork(Rc<Cell<usize>>);

impl AtWork {
    fn new(count: &Rc<Cell<usize>>) -> Self {
        count.set(count.get() + 1);
        Self(Rc::clone(count))
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::paused;
    use super::*;

    #[test]
    fn draws_follow_their_distribution() {
        let draws: Vec<Draw> = (0..5_000).map(|query| draw(7, query, 3, 0)).collect();
        let mean = paused::mean(draws.iter().map(|draw| draw.latency.as_secs_f64()));
        assert!((mean - 0.3).abs() < 0.015, "{mean}");
        let failing = paused::mean(draws.iter().map(|draw| f64::from(u8::from(draw.fails))));
        assert!((failing - 0.1).abs() < 0.02, "{failing}");
        assert!(draws.iter().all(|draw| (3..=8).contains(&draw.records.len())));
        let other = draw(7, 0, 3, 1);
        assert_ne!(other.latency, draws[0].latency, "a hedge draws anew");
    }

    #[test]
    fn waiting_for_all_gets_everything_but_the_failures() {
        let all = paused::run(ask_all(Way::All, 5)).unwrap();
        let fixed = paused::run(ask_all(Way::Fixed, 5)).unwrap();
        for (all, fixed) in all.queries.iter().zip(&fixed.queries) {
            assert_eq!((all.timed_out, all.responded + all.failed), (0, 6));
            assert!(fixed.records <= all.records && fixed.took <= all.took);
        }
        assert_eq!(all.hedges.sent, 0);
        assert_eq!(all.records_possible, fixed.records_possible);
    }
}
