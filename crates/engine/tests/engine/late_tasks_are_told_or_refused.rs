//! A task that is expected to miss its deadline is named when it is submitted; a strict submission is refused.

use crate::support::{TestWorker, World, after, task};
use divvy_engine::{Error, SubmitOptions, Submitted};
use divvy_types::limits::LATE_LISTED_MAX;
use divvy_types::{SpecError, TaskId, TaskSpec, TaskState};

const STRICT: SubmitOptions = SubmitOptions { strict: true };

/// A world with a worker of one slot that has shown that a task takes ten seconds.
fn world() -> (World, TestWorker) {
    let mut world = World::new();
    let mut worker = world.join("w", 1, vec![]);
    for id in 1..=20 {
        world.submit(vec![task(9_000 + id)]).expect("is taken");
        let granted = worker.grants().remove(0);
        world.advance_ms(10_000);
        world.finish(&worker, &granted);
    }
    (world, worker)
}

fn due(world: &World, id: u128, ms: u64) -> TaskSpec {
    let mut spec = task(id);
    spec.deadline = Some(world.now.plus_ms(ms));
    spec
}

#[test]
fn the_answer_names_tasks_that_will_be_late_and_takes_them() {
    let (mut world, _worker) = world();
    let in_time = world.submit(vec![due(&world, 1, 15_000)]).unwrap();
    assert_eq!(in_time, Submitted { accepted: 1, ..Submitted::default() });
    let batch = vec![due(&world, 2, 22_000), task(3), due(&world, 4, 20_000)];
    let submitted = world.submit(batch).unwrap();
    assert_eq!((submitted.accepted, submitted.late_total), (3, 1));
    let [late] = submitted.late[..] else { panic!("{submitted:?}") };
    assert_eq!((late.task, late.deadline), (TaskId(2), world.now.plus_ms(22_000)));
    // Half of the one that runs, the more urgent one, and itself.
    let end_ms = (late.expected_end.0 - world.now.0) / 1_000;
    assert!((24_900..25_100).contains(&end_ms), "{end_ms}");
    assert_eq!(world.state(TaskId(2)), Some(TaskState::Ready));
}

#[test]
fn a_strict_batch_with_a_late_task_is_refused_whole() {
    let (mut world, mut worker) = world();
    world.submit(vec![due(&world, 1, 15_000)]).unwrap();
    let running = worker.grants().remove(0);
    let batch = vec![task(2), due(&world, 3, 12_000), due(&world, 4, 60_000)];
    let refused = world.submit_with(batch.clone(), STRICT).unwrap_err();
    assert_eq!(refused.code(), "deadline_unmeetable");
    let Error::Spec(SpecError::TooLate { task, deadline, .. }) = refused else {
        panic!("{refused}")
    };
    assert_eq!((task, deadline), (TaskId(3), world.now.plus_ms(12_000)));
    for id in [2, 3, 4] {
        assert_eq!(world.state(TaskId(id)), None, "nothing of it is known");
    }
    assert_eq!(world.engine.core().scheduler().counts().ready, 0);

    // The ids are free, and once the worker is, so is the batch.
    world.finish(&worker, &running);
    let accepted = world.submit_with(batch.clone(), STRICT).unwrap();
    assert_eq!(accepted, Submitted { accepted: 3, ..Submitted::default() });
    // Known tasks are not put to the test again.
    let again = world.submit_with(batch, STRICT).unwrap();
    assert_eq!(again, Submitted { known: 3, ..Submitted::default() });
}

#[test]
fn strict_asks_nothing_of_tasks_without_deadlines_or_whose_start_nobody_knows() {
    let (mut world, _worker) = world();
    let many = (100..200).map(task).collect();
    assert_eq!(world.submit_with(many, STRICT).unwrap().accepted, 100);
    let mut waiting = after(1, &[100]);
    waiting.deadline = Some(world.now.plus_ms(11_000));
    assert_eq!(world.submit_with(vec![waiting], STRICT).unwrap().accepted, 1);
    let mut hopeless = after(2, &[100]);
    hopeless.deadline = Some(world.now.plus_ms(9_000));
    let refused = world.submit_with(vec![hopeless], STRICT).unwrap_err();
    assert_eq!(refused.code(), "deadline_unmeetable", "it takes longer than that");
}

#[test]
fn of_many_late_tasks_the_first_are_named_and_all_are_counted() {
    let (mut world, _worker) = world();
    let count = LATE_LISTED_MAX as u128 + 50;
    let batch = (1..=count).map(|id| due(&world, id, 1_000)).collect();
    let submitted = world.submit(batch).unwrap();
    assert_eq!(u128::from(submitted.accepted), count);
    assert_eq!(u128::from(submitted.late_total), count);
    assert_eq!(submitted.late.len(), LATE_LISTED_MAX);
    assert_eq!(submitted.late[0].task, TaskId(1));
}
