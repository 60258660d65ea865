//! The breaker itself: who may call, what an outcome changes, and each change of state.
//!
//! All of its state that a closed breaker reads or writes is atomic; [`Inner`] is behind a lock that is taken for
//! changes of state and probes only. The state and its generation share one word, so that one load tells both.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::fleet::Seat;
use super::half_open::Probes;
use super::last_calls::{LastCalls, Seen};
use super::metrics::Metrics;
use super::settings::{Settings, Window};
use super::state::{Cause, Outcome, Rejected, State, Transition};
use crate::rolling::{Rolling, nanos};
use crate::setting::Invalid;

/// How many changes of state are kept for [`Breaker::drain_transitions`]; the oldest are forgotten first.
pub const TRANSITIONS_MAX: usize = 64;

const STATE_BITS: u32 = 3;

const SUCCESSES: usize = 0;
const FAILURES: usize = 1;
const SLOW: usize = 2;
const IGNORED: usize = 3;
const CANCELLED: usize = 4;
const REJECTED: usize = 5;
const KINDS: usize = 6;

type Observer = Box<dyn Fn(&Transition) + Send + Sync>;

/// A circuit breaker, shared by reference among all threads that call the part.
pub struct Breaker {
    settings: Settings,
    /// The generation, and the state in the lowest bits.
    word: AtomicU64,
    /// Until when calls are refused without a look at [`Inner`]; valid while open.
    open_until_ns: AtomicU64,
    slow_after_ns: u64,
    consecutive: AtomicU32,
    /// One more than the time of the last failure; 0 if there was none.
    last_failure_ns: AtomicU64,
    counts: Rolling<KINDS>,
    /// Successes, failures and slow calls that were reported for an earlier generation.
    late: [AtomicU64; 3],
    last_calls: Option<LastCalls>,
    observer: Option<Observer>,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    since: Duration,
    open_until: Duration,
    /// How often it opened since it was closed last.
    openings: u32,
    opened: u64,
    probes: Probes,
    probes_timed_out: u64,
    spent: [Duration; State::COUNT],
    log: VecDeque<Transition>,
    random: fastrand::Rng,
    seat: Option<Seat>,
    /// Changes that the observer has not heard of.
    untold: Vec<Transition>,
}

