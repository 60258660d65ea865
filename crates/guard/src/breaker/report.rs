//! What the end of a call changes: counts, and the state if it was a bad end or a probe's.
//!
//! A good end of an ordinary call is a few additions; only bad ends look at the rules, and only probes take the lock.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::circuit::{Breaker, CANCELLED, FAILURES, IGNORED, SLOW, SUCCESSES, Ticket, state_of};
use super::state::{Cause, Outcome, State};
use super::transition::Inner;
use crate::rolling::nanos;

impl Breaker {
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
}
