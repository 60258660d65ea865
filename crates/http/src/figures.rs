//! Figures for monitors: how the server and workloads write what is true at the moment of a scrape, beside what registries
//! count all the time.

use std::fmt;

use prometheus_client::encoding::{
    DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, MetricEncoder, NoLabelSet,
};
use prometheus_client::metrics::MetricType;

/// A page of figures in the making. Units stand last in a name, as monitors expect it: `engine_seconds`.
#[derive(Debug)]
pub struct Page<'a>(DescriptorEncoder<'a>);

/// One figure of several things, each with its labels.
#[derive(Debug)]
pub struct Family<'a> {
    encoder: MetricEncoder<'a>,
    only_grows: bool,
}

impl<'a> Page<'a> {
    /// What a collector is given to write on.
    pub fn new(encoder: DescriptorEncoder<'a>) -> Self {
        Self(encoder)
    }

    /// A figure that may fall.
    ///
    /// # Errors
    /// If it cannot be written; so have all others.
    pub fn gauge(&mut self, name: &str, help: &str, value: impl EncodeGaugeValue) -> fmt::Result {
        self.0.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(&value)
    }

    /// A figure that only grows; its name gets the end `_total`.
    pub fn counter(
        &mut self,
        name: &str,
        help: &str,
        value: impl EncodeCounterValue,
    ) -> fmt::Result {
        let mut encoder = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
        encoder.encode_counter::<NoLabelSet, _, u64>(&value, None)
    }

    /// How many values are in each bucket, by where that ends; the last end is infinity.
    pub fn histogram(
        &mut self,
        name: &str,
        help: &str,
        sum: f64,
        buckets: &[(f64, u64)],
    ) -> fmt::Result {
        let count = buckets.iter().map(|(_, count)| count).sum();
        let mut encoder = self.0.encode_descriptor(name, help, None, MetricType::Histogram)?;
        encoder.encode_histogram::<NoLabelSet>(sum, count, buckets, None)
    }

    /// A figure that several things have, and that may fall.
    pub fn gauges<'s>(
        &'s mut self,
        name: &'s str,
        help: &'s str,
    ) -> Result<Family<'s>, fmt::Error> {
        let encoder = self.0.encode_descriptor(name, help, None, MetricType::Gauge)?;
        Ok(Family { encoder, only_grows: false })
    }

    /// A figure that several things have, and that only grows.
    pub fn counters<'s>(
        &'s mut self,
        name: &'s str,
        help: &'s str,
    ) -> Result<Family<'s>, fmt::Error> {
        let encoder = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
        Ok(Family { encoder, only_grows: true })
    }
}

impl Family<'_> {
    /// That of one thing.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn add(&mut self, labels: &[(&str, &str)], value: f64) -> fmt::Result {
        let mut one = self.encoder.encode_family(&labels)?;
        match self.only_grows {
            true => one.encode_counter::<NoLabelSet, _, u64>(&value, None),
            false => one.encode_gauge(&value),
        }
    }
}
