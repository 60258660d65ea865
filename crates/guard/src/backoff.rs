//! How long to wait before the next try.
//!
//! It decides from the number of the try and a random generator that the caller owns; it has no clock and does not
//! know what is tried, nor whether it should be.
//!
//! The wait grows by a factor up to a cap. Jitter spreads it, because callers that failed together would otherwise
//! come back together. *Full* jitter is the default: it finishes a herd of callers with the least work (M. Brooker,
//! *Exponential Backoff and Jitter*, AWS Architecture Blog, 2015). At first start, that is for try 1, the wait is
//! the base.

use std::time::Duration;

use crate::setting::{self, Invalid};

/// After so many steps [`Jitter::Decorrelated`] has long reached its cap and wanders no further.
const DECORRELATED_STEPS_MAX: u32 = 64;

/// How waits are spread.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Jitter {
    /// Not at all.
    None,
    /// Half of the wait is fixed, half is random.
    Equal,
    /// All of the wait is random: from nothing to the whole.
    #[default]
    Full,
    /// From the base to three times the wait before, which is random itself.
    Decorrelated,
    /// Longer or shorter by up to this share, never over the cap.
    Spread(f64),
}

/// Exponential waits. It can be copied and shared; the randomness is the caller's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Backoff {
    base: Duration,
    factor: f64,
    cap: Duration,
    jitter: Jitter,
}

impl Default for Backoff {
    /// 100 ms, doubled up to 30 s, with full jitter.
    fn default() -> Self {
        Self {
            base: Duration::from_millis(100),
            factor: 2.0,
            cap: Duration::from_secs(30),
            jitter: Jitter::Full,
        }
    }
}

impl Backoff {
    /// Waits from `base`, multiplied by `factor` each time, up to `cap`.
    pub fn new(
        base: Duration,
        factor: f64,
        cap: Duration,
        jitter: Jitter,
    ) -> Result<Self, Invalid> {
        setting::span("base", base)?;
        setting::factor("factor", factor)?;
        setting::span("cap", cap)?;
        if cap < base {
            let expected = format!("at least base, which is {base:?}");
            return Err(Invalid::new("cap", format!("{cap:?}"), expected));
        }
        if let Jitter::Spread(share) = jitter {
            setting::fraction("jitter", share)?;
        }
        Ok(Self { base, factor, cap, jitter })
    }

    /// Always the same wait.
    pub fn constant(wait: Duration) -> Result<Self, Invalid> {
        Self::new(wait, 1.0, wait, Jitter::None)
    }

    /// The wait before try `attempt` is made again: 1 after the first failure.
    pub fn wait(&self, attempt: u32, random: &mut fastrand::Rng) -> Duration {
        let whole = self.whole(attempt);
        match self.jitter {
            Jitter::None => whole,
            Jitter::Equal => whole.mul_f64(0.5 + 0.5 * random.f64()),
            Jitter::Full => whole.mul_f64(random.f64()),
            Jitter::Decorrelated => self.decorrelated(attempt, random),
            Jitter::Spread(share) => {
                whole.mul_f64(1.0 + share * (2.0 * random.f64() - 1.0)).min(self.cap)
            }
        }
    }

    /// The wait without jitter.
    pub fn whole(&self, attempt: u32) -> Duration {
        exponential(self.base, self.factor, self.cap, attempt)
    }

    /// The longest wait.
    pub fn cap(&self) -> Duration {
        self.cap
    }

    /// Each wait depends on the one before only, so the way there can be drawn anew instead of being kept.
    fn decorrelated(&self, attempt: u32, random: &mut fastrand::Rng) -> Duration {
        let mut wait = self.base;
        for _ in 0..attempt.clamp(1, DECORRELATED_STEPS_MAX) {
            let top = wait.saturating_mul(3).min(self.cap).max(self.base);
            wait = self.base + (top - self.base).mul_f64(random.f64());
        }
        wait
    }
}

