//! Every state and what each event makes of it.

use std::sync::{Arc, Mutex};

use super::super::{Cause, Outcome, Rejected, TRANSITIONS_MAX, Transition, Window};
use super::*;

use State::{Closed, ForcedClosed, ForcedOpen, HalfOpen, Open};

/// An event, and what becomes of closed, open, half-open, forced open, forced closed.
type Row = (&'static str, fn(&Breaker), [State; 5]);

#[test]
fn every_state_and_every_event() {
    let states = [Closed, Open, HalfOpen, ForcedOpen, ForcedClosed];
    let table: &[Row] = &[
        ("one success", |b| call_at(b, 1_050, Outcome::Success), states),
        (
            "two successes",
            |b| (0..2).for_each(|_| call_at(b, 1_050, Outcome::Success)),
            [Closed, Open, Closed, ForcedOpen, ForcedClosed],
        ),
        (
            "one failure",
            |b| call_at(b, 1_050, Outcome::Failure),
            [Closed, Open, Open, ForcedOpen, ForcedClosed],
        ),
        (
            "two failures",
            |b| (0..2).for_each(|_| call_at(b, 1_050, Outcome::Failure)),
            [Open, Open, Open, ForcedOpen, ForcedClosed],
        ),
        ("two ignored", |b| (0..2).for_each(|_| call_at(b, 1_050, Outcome::Ignored)), states),
        ("a call that is dropped", |b| drop(b.admit(at(1_050))), states),
        ("asked before the open time is over", |b| drop(b.admit(at(1_999))), states),
        (
            "asked after the open time",
            |b| drop(b.admit(at(2_000))),
            [Closed, HalfOpen, HalfOpen, ForcedOpen, ForcedClosed],
        ),
        (
            "success after the open time, twice",
            |b| (0..2).for_each(|_| call_at(b, 2_000, Outcome::Success)),
            [Closed, Closed, Closed, ForcedOpen, ForcedClosed],
        ),
        (
            "failure after the open time",
            |b| call_at(b, 2_000, Outcome::Failure),
            [Closed, Open, Open, ForcedOpen, ForcedClosed],
        ),
        ("a call that is never reported, asked in time", |b| forget_then_ask(b, 1_099), states),
        (
            "a call that is never reported, asked after the probe timeout",
            |b| forget_then_ask(b, 1_100),
            [Closed, Open, Open, ForcedOpen, ForcedClosed],
        ),
        (
            "a call that is never reported, asked when the next open time is over too",
            |b| forget_then_ask(b, 2_100),
            [Closed, HalfOpen, HalfOpen, ForcedOpen, ForcedClosed],
        ),
        (
            "a success that took as long as the probe timeout, twice",
            |b| (0..2).for_each(|_| long_success(b)),
            [Closed, Open, Open, ForcedOpen, ForcedClosed],
        ),
        ("forced open", |b| b.force_open(at(1_050)), [ForcedOpen; 5]),
        ("forced closed", |b| b.force_closed(at(1_050)), [ForcedClosed; 5]),
        ("reset", |b| b.reset(at(1_050)), [Closed; 5]),
    ];
    for (event, apply, expected) in table {
        for (from, to) in states.into_iter().zip(expected) {
            let breaker = breaker_in(from);
            apply(&breaker);
            assert_eq!(breaker.state(), *to, "{from} after {event}");
        }
    }
}

fn call_at(breaker: &Breaker, ms: u64, outcome: Outcome) {
    if let Ok(permit) = breaker.admit(at(ms)) {
        permit.record(outcome, at(ms));
    }
}

fn forget_then_ask(breaker: &Breaker, ask_ms: u64) {
    if let Ok(permit) = breaker.admit(at(1_000)) {
        std::mem::forget(permit);
    }
    drop(breaker.admit(at(ask_ms)));
}

fn long_success(breaker: &Breaker) {
    if let Ok(permit) = breaker.admit(at(1_000)) {
        permit.success(at(1_100));
    }
}

#[test]
fn a_report_from_an_earlier_generation_decides_nothing() {
    for outcome in [Outcome::Success, Outcome::Failure] {
        // Admitted while closed, reported while half-open.
        let breaker = breaker(settings());
        let old = [breaker.admit(at(0)).unwrap(), breaker.admit(at(0)).unwrap()];
        fail(&breaker, 2, at(0));
        drop(breaker.admit(at(1_000)).unwrap());
        assert_eq!(breaker.state(), HalfOpen);
        old.into_iter().for_each(|permit| permit.record(outcome, at(1_001)));
        assert_eq!(breaker.state(), HalfOpen, "late {outcome:?}");

        // Admitted while closed, reported when closed again.
        let old = breaker.admit(at(1_010)).unwrap();
        breaker.reset(at(1_010));
        let older = breaker.admit(at(1_010)).unwrap();
        breaker.reset(at(1_010));
        for permit in [old, older] {
            permit.record(outcome, at(1_015));
        }
        assert_eq!((breaker.state(), breaker.metrics(at(1_015)).consecutive_failures), (Closed, 0));
        fail(&breaker, 2, at(1_015));
        drop(breaker.admit(at(2_015)).unwrap());

        // Admitted as a probe, reported when closed again.
        let probe = breaker.admit(at(2_020)).unwrap();
        breaker.reset(at(2_020));
        probe.record(outcome, at(2_030));
        assert_eq!((breaker.state(), breaker.metrics(at(2_030)).failure_rate), (Closed, 0.0));
        fail(&breaker, 1, at(2_040));
        assert_eq!(breaker.state(), Closed, "a late {outcome:?} is no failure in a row");
        assert_eq!(breaker.metrics(at(2_040)).calls, 10, "but it is counted");
    }
}

#[test]
fn a_probe_that_is_called_off_late_does_not_move_the_breaker() {
    let breaker = breaker_in(HalfOpen);
    let [old, other] = [breaker.admit(at(1_000)).unwrap(), breaker.admit(at(1_000)).unwrap()];
    other.failure(at(1_010));
    // The open time is over, but nobody has asked to call.
    old.cancel(at(2_500));
    assert_eq!(breaker.state(), Open);
}

#[test]
fn half_open_lets_as_many_in_as_there_are_permits_and_takes_them_back() {
    let breaker = breaker_in(HalfOpen);
    let first = breaker.admit(at(1_000)).unwrap();
    let second = breaker.admit(at(1_000)).unwrap();
    assert!(first.is_probe() && first.time_limit() == Some(at(100)));
    let refused = Rejected { state: HalfOpen, retry_after: None };
    assert_eq!(breaker.admit(at(1_000)).unwrap_err(), refused);
    assert_eq!(breaker.check(at(1_000)), Err(refused));
    drop(first);
    assert_eq!(breaker.check(at(1_000)), Ok(()));
    let third = breaker.admit(at(1_000)).unwrap();
    second.cancel(at(1_010));
    let fourth = breaker.admit(at(1_010)).unwrap();
    third.success(at(1_010));
    assert_eq!(breaker.state(), HalfOpen);
    fourth.success(at(1_010));
    assert_eq!(breaker.state(), Closed);
    assert_eq!(breaker.metrics(at(1_010)).cancelled, 3);
}

#[test]
fn refusals_say_how_long_to_wait() {
    let open = breaker_in(Open);
    let refused = open.admit(at(1_400)).unwrap_err();
    assert_eq!(refused, Rejected { state: Open, retry_after: Some(at(600)) });
    assert_eq!(refused.to_string(), "the breaker is open and refuses the call; try again in 600ms");
    let forced = breaker_in(ForcedOpen).admit(at(9_000)).unwrap_err();
    assert_eq!(forced, Rejected { state: ForcedOpen, retry_after: None });
}

#[test]
fn a_rate_needs_its_minimum_of_calls_and_a_bad_call() {
    for window in [Window::Calls(10), Window::Time(at(10_000))] {
        let breaker = breaker(Settings {
            window,
            calls_min: 4,
            failure_rate: Some(0.5),
            consecutive_failures: None,
            ..settings()
        });
        fail(&breaker, 3, at(0));
        assert_eq!(breaker.state(), Closed, "three calls are no rate");
        call_at(&breaker, 0, Outcome::Success);
        assert_eq!(breaker.state(), Closed, "a good call never opens");
        assert_eq!(breaker.metrics(at(0)).failure_rate, 0.75);
        fail(&breaker, 1, at(0));
        assert_eq!(breaker.state(), Open);
        assert_eq!(breaker.drain_transitions()[0].cause, Cause::FailureRate);
    }
}

#[test]
fn slow_calls_open_and_slow_probes_do_not_close() {
    let slow = Settings {
        window: Window::Calls(10),
        calls_min: 2,
        slow_rate: Some(1.0),
        slow_after: at(50),
        ..settings()
    };
    let breaker = breaker(slow);
    let mut now = 0;
    let mut slow_call = || {
        let permit = breaker.admit(at(now)).unwrap();
        permit.success(at(now + 51));
        now += 1_100;
    };
    slow_call();
    assert_eq!(breaker.state(), Closed);
    slow_call();
    assert_eq!(breaker.state(), Open);
    slow_call();
    assert_eq!(breaker.state(), Open);
    let causes: Vec<Cause> = breaker.drain_transitions().iter().map(|t| t.cause).collect();
    assert_eq!(causes, [Cause::SlowRate, Cause::Recovery, Cause::ProbeFailed]);
    assert_eq!(breaker.metrics(at(now)).slow, 3);
}

#[test]
fn a_call_that_hung_and_was_dropped_counts_as_failed_if_that_is_set() {
    for (after, state) in [(None, Closed), (Some(at(1_000)), Open), (Some(at(1_001)), Closed)] {
        let breaker = breaker(Settings { cancelled_fails_after: after, ..settings() });
        for _ in 0..2 {
            breaker.admit(at(0)).unwrap().cancel(at(1_000));
        }
        assert_eq!(breaker.state(), state, "{after:?}");
    }
}

#[test]
fn the_open_time_grows_while_probes_fail_and_starts_over_when_closed() {
    let breaker = breaker(Settings {
        open_factor: 2.0,
        open_for_max: at(3_000),
        successes_to_close: 1,
        ..settings()
    });
    let mut now = at(0);
    fail(&breaker, 2, now);
    for expected_ms in [1_000, 2_000, 3_000, 3_000] {
        let wait = breaker.check(now).unwrap_err().retry_after.unwrap();
        assert_eq!(wait, at(expected_ms));
        now += wait;
        fail(&breaker, 1, now);
    }
    now += at(3_000);
    breaker.admit(now).unwrap().success(now);
    fail(&breaker, 2, now);
    assert_eq!(breaker.check(now).unwrap_err().retry_after, Some(at(1_000)));
}

#[test]
fn metrics_add_up() {
    let breaker = breaker(settings());
    let permit = breaker.admit(at(0)).unwrap();
    permit.success(at(10));
    breaker.admit(at(10)).unwrap().record(Outcome::Ignored, at(10));
    drop(breaker.admit(at(20)).unwrap());
    fail(&breaker, 2, at(500));
    assert!(breaker.admit(at(600)).is_err() && breaker.admit(at(700)).is_err());
    let metrics = breaker.metrics(at(800));
    assert_eq!((metrics.state, metrics.in_state), (Open, at(300)));
    assert_eq!((metrics.calls, metrics.successes, metrics.failures), (3, 1, 2));
    assert_eq!((metrics.ignored, metrics.cancelled, metrics.rejected), (1, 1, 2));
    assert_eq!((metrics.opened, metrics.consecutive_failures), (1, 2));
    assert_eq!(metrics.last_failure, Some(at(500)));
    assert_eq!((metrics.spent_in(Closed), metrics.spent_in(Open)), (at(500), at(300)));
}

#[test]
fn transitions_are_observed_in_order_and_the_log_is_bounded() {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let observer = Arc::clone(&heard);
    let breaker = breaker(settings()).observed_by(move |t| observer.lock().unwrap().push(*t));
    fail(&breaker, 2, at(5));
    drop(breaker.admit(at(1_005)).unwrap());
    let expected = [
        Transition { from: Closed, to: Open, at: at(5), cause: Cause::ConsecutiveFailures },
        Transition { from: Open, to: HalfOpen, at: at(1_005), cause: Cause::Recovery },
    ];
    assert_eq!(*heard.lock().unwrap(), expected);
    assert_eq!(breaker.drain_transitions(), expected);
    (0..1_000).for_each(|n| breaker.force_open(at(2_000 + n)));
    assert_eq!(breaker.drain_transitions().len(), TRANSITIONS_MAX);
    assert_eq!(breaker.drain_transitions(), []);
}
