//! Decides how much an observation still counts: half as much after each half-life.
//!
//! Does not hold the sums themselves. Instead of shrinking every sum at every step, new observations weigh more than
//! old ones ("forward decay", Cormode, Shkapenyuk, Srivastava and Xu, ICDE 2009), so a record stays one addition.
//! The weight is brought up to date in steps of 1/64 of the half-life: at most 1.1 % off, and a record rarely pays
//! for an exponential. Time that goes backwards is taken as standing still.

use std::time::Duration;

/// Half-lives after which sums are brought back to a small scale: far from the limits of a float.
const RESCALE_HALF_LIVES: f64 = 64.0;
/// Steps of the weight in one half-life.
const STEPS: u32 = 64;

/// The weight of an observation that is made now.
#[derive(Clone, Debug)]
pub(super) struct Decay {
    half_life: Duration,
    /// The moment whose observations weigh 1.
    landmark: Duration,
    /// From here on the weight is computed anew.
    stale_at: Duration,
    weight: f64,
}

impl Decay {
    /// # Panics
    /// If the half-life is 0: settings are checked before.
    pub(super) fn new(half_life: Duration) -> Self {
        assert!(!half_life.is_zero(), "a half-life is longer than nothing");
        Self { half_life, landmark: Duration::ZERO, stale_at: Duration::ZERO, weight: 1.0 }
    }

    /// Moves on to `now`. If the answer is a factor, every sum must be multiplied with it before it is added to.
    pub(super) fn advance(&mut self, now: Duration) -> Option<f64> {
        if now < self.stale_at {
            return None;
        }
        let step = (self.half_life / STEPS).max(Duration::from_nanos(1));
        self.stale_at = now.saturating_add(step);
        let halves = self.half_lives(now);
        if halves < RESCALE_HALF_LIVES {
            self.weight = halves.exp2();
            return None;
        }
        self.landmark = now;
        self.weight = 1.0;
        Some((-halves).exp2())
    }

    /// What one observation weighs, as of the last [`Decay::advance`].
    pub(super) fn weight(&self) -> f64 {
        self.weight
    }

    /// Turns a sum of weights into the number of fresh observations that it is worth at `now`.
    pub(super) fn scale(&self, now: Duration) -> f64 {
        (-self.half_lives(now)).exp2().min(1.0 / self.weight)
    }

    fn half_lives(&self, now: Duration) -> f64 {
        now.saturating_sub(self.landmark).as_secs_f64() / self.half_life.as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HALF_LIFE: Duration = Duration::from_secs(10);

    #[test]
    fn an_observation_counts_half_after_each_half_life() {
        let mut decay = Decay::new(HALF_LIFE);
        decay.advance(HALF_LIFE * 3);
        let sum = decay.weight();
        for (halves, left) in [(0, 1.0), (1, 0.5), (2, 0.25), (10, 1.0 / 1024.0)] {
            let now = HALF_LIFE * (3 + halves);
            assert!((sum * decay.scale(now) - left).abs() < 1e-9, "{halves}");
        }
    }

    #[test]
    fn sums_survive_a_rescale_in_proportion() {
        let mut decay = Decay::new(HALF_LIFE);
        let mut sum = 0.0;
        let mut rescaled = 0;
        // One observation in each half-life: the sum goes to 1 + 1/2 + 1/4 + … = 2.
        for step in 0..500 {
            if let Some(factor) = decay.advance(HALF_LIFE * step) {
                sum *= factor;
                rescaled += 1;
            }
            sum += decay.weight();
        }
        assert!((sum * decay.scale(HALF_LIFE * 499) - 2.0).abs() < 1e-9);
        assert_eq!(rescaled, 7);
    }

    #[test]
    fn time_that_goes_backwards_stands_still() {
        let mut decay = Decay::new(HALF_LIFE);
        decay.advance(HALF_LIFE * 5);
        let weight = decay.weight();
        assert_eq!(decay.advance(HALF_LIFE), None);
        assert_eq!(decay.weight(), weight);
        assert!(weight * decay.scale(HALF_LIFE) <= 1.0);
    }
}
