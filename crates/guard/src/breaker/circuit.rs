//! The breaker itself: what it holds, who may call, and what it tells about itself.
//!
//! What an outcome changes is in `report`, each change of state in `transition`. All that a closed breaker reads or
//! writes is atomic; [`Inner`] is behind a lock that is taken for changes of state and probes only. The state and its
//! generation share one word, so that one load tells both.

use std::fmt;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::fleet::Seat;
use super::last_calls::LastCalls;
use super::metrics::Metrics;
use super::settings::{Settings, Window};
use super::state::{Cause, Rejected, State, Transition};
use super::transition::Inner;
use crate::rolling::{Rolling, nanos};
use crate::setting::Invalid;

/// How many changes of state are kept for [`Breaker::drain_transitions`]; the oldest are forgotten first.
pub const TRANSITIONS_MAX: usize = 64;

pub(super) const STATE_BITS: u32 = 3;

pub(super) const SUCCESSES: usize = 0;
pub(super) const FAILURES: usize = 1;
pub(super) const SLOW: usize = 2;
pub(super) const IGNORED: usize = 3;
pub(super) const CANCELLED: usize = 4;
const REJECTED: usize = 5;
const KINDS: usize = 6;

type Observer = Box<dyn Fn(&Transition) + Send + Sync>;

/// A circuit breaker, shared by reference among all threads that call the part.
pub struct Breaker {
    pub(super) settings: Settings,
    /// The generation, and the state in the lowest bits.
    pub(super) word: AtomicU64,
    /// Until when calls are refused without a look at [`Inner`]; valid while open.
    pub(super) open_until_ns: AtomicU64,
    pub(super) slow_after_ns: u64,
    pub(super) consecutive: AtomicU32,
    /// One more than the time of the last failure; 0 if there was none.
    pub(super) last_failure_ns: AtomicU64,
    pub(super) counts: Rolling<KINDS>,
    /// Successes, failures and slow calls that were reported for an earlier generation.
    pub(super) late: [AtomicU64; 3],
    pub(super) last_calls: Option<LastCalls>,
    pub(super) observer: Option<Observer>,
    pub(super) inner: Mutex<Inner>,
}

/// What a permit knows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ticket {
    pub(super) word: u64,
    pub(super) started: Duration,
    /// The number of the probe; 0 for a call that is none.
    pub(super) probe: u64,
}

impl Ticket {
    pub(super) fn is_probe(&self) -> bool {
        self.probe != 0
    }
}

impl Breaker {
    /// A closed breaker.
    pub fn new(settings: Settings) -> Result<Self, Invalid> {
        settings.check()?;
        let (counts, last_calls) = match settings.window {
            Window::Calls(calls) => (Rolling::since_reset(), Some(LastCalls::new(calls))),
            Window::Time(span) => (Rolling::over(span), None),
        };
        let has_rates = settings.failure_rate.is_some() || settings.slow_rate.is_some();
        Ok(Self {
            word: AtomicU64::new(State::Closed as u64),
            open_until_ns: AtomicU64::new(0),
            slow_after_ns: nanos(settings.slow_after),
            consecutive: AtomicU32::new(0),
            last_failure_ns: AtomicU64::new(0),
            counts,
            late: std::array::from_fn(|_| AtomicU64::new(0)),
            last_calls: last_calls.filter(|_| has_rates),
            observer: None,
            inner: Mutex::new(Inner::new(settings.seed)),
            settings,
        })
    }

    /// Calls this after each change of state, on the thread that caused it and outside of any lock.
    #[must_use]
    pub fn observed_by(mut self, observer: impl Fn(&Transition) + Send + Sync + 'static) -> Self {
        self.observer = Some(Box::new(observer));
        self
    }

    pub(super) fn in_fleet(self, seat: Seat) -> Self {
        self.lock().seat = Some(seat);
        self
    }

    /// What was set.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The state that was decided last. An open breaker whose time is over stays open until somebody asks to call.
    pub fn state(&self) -> State {
        state_of(self.word.load(Ordering::Acquire))
    }

    /// Whether a call would be let in at that time, as far as is known now. Takes nothing and changes nothing.
    pub fn check(&self, at: Duration) -> Result<(), Rejected> {
        match self.state() {
            State::Closed | State::ForcedClosed => Ok(()),
            State::Open => match self.open_left(at) {
                Some(left) => Err(rejected(State::Open, Some(left))),
                None => Ok(()),
            },
            State::HalfOpen => {
                let inner = self.lock();
                let overdue =
                    self.settings.probe_timeout.map_or(0, |limit| inner.probes.overdue(limit, at));
                if overdue == 0 && self.has_free_probe(&inner) {
                    return Ok(());
                }
                Err(rejected(State::HalfOpen, None))
            }
            State::ForcedOpen => Err(rejected(State::ForcedOpen, None)),
        }
    }

    /// Refuses all calls until [`Breaker::reset`] or [`Breaker::force_closed`].
    pub fn force_open(&self, now: Duration) {
        self.locked(|inner| self.change(inner, State::ForcedOpen, now, Cause::Forced));
    }