/// What a permit knows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ticket {
    word: u64,
    started: Duration,
    /// The number of the probe; 0 for a call that is none.
    probe: u64,
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
        let inner = Inner {
            since: Duration::ZERO,
            open_until: Duration::ZERO,
            openings: 0,
            opened: 0,
            probes: Probes::default(),
            probes_timed_out: 0,
            spent: [Duration::ZERO; State::COUNT],
            log: VecDeque::new(),
            random: fastrand::Rng::with_seed(settings.seed),
            seat: None,
            untold: Vec::new(),
        };
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
            inner: Mutex::new(inner),
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

    /// Takes over how a call ended.
    #[inline]
    pub(super) fn report(&self, ticket: &Ticket, outcome: Outcome, now: Duration) {
        let failed = match outcome {
            Outcome::Success => false,
            Outcome::Failure => true,
            Outcome::Ignored => return self.ignored(ticket, now),
        };
        let now_ns = nanos(now);
        let slow = now_ns.saturating_sub(nanos(ticket.started)) > self.slow_after_ns;
        let word = self.word.load(Ordering::Acquire);
        if word != ticket.word {
            return self.count_late(failed, slow, now_ns);
        }
        if ticket.is_probe() {
            return self.locked(|inner| self.report_probe(inner, ticket, failed, slow, now));
        }
        self.count(failed, slow, now_ns);
        let bad = failed || (slow && self.settings.slow_rate.is_some());
        if bad && state_of(word) == State::Closed && self.tripped(now_ns).is_some() {
            self.locked(|inner| self.trip(inner, word, now));
        }
    }

    /// Takes over that a call ended without an outcome.
    pub(super) fn cancelled(&self, ticket: &Ticket, now: Option<Duration>) {
        if let (Some(now), Some(after)) = (now, self.settings.cancelled_fails_after)
            && now.saturating_sub(ticket.started) >= after
        {
            return self.report(ticket, Outcome::Failure, now);
        }
        self.counts.add_untimed(CANCELLED);
        self.free_probe(ticket, now);
    }

    #[cold]
    fn ignored(&self, ticket: &Ticket, now: Duration) {
        self.counts.add_untimed(IGNORED);
        self.free_probe(ticket, Some(now));
    }

    /// A probe that is known to be overdue has failed before it was called off; one of an earlier generation holds no
    /// place any more and must not move this one.
    fn free_probe(&self, ticket: &Ticket, now: Option<Duration>) {
        if !ticket.is_probe() {
            return;
        }
        self.locked(|inner| {
            if self.word.load(Ordering::Acquire) != ticket.word {
                return;
            }
            if let Some(now) = now {
                self.settle(inner, now);
            }
            inner.probes.end(ticket.probe);
        });
    }

    fn count(&self, failed: bool, slow: bool, now_ns: u64) {
        if slow {
            self.counts.add_visibly(SLOW, now_ns);
        }
        if let Some(last_calls) = &self.last_calls {
            last_calls.push(failed, slow);
        }
        if failed {
            self.counts.add_visibly(FAILURES, now_ns);
            self.consecutive.fetch_add(1, Ordering::SeqCst);
            self.note_failure(now_ns);
            return;
        }
        self.counts.add(SUCCESSES, now_ns);
        if self.consecutive.load(Ordering::Relaxed) != 0 {
            self.consecutive.store(0, Ordering::Relaxed);
        }
    }

    #[cold]
    fn count_late(&self, failed: bool, slow: bool, now_ns: u64) {
        self.late[if failed { FAILURES } else { SUCCESSES }].fetch_add(1, Ordering::Relaxed);
        if slow {
            self.late[SLOW].fetch_add(1, Ordering::Relaxed);
        }
        if failed {
            self.note_failure(now_ns);
        }
    }

    fn note_failure(&self, now_ns: u64) {
        self.last_failure_ns.fetch_max(now_ns.saturating_add(1), Ordering::Relaxed);
    }

    /// The rule that is broken, if one is.
    fn tripped(&self, now_ns: u64) -> Option<Cause> {
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

    fn seen(&self, now_ns: u64) -> Seen {
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
    fn trip(&self, inner: &mut Inner, word: u64, now: Duration) {
        if self.word.load(Ordering::Acquire) != word {
            return;
        }
        let Some(cause) = self.tripped(nanos(now)) else { return };
        if inner.seat.as_mut().is_none_or(Seat::ask_to_open) {
            self.change(inner, State::Open, now, cause);
        }
    }

    fn report_probe(
        &self,
        inner: &mut Inner,
        ticket: &Ticket,
        failed: bool,
        slow: bool,
        now: Duration,
    ) {
        let now_ns = nanos(now);
        let is_current = || self.word.load(Ordering::Acquire) == ticket.word;
        if is_current() {
            self.settle(inner, now);
        }
        if !is_current() {
            return self.count_late(failed, slow, now_ns);
        }
        self.count(failed, slow, now_ns);
        inner.probes.end(ticket.probe);
        if failed || (slow && self.settings.slow_rate.is_some()) {
            return self.change(inner, State::Open, now, Cause::ProbeFailed);
        }
        inner.probes.successes += 1;
        if inner.probes.successes >= self.settings.successes_to_close {
            self.change(inner, State::Closed, now, Cause::ProbesSucceeded);
        }
    }

    /// Decides what fell due up to now, as of when it fell due: an overdue probe opens the breaker at its timeout,
    /// and the open time that starts there may be over by now.
    fn settle(&self, inner: &mut Inner, now: Duration) {
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

    fn change(&self, inner: &mut Inner, to: State, at: Duration, cause: Cause) {
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
    fn locked<R>(&self, action: impl FnOnce(&mut Inner) -> R) -> R {
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

impl Inner {
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

fn state_of(word: u64) -> State {
    State::from_bits(word & ((1 << STATE_BITS) - 1))
}

fn rejected(state: State, retry_after: Option<Duration>) -> Rejected {
    Rejected { state, retry_after }
}
