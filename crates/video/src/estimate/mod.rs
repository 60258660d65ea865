//! How long a task will take: what its size is, and models that learn from what tasks took.
//!
//! A [`Size`] says what a task consists of, in amounts that its time on processors is linear in. A model per kind of
//! task (and preset, where it matters) begins with measured constants and corrects them with every task that ended.
//! The mean is for capacity and progress; [`Estimates::nearly_always`] is for time-outs and deadlines.
//!
//! Knows no clock, no store and no worker.

mod model;
mod size;
#[cfg(test)]
mod whole_videos;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use model::Model;
pub use size::Size;

/// The name of the record with what was learnt.
pub const RECORD: &str = "video/estimates";

/// Models that are kept: kinds times presets are far fewer.
const MODELS_MAX: usize = 256;

/// What was learnt about all kinds of tasks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Estimates {
    models: BTreeMap<String, Model>,
}

impl Estimates {
    /// The time on processors that such a task takes on average.
    pub fn expected(&self, size: &Size) -> Duration {
        millis(self.model(size).expected(size.parts()))
    }

    /// The time that it takes nearly always: 19 of 20 times.
    pub fn nearly_always(&self, size: &Size) -> Duration {
        let model = self.model(size);
        millis(model.expected(size.parts()) * model.spread())
    }

    /// How long an attempt may take before it is stopped. The program of a provider may be any, so nothing shorter than
    /// what it is promised holds for it: one that is slower than the constants could otherwise never be learnt.
    pub fn time_limit(&self, size: &Size) -> Duration {
        (self.nearly_always(size) * 3).max(size.allowed()) + Duration::from_secs(60)
    }

    /// Learns that such a task took so long.
    pub fn observe(&mut self, size: &Size, took: Duration) {
        let known = self.models.contains_key(size.name());
        if !known && self.models.len() >= MODELS_MAX {
            return;
        }
        let model = self.models.entry(size.name().to_owned()).or_default();
        model.observe(size.parts(), took.as_secs_f64() * 1_000.0);
    }

    /// Whether anything was learnt about tasks of this sort.
    #[cfg(test)]
    pub(crate) fn knows(&self, size: &Size) -> bool {
        self.models.contains_key(size.name())
    }

    fn model(&self, size: &Size) -> Model {
        self.models.get(size.name()).cloned().unwrap_or_default()
    }
}

fn millis(millis: f64) -> Duration {
    // A model is bounded by its constants, but a size may come from a source that lies.
    Duration::from_secs_f64((millis / 1_000.0).clamp(0.001, 30.0 * 86_400.0))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::test_runner::RngSeed;

    use super::*;

    /// A task that costs `a` + `b` per unit of work + `c` per unit of decoding, times the constants.
    fn cost(size: &Size, factors: [f64; 3]) -> f64 {
        size.parts().iter().zip(factors).map(|(part, factor)| part * factor).sum()
    }

    fn encode(work: f64, decoded: f64) -> Size {
        Size::of_encode("veryfast", work, decoded)
    }

    fn relative_error(estimates: &Estimates, size: &Size, factors: [f64; 3]) -> f64 {
        let (found, right) =
            (estimates.expected(size).as_secs_f64() * 1_000.0, cost(size, factors));
        (found - right).abs() / right
    }

    // Always the same numbers: of noise it can only be said what it nearly always does.
    proptest! {
        #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(1), ..ProptestConfig::with_cases(64) })]

        #[test]
        fn a_linear_cost_is_found_under_noise(
            factors in [0.2..4.0_f64, 0.2..4.0_f64, 0.2..4.0_f64],
            samples in prop::collection::vec((50.0..4_000.0_f64, 50.0..3_000.0_f64, -0.1..0.1_f64), 300),
        ) {
            let mut estimates = Estimates::default();
            for (work, decoded, noise) in &samples {
                let size = encode(*work, *decoded);
                let took = cost(&size, factors) * (1.0 + noise);
                estimates.observe(&size, Duration::from_secs_f64(took / 1_000.0));
            }
            for size in [encode(100.0, 2_000.0), encode(1_500.0, 1_500.0), encode(3_500.0, 100.0)] {
                let error = relative_error(&estimates, &size, factors);
                prop_assert!(error < 0.12, "off by {error}");
                let nearly = estimates.nearly_always(&size).as_secs_f64();
                let expected = estimates.expected(&size).as_secs_f64();
                prop_assert!(nearly >= expected && nearly < expected * 1.5);
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn a_drift_is_followed(before in 0.3..3.0_f64, after in 0.3..3.0_f64) {
            let mut estimates = Estimates::default();
            let size = |number: u32| encode(f64::from(200 + number * 37 % 1_000), 400.0);
            for number in 0..600 {
                let factor = if number < 300 { before } else { after };
                let took = cost(&size(number), [factor; 3]);
                estimates.observe(&size(number), Duration::from_secs_f64(took / 1_000.0));
            }
            // What was before is forgotten but for a hundredth of what it differed.
            let error = relative_error(&estimates, &size(5), [after; 3]);
            let left = 0.01 * (before / after - 1.0).abs();
            prop_assert!(error < 0.05 + left, "off by {error}");
        }

        #[test]
        fn garbage_breaks_nothing(
            samples in prop::collection::vec(
                (prop::num::f64::ANY, prop::num::f64::ANY, 0_u64..u64::MAX),
                1..200,
            ),
        ) {
            let mut estimates = Estimates::default();
            for (work, decoded, took) in samples {
                estimates.observe(&encode(work, decoded), Duration::from_millis(took));
                let text = serde_json::to_string(&estimates).unwrap();
                estimates = serde_json::from_str(&text).unwrap();
                for size in [encode(work, decoded), encode(1_000.0, 500.0)] {
                    let (mean, most) = (estimates.expected(&size), estimates.nearly_always(&size));
                    prop_assert!(mean > Duration::ZERO && most >= mean, "{mean:?} {most:?}");
                }
                let cold = cost(&encode(1_000.0, 500.0), [1.0; 3]) / 1_000.0;
                let found = estimates.expected(&encode(1_000.0, 500.0)).as_secs_f64();
                prop_assert!(found >= cold / 60.0 && found <= cold * 60.0, "{found} of {cold}");
            }
        }
    }

    #[test]
    fn one_outlier_among_many_moves_little() {
        let mut estimates = Estimates::default();
        let size = encode(1_000.0, 500.0);
        for _ in 0..50 {
            estimates.observe(&size, Duration::from_secs(20));
        }
        estimates.observe(&size, Duration::from_secs(20_000));
        let found = estimates.expected(&size).as_secs_f64();
        assert!((18.0..30.0).contains(&found), "{found}");
    }

    #[test]
    fn presets_and_kinds_learn_apart() {
        let mut estimates = Estimates::default();
        let (fast, slow) = (encode(1_000.0, 500.0), Size::of_encode("slow", 1_000.0, 500.0));
        let before = estimates.expected(&slow);
        for _ in 0..50 {
            estimates.observe(&fast, Duration::from_secs(2));
        }
        assert_eq!(estimates.expected(&slow), before);
        assert!(estimates.expected(&fast) < Duration::from_secs(4));
        assert!(estimates.time_limit(&fast) >= Duration::from_secs(60));
    }
}
