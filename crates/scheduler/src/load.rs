//! Figures about how tasks got to workers and moved between them, and what a change of settings means for that.

use divvy_types::Timestamp;
use divvy_types::view::{LoadMetrics, PlacedBy};

use crate::Scheduler;
use crate::table::Row;

impl Scheduler {
    /// A worker was given a task: everything that wants to know is told. How long the task had been ready, in
    /// microseconds.
    pub(crate) fn note_grant(
        &mut self,
        now: Timestamp,
        row: Row,
        worker: u32,
        by: PlacedBy,
    ) -> u64 {
        let seq = self.tasks[row].seq;
        let waited_us = self.tally_wait(now, row);
        self.recalls.waited_us += u128::from(waited_us);
        self.recalls.waits += 1;
        self.recall_granted(seq, worker);
        self.note_trial(row, worker);
        self.note_placement(now, row, worker, by);
        waited_us
    }

    /// How tasks moved so far.
    pub fn load_metrics(&self) -> LoadMetrics {
        let recalls = &self.recalls;
        let answered = recalls.given_back + recalls.refused;
        let share = |part: f64, whole: u64, none: f64| {
            if whole == 0 { none } else { part / whole as f64 }
        };
        let thresholds = &self.settings.load_balancing.thresholds;
        let mut metrics = LoadMetrics {
            total_steals: recalls.asked,
            successful_steals: recalls.given_back,
            failed_steals: recalls.refused,
            success_rate: share(recalls.given_back as f64, answered, 1.0),
            tasks_migrated: recalls.migrated,
            rebalance_cycles: recalls.cycles,
            avg_task_wait_time: share(recalls.waited_us as f64 / 1e6, recalls.waits, 0.0),
            agent_count: self.workers.len() as u64,
            total_queued: self.queues.total.ready + self.queues.total.spilled,
            ..LoadMetrics::default()
        };
        for (_, tiers) in self.workers.whole() {
            let queue = tiers.iter().map(|tier| tier.queue()).sum::<u32>();
            metrics.total_queued += u64::from(queue);
            metrics.busy_agents += u64::from(queue > thresholds.busy_threshold);
            metrics.idle_agents += u64::from(queue < thresholds.idle_threshold);
        }
        metrics
    }

    /// New settings hold: who may take what and what counts as crowded is found out anew.
    pub(crate) fn load_settings_changed(&mut self) {
        self.matching_changed();
        let limit = self.crowd_limit();
        self.workers.set_crowd_limit(limit);
        self.disarm_look();
        // A worker that was quarantined, or found nothing to steal, may see it otherwise now.
        for index in self.workers.indices() {
            let worker = self.workers.get_mut(index);
            (worker.pull_after, worker.look_after) = (Timestamp(0), Timestamp(0));
            self.mark_worker(index);
        }
    }
}
