//! Drives divvy's own scheduler, the machine that runs in every server, and counts what it sends to workers.

use std::collections::BTreeSet;
use std::sync::Arc;

use divvy_scheduler::{
    Action, AttemptEnd, AttemptEnded, Grant, Input, Options, Scheduler, Submission,
};
use divvy_types::{Machine, Payload, Seq, TaskId, TaskSpec, Timestamp, WorkerHello, WorkerKey};

/// A scheduler with idle workers.
pub(super) struct Server {
    scheduler: Scheduler,
    now: Timestamp,
    tasks: u64,
    grants: Vec<Grant>,
    /// Everything else that goes to workers.
    other_messages: u64,
}

/// What a burst of tasks cost.
pub(super) struct Burst {
    /// Messages to workers before all tasks had started.
    pub(super) messages: u64,
    /// Workers that were woken.
    pub(super) woken: u64,
    /// Tasks that started.
    pub(super) started: u64,
}

impl Server {
    /// A server that these workers have joined, each ready for one task.
    pub(super) fn with_workers(workers: u32) -> Self {
        let mut server = Self {
            scheduler: Scheduler::new(Options::default()),
            now: Timestamp(1),
            tasks: 0,
            grants: Vec::new(),
            other_messages: 0,
        };
        server.feed(Input::RecoveryEnded);
        for key in 0..workers {
            let (name, kinds) = ("worker".into(), vec!["noop".into()]);
            let hello = WorkerHello { name, kinds, credit: 1, ..WorkerHello::default() };
            server.feed(Input::WorkerJoined(WorkerKey(u64::from(key)), hello));
        }
        server
    }

    /// Messages to workers so far that carried no task.
    pub(super) fn messages_without_task(&self) -> u64 {
        self.other_messages
    }

    /// Whether a timer runs: something that would be done although nothing happens.
    pub(super) fn has_timer(&self) -> bool {
        self.scheduler.next_deadline().is_some()
    }

    /// Submits tasks together, counts, and lets the workers finish them.
    pub(super) fn burst(&mut self, tasks: u32) -> Burst {
        let before = self.other_messages;
        let batch = (0..tasks).map(|_| {
            self.tasks += 1;
            let spec = Arc::new(TaskSpec::new(TaskId(u128::from(self.tasks)), "noop"));
            Submission { seq: Seq(self.tasks), spec, parents: Vec::new() }
        });
        let batch = batch.collect();
        self.feed(Input::TasksSubmitted(batch));
        let grants = std::mem::take(&mut self.grants);
        let woken: BTreeSet<WorkerKey> = grants.iter().map(|grant| grant.worker).collect();
        let burst = Burst {
            messages: grants.len() as u64 + self.other_messages - before,
            woken: woken.len() as u64,
            started: grants.len() as u64,
        };
        for Grant { worker, seq, token, .. } in grants {
            let end = AttemptEnd::Finished { result: Payload::null(), spawned: Vec::new() };
            self.feed(Input::AttemptEnded(AttemptEnded { worker, seq, token, end, log: None }));
        }
        burst
    }

    /// Runs tasks one after the other and counts the workers that got one.
    pub(super) fn workers_used(&mut self, tasks: u32) -> u64 {
        let mut used = BTreeSet::new();
        for _ in 0..tasks {
            self.tasks += 1;
            let spec = Arc::new(TaskSpec::new(TaskId(u128::from(self.tasks)), "noop"));
            let task = Submission { seq: Seq(self.tasks), spec, parents: Vec::new() };
            self.feed(Input::TasksSubmitted(vec![task]));
            for Grant { worker, seq, token, .. } in std::mem::take(&mut self.grants) {
                used.insert(worker);
                let end = AttemptEnd::Finished { result: Payload::null(), spawned: Vec::new() };
                self.feed(Input::AttemptEnded(AttemptEnded { worker, seq, token, end, log: None }));
            }
        }
        used.len() as u64
    }

    fn feed(&mut self, input: Input) {
        self.now.0 += 1;
        self.scheduler.handle(self.now, input);
        while let Some(action) = self.scheduler.poll_action() {
            match action {
                Action::Grant(grant) => self.grants.push(grant),
                Action::AnswerReport { .. }
                | Action::StopAttempt { .. }
                | Action::Recall { .. }
                | Action::DropWorker { .. } => self.other_messages += 1,
                Action::Record(_)
                | Action::LoadSpilled { .. }
                | Action::Announce(_)
                | Action::Forget { .. }
                | Action::ForgetWorkflow { .. } => {}
            }
        }
    }
}
