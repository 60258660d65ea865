//! What workers were asked to give back, and whether the figures about it add up.

use std::collections::BTreeSet;

use divvy_scheduler::Scheduler;
use divvy_types::settings::Strategy;
use divvy_types::{Seq, Settings, TaskSpec, Token, WorkerKey};

#[derive(Default)]
pub(crate) struct Thefts {
    pub(crate) settings: Settings,
    /// Questions that no worker has answered.
    open: Vec<(WorkerKey, Seq, Token)>,
    asked: BTreeSet<Token>,
}

impl Thefts {
    /// A worker is asked for a task of this spec that it holds under the token `held`.
    pub(crate) fn ask(
        &mut self,
        (worker, seq, token): (WorkerKey, Seq, Token),
        held: Option<&Token>,
        spec: &TaskSpec,
    ) {
        assert_eq!(held, Some(&token), "it is asked for what it does not hold");
        assert!(spec.priority < 4, "a protected task is asked back");
        assert!(self.asked.insert(token), "one attempt is asked back twice");
        self.open.push((worker, seq, token));
    }

    /// Takes an open question out.
    pub(crate) fn take(&mut self, which: usize) -> Option<(WorkerKey, Seq, Token)> {
        (!self.open.is_empty()).then(|| self.open.remove(which % self.open.len()))
    }

    pub(crate) fn asked(&self) -> usize {
        self.asked.len()
    }

    /// A restarted server knows of no questions.
    pub(crate) fn forget(&mut self) {
        self.open.clear();
        self.asked.clear();
    }

    pub(crate) fn change(&mut self, strategy: u8, busy: u32, begun_too: bool, predictive: bool) {
        let balancing = &mut self.settings.load_balancing;
        balancing.strategy = [Strategy::None, Strategy::Pull, Strategy::Push, Strategy::Hybrid]
            [usize::from(strategy)];
        balancing.thresholds.busy_threshold = busy;
        balancing.thresholds.idle_threshold = busy;
        balancing.thresholds.severe_imbalance_ratio = 1.0;
        balancing.work_stealing.allow_task_migration = begun_too;
        balancing.work_stealing.predictive = predictive;
    }

    pub(crate) fn check(&self, scheduler: &Scheduler) {
        let metrics = scheduler.load_metrics();
        assert_eq!(metrics.total_steals, self.asked.len() as u64);
        assert!(metrics.successful_steals + metrics.failed_steals <= metrics.total_steals);
        assert!(metrics.tasks_migrated <= metrics.successful_steals);
        let (mut workers, mut waiting, mut busy) = (0, 0, 0);
        for worker in scheduler.workers() {
            workers += 1;
            assert_eq!(worker.queue_length, worker.leased.saturating_sub(worker.slots));
            waiting += u64::from(worker.queue_length);
            let threshold = self.settings.load_balancing.thresholds.busy_threshold;
            busy += u64::from(worker.queue_length > threshold);
        }
        let counts = scheduler.counts();
        assert_eq!(metrics.total_queued, waiting + counts.ready + counts.spilled);
        assert_eq!((metrics.agent_count, metrics.busy_agents), (workers, busy));
    }

    /// When nothing is held any more, every question is decided.
    pub(crate) fn check_end(&self, scheduler: &Scheduler) {
        let metrics = scheduler.load_metrics();
        let decided = metrics.successful_steals + metrics.failed_steals;
        assert_eq!(metrics.total_steals, decided, "a question is still open");
    }
}
