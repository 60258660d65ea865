//! The breaker against its table of transitions, against a slow reference, and under threads.

mod fleet;
mod model;
mod table;
mod threads;

use std::time::Duration;

use super::{Breaker, Settings, State};

fn at(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Two failures in a row open it for a second; two probes at once; two successes close it; probes have 100 ms.
fn settings() -> Settings {
    Settings {
        consecutive_failures: Some(2),
        open_for: at(1_000),
        probes: 2,
        successes_to_close: 2,
        probe_timeout: Some(at(100)),
        ..Settings::for_quick_recovery()
    }
}

fn breaker(settings: Settings) -> Breaker {
    Breaker::new(settings).unwrap()
}

fn fail(breaker: &Breaker, times: u32, now: Duration) {
    for _ in 0..times {
        breaker.admit(now).unwrap().failure(now);
    }
}

/// A breaker that has been brought into this state by time 1,000.
fn breaker_in(state: State) -> Breaker {
    let breaker = breaker(settings());
    match state {
        State::Closed => {}
        State::Open => fail(&breaker, 2, at(1_000)),
        State::HalfOpen => {
            fail(&breaker, 2, at(0));
            drop(breaker.admit(at(1_000)).unwrap());
        }
        State::ForcedOpen => breaker.force_open(at(1_000)),
        State::ForcedClosed => breaker.force_closed(at(1_000)),
    }
    assert_eq!(breaker.state(), state);
    breaker
}
