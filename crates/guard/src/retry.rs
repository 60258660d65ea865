//! Whether a failed call is tried again, and when.
//!
//! It decides after each failure from what the caller thinks of the error, how often it was tried, the time that is
//! left, the guards that stand in the way, and the budget. It does not run or wait (`shell::retry` does) and does
//! not know errors: the caller gives a [`Verdict`] on each.
//!
//! Rules, in this order; the first that says no ends it: the verdict; the number of tries; a wait that the other side
//! asked for and that is too long; every [`Gate`] as of the moment of the next try (never into an open breaker; a
//! rate limit makes the wait longer); the deadline; the budget, which is asked last, since asking spends.
//!
//! A try is worth making only if it can go through and its answer can still arrive, which is why all of this is
//! asked before the wait and not after it. At first start nothing is known, and only the budget's floor pays.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::backoff::Backoff;
use crate::breaker::Breaker;
use crate::budget::Budget;
use crate::rate::{Limiter, Refused};
use crate::setting::{self, Invalid};

/// The most tries that can be set.
pub const ATTEMPTS_MAX: u32 = 1_000;

/// What the caller thinks of the end of a try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Take it as it is: it went well, or trying again would not help.
    Stop,
    /// Trying again may help.
    Retry,
    /// Trying again may help, but not before this time has passed.
    RetryAfter(Duration),
}

/// What to do after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Wait this long, then try again.
    RetryIn(Duration),
    /// Do not try again.
    GiveUp(Reason),
}

/// Why there is no other try.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// The verdict on the error.
    #[error("trying again would not help")]
    Stopped,
    /// It was tried often enough.
    #[error("all tries are used up")]
    AttemptsSpent,
    /// The other side asked for a longer wait than `retry_after_max`.
    #[error("the wait that was asked for is too long")]
    RetryAfterTooLong,
    /// A guard would not let the next try through.
    #[error("a guard refuses the next try")]
    GateClosed,
    /// The next try would start at the deadline or after it.
    #[error("no time is left for another try")]
    DeadlineTooNear,
    /// Too many calls are retried already.
    #[error("the retry budget is spent")]
    BudgetSpent,
}

/// Something in the way of a try that can be asked beforehand.
pub trait Gate: Send + Sync {
    /// Whether a try at that time would get through, as far as is known now. Takes nothing.
    fn ask(&self, at: Duration) -> Result<(), Refusal>;
}

/// The answer of a [`Gate`] that is not open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It is open this much later.
    Wait(Duration),
    /// Do not try.
    Closed,
}

impl Gate for Breaker {
    fn ask(&self, at: Duration) -> Result<(), Refusal> {
        self.check(at).map_err(|_| Refusal::Closed)
    }
}

impl Gate for Limiter {
    fn ask(&self, at: Duration) -> Result<(), Refusal> {
        self.peek(1, at).map_err(|refused| match refused {
            Refused::Wait(wait) => Refusal::Wait(wait),
            Refused::TooCostly { .. } => Refusal::Closed,
        })
    }
}

/// How often, how soon and how long.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// How many tries there are, the first one included.
    pub attempts_max: u32,
    /// The waits between them.
    pub backoff: Backoff,
    /// The longest wait that the other side may ask for.
    pub retry_after_max: Duration,
    /// No try starts later than this after the first.
    pub total_max: Option<Duration>,
    /// Where the jitter starts.
    pub seed: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            attempts_max: 3,
            backoff: Backoff::default(),
            retry_after_max: Duration::from_secs(60),
            total_max: None,
            seed: 0,
        }
    }
}

impl Settings {
    /// Refuses what makes no sense.
    pub fn check(&self) -> Result<(), Invalid> {
        setting::count("attempts_max", self.attempts_max, ATTEMPTS_MAX)?;
        setting::span("retry_after_max", self.retry_after_max)?;
        match self.total_max {
            Some(total) => setting::span("total_max", total),
            None => Ok(()),
        }
    }
}

/// Decides for many calls at once; shared by reference.
pub struct Policy {
    settings: Settings,
    budget: Option<Arc<Budget>>,
    gates: Vec<Arc<dyn Gate>>,
    begun: AtomicU64,
}

/// One call and its tries so far.
#[derive(Clone, Debug)]
pub struct Attempts {
    made: u32,
    deadline: Option<Duration>,
    random: fastrand::Rng,
}

impl Attempts {
    /// How many tries were begun.
    pub fn made(&self) -> u32 {
        self.made
    }
}

impl Policy {
    /// Retries without a budget and without gates.
    pub fn new(settings: Settings) -> Result<Self, Invalid> {
        settings.check()?;
        Ok(Self { settings, budget: None, gates: Vec::new(), begun: AtomicU64::new(0) })
    }

