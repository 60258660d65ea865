//! Fencing: only the holder of the newest token ends a task.

use crate::support::{World, done, task};
use divvy_engine::{Request, ToWorker};
use divvy_types::TaskState;

#[test]
fn a_lost_worker_reports_too_late() {
    let mut world = World::new();
    world.submit(vec![task(1)]).unwrap();
    let mut first = world.join("first", 1, vec![]);
    let old = first.grants().pop().unwrap();
    world.engine.step(world.now, Request::Disconnect { worker: first.key }).unwrap();
    let mut second = world.join("second", 1, vec![]);
    let new = second.grants().pop().expect("the task went to the second worker at once");
    assert!(new.token > old.token);

    world.report(&second, old.spec.id, old.token, done("\"late\""));
    assert!(
        matches!(second.messages().as_slice(), [ToWorker::Answers(a)] if a == &vec![(old.spec.id, old.token, false)])
    );
    assert_eq!(
        world.state(old.spec.id),
        Some(TaskState::Leased),
        "the late report changed nothing"
    );

    world.report(&second, new.spec.id, new.token, done("\"in time\""));
    assert!(
        matches!(second.messages().as_slice(), [ToWorker::Answers(a)] if a == &vec![(new.spec.id, new.token, true)])
    );
    world.report(&second, new.spec.id, new.token, done("\"again\""));
    assert!(
        matches!(second.messages().as_slice(), [ToWorker::Answers(a)] if a[0].2),
        "a report whose answer was missed is recorded already"
    );
    world.report(&second, old.spec.id, old.token, done("\"late\""));
    assert!(matches!(second.messages().as_slice(), [ToWorker::Answers(a)] if !a[0].2));
}
