//! Exponential smoothing of level, trend and season (Holt 1957, Winters 1960), additive, with a damped trend and a season of
//! one day. Errors are clipped, so that a burst does not come back the next day. Says nothing during its first day.

use serde::{Deserialize, Serialize};

use super::DAY;

/// How fast level, trend and season follow.
const LEVEL: f64 = 0.4;
const TREND: f64 = 0.02;
const SEASON: f64 = 0.25;
/// What is left of the trend after a slot.
const DAMPED: f64 = 0.9;
/// Errors count up to so many times their usual size.
const CLIP: f64 = 4.0;

/// The state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct HoltWinters {
    level: f64,
    trend: f64,
    season: Vec<f64>,
    /// The usual size of an error.
    usual: f64,
    last: u64,
}

impl HoltWinters {
    pub(super) fn learn(&mut self, slot: u64, value: f64) {
        let place = slot as usize % DAY;
        if self.season.len() < DAY {
            // The first day is taken as it comes.
            self.season.push(value);
            if self.season.len() == DAY {
                self.level = self.season.iter().sum::<f64>() / DAY as f64;
                let level = self.level;
                self.season.iter_mut().for_each(|value| *value -= level);
                // The day began wherever it began; each value goes to its own time.
                self.season.rotate_right((place + 1) % DAY);
                self.usual = self.season.iter().map(|value| value.abs()).sum::<f64>() / DAY as f64;
            }
            self.last = slot;
            return;
        }
        let expected = self.level + DAMPED * self.trend + self.season[place];
        let most = CLIP * self.usual + 1e-9;
        let error = value - expected;
        self.usual += (error.abs().min(most * 2.0) - self.usual) * 0.02;
        let error = error.clamp(-most, most);
        let level = self.level + DAMPED * self.trend + LEVEL * error;
        self.trend = DAMPED * self.trend + TREND * error;
        self.season[place] += SEASON * (1.0 - LEVEL) * error;
        self.level = level;
        self.last = slot;
    }

    pub(super) fn expect(&self, slot: u64) -> Option<f64> {
        if self.season.len() < DAY {
            return None;
        }
        let steps = slot.saturating_sub(self.last).min(DAY as u64) as i32;
        let trend = self.trend * DAMPED * (1.0 - DAMPED.powi(steps)) / (1.0 - DAMPED);
        Some((self.level + trend + self.season[slot as usize % DAY]).max(0.0))
    }
}
