//! `GET /metrics`: the figures in the Prometheus text format.

use std::collections::BTreeMap;
use std::fmt::{Display, Write as _};
use std::sync::atomic::Ordering::Relaxed;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use divvy_engine::Snapshot;
use divvy_http::ApiError;
use divvy_types::TaskState;
use divvy_types::view::{QueueView, WorkerView};
use http::header::CONTENT_TYPE;

use crate::app::{App, VERSION};
use crate::http::{alerts, metrics_load};

/// Queues that get lines of their own; the others are only in the totals. Bounds what a monitor has to store.
const QUEUES_MAX: usize = 1_000;

/// All figures.
pub(crate) async fn show(State(app): State<App>) -> Result<Response, ApiError> {
    let snapshot = app.handle.stats().await?;
    let queues = app.handle.queues().await?;
    let finals = app.handle.final_counts().await?;
    let mut text = Text::default();
    text.one("divvy_build_info", "gauge", "The version of the server.", &[("version", VERSION)], 1);
    let uptime = app.started.elapsed().as_secs_f64();
    text.one(
        "divvy_uptime_seconds",
        "gauge",
        "Time since the server began to listen.",
        &[],
        uptime,
    );
    let connections = app.connections.load(Relaxed);
    text.one("divvy_connections", "gauge", "Open connections to the server.", &[], connections);
    counters(&mut text, &snapshot);
    open_tasks(&mut text, &snapshot, &finals);
    by_queue(&mut text, &queues);
    let rates = success_rates(&app.handle.workers().await?);
    let (_, scene) = alerts::scene(&app, snapshot).await?;
    metrics_load::write(&mut text, &scene, &rates);
    Ok(([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text.0).into_response())
}

/// The success of each worker by name; of several connections of one name, the worst.
fn success_rates(workers: &[WorkerView]) -> Vec<(String, f64)> {
    let mut rates: BTreeMap<&str, f64> = BTreeMap::new();
    for worker in workers {
        let rate = rates.entry(&worker.name).or_insert(worker.success_rate);
        *rate = rate.min(worker.success_rate);
    }
    rates.into_iter().map(|(name, rate)| (name.to_owned(), rate)).collect()
}

fn counters(text: &mut Text, snapshot: &Snapshot) {
    for (name, help, value) in [
        ("divvy_tasks_submitted_total", "Tasks accepted since the start.", snapshot.submitted),
        ("divvy_tasks_finished_total", "Tasks done since the start.", snapshot.finished),
        (
            "divvy_tasks_dead_total",
            "Tasks that became dead letters since the start.",
            snapshot.dead,
        ),
        ("divvy_tasks_cancelled_total", "Tasks cancelled since the start.", snapshot.cancelled),
        (
            "divvy_attempts_failed_total",
            "Attempts that failed and are retried.",
            snapshot.failed_attempts,
        ),
        ("divvy_grants_total", "Leases given out.", snapshot.granted),
        (
            "divvy_reports_refused_total",
            "Reports refused because their token was not valid.",
            snapshot.refused_reports,
        ),
        ("divvy_facts_total", "Facts made durable.", snapshot.facts),
    ] {
        text.one(name, "counter", help, &[], value);
    }
    text.head("divvy_commit_seconds", "summary", "Time that commits took, one per group of facts.");
    text.line("divvy_commit_seconds_sum", &[], seconds(snapshot.commit_us_total));
    text.line("divvy_commit_seconds_count", &[], snapshot.groups);
    let longest = seconds(snapshot.commit_us_max);
    text.one(
        "divvy_commit_seconds_max",
        "gauge",
        "The longest commit since the start.",
        &[],
        longest,
    );
    text.one(
        "divvy_disk_full",
        "gauge",
        "1 while new tasks are refused for lack of disk space.",
        &[],
        snapshot.disk_full,
    );
    text.one("divvy_workers", "gauge", "Connected workers.", &[], snapshot.workers);
}

fn open_tasks(text: &mut Text, snapshot: &Snapshot, finals: &[(TaskState, u64)]) {
    text.head("divvy_tasks", "gauge", "Tasks in each state; final ones as long as they are kept.");
    let open = [
        (TaskState::Blocked, snapshot.blocked),
        (TaskState::Scheduled, snapshot.scheduled),
        (TaskState::Ready, snapshot.ready),
        (TaskState::Leased, snapshot.leased),
    ];
    for (state, count) in open.iter().chain(finals) {
        text.line("divvy_tasks", &[("state", state.as_str())], count);
    }
    let help = "Ready tasks that wait in the store because the window in memory is full.";
    text.one("divvy_tasks_spilled", "gauge", help, &[], snapshot.spilled);
}

fn by_queue(text: &mut Text, queues: &[QueueView]) {
    let queues = &queues[..queues.len().min(QUEUES_MAX)];
    if queues.is_empty() {
        return;
    }
    text.head("divvy_queue_tasks", "gauge", "Open tasks of each queue in each state.");
    for queue in queues {
        for (state, count) in [
            (TaskState::Blocked, queue.blocked),
            (TaskState::Scheduled, queue.scheduled),
            (TaskState::Ready, queue.ready),
            (TaskState::Leased, queue.leased),
        ] {
            text.line(
                "divvy_queue_tasks",
                &[("queue", &queue.name), ("state", state.as_str())],
                count,
            );
        }
    }
    text.head("divvy_queue_paused", "gauge", "1 while a queue is paused.");
    for queue in queues {
        text.line("divvy_queue_paused", &[("queue", &queue.name)], u8::from(queue.paused));
    }
    text.head(
        "divvy_queue_oldest_ready_seconds",
        "gauge",
        "How long the oldest ready task of a queue has waited.",
    );
    for queue in queues {
        let oldest = queue.oldest_ready_ms.unwrap_or(0) as f64 / 1e3;
        text.line("divvy_queue_oldest_ready_seconds", &[("queue", &queue.name)], oldest);
    }
}

fn seconds(micros: u64) -> f64 {
    micros as f64 / 1e6
}

/// A page in the making.
#[derive(Default)]
pub(crate) struct Text(String);

impl Text {
    /// One figure.
    pub(crate) fn one(
        &mut self,
        name: &str,
        kind: &str,
        help: &str,
        labels: &[(&str, &str)],
        value: impl Display,
    ) {
        self.head(name, kind, help);
        self.line(name, labels, value);
    }

    /// What the lines that follow mean.
    pub(crate) fn head(&mut self, name: &str, kind: &str, help: &str) {
        self.push(format_args!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
    }

    /// One figure of several.
    pub(crate) fn line(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        self.0.push_str(name);
        for (at, (label, text)) in labels.iter().enumerate() {
            self.0.push(if at == 0 { '{' } else { ',' });
            self.push(format_args!("{label}=\"{}\"", escape(text)));
        }
        if !labels.is_empty() {
            self.0.push('}');
        }
        self.push(format_args!(" {value}\n"));
    }

    #[cfg(test)]
    pub(crate) fn into_string(self) -> String {
        self.0
    }

    fn push(&mut self, text: std::fmt::Arguments<'_>) {
        self.0.write_fmt(text).expect("writing to a string cannot fail");
    }
}

/// A label's text: backslash, quote and line feed have a form of their own.
fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped() {
        let mut text = Text::default();
        text.one("divvy_x", "gauge", "X.", &[("queue", "a\"b\\c\nd"), ("state", "ready")], 1.5);
        let expected = "# HELP divvy_x X.\n# TYPE divvy_x gauge\ndivvy_x{queue=\"a\\\"b\\\\c\\nd\",state=\"ready\"} 1.5\n";
        assert_eq!(text.0, expected);
    }
}
