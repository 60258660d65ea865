//! Dependencies: a task waits until everything before it has settled, with all that it spawned.

use crate::support::*;
use divvy_scheduler::{Input, Parent, ParentState};
use divvy_types::{FailureVerdict, Seq, TaskId, TaskState, WaitReason};

#[test]
fn a_dependent_starts_when_the_last_parent_finished_and_gets_its_parents_named() {
    let mut world = World::new();
    world.join(1, 10);
    // The dependent comes first in its batch.
    world.submit(vec![after(spec(3), &[(1, false), (2, false)]), spec(1), spec(2)]);
    assert_eq!(world.grants(), [(1, 1), (1, 2)]);
    let wait = world.scheduler.status(Seq(3)).unwrap().wait;
    assert_eq!(
        wait,
        Some(WaitReason::Dependencies { missing: 2, total: 2, first: Some(TaskId(1)) })
    );
    world.end(1, 1, finished());
    assert_eq!(world.grants(), []);
    world.end(1, 2, finished());
    assert_eq!(world.grants(), [(1, 3)]);
    let parents = world.actions.iter().find_map(|action| match action {
        divvy_scheduler::Action::Grant(grant) => Some(grant.parents.clone()),
        _ => None,
    });
    assert_eq!(parents, Some(vec![Seq(1), Seq(2)]));
    // The finish is recorded before the dependent is granted.
    assert_eq!(world.fact_names(), ["Finished 2"]);
}

#[test]
fn a_dead_parent_cancels_whoever_requires_it_and_lets_others_run() {
    let mut world = World::new();
    world.join(1, 10);
    world.submit(vec![
        spec(1),
        after(spec(2), &[(1, false)]),
        after(spec(3), &[(2, false)]),
        after(spec(4), &[(1, true)]),
        after(spec(5), &[(3, true), (4, false)]),
    ]);
    world.end(1, 1, failure(FailureVerdict::Dead));
    assert_eq!(world.grants(), [(1, 4)]);
    let reason = format!("dependency {} failed: boom", TaskId(1));
    assert_eq!(world.cancel_reason(2), Some(reason.clone()));
    assert_eq!(world.cancel_reason(3), Some(reason));
    world.end(1, 4, finished());
    assert_eq!(world.grants(), [(1, 5)]);
}

#[test]
fn a_cancel_runs_down_a_chain_of_a_hundred_thousand() {
    let mut world = World::new();
    world.submit(vec![spec(1)]);
    let chain: Vec<_> =
        (2..=100_000).map(|number| after(spec(number), &[(number - 1, false)])).collect();
    world.submit(chain);
    assert_eq!(world.scheduler.counts().blocked, 99_999);
    world.feed(Input::CancelRequested { seq: Seq(1), reason: "not needed".into() });
    assert_eq!(world.facts().len(), 100_000);
    assert_eq!(
        world.cancel_reason(100_000),
        Some(format!("dependency {} was cancelled: not needed", TaskId(1)))
    );
    assert!(world.scheduler.is_idle());
}

#[test]
fn a_task_that_requires_a_failed_one_is_recorded_and_cancelled_with_its_dependents() {
    let mut world = World::new();
    let mut failed = submission(after(spec(2), &[(1, false)]));
    failed.parents = vec![Parent { seq: Seq(1), optional: false, state: ParentState::Failed }];
    let mut ignoring = submission(after(spec(5), &[(1, true)]));
    ignoring.parents = vec![Parent { seq: Seq(1), optional: true, state: ParentState::Failed }];
    let before = submission(after(spec(3), &[(2, false)]));
    let behind = submission(after(spec(4), &[(2, false)]));
    world.feed(Input::TasksSubmitted(vec![before, failed, behind, ignoring]));
    let mut names = world.fact_names();
    names.sort();
    assert_eq!(
        names,
        [
            "Cancelled 2",
            "Cancelled 3",
            "Cancelled 4",
            "Submitted 2",
            "Submitted 3",
            "Submitted 4",
            "Submitted 5"
        ]
    );
    assert_eq!((world.state(5), world.scheduler.counts().blocked), (Some(TaskState::Ready), 0));
}

