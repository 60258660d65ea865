//! An id names one task: the same spec again is the same answer, another spec is refused, whatever became of the task.

use crate::support::{World, task};
use divvy_engine::{Error, Submitted};
use divvy_types::{SpecError, TaskState};

#[test]
fn open_finished_or_waiting_in_the_store() {
    let mut world = World::new();
    let first = Submitted { accepted: 1, known: 0, ..Submitted::default() };
    let again = Submitted { accepted: 0, known: 1, ..Submitted::default() };
    assert_eq!(world.submit(vec![task(1)]).unwrap(), first);
    assert_eq!(world.submit(vec![task(1)]).unwrap(), again, "while it is open");

    let mut worker = world.join("w", 1, vec![]);
    let granted = worker.grants().pop().expect("the task is granted");
    world.finish(&worker, &granted);
    assert_eq!(world.state(granted.spec.id), None::<TaskState>, "it left memory");
    assert_eq!(world.submit(vec![task(1)]).unwrap(), again, "when it is done");
    assert!(worker.grants().is_empty(), "and it does not run again");

    let mut other = task(1);
    other.priority = 5;
    let refused = world.submit(vec![task(2), other]).unwrap_err();
    assert!(matches!(refused, Error::Spec(SpecError::IdTaken { .. })), "{refused}");
    assert_eq!(
        world.submit(vec![task(2)]).unwrap(),
        first,
        "nothing of the refused batch was kept"
    );
}

#[test]
fn twice_in_one_batch_counts_once() {
    let mut world = World::new();
    assert_eq!(
        world.submit(vec![task(1), task(1)]).unwrap(),
        Submitted { accepted: 1, known: 1, ..Submitted::default() }
    );
}