    /// Pays for each retry from this budget.
    #[must_use]
    pub fn with_budget(mut self, budget: Arc<Budget>) -> Self {
        self.budget = Some(budget);
        self
    }

    /// Asks this guard before each retry: a breaker, a rate limiter, or one of your own.
    #[must_use]
    pub fn with_gate(mut self, gate: Arc<dyn Gate>) -> Self {
        self.gates.push(gate);
        self
    }

    /// What was set.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Begins a call with its first try. No retry starts at the deadline or after it.
    pub fn begin(&self, deadline: Option<Duration>, now: Duration) -> Attempts {
        let number = self.begun.fetch_add(1, Ordering::Relaxed);
        let last = self.settings.total_max.map(|total| now.saturating_add(total));
        Attempts {
            made: 1,
            deadline: deadline.into_iter().chain(last).min(),
            random: fastrand::Rng::with_seed(self.settings.seed.wrapping_add(number)),
        }
    }

    /// A try went well: it pays into the budget.
    pub fn succeeded(&self, now: Duration) {
        if let Some(budget) = &self.budget {
            budget.success(now);
        }
    }

    /// A try failed: decides whether there is another one, and counts it.
    pub fn failed(&self, attempts: &mut Attempts, verdict: Verdict, now: Duration) -> Decision {
        match self.wait(attempts, verdict, now) {
            Ok(wait) => {
                attempts.made += 1;
                Decision::RetryIn(wait)
            }
            Err(reason) => Decision::GiveUp(reason),
        }
    }

    fn wait(
        &self,
        attempts: &mut Attempts,
        verdict: Verdict,
        now: Duration,
    ) -> Result<Duration, Reason> {
        let asked_for = match verdict {
            Verdict::Stop => return Err(Reason::Stopped),
            Verdict::Retry => Duration::ZERO,
            Verdict::RetryAfter(wait) => wait,
        };
        if attempts.made >= self.settings.attempts_max {
            return Err(Reason::AttemptsSpent);
        }
        if asked_for > self.settings.retry_after_max {
            return Err(Reason::RetryAfterTooLong);
        }
        let backoff = self.settings.backoff.wait(attempts.made, &mut attempts.random);
        let wait = self.past_the_gates(backoff.max(asked_for), now)?;
        if attempts.deadline.is_some_and(|deadline| now.saturating_add(wait) >= deadline) {
            return Err(Reason::DeadlineTooNear);
        }
        if self.budget.as_ref().is_some_and(|budget| !budget.try_spend(now)) {
            return Err(Reason::BudgetSpent);
        }
        Ok(wait)
    }

    /// The wait after which every gate lets the try through.
    fn past_the_gates(&self, wait: Duration, now: Duration) -> Result<Duration, Reason> {
        self.gates.iter().try_fold(wait, |wait, gate| match gate.ask(now.saturating_add(wait)) {
            Ok(()) => Ok(wait),
            Err(Refusal::Wait(more)) => Ok(wait.saturating_add(more)),
            Err(Refusal::Closed) => Err(Reason::GateClosed),
        })
    }
}