    /// Lets all calls pass, whatever happens to them, until [`Breaker::reset`] or [`Breaker::force_open`].
    pub fn force_closed(&self, now: Duration) {
        self.locked(|inner| self.change(inner, State::ForcedClosed, now, Cause::Forced));
    }

    /// Closes it, with nothing remembered, and leaves it to its rules.
    pub fn reset(&self, now: Duration) {
        self.locked(|inner| self.change(inner, State::Closed, now, Cause::Reset));
    }

    /// The last changes of state, oldest first, at most [`TRANSITIONS_MAX`]; each is handed out once.
    pub fn drain_transitions(&self) -> Vec<Transition> {
        self.lock().log.drain(..).collect()
    }

    /// The numbers as of now.
    pub fn metrics(&self, now: Duration) -> Metrics {
        let seen = self.seen(nanos(now));
        let share = |part: u64| if seen.calls == 0 { 0.0 } else { part as f64 / seen.calls as f64 };
        let totals = self.counts.totals();
        let with_late = |kind: usize| totals[kind] + self.late[kind].load(Ordering::Relaxed);
        let inner = self.lock();
        let state = self.state();
        let in_state = now.saturating_sub(inner.since);
        let mut spent = inner.spent;
        spent[state as usize] += in_state;
        Metrics {
            state,
            in_state,
            calls: with_late(SUCCESSES) + with_late(FAILURES),
            successes: with_late(SUCCESSES),
            failures: with_late(FAILURES),
            slow: with_late(SLOW),
            ignored: totals[IGNORED],
            cancelled: totals[CANCELLED],
            rejected: totals[REJECTED],
            probes_timed_out: inner.probes_timed_out,
            opened: inner.opened,
            failure_rate: share(seen.failed),
            slow_rate: share(seen.slow),
            consecutive_failures: self.consecutive.load(Ordering::Relaxed),
            last_failure: self
                .last_failure_ns
                .load(Ordering::Relaxed)
                .checked_sub(1)
                .map(Duration::from_nanos),
            spent,
        }
    }

    /// Asks to make a call.
    #[inline]
    pub(super) fn enter(&self, now: Duration) -> Result<Ticket, Rejected> {
        let word = self.word.load(Ordering::Acquire);
        match state_of(word) {
            State::Closed | State::ForcedClosed => Ok(Ticket { word, started: now, probe: 0 }),
            State::Open | State::HalfOpen | State::ForcedOpen => {
                self.enter_guarded(state_of(word), now)
            }
        }
    }

    #[cold]
    fn enter_guarded(&self, state: State, now: Duration) -> Result<Ticket, Rejected> {
        let answer = match (state, self.open_left(now)) {
            (State::ForcedOpen, _) => Err(rejected(State::ForcedOpen, None)),
            (State::Open, Some(left)) => Err(rejected(State::Open, Some(left))),
            _ => self.locked(|inner| self.enter_locked(inner, now)),
        };
        if answer.is_err() {
            self.counts.add_untimed(REJECTED);
        }
        answer
    }

    fn enter_locked(&self, inner: &mut Inner, now: Duration) -> Result<Ticket, Rejected> {
        self.settle(inner, now);
        let word = self.word.load(Ordering::Acquire);
        match state_of(word) {
            State::Closed | State::ForcedClosed => Ok(Ticket { word, started: now, probe: 0 }),
            State::HalfOpen if self.has_free_probe(inner) => {
                Ok(Ticket { word, started: now, probe: inner.probes.start(now) })
            }
            State::Open => Err(rejected(State::Open, Some(inner.open_until.saturating_sub(now)))),
            state @ (State::HalfOpen | State::ForcedOpen) => Err(rejected(state, None)),
        }
    }

    /// How much of the open time is left.
    fn open_left(&self, now: Duration) -> Option<Duration> {
        let left = self.open_until_ns.load(Ordering::Relaxed).checked_sub(nanos(now))?;
        (left > 0).then(|| Duration::from_nanos(left))
    }

    fn has_free_probe(&self, inner: &Inner) -> bool {
        inner.probes.count() < self.settings.probes as usize
    }

    #[cfg(test)]
    pub(super) fn probes_under_way(&self) -> usize {
        self.lock().probes.count()
    }

    /// Runs under the lock, and tells the observer after it.
    pub(super) fn locked<R>(&self, action: impl FnOnce(&mut Inner) -> R) -> R {
        let mut inner = self.lock();
        let result = action(&mut inner);
        let untold = std::mem::take(&mut inner.untold);
        drop(inner);
        if let Some(observer) = &self.observer {
            untold.iter().for_each(observer);
        }
        result
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Breaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Breaker")
            .field("state", &self.state())
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

pub(super) fn state_of(word: u64) -> State {
    State::from_bits(word & ((1 << STATE_BITS) - 1))
}

fn rejected(state: State, retry_after: Option<Duration>) -> Rejected {
    Rejected { state, retry_after }
}
