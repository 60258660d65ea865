//! How long tasks of one kind run: a line through logarithms, fitted as results come in.
//!
//! The logarithm of the run time is taken as `a + b × ln(1 + cost hint)` and fitted by recursive least squares with
//! forgetting (Ljung, *System Identification*, chapter 11), so that it follows slow changes. For tasks without a hint,
//! and before there are enough with one, it is a moving mean. Estimates are therefore medians rather than means: one
//! task that hangs does not spoil them. It does not know workers; how much faster or slower one is, is kept apart.

/// What one more result counts when a line is fitted: the memory is about fifty results long.
const FORGETTING: f64 = 0.98;
/// What one more result counts at least in a mean.
const ALPHA_MIN: f64 = 0.05;
/// Results with a hint before the line is trusted.
const LINE_MIN: u32 = 3;
/// How unsure the line is at first, and how unsure it may get while hints do not vary.
const DOUBT_START: f64 = 100.0;
const DOUBT_MAX: f64 = 1e4;
/// The logarithm of thirty days in microseconds: nothing is expected to run longer.
const LOG_US_MAX: f64 = 28.6;
/// What 95 of 100 of a normal spread stay below, in standard deviations.
const NORMAL_P95: f64 = 1.645;

/// What was learnt of the run times of a kind.
#[derive(Clone, Debug, Default)]
pub(crate) struct RunTimes {
    mean: f64,
    /// The moving variance of the logarithms about their mean.
    variance: f64,
    results: u32,
    line: Line,
}

impl RunTimes {
    /// Adds a result.
    pub(crate) fn add(&mut self, cost_hint: Option<u64>, run_us: u64) {
        let log = log_us(run_us);
        self.results = self.results.saturating_add(1);
        let alpha = (1.0 / f64::from(self.results)).max(ALPHA_MIN);
        let off = log - self.mean;
        self.mean += alpha * off;
        self.variance = (1.0 - alpha) * (self.variance + alpha * off * off);
        if let Some(hint) = cost_hint {
            self.line.add(size(hint), log);
        }
    }

    /// The mean and the 95th percentile in microseconds over tasks of every size, once there is a result; as if the
    /// logarithms were spread normally.
    pub(crate) fn spread(&self) -> Option<(f64, f64)> {
        if self.results == 0 {
            return None;
        }
        let at = |log: f64| log.clamp(0.0, LOG_US_MAX).exp();
        let deviation = self.variance.sqrt();
        Some((at(self.mean + self.variance / 2.0), at(self.mean + NORMAL_P95 * deviation)))
    }

    /// The logarithm of the expected run time in microseconds, once there is a result.
    pub(crate) fn expect(&self, cost_hint: Option<u64>) -> Option<f64> {
        if self.results == 0 {
            return None;
        }
        let log = match cost_hint {
            Some(hint) if self.line.results >= LINE_MIN => self.line.at(size(hint)),
            _ => self.mean,
        };
        Some(log.clamp(0.0, LOG_US_MAX))
    }
}

/// The logarithm of a run time; shorter than a microsecond counts as one.
pub(crate) fn log_us(run_us: u64) -> f64 {
    (run_us.max(1) as f64).ln().min(LOG_US_MAX)
}

/// The run time of a logarithm, in microseconds.
pub(crate) fn us_of(log: f64) -> u64 {
    log.clamp(0.0, LOG_US_MAX).exp() as u64
}

fn size(hint: u64) -> f64 {
    (hint as f64).ln_1p()
}

/// `a + b × x` by recursive least squares.
#[derive(Clone, Debug)]
struct Line {
    a: f64,
    b: f64,
    /// The covariance, which is symmetric: of `a`, of both, of `b`.
    doubt: [f64; 3],
    results: u32,
}

impl Default for Line {
    fn default() -> Self {
        Self { a: 0.0, b: 0.0, doubt: [DOUBT_START, 0.0, DOUBT_START], results: 0 }
    }
}

impl Line {
    fn at(&self, x: f64) -> f64 {
        self.a + self.b * x
    }

    fn add(&mut self, x: f64, y: f64) {
        let [p, q, r] = self.doubt;
        let (u, v) = (p + q * x, q + r * x);
        let scale = FORGETTING + u + v * x;
        let (gain_a, gain_b) = (u / scale, v / scale);
        let error = y - self.at(x);
        self.a += gain_a * error;
        self.b += gain_b * error;
        let doubt = [p - gain_a * u, q - gain_a * v, r - gain_b * v].map(|d| d / FORGETTING);
        // While hints do not vary, doubt about what they do not tell grows without end; and rounding may spoil it.
        let sound = doubt[0] > 0.0
            && doubt[2] > 0.0
            && doubt[0] < DOUBT_MAX
            && doubt[2] < DOUBT_MAX
            && doubt[0] * doubt[2] >= doubt[1] * doubt[1];
        self.doubt = if sound { doubt } else { Self::default().doubt };
        self.results = self.results.saturating_add(1);
        if !self.a.is_finite() || !self.b.is_finite() {
            *self = Self::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_line_through_hints_is_found_and_extended() {
        let mut times = RunTimes::default();
        assert_eq!(times.expect(Some(5)), None);
        for round in 0..200_u64 {
            let hint = 1_000 * (1 + round % 10);
            times.add(Some(hint), hint * 50);
        }
        for hint in [1_000, 5_000, 40_000] {
            let expected = us_of(times.expect(Some(hint)).unwrap());
            let off = expected as f64 / (hint * 50) as f64;
            assert!((0.95..1.05).contains(&off), "{hint}: {off}");
        }
    }

    #[test]
    fn without_hints_the_estimate_follows_a_change() {
        let mut times = RunTimes::default();
        (0..100).for_each(|_| times.add(None, 1_000));
        assert!((990..=1_010).contains(&us_of(times.expect(None).unwrap())));
        (0..100).for_each(|_| times.add(None, 9_000));
        assert!((8_000..=9_010).contains(&us_of(times.expect(None).unwrap())));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn estimates_stay_finite_whatever_comes(
            results in prop::collection::vec((prop::option::of(any::<u64>()), any::<u64>()), 1..50),
            rounds in 1usize..60,
            asked in prop::option::of(any::<u64>()),
        ) {
            let mut times = RunTimes::default();
            for (hint, run) in results.iter().cycle().take(results.len() * rounds) {
                times.add(*hint, *run);
                let log = times.expect(asked).unwrap();
                prop_assert!(log.is_finite() && (0.0..=LOG_US_MAX).contains(&log));
            }
        }
    }
}
