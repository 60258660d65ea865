//! Decides how a stage changed: its older samples against its newer ones. Knows no thresholds.

use std::collections::VecDeque;

use super::Sample;

/// How a stage changed.
pub(super) struct Trend {
    /// The mean of the older half.
    pub(super) older: Sample,
    /// The mean of the newer half.
    pub(super) newer: Sample,
    /// How clearly the queue rises with time, from −1 to 1.
    pub(super) queue_correlation: f64,
}

impl Trend {
    /// None while there are fewer samples than are wanted.
    pub(super) fn of(samples: &VecDeque<Sample>, wanted: usize) -> Option<Self> {
        if samples.len() < wanted {
            return None;
        }
        let half = wanted / 2;
        Some(Self {
            older: mean(samples.range(..half)),
            newer: mean(samples.range(wanted - half..)),
            queue_correlation: correlation_with_time(samples.iter().map(|sample| sample.queued)),
        })
    }
}

fn mean<'a>(samples: impl ExactSizeIterator<Item = &'a Sample>) -> Sample {
    let share = 1.0 / samples.len() as f64;
    samples.fold(Sample::default(), |sum, sample| Sample {
        utilisation: sum.utilisation + sample.utilisation * share,
        queued: sum.queued + sample.queued * share,
        rate_in: sum.rate_in + sample.rate_in * share,
        rate_out: sum.rate_out + sample.rate_out * share,
        latency_seconds: sum.latency_seconds + sample.latency_seconds * share,
    })
}

/// Pearson's correlation of values with their places; 0 if they do not vary.
fn correlation_with_time(values: impl ExactSizeIterator<Item = f64> + Clone) -> f64 {
    let count = values.len() as f64;
    let mean_value = values.clone().sum::<f64>() / count;
    let mean_place = (count - 1.0) / 2.0;
    let (mut joint, mut of_values, mut of_places) = (0.0, 0.0, 0.0);
    for (place, value) in values.enumerate() {
        let (place, value) = (place as f64 - mean_place, value - mean_value);
        joint += place * value;
        of_values += value * value;
        of_places += place * place;
    }
    if of_values > 0.0 && of_places > 0.0 { joint / (of_values * of_places).sqrt() } else { 0.0 }
}
