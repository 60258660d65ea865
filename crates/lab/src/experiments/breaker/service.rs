//! The services that are called, and one caller that calls them, with and without a breaker.
//!
//! What a flaky service does with a call is drawn before the run, by the number of the call, so every way of calling
//! meets the same service.

use std::time::Duration;

use divvy_guard::breaker::{Breaker, Settings, State, Transition};
use divvy_guard::shell::breaker::{CallError, Circuit};
use tokio::time::{Instant, sleep, timeout};

/// How long the service takes to answer or to fail.
pub(super) const SERVICE: Duration = Duration::from_millis(20);
/// How long it hangs.
pub(super) const HANG: Duration = Duration::from_secs(3);
/// How long the caller waits at most.
pub(super) const OUTER: Duration = Duration::from_secs(1);
/// When the service that breaks down is down.
pub(super) const OUTAGE: [Duration; 2] = [Duration::from_secs(5), Duration::from_secs(15)];
/// The most calls of one run.
const CALLS_MAX: usize = 10_000;

/// What a service does with a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Good,
    Error,
    Hang,
}

/// A service.
#[derive(Clone, Debug)]
pub(super) enum Service {
    /// Each call is drawn for itself.
    Flaky(Vec<Draw>),
    /// Every call hangs for some time; before and after, all is well.
    Down,
}

/// What was drawn for one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Draw(Answer);

impl Service {
    /// Works six times in ten, fails three times, and hangs once.
    pub(super) fn flaky(calls: usize, seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let draw = |_| match random.f64() {
            chance if chance < 0.6 => Draw(Answer::Good),
            chance if chance < 0.9 => Draw(Answer::Error),
            _ => Draw(Answer::Hang),
        };
        Self::Flaky((0..calls).map(draw).collect())
    }

    /// What it does with this call at this time.
    fn answer(&self, call: usize, at: Duration) -> Answer {
        match self {
            Self::Flaky(draws) => draws[call].0,
            Self::Down if (OUTAGE[0]..OUTAGE[1]).contains(&at) => Answer::Hang,
            Self::Down => Answer::Good,
        }
    }
}

/// How the service is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// As if it could not fail.
    Bare,
    /// With the caller's own timeout.
    Timeout,
    /// Through a breaker, with the caller's timeout around it.
    Breaker,
}

/// How a call ended for the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Success,
    Error,
    Timeout,
    Refused,
}

impl Outcome {
    /// In the order in which they are shown.
    pub(super) const ALL: [Self; 4] = [Self::Success, Self::Error, Self::Timeout, Self::Refused];

    /// The words for it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Error => "service error",
            Self::Timeout => "timeout",
            Self::Refused => "circuit open",
        }
    }
}

/// One call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Call {
    pub(super) began: Duration,
    pub(super) took: Duration,
    pub(super) outcome: Outcome,
    /// The state of the breaker after it; closed if there is none.
    pub(super) state: State,
    /// Whether the service would have answered well.
    pub(super) would_succeed: bool,
}

/// All calls of one run.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Run {
    pub(super) calls: Vec<Call>,
    pub(super) changes: Vec<Transition>,
    pub(super) ended: Duration,
}

impl Run {
    pub(super) fn count(&self, outcome: Outcome) -> usize {
        self.calls.iter().filter(|call| call.outcome == outcome).count()
    }

    /// The time that went into calls that brought nothing.
    pub(super) fn lost(&self) -> Duration {
        let vain = self.calls.iter().filter(|call| call.outcome != Outcome::Success);
        vain.map(|call| call.took).sum()
    }

    /// The longest of the refused calls.
    pub(super) fn refused_longest(&self) -> Option<Duration> {
        let refused = self.calls.iter().filter(|call| call.outcome == Outcome::Refused);
        refused.map(|call| call.took).max()
    }

    /// Refused calls that the service would have answered.
    pub(super) fn refused_in_error(&self) -> usize {
        let refused = self.calls.iter().filter(|call| call.outcome == Outcome::Refused);
        refused.filter(|call| call.would_succeed).count()
    }
}

/// Three failures in a row open it for two seconds; one probe of half a second at most. A call that the caller gives up
/// counts as failed: without that, hanging calls would never open it.
pub(super) fn settings() -> Settings {
    Settings {
        consecutive_failures: Some(3),
        open_for: Duration::from_secs(2),
        probe_timeout: Some(Duration::from_millis(500)),
        cancelled_fails_after: Some(OUTER),
        ..Settings::for_quick_recovery()
    }
}

