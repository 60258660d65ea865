//! What can be read of the load as a whole: what each worker carries, which ready tasks nobody can run, and how many
//! deadlines are at risk. Nothing here changes anything; each look is bounded.

use std::collections::BTreeMap;

use divvy_types::overview::{Stranded, WorkerLoad};
use divvy_types::{TaskId, TaskSpec, Terms, Timestamp, WaitReason};

use crate::Scheduler;

/// Open tasks whose deadlines are looked at, newest first.
const DEADLINES_SCAN_MAX: usize = 10_000;
/// How many of those with a deadline are put to the test.
const DEADLINES_TEST_MAX: usize = 500;

impl Scheduler {
    /// What each worker carries.
    pub fn worker_loads(&self) -> Vec<WorkerLoad> {
        let loads = self.workers.whole().map(|(worker, tiers)| WorkerLoad {
            name: worker.name.clone(),
            key: worker.key.worker.0,
            slots: tiers.iter().map(|tier| tier.slots).sum(),
            leased: tiers.iter().map(|tier| tier.leased).sum(),
            queue_length: tiers.iter().map(|tier| tier.queue()).sum(),
            draining: worker.draining,
            paused: worker.paused,
        });
        loads.collect()
    }

    /// Whether a worker is kept from a kind that it keeps failing.
    pub fn has_quarantined(&self) -> bool {
        self.learning.quarantines() > 0
    }

    /// Ready tasks that no connected worker can run, most first, at most `most` sorts of them.
    pub fn stranded(&self, most: usize) -> Vec<Stranded> {
        // Where tasks failed makes no difference here.
        let mut ready = BTreeMap::new();
        for (_, stream) in self.streams.iter() {
            let class = self.classes.get(stream.id.class);
            let matching = class.matching.map(|matching| matching.as_str());
            let sort = (&class.queue_name, &class.kind, &class.needs, matching);
            ready.entry(sort).or_insert((class, 0)).1 += stream.live as u64;
        }
        let mut stranded: Vec<Stranded> = ready
            .into_values()
            .filter(|(_, ready)| *ready > 0)
            .filter_map(|(class, ready)| {
                let (needs, matching) = (class.needs.clone(), class.matching);
                let spec = TaskSpec {
                    queue: class.queue_name.clone(),
                    terms: Terms { needs, matching, ..Terms::default() }.into(),
                    ..TaskSpec::new(TaskId(0), class.kind.clone())
                };
                let wait = self.wait_reason_for_spilled(&spec);
                let nobody = matches!(
                    wait,
                    WaitReason::NoWorker { .. } | WaitReason::MissingCapability { .. }
                );
                nobody.then(|| Stranded { queue: spec.queue, kind: spec.kind, ready, wait })
            })
            .collect();
        stranded.sort_by_key(|stranded| std::cmp::Reverse(stranded.ready));
        stranded.truncate(most);
        stranded
    }

    /// How many of the newest open tasks will presumably miss their deadlines, as things stand.
    pub fn deadlines_at_risk(&self, now: Timestamp) -> u64 {
        let open = self.tasks.newest_first(None).take(DEADLINES_SCAN_MAX);
        let timed = open.filter(|task| task.spec.deadline.is_some()).take(DEADLINES_TEST_MAX);
        let late = timed.filter(|task| self.is_expected_late(now, task));
        late.count() as u64
    }
}
