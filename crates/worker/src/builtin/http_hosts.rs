//! Which hosts are left alone for a while because they keep failing: one breaker per host, shared by all calls of a
//! worker.
//!
//! Why: a host that is down makes every task that calls it wait for a time-out and use up an attempt, while it is being
//! hammered. With its breaker open a task *snoozes*, which is no attempt, until the host may be tried again; then one
//! call goes ahead to see.
//!
//! - A breaker opens after five failures in a row, or when half of the last twenty calls failed (ten at least). A failure
//!   is a call that did not get through or timed out, or an unexpected status of 500 or more.
//! - It stays open for five seconds, twice as long after each failed probe, up to five minutes.
//! - At first start nothing is known and all hosts are called. At most 1,024 hosts are remembered: the one that was not
//!   called for the longest is forgotten first, and one that works before one that does not.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use divvy_guard::breaker::{Breaker, Outcome, Permit, Settings, State, Window};
use reqwest::Url;

/// Hosts that are remembered.
const HOSTS_MAX: usize = 1_024;
/// How long to wait while another call tries the host out.
const PROBE_WAIT: Duration = Duration::from_secs(2);
/// Waits are longer by a random part of up to this share, so that tasks do not all come back at once.
const JITTER: f64 = 0.25;

/// The hosts that a worker calls.
#[derive(Debug)]
pub(super) struct Hosts {
    start: Instant,
    known: Mutex<Known>,
}

#[derive(Debug)]
struct Known {
    hosts: HashMap<String, Host>,
    random: fastrand::Rng,
}

#[derive(Debug)]
struct Host {
    breaker: Arc<Breaker>,
    used: Duration,
}

/// Leave to call a host. Dropped without an end, the call says nothing about the host.
pub(super) struct Leave {
    permit: Permit<Arc<Breaker>>,
    start: Instant,
}

impl Leave {
    /// The call ended like this, as far as the host is to blame.
    pub(super) fn end(self, outcome: Outcome) {
        self.permit.record(outcome, self.start.elapsed());
    }
}

/// A host that is not called for now.
#[derive(Debug, PartialEq)]
pub(super) struct Resting {
    pub(super) host: String,
    pub(super) wait: Duration,
}

impl Hosts {
    pub(super) fn new() -> Self {
        let random = fastrand::Rng::with_seed(RandomState::new().hash_one(0u8));
        Self { start: Instant::now(), known: Mutex::new(Known { hosts: HashMap::new(), random }) }
    }

    /// Asks to call the host of a URL.
    pub(super) fn ask(&self, url: &Url) -> Result<Leave, Resting> {
        let host = url.host_str().unwrap_or_default();
        let name = match url.port_or_known_default() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        };
        let permit = self.ask_at(name, self.start.elapsed())?;
        Ok(Leave { permit, start: self.start })
    }

    fn ask_at(&self, host: String, now: Duration) -> Result<Permit<Arc<Breaker>>, Resting> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let admitted = known.breaker(&host, now).admit_owned(now);
        admitted.map_err(|rejected| {
            let wait = rejected.retry_after.unwrap_or(PROBE_WAIT);
            let wait = wait + wait.mul_f64(JITTER * known.random.f64());
            Resting { host, wait }
        })
    }
}

impl Known {
    fn breaker(&mut self, host: &str, now: Duration) -> &Arc<Breaker> {
        if !self.hosts.contains_key(host) {
            if self.hosts.len() >= HOSTS_MAX {
                self.forget_one();
            }
            let seed = self.random.u64(..);
            self.hosts
                .insert(host.to_owned(), Host { breaker: Arc::new(breaker(seed)), used: now });
        }
        let host = self.hosts.get_mut(host).expect("a host that was missing was put in");
        host.used = now;
        &host.breaker
    }

    fn forget_one(&mut self) {
        let worth = |host: &Host| (host.breaker.state() != State::Closed, host.used);
        let least = self.hosts.iter().min_by_key(|(_, host)| worth(host));
        if let Some(name) = least.map(|(name, _)| name.clone()) {
            self.hosts.remove(&name);
        }
    }
}

fn breaker(seed: u64) -> Breaker {
    let settings = Settings {
        window: Window::Calls(20),
        calls_min: 10,
        failure_rate: Some(0.5),
        // How long an answer may take is the task's business.
        slow_rate: None,
        consecutive_failures: Some(5),
        open_for: Duration::from_secs(5),
        open_factor: 2.0,
        open_for_max: Duration::from_secs(300),
        open_jitter: 0.1,
        probes: 1,
        successes_to_close: 1,
        probe_timeout: Some(Duration::from_secs(60)),
        seed,
        ..Settings::for_requests()
    };
    Breaker::new(settings).expect("these settings are the same each time, and make sense")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn fail(hosts: &Hosts, host: &str, now: Duration) {
        hosts.ask_at(host.into(), now).unwrap().record(Outcome::Failure, now);
    }

    #[test]
    fn a_host_that_keeps_failing_rests_then_one_call_tries_it_out() {
        let hosts = Hosts::new();
        for _ in 0..5 {
            fail(&hosts, "down:80", at(1));
        }
        let resting = hosts.ask_at("down:80".into(), at(1)).unwrap_err();
        assert_eq!(resting.host, "down:80");
        assert!(resting.wait >= at(5) && resting.wait <= at(7), "{resting:?}");
        assert!(hosts.ask_at("other:80".into(), at(1)).is_ok(), "others are called");
        let probe = hosts.ask_at("down:80".into(), at(8)).unwrap();
        let resting = hosts.ask_at("down:80".into(), at(8)).unwrap_err();
        assert!(resting.wait >= PROBE_WAIT, "the others wait for the probe");
        probe.record(Outcome::Failure, at(8));
        let resting = hosts.ask_at("down:80".into(), at(8)).unwrap_err();
        assert!(resting.wait >= at(10), "the rest grows: {resting:?}");
        hosts.ask_at("down:80".into(), at(30)).unwrap().record(Outcome::Success, at(30));
        assert!(hosts.ask_at("down:80".into(), at(30)).is_ok());
        assert!(hosts.ask_at("down:80".into(), at(30)).is_ok());
    }

    #[test]
    fn hosts_are_bounded_and_those_that_rest_are_kept_longest() {
        let hosts = Hosts::new();
        for _ in 0..5 {
            fail(&hosts, "down:80", at(0));
        }
        for number in 0..2 * HOSTS_MAX {
            drop(hosts.ask_at(format!("host-{number}:80"), at(1)));
        }
        assert_eq!(hosts.known.lock().unwrap().hosts.len(), HOSTS_MAX);
        assert!(hosts.ask_at("down:80".into(), at(2)).is_err());
    }
}