/// When a caller has called enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Until {
    /// After so many calls.
    Calls(usize),
    /// After this time.
    Time(Duration),
}

/// Calls one after the other, with a pause after each.
pub(super) async fn call(service: &Service, way: Way, until: Until, pause: Duration) -> Run {
    let start = Instant::now();
    let breaker = Breaker::new(settings()).expect("the settings are constant and sound");
    let circuit = Circuit::new(breaker);
    let mut done = Vec::new();
    for number in 0..CALLS_MAX {
        let began = start.elapsed();
        let is_enough = match until {
            Until::Calls(calls) => number == calls,
            Until::Time(time) => began >= time,
        };
        if is_enough {
            break;
        }
        let answer = service.answer(number, began);
        let outcome = match way {
            Way::Bare => judge(fetch(answer).await),
            Way::Timeout => timeout(OUTER, fetch(answer)).await.map_or(Outcome::Timeout, judge),
            Way::Breaker => match timeout(OUTER, circuit.call_async(fetch(answer))).await {
                Ok(Ok(())) => Outcome::Success,
                Ok(Err(CallError::Inner(error))) => judge(Err(error)),
                Ok(Err(CallError::Open { .. })) => Outcome::Refused,
                Ok(Err(CallError::ProbeTimeout)) | Err(_) => Outcome::Timeout,
            },
        };
        let took = start.elapsed() - began;
        let state = circuit.breaker().state();
        let would_succeed = answer == Answer::Good;
        done.push(Call { began, took, outcome, state, would_succeed });
        sleep(pause).await;
    }
    Run { calls: done, changes: circuit.breaker().drain_transitions(), ended: start.elapsed() }
}

/// What a call of the service brings: an error, or its own timeout after it hung.
async fn fetch(answer: Answer) -> Result<(), Outcome> {
    match answer {
        Answer::Good | Answer::Error => sleep(SERVICE).await,
        Answer::Hang => sleep(HANG).await,
    }
    match answer {
        Answer::Good => Ok(()),
        Answer::Error => Err(Outcome::Error),
        Answer::Hang => Err(Outcome::Timeout),
    }
}

fn judge(result: Result<(), Outcome>) -> Outcome {
    result.err().unwrap_or(Outcome::Success)
}

#[cfg(test)]
mod tests {
    use super::super::super::paused;
    use super::*;

    #[test]
    fn hanging_calls_take_as_long_as_each_way_lets_them() {
        let hangs = Service::Flaky(vec![Draw(Answer::Hang); 5]);
        let times = |way| {
            let run = paused::run(call(&hangs, way, Until::Calls(5), Duration::ZERO)).unwrap();
            run.calls.iter().map(|call| call.took.as_millis()).collect::<Vec<_>>()
        };
        assert_eq!(times(Way::Bare), [3_000; 5]);
        assert_eq!(times(Way::Timeout), [1_000; 5]);
        assert_eq!(times(Way::Breaker), [1_000, 1_000, 1_000, 0, 0]);
    }

    #[test]
    fn a_probe_closes_it_again_and_states_are_told() {
        use Answer::{Error, Good};
        let draws = [Error, Error, Error, Good, Good, Good].map(Draw);
        let service = Service::Flaky(draws.into());
        let pause = Duration::from_millis(1_500);
        let run = paused::run(call(&service, Way::Breaker, Until::Calls(6), pause)).unwrap();
        let states: Vec<&str> = run.calls.iter().map(|call| call.state.name()).collect();
        assert_eq!(states, ["closed", "closed", "open", "open", "closed", "closed"]);
        assert_eq!((run.count(Outcome::Refused), run.refused_in_error()), (1, 1));
        assert_eq!(run.lost(), SERVICE * 3);
    }

    #[test]
    fn a_flaky_service_keeps_its_shares() {
        let Service::Flaky(draws) = Service::flaky(20_000, 3) else { unreachable!() };
        for (answer, share) in [(Answer::Good, 0.6), (Answer::Error, 0.3), (Answer::Hang, 0.1)] {
            let found = draws.iter().filter(|draw| draw.0 == answer).count() as f64 / 20_000.0;
            assert!((found - share).abs() < 0.02, "{answer:?}: {found}");
        }
    }
}
