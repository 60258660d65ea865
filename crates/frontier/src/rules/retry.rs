//! What follows from the outcome of a request: done, tried again at some time, or given up, and whether its host rests.
//!
//! | outcome | the address | the host |
//! |---|---|---|
//! | 2xx, 3xx, 304, other 4xx | done | is well |
//! | 429 and 503 with `Retry-After` | again then, [`Rules::attempts_max`] times | is blocked until then, also after the last attempt |
//! | 429, 408, 5xx, time-outs, broken connections | again with full jitter, [`Rules::attempts_max`] times | has failed |
//! | no such name, TLS errors | once more after [`Rules::name_wait_ms`] | has failed |
//! | refused by a rule of the fetcher | given up | is as it was, or parked if it may not be asked at all |
//!
//! It draws from the generator of the caller. What a row of failures does to a host is for its breaker.

use std::time::Duration;

use divvy_guard::backoff::{Backoff, Jitter};

/// Numbers of the table above.
#[derive(Clone, Debug, PartialEq)]
pub struct Rules {
    /// The first wait, before jitter.
    pub base_ms: u64,
    /// The longest wait.
    pub cap_ms: u64,
    /// Attempts in all.
    pub attempts_max: u8,
    /// The wait after a name that does not exist or a TLS error; there is one more attempt.
    pub name_wait_ms: u64,
    /// A `Retry-After` above this is cut to this.
    pub retry_after_ms_max: u64,
    /// Failures of a host in a row after which its breaker opens.
    pub breaker_failures: u32,
    /// How long a breaker stays open the first time; it doubles up to `cap_ms`.
    pub breaker_open_ms: u64,
    /// Failures of a host in a row after which it is parked.
    pub park_failures: u32,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            base_ms: 60_000,
            cap_ms: 6 * 3_600_000,
            attempts_max: 4,
            name_wait_ms: 3_600_000,
            retry_after_ms_max: 24 * 3_600_000,
            breaker_failures: 3,
            breaker_open_ms: 60_000,
            park_failures: 10,
        }
    }
}

/// How a request failed before it gave an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Failure {
    /// Nothing came in time, or too slowly.
    TimedOut,
    /// The connection could not be made, or broke.
    Connection,
    /// The name of the host does not exist.
    NoSuchName,
    /// The host could not prove who it is.
    Tls,
    /// A rule of the fetcher forbids it, such as headers that are too large.
    Forbidden,
    /// A rule of the fetcher forbids to ask the host at all: an address that is not public, a port, a crawler that does not
    /// say who it is. No request was sent.
    Refused,
}

/// What follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The address is done.
    Done,
    /// It is tried again at that time.
    Again {
        /// When.
        due_ms: u64,
    },
    /// It is given up and can be replayed by hand.
    Dead,
}

impl Rules {
    /// What follows from an answer with this status, to attempt `attempt` (from 1).
    pub fn after_status(
        &self,
        status: u16,
        retry_after_ms: Option<u64>,
        attempt: u8,
        now_ms: u64,
        random: &mut fastrand::Rng,
    ) -> Verdict {
        if !is_failure(status) {
            return Verdict::Done;
        }
        if attempt >= self.attempts_max {
            return Verdict::Dead;
        }
        match self.host_rests_until(status, retry_after_ms, now_ms) {
            Some(due_ms) => Verdict::Again { due_ms },
            None => self.jittered(attempt, now_ms, random),
        }
    }

    /// Until when the host gets no request at all because this answer asks for it, whatever becomes of the address.
    pub fn host_rests_until(
        &self,
        status: u16,
        retry_after_ms: Option<u64>,
        now_ms: u64,
    ) -> Option<u64> {
        let told_ms = retry_after_ms.filter(|_| matches!(status, 429 | 503))?;
        Some(now_ms.saturating_add(told_ms.min(self.retry_after_ms_max)))
    }

