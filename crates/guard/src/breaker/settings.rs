//! What can be set on a breaker, and what is refused.

use std::time::Duration;

use crate::backoff;
use crate::setting::{self, Invalid};

/// The most calls that [`Window::Calls`] looks back.
pub const LAST_CALLS_MAX: u32 = 65_536;

/// The most probes at once.
pub const PROBES_MAX: u32 = 1_024;

/// The shortest window over time.
const WINDOW_MIN: Duration = Duration::from_millis(1);

/// What the rates are taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// The last so many calls, at most [`LAST_CALLS_MAX`].
    Calls(u32),
    /// The last span of time, which moves on in tenths.
    Time(Duration),
}

/// When a breaker opens, how long it stays open, and how it closes again.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// What the two rates are taken over.
    pub window: Window,
    /// No rate trips below this many calls in the window.
    pub calls_min: u32,
    /// Opens when this share of the calls failed.
    pub failure_rate: Option<f64>,
    /// Opens when this share of the calls was slow. With this rule, a slow probe fails.
    pub slow_rate: Option<f64>,
    /// A call that takes longer is slow.
    pub slow_after: Duration,
    /// Opens when this many calls failed one after the other.
    pub consecutive_failures: Option<u32>,
    /// How long it stays open.
    pub open_for: Duration,
    /// Each time that a probe fails, the open time grows by this factor; 1 for no growth.
    pub open_factor: f64,
    /// The open time grows no further than this, before jitter.
    pub open_for_max: Duration,
    /// The open time is longer by a random part of up to this share, so that many breakers do not probe at once.
    pub open_jitter: f64,
    /// How many probes may be under way at once while it is half-open.
    pub probes: u32,
    /// How many probes must succeed to close it.
    pub successes_to_close: u32,
    /// A probe that takes as long as this has failed, reported or not.
    pub probe_timeout: Option<Duration>,
    /// A call that is dropped without an outcome counts as failed if it had run this long. Without it, callers that
    /// give up on a hanging part never open the breaker.
    pub cancelled_fails_after: Option<Duration>,
    /// Where the jitter starts.
    pub seed: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self::for_requests()
    }
}

impl Settings {
    /// For request traffic: half failed or half slower than a second among the last 100 calls (10 at least), or five
    /// failures in a row; open for a minute; three probes, all of which must succeed within 30 s each.
    pub fn for_requests() -> Self {
        Self {
            window: Window::Calls(100),
            calls_min: 10,
            failure_rate: Some(0.5),
            slow_rate: Some(0.5),
            slow_after: Duration::from_secs(1),
            consecutive_failures: Some(5),
            open_for: Duration::from_secs(60),
            open_factor: 1.0,
            open_for_max: Duration::from_secs(600),
            open_jitter: 0.0,
            probes: 3,
            successes_to_close: 3,
            probe_timeout: Some(Duration::from_secs(30)),
            cancelled_fails_after: None,
            seed: 0,
        }
    }

    /// For a part that comes back quickly: three failures in a row; open for two seconds; one probe, which must
    /// succeed within half a second. No rates.
    pub fn for_quick_recovery() -> Self {
        Self {
            failure_rate: None,
            slow_rate: None,
            consecutive_failures: Some(3),
            open_for: Duration::from_secs(2),
            probes: 1,
            successes_to_close: 1,
            probe_timeout: Some(Duration::from_millis(500)),
            ..Self::for_requests()
        }
    }

    /// Refuses what makes no sense. Without any rule a breaker opens only by hand, which is allowed.
    pub fn check(&self) -> Result<(), Invalid> {
        let calls_max = match self.window {
            Window::Calls(calls) => {
                setting::count("window", calls, LAST_CALLS_MAX)?;
                calls
            }
            Window::Time(span) => {
                setting::span_from("window", span, WINDOW_MIN)?;
                u32::MAX
            }
        };
        setting::count("calls_min", self.calls_min, calls_max)?;
        if let Some(rate) = self.failure_rate {
            setting::share("failure_rate", rate)?;
        }
        if let Some(rate) = self.slow_rate {
            setting::share("slow_rate", rate)?;
        }
        setting::span("slow_after", self.slow_after)?;
        if let Some(failures) = self.consecutive_failures {
            setting::count("consecutive_failures", failures, u32::MAX)?;
        }
        self.check_recovery()
    }

