//! A histogram of times, for monitors: every life of a task adds to two, so adding takes no lock and a few nanoseconds.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

/// Where the buckets end, in microseconds: from a fast sync to a long video. One more is for all above.
const ENDS_US: [u64; 20] = [
    250,
    500,
    1_000,
    2_500,
    5_000,
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    30_000_000,
    60_000_000,
    300_000_000,
    1_800_000_000,
    7_200_000_000,
];

/// How many times fell into each bucket. A clone is the same histogram.
#[derive(Clone, Debug, Default)]
pub(crate) struct Times(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    buckets: [AtomicU64; ENDS_US.len() + 1],
    sum_us: AtomicU64,
}

impl Times {
    /// Adds one. A time that is the end of a bucket is in it.
    pub(crate) fn add(&self, us: u64) {
        let bucket = ENDS_US.partition_point(|end| *end < us);
        self.0.buckets[bucket].fetch_add(1, Relaxed);
        self.0.sum_us.fetch_add(us, Relaxed);
    }
}

impl EncodeMetric for Times {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        let ends = ENDS_US.iter().map(|us| seconds(*us)).chain([f64::INFINITY]);
        let counts = self.0.buckets.iter().map(|bucket| bucket.load(Relaxed));
        let buckets: Vec<(f64, u64)> = ends.zip(counts).collect();
        let count = buckets.iter().map(|(_, count)| count).sum();
        let sum = seconds(self.0.sum_us.load(Relaxed));
        encoder.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Histogram
    }
}

fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use prometheus_client::registry::Registry;

    use super::*;

    #[test]
    fn a_time_is_counted_in_the_first_bucket_that_does_not_end_before_it_and_in_all_above() {
        let times = Times::default();
        for us in [0, 250, 251, 1_000_000, u64::from(u32::MAX) * 10] {
            times.add(us);
        }
        let mut registry = Registry::default();
        registry.register("t", "Times", times.clone());
        times.add(400);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        for line in [
            r#"t_bucket{le="0.00025"} 2"#,
            r#"t_bucket{le="0.0005"} 4"#,
            r#"t_bucket{le="0.5"} 4"#,
            r#"t_bucket{le="1.0"} 5"#,
            r#"t_bucket{le="7200.0"} 5"#,
            r#"t_bucket{le="+Inf"} 6"#,
            "t_count 6",
            "t_sum 42950.673851",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
    }
}
