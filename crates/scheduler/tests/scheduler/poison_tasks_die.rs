//! A task that takes its workers down is given up, whatever its retries.

use crate::support::*;
use divvy_scheduler::Input;
use divvy_types::settings::PoisonAfter;
use divvy_types::{ErrorClass, Fact, Settings, TaskState, WorkerKey};

fn world(poison_after: u32) -> World {
    let mut world = World::new();
    let poison_after = PoisonAfter(poison_after);
    world.feed(Input::SettingsChanged(Box::new(Settings { poison_after, ..Settings::default() })));
    world
}

fn patient() -> divvy_types::TaskSpec {
    let mut task = spec(1);
    task.retry.limit = 100;
    task
}

fn crash(world: &mut World, key: u64) {
    world.join(key, 1);
    assert_eq!(world.grants(), [(key, 1)]);
    world.feed(Input::WorkerLeft { worker: WorkerKey(key) });
}

#[test]
fn the_third_lost_worker_makes_a_dead_letter_that_names_them() {
    let mut world = world(3);
    world.submit(vec![patient(), after(spec(2), &[(1, false)])]);
    for key in [1, 2] {
        crash(&mut world, key);
        assert_eq!(world.fact_names(), ["AttemptFailed 1"]);
        assert_eq!(world.state(1), Some(TaskState::Ready), "it goes first, without a wait");
    }
    crash(&mut world, 3);
    assert_eq!(world.fact_names(), ["Dead 1", "Cancelled 2"]);
    let Fact::Dead { error, .. } = world.facts()[0] else { panic!("no dead letter") };
    assert_eq!(error.class, ErrorClass::WorkerLost);
    assert!(
        error.message.starts_with(
            "3 workers went away while they held the task (`worker-1`, `worker-2`, `worker-3`)"
        ),
        "{}",
        error.message
    );
}

#[test]
fn failures_of_another_sort_do_not_count_and_a_lost_worker_counts_as_an_attempt_too() {
    let mut world = world(2);
    let mut task = patient();
    task.retry.limit = 2;
    task.retry.base_ms = 0;
    world.submit(vec![task]);
    world.join(1, 1);
    world.end(1, 1, failure(divvy_types::FailureVerdict::Retry));
    world.feed(Input::WorkerLeft { worker: WorkerKey(1) });
    assert_eq!(world.fact_names(), ["AttemptFailed 1"], "one lost worker is not two");
    world.join(2, 1);
    world.end(2, 1, failure(divvy_types::FailureVerdict::Retry));
    assert_eq!(world.fact_names(), ["Dead 1"], "three attempts are over its limit of two retries");
}

#[test]
fn a_worker_that_is_lost_again_and_again_counts_once() {
    let mut world = world(2);
    let mut task = recovered(patient());
    (task.open.attempts, task.open.lost) = (1, vec!["worker-1".into()]);
    world.feed(put_back_alone(task));
    for _ in 0..20 {
        crash(&mut world, 1);
        assert_eq!(world.fact_names(), ["AttemptFailed 1"]);
    }
    crash(&mut world, 2);
    assert_eq!(world.fact_names(), ["Dead 1"]);
}

#[test]
fn workers_that_were_lost_before_a_restart_count() {
    let mut world = World::recovering(divvy_scheduler::Options::default());
    let mut task = recovered(patient());
    (task.open.attempts, task.open.lost) = (2, vec!["a".into(), "b".into()]);
    world.feed(Input::TaskRecovered(task));
    world.feed(Input::RecoveryEnded);
    crash(&mut world, 1);
    let Fact::Dead { error, .. } = world.facts()[0] else { panic!("no dead letter") };
    assert!(
        error.message.contains("3 workers") && error.message.contains("(`a`, `b`, `worker-1`)"),
        "{}",
        error.message
    );
}

#[test]
fn a_poison_task_that_is_put_back_starts_anew() {
    let mut world = world(1);
    world.submit(vec![patient()]);
    crash(&mut world, 1);
    assert_eq!(world.fact_names(), ["Dead 1"]);
    let mut task = recovered(patient());
    task.open.lost = vec!["worker-1".into()];
    world.feed(Input::SettingsChanged(Box::default()));
    world.feed(put_back_alone(task));
    crash(&mut world, 2);
    assert_eq!(world.fact_names(), ["AttemptFailed 1"]);
}
