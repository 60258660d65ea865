//! How many task lives a second one core of pure scheduling makes, over a growing backlog.
//!
//! `cargo run --release -p divvy-scheduler --example lives [waiting…]`

#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a measurement needs a clock and prints"
)]

use std::sync::Arc;
use std::time::Instant;

use divvy_scheduler::{
    Action, AttemptEnd, AttemptEnded, Input, Options, Scheduler, Submission, WorkerJoined,
};
use divvy_types::{Machine, Payload, Seq, TaskId, TaskSpec, Timestamp, Token, WorkerKey};

const LIVES: u64 = 1_000_000;
const BATCH: u64 = 256;

fn main() {
    let sizes: Vec<u64> = std::env::args().skip(1).filter_map(|text| text.parse().ok()).collect();
    let sizes = if sizes.is_empty() { vec![0, 1_000, 100_000, 1_000_000] } else { sizes };
    for waiting in sizes {
        measure(waiting);
    }
}

fn measure(waiting: u64) {
    let options =
        Options { window_tasks: usize::MAX, window_bytes: usize::MAX, ..Options::default() };
    let mut world = World {
        scheduler: Scheduler::new(options),
        now: Timestamp(1),
        granted: Vec::new(),
        seq: 0,
    };
    world.feed(Input::RecoveryEnded);
    let before = resident_bytes();
    while world.seq < waiting {
        world.submit(BATCH.min(waiting - world.seq));
    }
    let bytes_each =
        resident_bytes().saturating_sub(before).checked_div(waiting).unwrap_or_default();
    for key in 0..100 {
        world.feed(Input::WorkerJoined(WorkerJoined {
            worker: WorkerKey(key),
            name: "worker".into(),
            queues: Vec::new(),
            kinds: (0..20).filter(|k| k % 10 != key % 10).map(|k| format!("kind-{k}").into()).collect(),
            capabilities: Vec::new(),
            credit: 16,
            slots: 16,
            held: Vec::new(),
        }));
    }
    let start = Instant::now();
    let mut ended = 0;
    while ended < LIVES {
        world.submit(BATCH);
        let granted: Vec<_> = world.granted.drain(..BATCH as usize).collect();
        for (worker, seq, token) in granted {
            let end = AttemptEnd::Finished { result: Payload::null(), spawned: Vec::new() };
            world.feed(Input::AttemptEnded(AttemptEnded { worker, seq, token, end, log: None }));
            ended += 1;
        }
    }
    let rate = LIVES as f64 / start.elapsed().as_secs_f64();
    println!("waiting {waiting:>9}  lives/s {rate:>9.0}  bytes per waiting task {bytes_each}");
}

struct World {
    scheduler: Scheduler,
    now: Timestamp,
    granted: Vec<(WorkerKey, Seq, Token)>,
    seq: u64,
}

impl World {
    fn submit(&mut self, count: u64) {
        let tasks = (0..count).map(|_| {
            self.seq += 1;
            let spec = Arc::new(TaskSpec::new(TaskId(u128::from(self.seq)), format!("kind-{}", self.seq % 20)));
            Submission { seq: Seq(self.seq), spec, parents: Vec::new() }
        });
        let tasks = tasks.collect();
        self.feed(Input::TasksSubmitted(tasks));
    }

    fn feed(&mut self, input: Input) {
        self.now.0 += 1;
        self.scheduler.handle(self.now, input);
        while let Some(action) = self.scheduler.poll_action() {
            if let Action::Grant(grant) = action {
                self.granted.push((grant.worker, grant.seq, grant.token));
            }
        }
        if self.scheduler.next_deadline().is_some_and(|at| at <= self.now) {
            self.feed(Input::TimePassed);
        }
    }
}

/// What the process keeps in memory, where the system tells.
fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or_default() * 4_096
}
