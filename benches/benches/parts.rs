//! The parts that a task's life is made of, each alone: wire, scheduler, store.

use std::sync::Arc;

use divan::Bencher;
use divan::counter::ItemsCount;
use divvy_scheduler::input::{AttemptEnd, AttemptEnded, Input, Submission};
use divvy_scheduler::{Action, Options, Scheduler};
use divvy_store::Store as _;
use divvy_store::sqlite::SqliteStore;
use divvy_types::{
    Fact, Machine as _, Name, Payload, Seq, TaskSpec, Timestamp, Token, WorkerHello, WorkerKey,
};

/// Tasks per round.
const TASKS: usize = 1_000;

fn main() {
    divan::main();
}

/// Spec to wire message and back.
#[divan::bench]
fn wire_round_trip(bencher: Bencher<'_, '_>) {
    let specs = divvy_benches::tasks(TASKS);
    bencher.counter(ItemsCount::new(TASKS)).bench(|| {
        let message = specs.iter().map(divvy_proto::spec_to_wire).collect();
        divvy_proto::specs_from_wire(message).map_or(0, |read| read.len())
    });
}

/// Submit, grant, finish: the pure scheduler, with `backlog` tasks waiting behind.
#[divan::bench(args = [0, 100_000])]
fn scheduler_life(bencher: Bencher<'_, '_>, backlog: usize) {
    let mut scheduler = Scheduler::new(Options::default());
    let mut next = 0;
    scheduler.handle(Timestamp(1), Input::RecoveryEnded);
    submit(&mut scheduler, &mut next, divvy_benches::tasks(backlog));
    let hello = WorkerHello {
        name: Name::const_new("w"),
        kinds: vec![Name::const_new("noop")],
        credit: 64,
        ..WorkerHello::default()
    };
    scheduler.handle(Timestamp(2), Input::WorkerJoined(WorkerKey(1), hello));
    let mut granted = drain(&mut scheduler);
    bencher
        .counter(ItemsCount::new(TASKS))
        .with_inputs(|| divvy_benches::tasks(TASKS))
        .bench_local_values(|tasks| {
            submit(&mut scheduler, &mut next, tasks);
            granted.extend(drain(&mut scheduler));
            for _ in 0..TASKS {
                let (seq, token) = granted.pop().expect("as many are granted as finish");
                let end = AttemptEnd::Finished { result: Payload::null(), spawned: Vec::new() };
                let ended = AttemptEnded { worker: WorkerKey(1), seq, token, end, log: None };
                scheduler.handle(Timestamp(3), Input::AttemptEnded(ended));
                granted.extend(drain(&mut scheduler));
            }
        });
}

fn submit(scheduler: &mut Scheduler, next: &mut u64, tasks: Vec<TaskSpec>) {
    let batch = tasks.into_iter().map(|spec| {
        *next += 1;
        Submission { seq: Seq(*next), spec: Arc::new(spec), parents: Vec::new() }
    });
    scheduler.handle(Timestamp(2), Input::TasksSubmitted(batch.collect()));
}

fn drain(scheduler: &mut Scheduler) -> Vec<(Seq, Token)> {
    let mut granted = Vec::new();
    while let Some(action) = scheduler.poll_action() {
        if let Action::Grant(grant) = action {
            granted.push((grant.seq, grant.token));
        }
    }
    granted
}

/// One commit of submissions and the finishes of the commit before, synced.
#[divan::bench(args = [1, 32, 256, 2_048])]
fn store_lives(bencher: Bencher<'_, '_>, per_commit: usize) {
    let folder = tempfile::tempdir().expect("a folder for the store");
    let mut store =
        SqliteStore::open(folder.path(), divvy_store::sqlite::Options::default()).expect("opens");
    store.recover(&mut |_| {}).expect("recovers");
    let mut verdicts = Vec::new();
    let (mut next, mut earlier) = (0, Vec::new());
    bencher
        .counter(ItemsCount::new(per_commit))
        .with_inputs(|| divvy_benches::tasks(per_commit))
        .bench_local_values(|tasks| {
            let mut facts: Vec<Fact> = earlier.drain(..).map(finished).collect();
            for spec in tasks {
                next += 1;
                earlier.push(next);
                let (seq, spec) = (Seq(next), Arc::new(spec));
                facts.push(Fact::Submitted {
                    seq,
                    at: Timestamp(next),
                    spec,
                    spawned_by: None,
                    spilled: None,
                });
            }
            store.commit(&facts, &mut verdicts).expect("commits");
        });
}

fn finished(seq: u64) -> Fact {
    Fact::Finished {
        seq: Seq(seq),
        token: Token::new(1, seq),
        at: Timestamp(seq),
        worker: Name::const_new("bench"),
        result: Payload::null(),
        log: None,
    }
}
