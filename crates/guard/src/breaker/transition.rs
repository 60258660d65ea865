//! When a breaker changes its state, and what each change does.
//!
//! Everything here runs under the breaker's lock, except for the look at the rules.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::circuit::{Breaker, FAILURES, SLOW, STATE_BITS, SUCCESSES, TRANSITIONS_MAX, state_of};
use super::fleet::Seat;
use super::half_open::Probes;
use super::last_calls::Seen;
use super::settings::Settings;
use super::state::{Cause, State, Transition};
use crate::rolling::nanos;

/// What only changes of state and probes need.
#[derive(Debug)]
pub(super) struct Inner {
    pub(super) since: Duration,
    pub(super) open_until: Duration,
    /// How often it opened since it was closed last.
    pub(super) openings: u32,
    pub(super) opened: u64,
    pub(super) probes: Probes,
    pub(super) probes_timed_out: u64,
    pub(super) spent: [Duration; State::COUNT],
    pub(super) log: VecDeque<Transition>,
    pub(super) random: fastrand::Rng,
    pub(super) seat: Option<Seat>,
    /// Changes that the observer has not heard of.
    pub(super) untold: Vec<Transition>,
}

impl Inner {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            since: Duration::ZERO,
            open_until: Duration::ZERO,
            openings: 0,
            opened: 0,
            probes: Probes::default(),
            probes_timed_out: 0,
            spent: [Duration::ZERO; State::COUNT],
            log: VecDeque::new(),
            random: fastrand::Rng::with_seed(seed),
            seat: None,
            untold: Vec::new(),
        }
    }

    fn note(&mut self, transition: Transition, is_observed: bool) {
        if self.log.len() == TRANSITIONS_MAX {
            self.log.pop_front();
        }
        self.log.push_back(transition);
        if is_observed {
            self.untold.push(transition);
        }
    }
}

impl Breaker {
    /// The rule that is broken, if one is.
    pub(super) fn tripped(&self, now_ns: u64) -> Option<Cause> {
        let Settings { consecutive_failures, failure_rate, slow_rate, .. } = self.settings;
        let in_a_row = self.consecutive.load(Ordering::SeqCst);
        if consecutive_failures.is_some_and(|most| in_a_row >= most) {
            return Some(Cause::ConsecutiveFailures);
        }
        if failure_rate.is_none() && slow_rate.is_none() {
            return None;
        }
        let seen = self.seen(now_ns);
        if seen.calls < u64::from(self.settings.calls_min) {
            return None;
        }
        let reaches = |part: u64, rate: Option<f64>| {
            rate.is_some_and(|r| part as f64 / seen.calls as f64 >= r)
        };
        if reaches(seen.failed, failure_rate) {
            return Some(Cause::FailureRate);
        }
        reaches(seen.slow, slow_rate).then_some(Cause::SlowRate)
    }

    pub(super) fn seen(&self, now_ns: u64) -> Seen {
        match &self.last_calls {
            Some(last_calls) => last_calls.seen(),
            None => {
                let recent = self.counts.recent(now_ns);
                Seen {
                    calls: recent[SUCCESSES] + recent[FAILURES],
                    failed: recent[FAILURES],
                    slow: recent[SLOW],
                }
            }
        }
    }

    /// Opens, if the state is still the one in which a rule was broken, the rule is still broken, and the fleet
    /// agrees.
    pub(super) fn trip(&self, inner: &mut Inner, word: u64, now: Duration) {
        if self.word.load(Ordering::Acquire) != word {
            return;
        }
        let Some(cause) = self.tripped(nanos(now)) else { return };
        if inner.seat.as_mut().is_none_or(Seat::ask_to_open) {
            self.change(inner, State::Open, now, cause);
        }
    }

    /// Decides what fell due up to now, as of when it fell due: an overdue probe opens the breaker at its timeout,
    /// and the open time that starts there may be over by now.
    pub(super) fn settle(&self, inner: &mut Inner, now: Duration) {
        if self.state() == State::HalfOpen
            && let Some(timeout) = self.settings.probe_timeout
            && let Some(due) = inner.probes.first_due(timeout).filter(|due| *due <= now)
        {
            inner.probes_timed_out += inner.probes.overdue(timeout, now) as u64;
            self.change(inner, State::Open, due, Cause::ProbeTimedOut);
        }
        if self.state() == State::Open && now >= inner.open_until {
            self.change(inner, State::HalfOpen, now, Cause::Recovery);
        }
    }

    pub(super) fn change(&self, inner: &mut Inner, to: State, at: Duration, cause: Cause) {
        let word = self.word.load(Ordering::Acquire);
        let from = state_of(word);
        inner.spent[from as usize] += at.saturating_sub(inner.since);
        inner.since = inner.since.max(at);
        inner.probes.clear();
        if let Some(seat) = &mut inner.seat {
            seat.follow(to.keeps_away());
        }
        match to {
            State::Open => {
                inner.opened += 1;
                inner.openings = inner.openings.saturating_add(1);
                let open_for = self.settings.open_time(inner.openings, &mut inner.random);
                inner.open_until = at.saturating_add(open_for);
                self.open_until_ns.store(nanos(inner.open_until), Ordering::Relaxed);
            }
            State::ForcedOpen => inner.opened += u64::from(from != State::ForcedOpen),
            State::HalfOpen => {}
            State::Closed | State::ForcedClosed => {
                inner.openings = 0;
                self.consecutive.store(0, Ordering::Relaxed);
                self.counts.reset(nanos(at));
                if let Some(last_calls) = &self.last_calls {
                    last_calls.empty();
                }
            }
        }
        let generation = (word >> STATE_BITS) + 1;
        self.word.store(generation << STATE_BITS | to as u64, Ordering::Release);
        inner.note(Transition { from, to, at, cause }, self.observer.is_some());
    }
}