#[test]
fn a_parent_is_settled_only_when_its_children_and_theirs_are() {
    let mut world = World::new();
    world.join(1, 10);
    world.submit(vec![spec(1), after(spec(2), &[(1, false)])]);
    world.end(1, 1, spawning(vec![spec(10), spec(11)]));
    assert_eq!(world.fact_names(), ["Finished 1", "Submitted 10", "Submitted 11"]);
    assert_eq!((world.grants(), world.forgotten()), (vec![(1, 10), (1, 11)], vec![]));
    assert!(world.scheduler.status(Seq(1)).unwrap().settling);
    world.end(1, 10, spawning(vec![spec(20)]));
    world.end(1, 11, finished());
    assert_eq!(world.state(2), Some(TaskState::Blocked));
    world.end(1, 20, finished());
    assert_eq!(world.grants(), [(1, 2)]);
    assert_eq!(world.forgotten(), [20, 10, 1]);
    // A late dependent of a settling task waits too.
    world.end(1, 2, spawning(vec![spec(30)]));
    world.submit(vec![after(spec(40), &[(2, false)])]);
    assert_eq!(world.state(40), Some(TaskState::Blocked));
    world.end(1, 30, finished());
    assert_eq!(world.grants(), [(1, 40)]);
}

#[test]
fn a_failed_grandchild_fails_everything_above_it_at_once() {
    let mut world = World::new();
    world.join(1, 10);
    world.submit(vec![spec(1), after(spec(2), &[(1, false)]), after(spec(3), &[(1, true)])]);
    world.end(1, 1, spawning(vec![spec(10), spec(11)]));
    world.end(1, 10, spawning(vec![spec(20)]));
    world.end(1, 20, failure(FailureVerdict::Dead));
    let reason = world
        .cancel_reason(2)
        .expect("the dependent is cancelled although another child still runs");
    assert!(reason.contains(&TaskId(20).to_string()) && reason.ends_with("boom"), "{reason}");
    assert_eq!(world.state(3), Some(TaskState::Blocked));
    // Whoever comes now and requires it is cancelled on arrival.
    world.submit(vec![after(spec(4), &[(1, false)])]);
    assert_eq!(world.fact_names(), ["Submitted 4", "Cancelled 4"]);
    world.end(1, 11, finished());
    assert_eq!(world.grants(), [(1, 3)]);
}

#[test]
fn a_child_may_name_its_spawner_and_its_siblings_but_not_one_who_waits_for_them() {
    let mut world = World::new();
    world.join(1, 10);
    world.submit(vec![spec(1), after(spec(2), &[(1, false)])]);
    let children = vec![
        after(spec(10), &[(1, false)]),
        after(spec(11), &[(10, false)]),
        after(spec(12), &[(2, false)]),
    ];
    world.end(1, 1, spawning(children));
    assert_eq!(world.grants(), [(1, 10)]);
    let reason = world.cancel_reason(12).expect("it would have waited for itself");
    assert!(reason.contains("waits for the task that spawned this one"), "{reason}");
    assert!(world.cancel_reason(2).is_some());
    world.end(1, 10, finished());
    world.end(1, 11, finished());
    assert!(world.scheduler.is_idle());
}

#[test]
fn a_child_that_waits_for_its_spawner_by_way_of_anothers_children_is_refused() {
    let mut world = World::new();
    world.join(1, 10);
    world.submit(vec![spec(1), spec(2)]);
    // The child of the first waits for the second; then a child of the second wants to wait for the first.
    world.end(1, 1, spawning(vec![after(spec(10), &[(2, false)])]));
    world.end(1, 2, spawning(vec![after(spec(20), &[(1, false)])]));
    assert!(world.cancel_reason(20).is_some(), "both would wait for ever");
    assert!(world.scheduler.is_idle());
}
