//! One look at the engine: counters, what waits and runs, workers and queues, tasks that moved.
//!
//! It goes over queues, streams and workers, never over tasks, and copies what it sees out of the loop.

use std::collections::BTreeMap;

use divvy_autoscale::status::PoolStatus;
use divvy_engine::core::Core;
use divvy_engine::{Error, Snapshot};
use divvy_scheduler::{Stolen, Tally, Waits};
use divvy_types::alerts::COURIER;
use divvy_types::pulse::Overview;
use divvy_types::view::QueueView;
use divvy_types::{Name, TaskState, Timestamp, WorkerKey};

use super::history::Figures;
use super::news::{Scenery, WorkerSeen};
use crate::app::App;

/// Queues whose counts are looked at.
const QUEUES_MAX: usize = 1_000;

/// What was seen.
#[derive(Clone, Debug, Default)]
pub(super) struct Look {
    pub(super) at: Timestamp,
    /// What the engine's counters added up to just before.
    pub(super) activity: u64,
    pub(super) stats: Snapshot,
    pub(super) waits: Waits,
    pub(super) oldest_wait_ms: Option<u64>,
    pub(super) queues: BTreeMap<Name, QueueSeen>,
    pub(super) scenery: Scenery,
    pub(super) slots: u64,
    /// Tasks that moved since the last look, and the number of the last of them.
    pub(super) stolen: Vec<Stolen>,
    pub(super) stolen_upto: u64,
    final_counts: Vec<(TaskState, u64)>,
}

/// A queue.
#[derive(Clone, Debug, Default)]
pub(super) struct QueueSeen {
    pub(super) tally: Tally,
    pub(super) waiting: u64,
    pub(super) running: u64,
}

impl Look {
    /// Looks. Tasks that moved are told if their number is greater than `stolen`.
    pub(super) async fn take(app: &App, stolen: u64) -> Result<Self, Error> {
        // Before the look: what happens after it is noticed by the next.
        let activity = app.handle.activity();
        let final_counts = app.handle.final_counts().await?;
        let stats = app.handle.stats().await?;
        let look = app.handle.look(move |core| see(core, stolen)).await?;
        Ok(Self { activity, stats, final_counts, ..look })
    }

    /// What is there, without what happened.
    pub(super) fn standing(&self) -> Figures {
        let Snapshot { ready, leased, queued, .. } = self.stats;
        let running = leased.saturating_sub(queued);
        let workers = self.scenery.workers.len() as u64;
        Figures { waiting: ready + queued, running, workers, ..Figures::default() }
    }

    /// The numbers that people look at first, as far as one look tells them.
    pub(super) fn overview(&self, pools: &[PoolStatus]) -> Overview {
        let Figures { waiting, running, workers, .. } = self.standing();
        let Snapshot { blocked, scheduled, ready, leased, .. } = self.stats;
        let open = [
            (TaskState::Blocked, blocked),
            (TaskState::Scheduled, scheduled),
            (TaskState::Ready, ready),
            (TaskState::Leased, leased),
        ];
        let counts = open.into_iter().chain(self.final_counts.iter().copied());
        let states: BTreeMap<Name, u64> =
            counts.map(|(state, count)| (Name::const_new(state.as_str()), count)).collect();
        let costs: f64 = pools.iter().map(|pool| pool.costs.per_hour).sum();
        let wanted = pools
            .iter()
            .map(|pool| pool.wanted.values().map(|count| u64::from(*count)).sum::<u64>())
            .sum();
        Overview {
            time: self.at,
            waiting,
            oldest_wait_ms: self.oldest_wait_ms,
            running,
            slots: self.slots,
            dead: states.get(TaskState::Dead.as_str()).copied().unwrap_or(0),
            workers,
            workers_wanted: (!pools.is_empty()).then_some(wanted),
            cost_per_hour: Some(costs).filter(|costs| *costs > 0.0),
            states,
            ..Overview::default()
        }
    }
}

fn see(core: &Core, stolen: u64) -> Look {
    let scheduler = core.scheduler();
    let views = core.queues();
    let stolen: Vec<Stolen> = scheduler.stolen_after(stolen).cloned().collect();
    let mut worker_loads = scheduler.worker_loads();
    // What delivers alerts is no worker of people.
    worker_loads.retain(|worker| worker.name != COURIER);
    let seen = worker_loads.iter().map(|worker| {
        let seen = WorkerSeen {
            name: worker.name.clone(),
            draining: worker.draining,
            paused: worker.paused,
            away: scheduler.is_away(WorkerKey(worker.key)),
        };
        (worker.key, seen)
    });
    let scenery = Scenery {
        workers: seen.collect(),
        paused: views.iter().filter(|view| view.paused).map(|view| view.name.clone()).collect(),
        settings: scheduler.settings().queues.clone(),
    };
    Look {
        at: core.now(),
        waits: scheduler.waits().clone(),
        oldest_wait_ms: views.iter().filter_map(|view| view.oldest_ready_ms).max(),
        queues: queues(core, &views),
        scenery,
        slots: worker_loads.iter().map(|worker| u64::from(worker.slots)).sum(),
        stolen_upto: scheduler.load_metrics().tasks_migrated,
        stolen,
        ..Look::default()
    }
}

fn queues(core: &Core, views: &[QueueView]) -> BTreeMap<Name, QueueSeen> {
    // Both go over the same queues in the same order.
    let tallies = core.scheduler().tallies().zip(views).take(QUEUES_MAX);
    let seen = tallies.map(|((name, tally), view)| {
        let seen = QueueSeen {
            tally: tally.clone(),
            waiting: view.ready + view.queued,
            running: view.leased.saturating_sub(view.queued),
        };
        (name.clone(), seen)
    });
    seen.collect()
}