    /// What follows from a failure of attempt `attempt` (from 1).
    pub fn after_failure(
        &self,
        failure: Failure,
        attempt: u8,
        now_ms: u64,
        random: &mut fastrand::Rng,
    ) -> Verdict {
        match failure {
            Failure::Forbidden | Failure::Refused => Verdict::Dead,
            Failure::NoSuchName | Failure::Tls if attempt >= 2 => Verdict::Dead,
            Failure::NoSuchName | Failure::Tls => {
                let due_ms = now_ms.saturating_add(self.name_wait_ms);
                Verdict::Again { due_ms }
            }
            Failure::TimedOut | Failure::Connection if attempt >= self.attempts_max => {
                Verdict::Dead
            }
            Failure::TimedOut | Failure::Connection => self.jittered(attempt, now_ms, random),
        }
    }

    fn jittered(&self, attempt: u8, now_ms: u64, random: &mut fastrand::Rng) -> Verdict {
        let (base, cap) = (self.base_ms.max(1), self.cap_ms.max(self.base_ms).max(1));
        let backoff = Backoff::new(
            Duration::from_millis(base),
            2.0,
            Duration::from_millis(cap),
            Jitter::Full,
        );
        let backoff = backoff.unwrap_or_default();
        let wait = backoff.wait(u32::from(attempt), random).as_millis() as u64;
        Verdict::Again { due_ms: now_ms.saturating_add(wait) }
    }
}

/// Whether a status speaks against the host: it may be tried again, and counts for the breaker.
pub fn is_failure(status: u16) -> bool {
    matches!(status, 408 | 429 | 500..=599)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn random() -> fastrand::Rng {
        fastrand::Rng::with_seed(5)
    }

    #[test]
    fn statuses_are_done_tried_again_or_given_up() {
        let rules = Rules::default();
        for status in [200, 204, 301, 304, 400, 401, 403, 404, 410, 451] {
            assert_eq!(rules.after_status(status, None, 1, 0, &mut random()), Verdict::Done);
        }
        for status in [408, 429, 500, 502, 503, 504, 599] {
            for attempt in 1..4 {
                let verdict = rules.after_status(status, None, attempt, 1_000, &mut random());
                let Verdict::Again { due_ms } = verdict else {
                    panic!("{status}, attempt {attempt}: {verdict:?}");
                };
                assert!(due_ms - 1_000 <= 60_000 << (attempt - 1));
            }
            assert_eq!(rules.after_status(status, None, 4, 0, &mut random()), Verdict::Dead);
        }
    }

    #[test]
    fn a_host_that_says_when_is_left_alone_until_then_but_for_a_day_at_most() {
        let rules = Rules::default();
        let after = |status, wait| rules.after_status(status, Some(wait), 1, 5, &mut random());
        let rests = |status, wait| rules.host_rests_until(status, Some(wait), 5);
        for (status, wait, until_ms) in [(429, 7_000, 7_005), (503, u64::MAX, 24 * 3_600_000 + 5)] {
            assert_eq!(after(status, wait), Verdict::Again { due_ms: until_ms });
            assert_eq!(rests(status, wait), Some(until_ms));
        }
        assert_eq!((rests(500, 7_000), rests(200, 7_000)), (None, None));
    }

    #[test]
    fn names_that_do_not_exist_get_one_more_try_after_an_hour() {
        let rules = Rules::default();
        for failure in [Failure::NoSuchName, Failure::Tls] {
            let first = rules.after_failure(failure, 1, 5, &mut random());
            assert_eq!(first, Verdict::Again { due_ms: 3_600_005 });
            assert_eq!(rules.after_failure(failure, 2, 5, &mut random()), Verdict::Dead);
        }
        let forbidden = rules.after_failure(Failure::Forbidden, 1, 5, &mut random());
        assert_eq!(forbidden, Verdict::Dead);
    }

    #[test]
    fn waits_are_spread_over_the_whole_of_their_span() {
        let rules = Rules::default();
        let mut random = random();
        let waits: Vec<u64> = (0..2_000)
            .map(|_| match rules.after_failure(Failure::TimedOut, 3, 0, &mut random) {
                Verdict::Again { due_ms, .. } => due_ms,
                verdict => panic!("{verdict:?}"),
            })
            .collect();
        assert!(waits.iter().all(|wait| *wait <= 240_000));
        assert!(waits.iter().any(|wait| *wait < 12_000), "full jitter begins at nothing");
        assert!(waits.iter().any(|wait| *wait > 228_000));
    }
}