impl fmt::Debug for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Policy")
            .field("settings", &self.settings)
            .field("budget", &self.budget)
            .field("gates", &self.gates.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rate::Quota;
    use crate::{breaker, budget};

    const SECOND: Duration = Duration::from_secs(1);

    fn settings() -> Settings {
        let backoff = Backoff::constant(SECOND).unwrap();
        Settings { attempts_max: 4, backoff, ..Settings::default() }
    }

    fn policy() -> Policy {
        Policy::new(settings()).unwrap()
    }

    fn after_one_failure(policy: &Policy, verdict: Verdict) -> Decision {
        policy.failed(&mut policy.begin(None, SECOND), verdict, SECOND)
    }

    #[test]
    fn it_tries_as_often_as_set() {
        let policy = policy();
        let mut attempts = policy.begin(None, Duration::ZERO);
        for made in 1..4 {
            assert_eq!(attempts.made(), made);
            let decision = policy.failed(&mut attempts, Verdict::Retry, Duration::ZERO);
            assert_eq!(decision, Decision::RetryIn(SECOND));
        }
        let decision = policy.failed(&mut attempts, Verdict::Retry, Duration::ZERO);
        assert_eq!(decision, Decision::GiveUp(Reason::AttemptsSpent));
        assert_eq!(attempts.made(), 4);
    }

    #[test]
    fn the_verdict_comes_first() {
        let table = [
            (Verdict::Stop, Decision::GiveUp(Reason::Stopped)),
            (Verdict::Retry, Decision::RetryIn(SECOND)),
            (Verdict::RetryAfter(SECOND / 2), Decision::RetryIn(SECOND)),
            (Verdict::RetryAfter(SECOND * 7), Decision::RetryIn(SECOND * 7)),
            (Verdict::RetryAfter(SECOND * 61), Decision::GiveUp(Reason::RetryAfterTooLong)),
        ];
        for (verdict, expected) in table {
            assert_eq!(after_one_failure(&policy(), verdict), expected, "{verdict:?}");
        }
    }

    #[test]
    fn no_try_starts_at_the_deadline_or_later() {
        let policy = policy();
        for (deadline_ms, goes) in [(1_999, false), (2_000, false), (2_001, true)] {
            let deadline = Duration::from_millis(deadline_ms);
            let mut attempts = policy.begin(Some(deadline), SECOND);
            let decision = policy.failed(&mut attempts, Verdict::Retry, SECOND);
            let expected = if goes {
                Decision::RetryIn(SECOND)
            } else {
                Decision::GiveUp(Reason::DeadlineTooNear)
            };
            assert_eq!(decision, expected, "{deadline:?}");
        }
    }

    #[test]
    fn the_total_time_bounds_like_a_deadline() {
        let total_max = Some(SECOND * 2);
        let policy = Policy::new(Settings { total_max, ..settings() }).unwrap();
        let mut attempts = policy.begin(Some(SECOND * 100), SECOND * 10);
        let decision = policy.failed(&mut attempts, Verdict::Retry, SECOND * 10);
        assert_eq!(decision, Decision::RetryIn(SECOND));
        let decision = policy.failed(&mut attempts, Verdict::Retry, SECOND * 11);
        assert_eq!(decision, Decision::GiveUp(Reason::DeadlineTooNear));
    }

    #[test]
    fn it_never_tries_into_an_open_breaker() {
        let breaker = Arc::new(Breaker::new(breaker::Settings::for_quick_recovery()).unwrap());
        let policy = policy().with_gate(Arc::<Breaker>::clone(&breaker));
        assert_eq!(after_one_failure(&policy, Verdict::Retry), Decision::RetryIn(SECOND));
        for _ in 0..3 {
            breaker.admit(SECOND).unwrap().failure(SECOND);
        }
        let refused = Decision::GiveUp(Reason::GateClosed);
        assert_eq!(after_one_failure(&policy, Verdict::Retry), refused);
        // With a wait that outlasts the open time, the try can go.
        let late = Verdict::RetryAfter(SECOND * 2);
        assert_eq!(after_one_failure(&policy, late), Decision::RetryIn(SECOND * 2));
    }

    #[test]
    fn a_rate_limit_makes_the_wait_longer() {
        let limiter = Arc::new(Limiter::new(Quota::new(1, SECOND * 5).unwrap()));
        let policy = policy().with_gate(Arc::<Limiter>::clone(&limiter));
        limiter.check(SECOND).unwrap();
        assert_eq!(after_one_failure(&policy, Verdict::Retry), Decision::RetryIn(SECOND * 5));
        assert_eq!(limiter.available(SECOND * 6), 1, "asking takes no token");
    }

    #[test]
    fn the_budget_is_asked_last_and_bounds_all_calls_together() {
        let paid = budget::Settings { floor_per_second: 0.3, ..budget::Settings::default() };
        let budget = Arc::new(Budget::new(paid).unwrap());
        let policy = policy().with_budget(Arc::clone(&budget));
        after_one_failure(&policy, Verdict::Stop);
        assert_eq!(budget.spent(), 0, "what is not tried again is not paid for");
        let retried = (0..10)
            .filter(|_| after_one_failure(&policy, Verdict::Retry) == Decision::RetryIn(SECOND))
            .count();
        assert_eq!(retried, 3);
        let refused = Decision::GiveUp(Reason::BudgetSpent);
        assert_eq!(after_one_failure(&policy, Verdict::Retry), refused);
        (0..5).for_each(|_| policy.succeeded(SECOND));
        assert_eq!(after_one_failure(&policy, Verdict::Retry), Decision::RetryIn(SECOND));
    }

    #[test]
    fn nonsense_is_refused_by_name() {
        let table = [
            ("attempts_max", Settings { attempts_max: 0, ..settings() }),
            ("attempts_max", Settings { attempts_max: ATTEMPTS_MAX + 1, ..settings() }),
            ("retry_after_max", Settings { retry_after_max: Duration::ZERO, ..settings() }),
            ("total_max", Settings { total_max: Some(Duration::ZERO), ..settings() }),
        ];
        for (field, settings) in table {
            assert_eq!(Policy::new(settings).unwrap_err().field, field);
        }
    }
}
