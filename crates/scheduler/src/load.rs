//! What can be read of the load as a whole: what each worker carries, which ready tasks nobody can run, and how many
//! deadlines are at risk. Nothing here changes anything; each look is bounded.

use divvy_types::overview::{Stranded, WorkerLoad};
use divvy_types::{TaskId, TaskSpec, TaskState, Terms, Timestamp, WaitReason};

use crate::Scheduler;

/// Open tasks whose deadlines are looked at, newest first.
const DEADLINES_SCAN_MAX: usize = 10_000;

impl Scheduler {
    /// What each worker carries.
    pub fn worker_loads(&self) -> Vec<WorkerLoad> {
        let loads = self.workers.iter().map(|worker| WorkerLoad {
            name: worker.name.clone(),
            key: worker.key.0,
            slots: worker.slots,
            leased: worker.leased,
            queue_length: worker.leased.saturating_sub(worker.slots),
            draining: worker.draining,
        });
        loads.collect()
    }

    /// Ready tasks that no connected worker can run, most first, at most `most` sorts of them.
    pub fn stranded(&self, most: usize) -> Vec<Stranded> {
        let ready = self.classes.iter().filter(|(_, class)| class.ready() > 0);
        let mut stranded: Vec<Stranded> = ready
            .filter_map(|(_, class)| {
                let spec = TaskSpec {
                    queue: class.queue_name.clone(),
                    terms: Terms { needs: class.needs.clone(), ..Terms::default() }.into(),
                    ..TaskSpec::new(TaskId(0), class.kind.clone())
                };
                let wait = self.wait_reason_for_spilled(&spec);
                let nobody = matches!(
                    wait,
                    WaitReason::NoWorker { .. } | WaitReason::MissingCapability { .. }
                );
                nobody.then(|| Stranded {
                    queue: spec.queue,
                    kind: spec.kind,
                    ready: class.ready() as u64,
                    wait,
                })
            })
            .collect();
        stranded.sort_by_key(|stranded| std::cmp::Reverse(stranded.ready));
        stranded.truncate(most);
        stranded
    }

    /// How many of the newest open tasks will presumably miss their deadlines, even if they started now.
    pub fn deadlines_at_risk(&self, now: Timestamp) -> u64 {
        let open = self.tasks.newest_first(None).take(DEADLINES_SCAN_MAX);
        let late = open.filter(|task| {
            let Some(deadline) = task.spec.deadline else { return false };
            let started = if task.state == TaskState::Leased { task.since } else { now };
            let run_us = self.estimate_us(&task.spec).unwrap_or(0);
            now > deadline || started.0.saturating_add(run_us) > deadline.0
        });
        late.count() as u64
    }
}
