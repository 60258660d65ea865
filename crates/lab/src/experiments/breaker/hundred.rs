//! A hundred calls of a service that fails three times in ten, one per second, with what the breaker tells of itself
//! after every ten.

use std::time::Duration;

use divvy_guard::breaker::{Breaker, Metrics, Settings, Transition};
use divvy_guard::shell::breaker::{CallError, Circuit};
use tokio::time::{Instant, sleep};

use super::service::SERVICE;

pub(super) const CALLS: usize = 100;
pub(super) const EVERY: usize = 10;
pub(super) const FAILING: f64 = 0.3;
/// From the start of one call to the start of the next.
pub(super) const PERIOD: Duration = Duration::from_secs(1);

/// What came of it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Run {
    /// After every ten calls.
    pub(super) metrics: Vec<Metrics>,
    pub(super) changes: Vec<Transition>,
    pub(super) ended: Duration,
    /// Calls that were refused although the service would have answered.
    pub(super) refused_in_error: usize,
}

/// Half of the calls failed, or half slower than a second, or three failures in a row; open for 30 s; three probes.
pub(super) fn settings() -> Settings {
    Settings {
        failure_rate: Some(0.5),
        slow_after: Duration::from_secs(1),
        consecutive_failures: Some(3),
        open_for: Duration::from_secs(30),
        probes: 3,
        successes_to_close: 3,
        ..Settings::for_requests()
    }
}

pub(super) async fn call(seed: u64) -> Run {
    let mut random = fastrand::Rng::with_seed(seed);
    let circuit = Circuit::new(Breaker::new(settings()).expect("the settings are sound"));
    let start = Instant::now();
    let (mut metrics, mut refused_in_error) = (Vec::new(), 0);
    for number in 1..=CALLS {
        let fails = random.f64() < FAILING;
        let service = async {
            sleep(SERVICE).await;
            if fails { Err("service error") } else { Ok(()) }
        };
        let result = circuit.call_async(service).await;
        let refused = matches!(result, Err(CallError::Open { .. }));
        refused_in_error += usize::from(refused && !fails);
        if number.is_multiple_of(EVERY) {
            metrics.push(circuit.breaker().metrics(circuit.now()));
        }
        sleep((PERIOD * number as u32).saturating_sub(start.elapsed())).await;
    }
    let changes = circuit.breaker().drain_transitions();
    Run { metrics, changes, ended: start.elapsed(), refused_in_error }
}
