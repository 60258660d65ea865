//! One linear model: recursive least squares that forgets, on the parts of what the constants predict.
//!
//! The model does not learn the constants but by which factor each part of their prediction is wrong, from samples that
//! are divided by the prediction. So every quantity is near 1, whatever the units, large tasks do not drown small ones,
//! and the factors can be kept in bounds: no estimate is negative or absurd. A sample that is far from what is expected
//! counts as if it were nearer, so that one outlier moves little while a lasting change is still followed.
//!
//! It forgets by adding a little uncertainty with every sample, as for factors that wander (a Kalman filter). The usual
//! division by a forgetting factor lets the uncertainty of a part that never varies grow without bound.

use serde::{Deserialize, Serialize};

/// How far factors wander between two samples, as a variance: with the noise this makes a memory of some fifty samples.
const WANDERING: f64 = 1e-4;
/// How far samples are from the truth, as a variance of the ratio.
const NOISE: f64 = 0.02;
/// Each factor stays within these.
const FACTOR_MIN: f64 = 0.02;
const FACTOR_MAX: f64 = 50.0;
/// A sample is believed up to so many times more, or less, than what was expected …
const STEP_MAX: f64 = 4.0;
/// … and the first ones a good deal more, because the constants are of another machine.
const FIRST_STEP_MAX: f64 = 20.0;
const FIRST_SAMPLES: u64 = 5;
/// The ceiling of the uncertainty: the sum over all factors.
const UNCERTAINTY_MAX: f64 = 10.0;
/// Ratios of the latest samples that are kept for the spread.
const RATIOS_MAX: usize = 64;
/// Fewer ratios say nothing about one in twenty.
const RATIOS_MIN: usize = 10;
/// The spread before anything is known.
const SPREAD_COLD: f64 = 2.5;
const SPREAD_MAX: f64 = 10.0;
/// A longer time than 30 days is no measurement.
const TOOK_MS_MAX: f64 = 30.0 * 86_400_000.0;

/// Parts of a task's time.
pub(super) const PARTS: usize = 3;

/// What was learnt about one kind of task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Model {
    /// By how much each part of the prediction is to be multiplied.
    factors: [f64; PARTS],
    /// How uncertain they are: the covariance matrix.
    uncertainty: [[f64; PARTS]; PARTS],
    /// What the latest samples took compared with what was expected, oldest first.
    ratios: Vec<f64>,
    /// Samples so far.
    samples: u64,
}

impl Default for Model {
    fn default() -> Self {
        let mut uncertainty = [[0.0; PARTS]; PARTS];
        for (place, row) in uncertainty.iter_mut().enumerate() {
            row[place] = 1.0;
        }
        Self { factors: [1.0; PARTS], uncertainty, ratios: Vec::new(), samples: 0 }
    }
}

impl Model {
    /// What is expected of a task for which the constants say these parts.
    pub(super) fn expected(&self, parts: [f64; PARTS]) -> f64 {
        dot(self.factors, parts)
    }

    /// What 19 of 20 tasks stay below, as a multiple of what is expected.
    pub(super) fn spread(&self) -> f64 {
        if self.ratios.len() < RATIOS_MIN {
            return SPREAD_COLD;
        }
        let mut sorted = self.ratios.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        let place = (sorted.len() * 95).div_ceil(100).min(sorted.len()) - 1;
        sorted[place].clamp(1.0, SPREAD_MAX)
    }

    /// Learns from a task that took so many milliseconds.
    pub(super) fn observe(&mut self, parts: [f64; PARTS], took_ms: f64) {
        let predicted: f64 = parts.iter().sum();
        let usable = predicted.is_finite() && predicted > 0.0 && took_ms <= TOOK_MS_MAX;
        if !usable || took_ms < 0.0 {
            return;
        }
        let shares = parts.map(|part| part / predicted);
        let expected = dot(self.factors, shares);
        let step = if self.samples < FIRST_SAMPLES { FIRST_STEP_MAX } else { STEP_MAX };
        let found = (took_ms / predicted).clamp(expected / step, expected * step);
        let next = self.updated(shares, found - expected);
        if next.is_sound() {
            *self = next;
        } else {
            // Rounding broke the matrix: what was learnt is kept, how sure it is begins anew.
            self.uncertainty = Self::default().uncertainty;
        }
        self.samples += 1;
        if self.ratios.len() == RATIOS_MAX {
            self.ratios.remove(0);
        }
        self.ratios.push(found / expected);
    }

    fn updated(&self, shares: [f64; PARTS], error: f64) -> Self {
        let seen = self.uncertainty.map(|row| dot(row, shares));
        let scale = NOISE + dot(seen, shares);
        let mut next = self.clone();
        for (row, seen_row) in seen.iter().enumerate() {
            let gain = seen_row / scale;
            next.factors[row] = (next.factors[row] + gain * error).clamp(FACTOR_MIN, FACTOR_MAX);
            for (column, seen_column) in seen.iter().enumerate() {
                next.uncertainty[row][column] -= gain * seen_column;
            }
            next.uncertainty[row][row] += WANDERING;
        }
        let sum: f64 = (0..PARTS).map(|place| next.uncertainty[place][place]).sum();
        if sum > UNCERTAINTY_MAX {
            let shrink = UNCERTAINTY_MAX / sum;
            next.uncertainty = next.uncertainty.map(|row| row.map(|cell| cell * shrink));
        }
        next
    }

    fn is_sound(&self) -> bool {
        let finite = self.uncertainty.iter().flatten().chain(&self.factors).all(|v| v.is_finite());
        finite && (0..PARTS).all(|place| self.uncertainty[place][place] > 0.0)
    }
}

fn dot(a: [f64; PARTS], b: [f64; PARTS]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}
