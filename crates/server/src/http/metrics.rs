//! `GET /metrics`: the figures in the OpenMetrics text format, which Prometheus reads.
//!
//! What is counted all the time is kept in registries (the engine's and the extension's). What is true at this moment,
//! such as the tasks of each queue, is asked for at each scrape and told as [`Moment`].

use std::fmt;
use std::sync::atomic::Ordering::Relaxed;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use divvy_engine::Snapshot;
use divvy_http::ApiError;
use divvy_http::figures::Page;
use divvy_types::TaskState;
use divvy_types::alerts::Alert;
use divvy_types::view::{QueueView, WorkerView};
use http::header::CONTENT_TYPE;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::registry::Registry;

use crate::alerts::{self, Looked, Scene};
use crate::app::{App, VERSION};
use crate::http::metrics_load;

/// What the name of every figure begins with.
pub(crate) const PREFIX: &str = "divvy";
/// Queues that get lines of their own; the others are only in the totals. Bounds what a monitor has to store.
const QUEUES_MAX: usize = 1_000;
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// All figures.
pub(crate) async fn show(State(app): State<App>) -> Result<Response, ApiError> {
    let moment = Moment::of(&app).await?;
    let mut asked = Registry::with_prefix(PREFIX);
    asked.register_collector(Box::new(moment));
    let text = written(app.metrics().chain([&asked]));
    Ok(([(CONTENT_TYPE, OPEN_METRICS)], text).into_response())
}

/// The figures of all registries as one text.
pub(crate) fn written<'a>(registries: impl IntoIterator<Item = &'a Registry>) -> String {
    let mut text = String::new();
    let each = registries.into_iter().try_for_each(|part| encode_registry(&mut text, part));
    each.and_then(|()| encode_eof(&mut text)).expect("writing to a string cannot fail");
    text
}

/// What is true at the moment of a scrape.
#[derive(Debug, Default)]
pub(crate) struct Moment {
    pub(crate) uptime_s: f64,
    pub(crate) connections: u64,
    pub(crate) finals: Vec<(TaskState, u64)>,
    pub(crate) queues: Vec<QueueView>,
    pub(crate) workers: Vec<WorkerView>,
    pub(crate) scene: Scene,
    pub(crate) alerts: Vec<Alert>,
}

impl Moment {
    async fn of(app: &App) -> Result<Self, ApiError> {
        let snapshot = app.handle.stats().await?;
        let Looked { scene, alerts } = alerts::look(app, snapshot).await?;
        let mut queues = app.handle.queues().await?;
        queues.truncate(QUEUES_MAX);
        Ok(Self {
            uptime_s: app.started.elapsed().as_secs_f64(),
            connections: app.connections.load(Relaxed),
            finals: app.handle.final_counts().await?,
            queues,
            workers: app.handle.workers().await?,
            scene,
            alerts: alerts.alerts,
        })
    }
}

impl Collector for Moment {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut page = Page::new(encoder);
        page.gauges("build_info", "The version of the server")?
            .add(&[("version", VERSION)], 1.0)?;
        page.gauge("uptime_seconds", "Time since the server began to listen", self.uptime_s)?;
        page.gauge("connections", "Open connections to the server", self.connections as f64)?;
        tasks(&mut page, &self.scene.stats, &self.finals)?;
        by_queue(&mut page, &self.queues)?;
        metrics_load::write(&mut page, &self.scene, &self.workers, &self.alerts)
    }
}

fn tasks(page: &mut Page<'_>, stats: &Snapshot, finals: &[(TaskState, u64)]) -> fmt::Result {
    let help = "Tasks in each state; final ones as long as they are kept";
    let mut family = page.gauges("tasks", help)?;
    let open = [
        (TaskState::Blocked, stats.blocked),
        (TaskState::Scheduled, stats.scheduled),
        (TaskState::Ready, stats.ready),
        (TaskState::Leased, stats.leased),
    ];
    for (state, count) in open.iter().chain(finals) {
        family.add(&[("state", state.as_str())], *count as f64)?;
    }
    let help = "Ready tasks that wait in the store because the window in memory is full";
    page.gauge("tasks_spilled", help, stats.spilled as f64)?;
    let help = "Leased tasks that wait at their worker for a free slot";
    page.gauge("tasks_queued", help, stats.queued as f64)?;
    let help = "1 while new tasks are refused for lack of disk space";
    page.gauge("disk_full", help, stats.disk_full as f64)?;
    page.gauge("workers", "Connected workers", stats.workers as f64)
}

fn by_queue(page: &mut Page<'_>, queues: &[QueueView]) -> fmt::Result {
    let mut family = page.gauges("queue_tasks", "Open tasks of each queue in each state")?;
    for queue in queues {
        for (state, count) in [
            (TaskState::Blocked, queue.blocked),
            (TaskState::Scheduled, queue.scheduled),
            (TaskState::Ready, queue.ready),
            (TaskState::Leased, queue.leased),
        ] {
            family.add(&[("queue", &queue.name), ("state", state.as_str())], count as f64)?;
        }
    }
    let mut family = page.gauges("queue_paused", "1 while a queue is paused")?;
    for queue in queues {
        family.add(&[("queue", &queue.name)], f64::from(u8::from(queue.paused)))?;
    }
    let help = "How long the oldest ready task of a queue has waited";
    let mut family = page.gauges("queue_oldest_ready_seconds", help)?;
    for queue in queues {
        let oldest_ms = queue.oldest_ready_ms.unwrap_or(0);
        family.add(&[("queue", &queue.name)], oldest_ms as f64 / 1e3)?;
    }
    Ok(())
}