    fn check_recovery(&self) -> Result<(), Invalid> {
        setting::span("open_for", self.open_for)?;
        setting::factor("open_factor", self.open_factor)?;
        setting::span("open_for_max", self.open_for_max)?;
        if self.open_for_max < self.open_for {
            let expected = format!("at least open_for, which is {:?}", self.open_for);
            return Err(Invalid::new("open_for_max", format!("{:?}", self.open_for_max), expected));
        }
        setting::fraction("open_jitter", self.open_jitter)?;
        setting::count("probes", self.probes, PROBES_MAX)?;
        setting::count("successes_to_close", self.successes_to_close, u32::MAX)?;
        if let Some(timeout) = self.probe_timeout {
            setting::span("probe_timeout", timeout)?;
        }
        if let Some(after) = self.cancelled_fails_after {
            setting::span("cancelled_fails_after", after)?;
        }
        Ok(())
    }

    /// How long to stay open the `opening`-th time in a row (from 1).
    pub(super) fn open_time(&self, opening: u32, random: &mut fastrand::Rng) -> Duration {
        let time =
            backoff::exponential(self.open_for, self.open_factor, self.open_for_max, opening);
        if self.open_jitter == 0.0 {
            return time;
        }
        time + time.mul_f64(self.open_jitter * random.f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_named_sets_make_sense() {
        assert_eq!(Settings::for_requests().check(), Ok(()));
        assert_eq!(Settings::for_quick_recovery().check(), Ok(()));
    }

    #[test]
    fn nonsense_is_refused_by_name() {
        type Change = fn(&mut Settings);
        let table: &[(&str, Change)] = &[
            ("window", |s| s.window = Window::Calls(0)),
            ("window", |s| s.window = Window::Calls(LAST_CALLS_MAX + 1)),
            ("window", |s| s.window = Window::Time(Duration::ZERO)),
            ("calls_min", |s| s.calls_min = 0),
            ("calls_min", |s| s.calls_min = 101),
            ("failure_rate", |s| s.failure_rate = Some(0.0)),
            ("failure_rate", |s| s.failure_rate = Some(f64::NAN)),
            ("slow_rate", |s| s.slow_rate = Some(1.01)),
            ("slow_after", |s| s.slow_after = Duration::ZERO),
            ("consecutive_failures", |s| s.consecutive_failures = Some(0)),
            ("open_for", |s| s.open_for = Duration::ZERO),
            ("open_for", |s| s.open_for = Duration::MAX),
            ("open_factor", |s| s.open_factor = 0.5),
            ("open_for_max", |s| s.open_for_max = Duration::from_secs(59)),
            ("open_jitter", |s| s.open_jitter = -0.1),
            ("probes", |s| s.probes = 0),
            ("successes_to_close", |s| s.successes_to_close = 0),
            ("probe_timeout", |s| s.probe_timeout = Some(Duration::ZERO)),
            ("cancelled_fails_after", |s| s.cancelled_fails_after = Some(Duration::ZERO)),
        ];
        for (field, change) in table {
            let mut settings = Settings::for_requests();
            change(&mut settings);
            assert_eq!(settings.check().map_err(|error| error.field), Err(*field), "{settings:?}");
        }
    }

    #[test]
    fn the_open_time_grows_to_its_cap_and_jitter_only_lengthens() {
        let settings = Settings {
            open_for: Duration::from_secs(2),
            open_factor: 2.0,
            open_for_max: Duration::from_secs(10),
            ..Settings::default()
        };
        let mut random = fastrand::Rng::with_seed(1);
        let times: Vec<u64> =
            (1..=5).map(|n| settings.open_time(n, &mut random).as_secs()).collect();
        assert_eq!(times, [2, 4, 8, 10, 10]);
        let jittered = Settings { open_jitter: 0.5, ..settings };
        for opening in 1..100 {
            let time = jittered.open_time(opening, &mut random);
            assert!(time >= Duration::from_secs(2) && time <= Duration::from_secs(15), "{time:?}");
        }
    }
}
