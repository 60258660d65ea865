//! Why a worker with a place free may be passed over by a ready task that it could run. Seen from outside: from what the
//! scheduler tells, and from where the task failed.

use divvy_scheduler::Scheduler;
use divvy_types::view::{Explanation, WorkerView};
use divvy_types::{Name, Seq, Timestamp};

/// Whether it rests from the kind, the task failed there lately, or the task takes long and it has no slot free.
pub(crate) fn is_excused(
    scheduler: &Scheduler,
    now: Timestamp,
    seq: Seq,
    worker: &WorkerView,
    failed_on: Option<&Name>,
) -> bool {
    let told = scheduler.explain(now, seq).expect("an open task");
    let long = told.estimated_run_ms.is_some_and(|run_ms| run_ms >= 2_000);
    is_quarantined(&told, &worker.name)
        || (long && worker.leased >= worker.slots)
        || (failed_on == Some(&worker.name) && is_kept(scheduler, now, seq, &told))
}

fn is_quarantined(told: &Explanation, name: &Name) -> bool {
    told.candidates.iter().any(|other| other.worker == *name && other.quarantined_until.is_some())
}

/// Whether a task that failed somewhere is to wait for one of the others.
fn is_kept(scheduler: &Scheduler, now: Timestamp, seq: Seq, told: &Explanation) -> bool {
    let since = scheduler.status(seq).expect("an open task").since;
    let queue = &scheduler.spec(seq).expect("an open task").queue;
    let names: std::collections::BTreeSet<Name> = scheduler
        .workers()
        .into_iter()
        .filter(|other| !other.draining && !other.paused && other.away_until.is_none())
        .filter(|other| !is_quarantined(told, &other.name))
        .filter(|other| other.queues.is_empty() || other.queues.contains(queue))
        .map(|other| other.name)
        .collect();
    now < since.plus_ms(30_000) && names.len() > 1
}
