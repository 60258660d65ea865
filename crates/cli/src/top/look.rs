//! What `divvy top` asks of a server, all at one moment. Nothing is kept here.

use divvy::api::{Api, Error, parse_rows};
use divvy_autoscale::status::PoolStatus;
use divvy_types::alerts::{Alert, Alerts, COURIER, Severity};
use divvy_types::overview::QueueStatus;
use divvy_types::pulse::Overview;
use divvy_types::view::{DeadGroup, WorkerView};
use divvy_types::{Name, Timestamp};
use serde_json::{Value, json};

/// Groups of dead letters that are shown.
const DEAD_MAX: usize = 200;

/// A server at one moment.
#[derive(Clone, Debug, Default)]
pub(super) struct Look {
    pub(super) time: Timestamp,
    pub(super) version: String,
    pub(super) uptime_ms: u64,
    pub(super) counts: Counts,
    pub(super) queues: Vec<QueueStatus>,
    pub(super) workers: Vec<WorkerView>,
    pub(super) dead: Vec<DeadGroup>,
    pub(super) alerts: Vec<Alert>,
    /// Tasks done within the last minute, and the share of attempts that failed lately.
    pub(super) done_per_min: f64,
    pub(super) failed_share: f64,
    /// Workers that pools want, and what they cost per hour; nothing without pools.
    pub(super) wanted: Option<(u64, f64)>,
}

/// How many tasks there are, and were since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Counts {
    pub(super) ready: u64,
    pub(super) scheduled: u64,
    pub(super) blocked: u64,
    pub(super) leased: u64,
    pub(super) queued: u64,
    pub(super) dead: u64,
    /// Since the start of the server.
    pub(super) finished: u64,
    pub(super) failed: u64,
}

impl Look {
    pub(super) async fn take(api: &Api) -> Result<Self, Error> {
        let stats = api.get(&["stats"], &[]).await?.value()?;
        let mut queues: Vec<QueueStatus> = parse_rows(&api.all(&["queues"]).await?)?;
        let workers = api.get(&["workers"], &[]).await?.rows()?;
        let mut workers: Vec<WorkerView> = parse_rows(&workers.items)?;
        let mut dead: Vec<DeadGroup> = parse_rows(&api.get(&["dead"], &[]).await?.rows()?.items)?;
        let pools = api.get(&["pools"], &[]).await?.rows()?;
        let pools: Vec<PoolStatus> = parse_rows(&pools.items)?;
        let alerts: Alerts = api.get(&["alerts"], &[]).await?.parse()?;
        let overview: Overview = api.get(&["overview"], &[]).await?.parse()?;
        // What delivers alerts is no queue or worker of people.
        queues.retain(|status| status.queue.name != COURIER);
        workers.retain(|worker| worker.name != COURIER);
        dead.truncate(DEAD_MAX);
        let count = |part: &str, name: &str| stats[part][name].as_u64().unwrap_or_default();
        let wanted = |pool: &PoolStatus| u64::from(pool.wanted.values().sum::<u32>());
        let costs = pools.iter().map(|pool| pool.costs.per_hour).sum();
        Ok(Self {
            time: alerts.time,
            version: stats["version"].as_str().unwrap_or("?").to_owned(),
            uptime_ms: stats["uptime_ms"].as_u64().unwrap_or_default(),
            counts: Counts {
                ready: count("engine", "ready"),
                scheduled: count("engine", "scheduled"),
                blocked: count("engine", "blocked"),
                leased: count("engine", "leased"),
                queued: count("engine", "queued"),
                dead: count("final", "dead"),
                finished: count("engine", "finished"),
                failed: count("engine", "failed_attempts") + count("engine", "dead"),
            },
            queues,
            workers,
            dead,
            alerts: alerts.alerts,
            done_per_min: overview.done_per_min,
            failed_share: overview.failed_share,
            wanted: (!pools.is_empty()).then(|| (pools.iter().map(wanted).sum(), costs)),
        })
    }

    /// How long the oldest ready task has waited, and where.
    pub(super) fn oldest(&self) -> Option<(&Name, u64)> {
        let waits = self.queues.iter().filter(|status| !status.queue.paused);
        waits
            .filter_map(|status| Some((&status.queue.name, status.queue.oldest_ready_ms?)))
            .max_by_key(|(_, ms)| *ms)
    }

    /// Slots of all workers.
    pub(super) fn slots(&self) -> u64 {
        self.workers.iter().map(|worker| u64::from(worker.slots)).sum()
    }

    pub(super) fn running(&self) -> u64 {
        self.counts.leased.saturating_sub(self.counts.queued)
    }

    /// Alerts that people want to hear of, the worst first.
    pub(super) fn attention(&self) -> Vec<&Alert> {
        let mut alerts: Vec<&Alert> =
            self.alerts.iter().filter(|alert| alert.needs_attention()).collect();
        alerts.sort_by_key(|alert| (!alert.firing, alert.severity != Severity::Fault));
        alerts
    }

    /// The same as one object.
    pub(super) fn json(&self) -> Value {
        let alerts = self.attention();
        json!({
            "time": self.time, "version": self.version, "uptime_ms": self.uptime_ms,
            "waiting": self.counts.ready, "oldest_wait_ms": self.oldest().map_or(0, |(_, ms)| ms),
            "running": self.running(), "slots": self.slots(), "dead": self.counts.dead,
            "done_per_min": self.done_per_min, "failed_share": self.failed_share,
            "finished": self.counts.finished, "failed": self.counts.failed,
            "workers": self.workers.len(), "workers_wanted": self.wanted.map(|(wanted, _)| wanted),
            "cost_per_hour": self.wanted.map(|(_, cost)| cost),
            "queues": self.queues, "alerts": alerts,
        })
    }
}
