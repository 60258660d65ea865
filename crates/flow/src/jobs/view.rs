//! A job as people see it: what it was asked, how its stages went, where it is.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::state::{JobFile, JobState};
use crate::job::{OnError, PartDone, PartitionSize, Report, Skip, Spec, StageDone, Summary};

/// A job as people see it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Flow")]
pub(crate) struct JobView {
    /// Its name for programs.
    pub(crate) id: String,
    /// Its name for people.
    pub(crate) name: String,
    /// Its kind.
    pub(crate) kind: String,
    /// When it was started, in milliseconds since 1970.
    pub(crate) created_at_ms: u64,
    /// Where it is.
    pub(crate) state: JobState,
    /// Why it is there, where that is not plain.
    pub(crate) reason: Option<String>,
    /// When it ended.
    pub(crate) ended_at_ms: Option<u64>,
    /// Files that it reads.
    pub(crate) inputs: u64,
    /// Their bytes.
    pub(crate) input_bytes: u64,
    /// What becomes of rows that are wrong.
    pub(crate) on_error: OnError,
    /// Its stages so far; the last one may be under way.
    pub(crate) stages: Vec<StageView>,
    /// Rows that were left out because they are wrong.
    pub(crate) skipped: u64,
    /// The first of them.
    pub(crate) first_skipped: Vec<Skip>,
    /// Counters of all parts.
    pub(crate) counters: BTreeMap<String, u64>,
    /// What it says, once it is done.
    pub(crate) summary: Option<Summary>,
}

/// A stage as people see it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "FlowStage")]
#[serde(default)]
pub(crate) struct StageView {
    /// Its name.
    pub(crate) name: String,
    /// Its parts.
    pub(crate) parts: u32,
    /// Those that are done.
    pub(crate) done: u32,
    /// Those that run.
    pub(crate) running: u32,
    /// Second chances that were given to parts that took long.
    pub(crate) twins: u32,
    /// Attempts of parts beyond their first.
    pub(crate) repeated: u32,
    /// When it began, in milliseconds since 1970.
    pub(crate) started_at_ms: u64,
    /// When it was done.
    pub(crate) ended_at_ms: Option<u64>,
    /// Bytes that it will have read, as far as is known.
    pub(crate) bytes_total: u64,
    /// Bytes that it has read so far.
    pub(crate) bytes_done: u64,
    /// Rows that parts which are done have read.
    pub(crate) rows_in: u64,
    /// Rows that they wrote.
    pub(crate) rows_out: u64,
    /// Bytes that they wrote.
    pub(crate) bytes_out: u64,
    /// The largest share of a part over the average: 1 is even.
    pub(crate) skew: f64,
    /// What parts wrote for each partition of the next stage, or else what each part read.
    pub(crate) sizes: Vec<PartitionSize>,
    /// Milliseconds in which no part ran: what the task engine and the driver took.
    pub(crate) engine_ms: u64,
    /// What parts say at the moment.
    pub(crate) notes: Vec<String>,
    /// How far a stream is that goes on, once it has kept something.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) stream: Option<StreamView>,
    #[serde(skip_serializing_if = "Report::is_nothing")]
    #[schemars(skip)]
    pub(crate) totals: Report,
}

/// How far a stream is, as it has kept it last.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "FlowStream")]
pub(crate) struct StreamView {
    /// Events that were read.
    pub(crate) events: u64,
    /// Events that came after their windows were closed.
    pub(crate) late: u64,
    /// Windows that are not closed.
    pub(crate) windows_open: u64,
    /// Up to when all events have come, in milliseconds since 1970; nothing before the first event.
    pub(crate) watermark_ms: Option<i64>,
    /// Milliseconds from there to the latest event.
    pub(crate) lag_ms: Option<u64>,
}

/// A stage that is under way.
#[derive(Clone, Debug, Default)]
pub(crate) struct LiveStage {
    /// What is known of it.
    pub(crate) stage: StageView,
}

/// Sizes of a view.
const SIZES_MAX: usize = 4_096;

/// How a job stands.
pub(super) fn view(
    spec: Spec,
    state: JobFile,
    live: Option<LiveStage>,
    is_stopping: bool,
) -> JobView {
    let mut stages = state.stages;
    let (at, reason, ended_at_ms, summary) = match state.ended {
        Some(ended) => (ended.state, ended.reason, Some(ended.at_ms), ended.summary),
        None => {
            // A stream that has nothing to do gives its slot back for a moment.
            let runs = live
                .as_ref()
                .is_some_and(|live| live.stage.running > 0 || live.stage.stream.is_some());
            let at = match (state.is_cancelled, is_stopping, runs || !stages.is_empty()) {
                (true, _, _) => JobState::Cancelling,
                (false, true, _) => JobState::Stopping,
                (false, false, true) => JobState::Running,
                (false, false, false) => JobState::Waiting,
            };
            (at, None, None, None)
        }
    };
    stages.extend(live.map(|live| live.stage));
    let mut totals = Report::default();
    for stage in &mut stages {
        totals.add(&stage.totals);
        stage.totals = Report::default();
    }
    JobView {
        inputs: spec.inputs.len() as u64,
        input_bytes: spec.input_bytes(),
        id: spec.id,
        name: spec.name,
        kind: spec.kind,
        created_at_ms: spec.created_at_ms,
        state: at,
        reason,
        ended_at_ms,
        on_error: spec.on_error,
        stages,
        skipped: totals.skipped,
        first_skipped: totals.first_skipped,
        counters: totals.counters,
        summary,
    }
}

