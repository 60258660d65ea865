//! A crawl as people see it: what it was asked, what its shards show, and where it is.

use divvy::types::TaskState;
use divvy::types::view::TaskSummary;
use divvy_workload::files::read_json;
use divvy_workload::now_ms;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Crawls, CrawlsError};
use crate::folder::control::{Control, CrawlState};
use crate::folder::status::{
    HostRow, KEPT_AWAY_SHOWN, PageRow, Seen, ShardState, ShardStatus, Totals, Waiting,
};
use crate::settings::Spec;

/// A status that is older says nothing of the present: its owner is gone or rests.
const STALE_MS: u64 = 10_000;
/// Hosts and pages of a view.
const ROWS_MAX: usize = 100;

/// A crawl as people see it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct CrawlView {
    /// What it was asked.
    #[serde(flatten)]
    pub(crate) spec: Spec,
    /// Where it is.
    pub(crate) state: CrawlState,
    /// Why it is there, where that is not plain.
    pub(crate) reason: Option<String>,
    /// When it ended, in milliseconds since 1970.
    pub(crate) ended_at_ms: Option<u64>,
    /// Which start this is.
    pub(crate) round: u32,
    /// Hosts that are left alone.
    pub(crate) blocked: Vec<String>,
    /// Counters.
    pub(crate) totals: Totals,
    /// What is waiting.
    pub(crate) waiting: Waiting,
    /// What is known of addresses that were seen.
    pub(crate) seen: Seen,
    /// Pages per second of late.
    pub(crate) rate: f64,
    /// Some of the hosts that are blocked or parked, with the reason.
    pub(crate) kept_away: Vec<HostRow>,
    /// The longest that links of a shard wait to be sent to another.
    pub(crate) outbox_lag_ms: u64,
    /// The shards.
    pub(crate) shards: Vec<ShardBrief>,
}

/// One shard in short.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "CrawlShardBrief")]
pub(crate) struct ShardBrief {
    /// Which.
    pub(crate) shard: u32,
    /// Where it is.
    pub(crate) state: ShardState,
    /// The worker that has it.
    pub(crate) worker: Option<String>,
    /// Why its task waits.
    pub(crate) wait: Option<String>,
    /// Pages.
    pub(crate) pages: u64,
    /// Queued addresses.
    pub(crate) queued: u64,
    /// Hosts.
    pub(crate) hosts: u64,
}

impl Crawls {
    /// How a crawl stands.
    ///
    /// # Errors
    /// If there is none.
    pub(crate) async fn view(&self, id: &str) -> Result<CrawlView, CrawlsError> {
        let spec = self.spec(id)?;
        let control = self.control(id)?;
        let statuses = self.statuses(&spec);
        let tasks = match control.ended {
            Some(_) => Vec::new(),
            None => self.tasks(&spec, control.round).await?,
        };
        Ok(view(spec, &control, &statuses, &tasks, now_ms()))
    }

    /// What the shards of a crawl show; a shard that never showed anything is new.
    pub(crate) fn statuses(&self, spec: &Spec) -> Vec<ShardStatus> {
        let folder = self.folder(&spec.id);
        let read = |shard: u32| {
            let shown = read_json::<ShardStatus>(&folder.status(shard)).ok().flatten();
            shown.unwrap_or_else(|| ShardStatus { shard, ..ShardStatus::default() })
        };
        (0..spec.rules.shards).map(read).collect()
    }
}

