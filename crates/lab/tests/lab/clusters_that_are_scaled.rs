//! A simulated cluster whose workers the autoscaler starts and stops: boots, drains and interruptions.

use std::sync::Arc;
use std::time::Duration;

use divvy_lab::sim::cluster::{
    AtStart, Cluster, Given, GivenTask, Interruptions, Member, Outcome, Scaling,
};
use divvy_types::pools::{Pool, WorkerType};
use divvy_types::{TaskId, TaskSpec};

const MINUTE: Duration = Duration::from_secs(60);

/// A quiet half hour, a busy one with ten times as many tasks of half a minute, and a quiet one.
fn hump() -> Arc<Given> {
    let mut tasks = Vec::new();
    for (half_hour, every) in [(0, 60), (1, 6), (2, 60)] {
        for second in (0..1_800).step_by(every) {
            let at = Duration::from_secs(half_hour * 1_800 + second);
            let (run, due) = (MINUTE / 2, Some(at + MINUTE * 10));
            tasks.push(GivenTask { at, sort: 0, run, due, parents: Vec::new() });
        }
    }
    Arc::new(Given::new(vec![TaskSpec::new(TaskId(0), "work")], tasks))
}

fn scaled(worker_type: WorkerType, change: impl FnOnce(&mut Scaling)) -> Outcome {
    let pool = Pool { min: 0, max: 20, types: vec![worker_type], ..Pool::default() };
    let mut scaling = Scaling::new(pool);
    scaling.every = Duration::from_secs(10);
    change(&mut scaling);
    let outcome = Cluster::new(1).given(hump()).scaled(scaling).run().unwrap();
    outcome.check_ended_once().unwrap();
    outcome
}

/// Workers that are there at a time.
fn there(outcome: &Outcome, at: Duration) -> usize {
    let has = |gone: Option<Duration>| gone.is_none_or(|gone| gone > at);
    outcome.scaled.hired.iter().filter(|hired| hired.asked <= at && has(hired.gone)).count()
}

#[test]
fn a_fleet_follows_the_load_and_drains_without_losing_a_task() {
    let boot = WorkerType { boot_sec: 40.0, ..WorkerType::default() };
    let outcome = scaled(boot, |_| {});
    let [quiet, busy, late] = [20, 55, 89].map(|minute| there(&outcome, MINUTE * minute));
    assert!(busy >= 5 && quiet <= 3 && late <= 3, "{quiet}, {busy}, {late}");
    assert_eq!(outcome.members.iter().map(|member| member.lost).sum::<u64>(), 0);
    assert!(!outcome.scaled.changes.is_empty());
    // Nothing can run before the first worker has booted.
    assert!(outcome.lives[0].began.unwrap() >= Duration::from_secs(40));
}

#[test]
fn workers_that_are_there_at_the_start_need_no_boot() {
    let boot = WorkerType { boot_sec: 40.0, ..WorkerType::default() };
    let outcome = scaled(boot, |scaling| {
        scaling.pool.min = 1;
        scaling.at_start = vec![AtStart { worker_type: "worker".into(), count: 1 }];
    });
    assert!(outcome.lives[0].began.unwrap() < Duration::from_secs(1));
}

#[test]
fn spot_workers_are_taken_away_and_their_tasks_run_again() {
    let spot = WorkerType { spot: true, boot_sec: 5.0, ..WorkerType::default() };
    let outcome = scaled(spot, |scaling| {
        let (per_hour, notice) = (12.0, Duration::from_secs(10));
        let worker_type = "worker".into();
        scaling.interruptions = vec![Interruptions { worker_type, per_hour, notice }];
    });
    let taken = outcome.scaled.hired.iter().filter(|hired| hired.interrupted).count();
    let lost: u64 = outcome.members.iter().map(|member| member.lost).sum();
    let again = outcome.lives.iter().filter(|life| life.begins > 1).count();
    assert!(taken > 5 && lost > 0 && again as u64 <= lost, "{taken}, {lost}, {again}");
}

#[test]
fn a_run_is_given_up_when_too_many_are_late_and_no_earlier() {
    let whole = hump();
    let mut given = Given::new(whole.sorts.clone(), whole.tasks.clone());
    given.groups = (0..given.tasks.len()).map(|place| (place, place + 1)).collect();
    let given = Arc::new(given);
    // One worker for what needs five.
    let run = |late: Option<usize>| {
        let mut cluster = Cluster::new(1).given(given.clone()).member(Member::new("alone", 1));
        cluster.late_max = late;
        cluster.run().unwrap()
    };
    let whole = run(None);
    let (_, late) = whole.missed(|_| true);
    assert!(late > 100 && !whole.gave_up, "{late}");
    assert_eq!(run(Some(late)), whole);
    let early = run(Some(20));
    assert!(early.gave_up && early.ended_at < whole.ended_at / 2, "{:?}", early.ended_at);
    // The last of them was due after the last thing that happened, and before the next.
    let was_due = |due: Duration| due < early.ended_at;
    let due = early.lives.iter().filter(|life| life.due.is_some_and(was_due));
    let late = due.filter(|life| life.ended.is_none_or(|at| Some(at) > life.due)).count();
    assert!((20..=21).contains(&late), "{late}");
}

#[test]
fn what_makes_no_sense_is_refused() {
    let one = GivenTask { at: Duration::ZERO, sort: 0, run: MINUTE, due: None, parents: vec![0] };
    let sorts = vec![TaskSpec::new(TaskId(0), "work")];
    let given = Given::new(sorts, vec![one]);
    let error = Cluster::new(1).given(Arc::new(given)).run().unwrap_err().to_string();
    assert!(error.contains("given.tasks.parents is 0"), "{error}");
    let mut scaling = Scaling::new(Pool::default());
    let run = |scaling: &Scaling| Cluster::new(1).scaled(scaling.clone()).run();
    assert!(run(&scaling).unwrap_err().to_string().contains("scaling.pool.types is empty"));
    scaling.pool.types = vec![WorkerType::default()];
    scaling.at_start = vec![AtStart { worker_type: "other".into(), count: 1 }];
    assert!(run(&scaling).unwrap_err().to_string().contains("scaling is other"));
}