impl StageView {
    /// A stage that is done.
    pub(super) fn of(done: &StageDone, twins: u32) -> Self {
        let parts = u32::try_from(done.parts.len()).unwrap_or(u32::MAX);
        let mut view = Self {
            name: done.name.clone(),
            parts,
            done: parts,
            twins,
            started_at_ms: done.started_at_ms,
            ended_at_ms: Some(done.ended_at_ms),
            engine_ms: idle_ms(done),
            ..Self::default()
        };
        view.take(done.parts.iter());
        view.bytes_total = view.bytes_done;
        view
    }

    /// Adds what parts that are done said.
    pub(super) fn take<'a>(&mut self, parts: impl Iterator<Item = &'a PartDone>) {
        let mut per_part = Vec::new();
        let mut per_partition: Vec<PartitionSize> = Vec::new();
        let mut totals = Report::default();
        for part in parts {
            let report = &part.report;
            totals.add(report);
            self.repeated += part.attempts.saturating_sub(1);
            per_part.push(PartitionSize { rows: report.rows_in, bytes: report.bytes_in });
            if per_partition.len() < report.partitions.len() {
                per_partition.resize(report.partitions.len(), PartitionSize::default());
            }
            for (sum, size) in per_partition.iter_mut().zip(&report.partitions) {
                sum.rows += size.rows;
                sum.bytes += size.bytes;
            }
        }
        self.rows_in = totals.rows_in;
        self.rows_out = totals.rows_out;
        self.bytes_out = totals.bytes_out;
        self.bytes_done = totals.bytes_in;
        self.totals = totals;
        self.sizes = if per_partition.len() > 1 { per_partition } else { per_part };
        self.sizes.truncate(SIZES_MAX);
        self.skew = skew(&self.sizes);
    }
}

/// The largest share over the average.
fn skew(sizes: &[PartitionSize]) -> f64 {
    let total: u64 = sizes.iter().map(|size| size.bytes).sum();
    let largest = sizes.iter().map(|size| size.bytes).max().unwrap_or(0);
    if total == 0 {
        return 1.0;
    }
    let skew = largest as f64 * sizes.len() as f64 / total as f64;
    (skew * 100.0).round() / 100.0
}

/// Milliseconds of a stage in which none of its parts ran.
fn idle_ms(done: &StageDone) -> u64 {
    let mut spans: Vec<(u64, u64)> =
        done.parts.iter().map(|part| (part.started_at_ms, part.ended_at_ms)).collect();
    spans.sort_unstable();
    let (mut idle, mut busy_until) = (0, done.started_at_ms);
    for (start, end) in spans {
        idle += start.saturating_sub(busy_until);
        busy_until = busy_until.max(end);
    }
    idle + done.ended_at_ms.saturating_sub(busy_until)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::NewJob;

    #[test]
    fn a_stream_that_rests_for_a_moment_runs_until_it_is_told_to_stop() {
        let spec = || {
            let new = NewJob::new("stream");
            Spec {
                id: "a".into(),
                name: "a".into(),
                kind: new.kind,
                created_at_ms: 0,
                inputs: Vec::new(),
                on_error: new.on_error,
                memory_bytes: 1,
                split_bytes: 1,
                partitions: None,
                options: new.options,
            }
        };
        let state = |stream: Option<StreamView>, is_stopping| {
            let live = LiveStage { stage: StageView { stream, ..StageView::default() } };
            view(spec(), JobFile::default(), Some(live), is_stopping).state
        };
        assert_eq!(state(None, false), JobState::Waiting);
        assert_eq!(state(Some(StreamView::default()), false), JobState::Running);
        assert_eq!(state(Some(StreamView::default()), true), JobState::Stopping);
        let cancelled = JobFile { is_cancelled: true, ..JobFile::default() };
        assert_eq!(view(spec(), cancelled, None, true).state, JobState::Cancelling);
    }

    #[test]
    fn what_parts_did_not_use_is_the_engine_and_the_largest_partition_is_the_skew() {
        let part = |start, end, bytes: [u64; 2]| PartDone {
            started_at_ms: start,
            ended_at_ms: end,
            attempts: 1,
            report: Report {
                bytes_in: 10,
                partitions: bytes.map(|bytes| PartitionSize { rows: 1, bytes }).to_vec(),
                ..Report::default()
            },
            ..PartDone::default()
        };
        let done = StageDone {
            name: "map".into(),
            started_at_ms: 100,
            ended_at_ms: 200,
            parts: vec![part(110, 150, [30, 0]), part(120, 140, [30, 20]), part(160, 195, [0, 0])],
        };
        let view = StageView::of(&done, 0);
        assert_eq!(view.engine_ms, 10 + 10 + 5);
        assert_eq!(view.sizes.iter().map(|size| size.bytes).collect::<Vec<_>>(), [60, 20]);
        assert!((view.skew - 1.5).abs() < 1e-9, "{}", view.skew);
        assert_eq!((view.bytes_done, view.done, view.repeated), (30, 3, 0));
    }
}