/// `base * factor^(attempt - 1)`, at most `cap`, however large the attempt.
pub(crate) fn exponential(base: Duration, factor: f64, cap: Duration, attempt: u32) -> Duration {
    let exponent = i32::try_from(attempt.saturating_sub(1)).unwrap_or(i32::MAX);
    let seconds = base.as_secs_f64() * factor.powi(exponent);
    Duration::try_from_secs_f64(seconds).map_or(cap, |wait| wait.min(cap))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn backoff(jitter: Jitter) -> Backoff {
        Backoff::new(Duration::from_millis(100), 2.0, Duration::from_secs(5), jitter).unwrap()
    }

    #[test]
    fn waits_double_up_to_the_cap() {
        let mut random = fastrand::Rng::with_seed(7);
        let table = [
            (0, 100),
            (1, 100),
            (2, 200),
            (3, 400),
            (6, 3_200),
            (7, 5_000),
            (1_000, 5_000),
            (u32::MAX, 5_000),
        ];
        for (attempt, expected_ms) in table {
            let wait = backoff(Jitter::None).wait(attempt, &mut random);
            assert_eq!(wait, Duration::from_millis(expected_ms), "attempt {attempt}");
        }
    }

    #[test]
    fn a_factor_of_one_does_not_grow() {
        let constant = Backoff::constant(Duration::from_millis(30)).unwrap();
        let mut random = fastrand::Rng::with_seed(7);
        assert_eq!(constant.wait(9, &mut random), Duration::from_millis(30));
    }

    #[test]
    fn the_same_seed_gives_the_same_waits() {
        for jitter in [Jitter::Equal, Jitter::Full, Jitter::Decorrelated, Jitter::Spread(0.2)] {
            let waits = |seed| -> Vec<Duration> {
                let mut random = fastrand::Rng::with_seed(seed);
                (1..20).map(|attempt| backoff(jitter).wait(attempt, &mut random)).collect()
            };
            assert_eq!(waits(3), waits(3), "{jitter:?}");
            assert_ne!(waits(3), waits(4), "{jitter:?}");
        }
    }

    #[test]
    fn full_jitter_means_half_the_wait_on_average() {
        let mut random = fastrand::Rng::with_seed(11);
        let sum: Duration = (0..4_000).map(|_| backoff(Jitter::Full).wait(4, &mut random)).sum();
        let mean = sum / 4_000;
        assert!(mean > Duration::from_millis(380) && mean < Duration::from_millis(420), "{mean:?}");
    }

    #[test]
    fn decorrelated_waits_grow_with_the_attempt() {
        let mut random = fastrand::Rng::with_seed(11);
        let mut mean = |attempt| -> Duration {
            let waits =
                (0..2_000).map(|_| backoff(Jitter::Decorrelated).wait(attempt, &mut random));
            waits.sum::<Duration>() / 2_000
        };
        let means = [mean(1), mean(2), mean(4), mean(8)];
        assert!(means.is_sorted(), "{means:?}");
        assert!(means[0] > Duration::from_millis(180) && means[0] < Duration::from_millis(220));
    }

    #[test]
    fn nonsense_is_refused_by_name() {
        let second = Duration::from_secs(1);
        let table = [
            ("base", Backoff::new(Duration::ZERO, 2.0, second, Jitter::None)),
            ("factor", Backoff::new(second, 0.9, second, Jitter::None)),
            ("factor", Backoff::new(second, f64::NAN, second, Jitter::None)),
            ("cap", Backoff::new(second, 2.0, Duration::from_millis(1), Jitter::None)),
            ("jitter", Backoff::new(second, 2.0, second, Jitter::Spread(1.5))),
        ];
        for (field, result) in table {
            assert_eq!(result.unwrap_err().field, field);
        }
    }

    proptest! {
        #[test]
        fn waits_stay_within_their_bounds(
            base_ms in 1u64..10_000,
            more_ms in 0u64..1_000_000,
            factor in 1.0f64..100.0,
            attempt in any::<u32>(),
            seed in any::<u64>(),
        ) {
            let base = Duration::from_millis(base_ms);
            let cap = base + Duration::from_millis(more_ms);
            let mut random = fastrand::Rng::with_seed(seed);
            let mut wait = |jitter| {
                let backoff = Backoff::new(base, factor, cap, jitter).unwrap();
                (backoff.wait(attempt, &mut random), backoff.whole(attempt))
            };
            let nearly = Duration::from_nanos(2);
            let (equal, whole) = wait(Jitter::Equal);
            prop_assert!(whole >= base && whole <= cap);
            prop_assert!(equal <= whole && equal + nearly >= whole / 2);
            let (full, _) = wait(Jitter::Full);
            prop_assert!(full <= whole);
            let (decorrelated, _) = wait(Jitter::Decorrelated);
            prop_assert!(decorrelated >= base && decorrelated <= cap);
            let (spread, _) = wait(Jitter::Spread(0.5));
            prop_assert!(spread + nearly >= whole / 2 && spread <= cap);
        }
    }
}
