//! A refused batch is refused whole.

use crate::support::{World, after, failed, task};
use divvy_engine::{Error, Submitted};
use divvy_types::SpecError;

#[test]
fn an_unknown_dependency_a_cycle_and_a_taken_id() {
    let mut world = World::new();
    let unknown = world.submit(vec![task(1), after(2, &[77])]).unwrap_err();
    assert!(matches!(unknown, Error::Spec(SpecError::UnknownDependency { .. })), "{unknown}");
    let cycle = world.submit(vec![task(1), after(2, &[3]), after(3, &[2])]).unwrap_err();
    assert!(matches!(cycle, Error::Spec(SpecError::Cycle { .. })), "{cycle}");
    let own = world.submit(vec![after(4, &[4])]).unwrap_err();
    assert!(matches!(own, Error::Spec(SpecError::SelfDependency { .. })), "{own}");
    let counts = world.engine.core().scheduler().counts();
    assert_eq!((counts.ready, counts.blocked), (0, 0));
    assert_eq!(
        world.submit(vec![task(1), task(2)]).unwrap(),
        Submitted { accepted: 2, known: 0, ..Submitted::default() }
    );
}

#[test]
fn a_dependency_on_a_finished_task_is_met_and_on_a_dead_one_is_fatal() {
    let mut world = World::new();
    world.submit(vec![task(1), task(2)]).unwrap();
    let mut worker = world.join("w", 2, vec![]);
    for granted in worker.grants() {
        match granted.spec.id.0 {
            1 => world.finish(&worker, &granted),
            _ => world.report(
                &worker,
                granted.spec.id,
                granted.token,
                failed(divvy_types::FailureVerdict::Dead),
            ),
        }
    }
    world.submit(vec![after(3, &[1]), after(4, &[2])]).unwrap();
    let granted: Vec<u128> = worker.grants().iter().map(|g| g.spec.id.0).collect();
    assert_eq!(granted, [3], "the other was cancelled with its dependency");
}