fn view(
    spec: Spec,
    control: &Control,
    statuses: &[ShardStatus],
    tasks: &[TaskSummary],
    now_ms: u64,
) -> CrawlView {
    let (state, reason) = standing(control, statuses, tasks);
    let mut view = CrawlView {
        spec,
        state,
        reason,
        ended_at_ms: control.ended.as_ref().map(|ended| ended.at_ms),
        round: control.round,
        blocked: control.blocked.iter().cloned().collect(),
        totals: Totals::default(),
        waiting: Waiting::default(),
        seen: Seen::default(),
        rate: 0.0,
        kept_away: Vec::new(),
        outbox_lag_ms: 0,
        shards: Vec::with_capacity(statuses.len()),
    };
    for status in statuses {
        let is_fresh = status.at_ms + STALE_MS > now_ms;
        view.totals.add(&status.totals);
        view.waiting.add(&status.waiting);
        view.seen.add(&status.seen);
        view.outbox_lag_ms = view.outbox_lag_ms.max(status.outbox_lag_ms);
        let room = KEPT_AWAY_SHOWN.saturating_sub(view.kept_away.len());
        view.kept_away.extend(status.kept_away.iter().take(room).cloned());
        if is_fresh && !state.is_final() {
            view.rate += status.rate;
        }
        let task = tasks.get(status.shard as usize);
        let held = task.filter(|task| task.state == TaskState::Leased);
        view.shards.push(ShardBrief {
            shard: status.shard,
            state: status.state,
            worker: held.and_then(|task| task.worker.as_ref().map(ToString::to_string)),
            wait: task.and_then(|task| task.wait_text.clone()),
            pages: status.totals.pages,
            queued: status.waiting.queued(),
            hosts: status.waiting.hosts,
        });
    }
    if state.is_final() {
        view.waiting.in_flight = 0;
    }
    view
}

/// Where a crawl is, and why.
fn standing(
    control: &Control,
    statuses: &[ShardStatus],
    tasks: &[TaskSummary],
) -> (CrawlState, Option<String>) {
    if let Some(ended) = &control.ended {
        return (ended.state, ended.reason.clone());
    }
    if let Some((state, reason)) = end_of(control, statuses, tasks) {
        return (state, reason);
    }
    match () {
        () if control.stopped => (CrawlState::Stopping, None),
        () if control.paused => (CrawlState::Paused, None),
        () if tasks.iter().all(|task| task.attempts == 0 && task.state == TaskState::Ready)
            && statuses.iter().all(|status| status.round < control.round) =>
        {
            let why = tasks.iter().find_map(|task| task.wait_text.clone());
            (CrawlState::Waiting, why)
        }
        () => (CrawlState::Running, None),
    }
}

/// How a round ended, if all its tasks have.
pub(super) fn end_of(
    control: &Control,
    statuses: &[ShardStatus],
    tasks: &[TaskSummary],
) -> Option<(CrawlState, Option<String>)> {
    if tasks.is_empty() || !tasks.iter().all(|task| task.state.is_final()) {
        return None;
    }
    let find = |state| tasks.iter().find(|task| task.state == state);
    let text = |task: &TaskSummary| task.error.as_ref().map(ToString::to_string);
    if let Some(dead) = find(TaskState::Dead) {
        return Some((CrawlState::Failed, text(dead)));
    }
    if let Some(cancelled) = find(TaskState::Cancelled) {
        return Some((CrawlState::Cancelled, text(cancelled)));
    }
    if control.stopped {
        return Some((CrawlState::Stopped, None));
    }
    let is_full = statuses.iter().any(|status| status.is_full);
    let reason = is_full.then(|| "it has all the pages that it may fetch".to_owned());
    Some((CrawlState::Done, reason))
}

/// The hosts with the longest queues, of all shards.
pub(crate) fn hosts(statuses: &[ShardStatus]) -> Vec<HostRow> {
    let mut rows: Vec<HostRow> =
        statuses.iter().flat_map(|status| status.hosts.iter().cloned()).collect();
    rows.sort_by(|a, b| {
        b.queued
            .cmp(&a.queued)
            .then_with(|| b.pages.cmp(&a.pages))
            .then_with(|| a.host.cmp(&b.host))
    });
    rows.truncate(ROWS_MAX);
    rows
}

/// The latest pages, of all shards, newest first.
pub(crate) fn pages(statuses: &[ShardStatus], limit: usize) -> Vec<PageRow> {
    let mut rows: Vec<PageRow> =
        statuses.iter().flat_map(|status| status.pages.iter().cloned()).collect();
    rows.sort_by(|a, b| b.at_ms.cmp(&a.at_ms).then_with(|| a.url.cmp(&b.url)));
    rows.truncate(limit.min(ROWS_MAX));
    rows
}
