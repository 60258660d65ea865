//! Whoever retries a task wants it to run, whatever it waited for before.

use crate::support::{World, failed, task};
use divvy_engine::Request;
use divvy_types::{FailureVerdict, TaskId, TaskState};

fn retry(world: &mut World, id: u128) -> Result<TaskState, divvy_engine::Error> {
    world.ask(|reply| Request::Retry { id: TaskId(id), reply })
}

#[test]
fn a_backoff_a_cancel_and_a_time_that_lies_ahead() {
    let mut world = World::new();
    let mut later = task(1);
    later.run_at = Some(world.now.plus_ms(3_600_000));
    world.submit(vec![later, task(2)]).unwrap();
    world.ask(|reply| Request::Cancel { id: TaskId(1), reason: "not now".into(), reply }).unwrap();
    assert_eq!(
        retry(&mut world, 1).unwrap(),
        TaskState::Ready,
        "its time does not matter any more"
    );

    let mut worker = world.join("w", 2, vec![]);
    let mut granted = worker.grants();
    granted.sort_by_key(|g| g.spec.id);
    assert_eq!(granted.iter().map(|g| g.spec.id.0).collect::<Vec<_>>(), [1, 2]);
    world.report(&worker, granted[1].spec.id, granted[1].token, failed(FailureVerdict::Retry));
    assert_eq!(world.state(TaskId(2)), Some(TaskState::Scheduled));
    assert_eq!(
        retry(&mut world, 2).unwrap(),
        TaskState::Leased,
        "the worker is free, so it runs at once"
    );
    assert_eq!(worker.grants().len(), 1);

    let refused = retry(&mut world, 2).unwrap_err().to_string();
    assert!(
        refused.contains("only a dead, cancelled or scheduled task can be retried"),
        "{refused}"
    );
    assert!(matches!(retry(&mut world, 77), Err(divvy_engine::Error::NotFound(_))));
}
