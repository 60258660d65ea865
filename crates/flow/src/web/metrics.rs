//! Figures of all jobs of a server: how many there are, and what their stages read and wrote.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use divvy_http::figures::Page;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::registry::Registry;

use crate::jobs::state::JobState;
use crate::jobs::view::StageView;

/// The figures since the server started; a clone shares them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Figures(Arc<Mutex<Sums>>);

#[derive(Clone, Debug, Default)]
struct Sums {
    going: u64,
    running: u64,
    windows_open: u64,
    lag_ms: u64,
    ended: [u64; 3],
    stages: u64,
    parts: u64,
    repeated: u64,
    twins: u64,
    skipped: u64,
    bytes_in: u64,
    bytes_out: u64,
    rows_in: u64,
    engine_ms: u64,
}

const ENDS: [JobState; 3] = [JobState::Done, JobState::Failed, JobState::Cancelled];

impl Figures {
    /// These stages of jobs are under way.
    pub(crate) fn set(&self, going: &[StageView]) {
        let mut sums = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sums.going = going.len() as u64;
        sums.running = going.iter().map(|stage| u64::from(stage.running)).sum();
        let streams = || going.iter().filter_map(|stage| stage.stream.as_ref());
        sums.windows_open = streams().map(|stream| stream.windows_open).sum();
        sums.lag_ms = streams().filter_map(|stream| stream.lag_ms).max().unwrap_or(0);
    }

    /// A stage is done.
    pub(crate) fn stage(&self, stage: &StageView) {
        let mut sums = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sums.stages += 1;
        sums.parts += u64::from(stage.parts);
        sums.repeated += u64::from(stage.repeated);
        sums.twins += u64::from(stage.twins);
        sums.skipped += stage.totals.skipped;
        sums.bytes_in += stage.bytes_done;
        sums.bytes_out += stage.bytes_out;
        sums.rows_in += stage.rows_in;
        sums.engine_ms += stage.engine_ms;
    }

    /// A job has ended.
    pub(crate) fn ended(&self, how: JobState) {
        let mut sums = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (count, end) in sums.ended.iter_mut().zip(ENDS) {
            *count += u64::from(end == how);
        }
    }

    /// Tells them beside the server's own.
    pub(crate) fn register(self, registry: &mut Registry) {
        registry.register_collector(Box::new(self));
    }
}

impl Collector for Figures {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let sums = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut page = Page::new(encoder);
        page.gauge("jobs", "Dataflow jobs under way", sums.going as f64)?;
        page.gauge("parts_running", "Parts of them that run", sums.running as f64)?;
        page.gauge(
            "windows_open",
            "Windows of streams that are not closed",
            sums.windows_open as f64,
        )?;
        page.gauge(
            "watermark_lag_seconds",
            "How far the watermark is behind the latest event, of the stream where it is furthest",
            sums.lag_ms as f64 / 1e3,
        )?;
        let mut ended = page.counters("jobs_ended", "Dataflow jobs that have ended")?;
        for (end, count) in ENDS.iter().zip(sums.ended) {
            ended.add(&[("state", end.as_str())], count as f64)?;
        }
        for (name, help, value) in [
            ("stages", "Stages that are done", sums.stages as f64),
            ("parts", "Parts of them", sums.parts as f64),
            ("parts_repeated", "Attempts of parts beyond the first", sums.repeated as f64),
            ("twins", "Second chances of parts that took long", sums.twins as f64),
            ("rows_skipped", "Wrong rows that were left out", sums.skipped as f64),
            ("rows_read", "Rows that parts read", sums.rows_in as f64),
            ("bytes_read", "Bytes that parts read", sums.bytes_in as f64),
            ("bytes_written", "Bytes that parts wrote", sums.bytes_out as f64),
            ("engine_seconds", "Time of stages in which no part ran", sums.engine_ms as f64 / 1e3),
        ] {
            page.counter(name, help, value)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::view::StreamView;

    #[test]
    fn stages_and_ends_add_up() {
        let figures = Figures::default();
        let stage = StageView { parts: 3, rows_in: 7, engine_ms: 500, ..StageView::default() };
        figures.stage(&stage);
        figures.stage(&stage);
        figures.ended(JobState::Failed);
        let stream = |windows_open, lag_ms| {
            let stream = StreamView { windows_open, lag_ms, ..StreamView::default() };
            StageView { running: 1, stream: Some(stream), ..StageView::default() }
        };
        figures.set(&[stream(3, Some(20_500)), stream(4, None)]);
        let mut registry = Registry::default();
        figures.register(&mut registry);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        for line in [
            "jobs 2",
            "parts_running 2",
            "windows_open 7",
            "watermark_lag_seconds 20.5",
            "jobs_ended_total{state=\"failed\"} 1",
            "jobs_ended_total{state=\"done\"} 0",
            "parts_total 6",
            "rows_read_total 14",
            "engine_seconds_total 1",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
    }
}
