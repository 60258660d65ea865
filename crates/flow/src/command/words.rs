//! Jobs in words for people: one line, a summary, tables.

use anyhow::Result;
use divvy::types::Timestamp;
use divvy_workload::console::output::Output;
use divvy_workload::console::output::table::{Cell, Table};
use divvy_workload::console::output::words::{bytes, count, now, relative};

use crate::jobs::state::JobState;
use crate::jobs::view::{JobView, StageView};

/// How far a job is, on one line.
pub(super) fn line(job: &JobView) -> String {
    let Some(stage) = job.stages.last() else { return job.state.as_str().to_owned() };
    let mut text = format!(
        "{}: {}/{} parts, {} running, {} of {}",
        stage.name,
        stage.done,
        stage.parts,
        stage.running,
        bytes(stage.bytes_done),
        bytes(stage.bytes_total),
    );
    if stage.done > 1 {
        text.push_str(&format!(", skew {:.2}", stage.skew));
    }
    if stage.twins > 0 {
        text.push_str(&format!(", {}", count(stage.twins.into(), "twin")));
    }
    for note in stage.notes.iter().take(2) {
        text.push_str("; ");
        text.push_str(&Cell::from(note.as_str()).into_text());
    }
    if job.state != JobState::Running {
        text = format!("{}: {text}", job.state.as_str());
    }
    text
}

/// A stage that is done, on one line.
pub(super) fn stage_line(stage: &StageView) -> String {
    let took = stage.ended_at_ms.unwrap_or(stage.started_at_ms).saturating_sub(stage.started_at_ms);
    format!(
        "{}: {} in {:.1} s; {} in, {} out, {} read, {} written, skew {:.2}",
        stage.name,
        count(stage.parts.into(), "part"),
        took as f64 / 1e3,
        count(stage.rows_in, "row"),
        count(stage.rows_out, "row"),
        bytes(stage.bytes_done),
        bytes(stage.bytes_out),
        stage.skew,
    )
}

fn color(state: JobState) -> &'static str {
    match state {
        JobState::Running | JobState::Stopping => "34",
        JobState::Done => "32",
        JobState::Failed => "31",
        JobState::Waiting | JobState::Cancelling | JobState::Cancelled => "33",
    }
}

/// A table of jobs.
pub(super) fn table(jobs: &[JobView]) -> Table {
    let mut table =
        Table::new(&["=ID", "NAME", "=KIND", "=STATE", "=STAGE", ">PARTS", ">INPUT", "=STARTED"]);
    for job in jobs {
        let stage = job.stages.last();
        table.row([
            job.id.as_str().into(),
            job.name.as_str().into(),
            job.kind.as_str().into(),
            Cell::colored(job.state.as_str(), color(job.state)),
            stage.map_or("", |stage| stage.name.as_str()).into(),
            stage
                .map_or_else(String::new, |stage| format!("{}/{}", stage.done, stage.parts))
                .into(),
            amount(job).into(),
            relative(Timestamp(job.created_at_ms * 1_000), now()).into(),
        ]);
    }
    table
}

fn stages(job: &JobView) -> Table {
    let mut table = Table::new(&[
        "=STAGE",
        ">PARTS",
        ">ROWS IN",
        ">ROWS OUT",
        ">READ",
        ">WRITTEN",
        ">SKEW",
        ">AGAIN",
        ">TWINS",
        ">SECONDS",
        ">ENGINE",
    ]);
    for stage in &job.stages {
        let took = stage.ended_at_ms.map(|end| end.saturating_sub(stage.started_at_ms));
        table.row([
            stage.name.as_str().into(),
            format!("{}/{}", stage.done, stage.parts).into(),
            stage.rows_in.to_string().into(),
            stage.rows_out.to_string().into(),
            bytes(stage.bytes_done).into(),
            bytes(stage.bytes_out).into(),
            format!("{:.2}", stage.skew).into(),
            stage.repeated.to_string().into(),
            stage.twins.to_string().into(),
            took.map_or_else(|| "…".to_owned(), |took| format!("{:.2}", took as f64 / 1e3)).into(),
            format!("{:.2}", stage.engine_ms as f64 / 1e3).into(),
        ]);
    }
    table
}

/// How much a job reads. Nobody knows what a stream will bring, so it tells what came.
fn amount(job: &JobView) -> String {
    match job.stages.last().and_then(|stage| stage.stream.as_ref()) {
        Some(stream) => count(stream.events, "event"),
        None => bytes(job.input_bytes),
    }
}

/// The same, with the files that it is in.
fn input(job: &JobView) -> String {
    let files = (job.inputs > 0).then(|| format!(" in {}", count(job.inputs, "file")));
    amount(job) + &files.unwrap_or_default()
}

/// Everything about a job on one screen.
pub(super) fn summary(job: &JobView, output: &Output) -> Result<()> {
    let name = Cell::from(job.name.as_str()).into_text();
    output.data(format_args!("{}  {}  {} {name}", job.id, job.state.as_str(), job.kind))?;
    let row = |key: &str, value: String| output.data(format_args!("  {key:<9} {value}"));
    if let Some(reason) = &job.reason {
        row("reason", Cell::from(reason.as_str()).into_text())?;
    }
    row("input", input(job))?;
    if let Some(ended) = job.ended_at_ms {
        let took = ended.saturating_sub(job.created_at_ms) as f64 / 1e3;
        row("took", format!("{took:.1} s"))?;
    }
    if !job.stages.is_empty() {
        stages(job).print(output)?;
    }
    for note in job.stages.iter().flat_map(|stage| &stage.notes) {
        row("now", Cell::from(note.as_str()).into_text())?;
    }
    for (name, count) in &job.counters {
        row("counter", format!("{} {count}", Cell::from(name.as_str()).into_text()))?;
    }
    if job.skipped > 0 {
        row("left out", count(job.skipped, "wrong row"))?;
    }
    for skip in &job.first_skipped {
        let text = format!("{}:{}: {}", skip.file, skip.line, skip.why);
        row("", Cell::from(text.as_str()).into_text())?;
    }
    for line in job.summary.iter().flat_map(|summary| &summary.lines) {
        output.data(Cell::from(line.as_str()).into_text())?;
    }
    Ok(())
}
