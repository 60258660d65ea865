//! After a restart: what was open is open again, what runs goes on, and nothing old is believed.

use crate::support::*;
use divvy_scheduler::{AttemptEnd, Input, Options, RecoveredTask, ReportAnswer};
use divvy_types::{
    AttemptOutcome, ErrorClass, Fact, FailureVerdict, Name, Seq, TaskId, TaskState, Timestamp,
    Token, WorkerKey,
};

/// When an attempt began that a server knows from the one before it.
const BEGAN: Timestamp = Timestamp(1_234_567);

fn restarted() -> World {
    World::recovering(Options { epoch: 5, ..Options::default() })
}

fn held_by_lost(number: u64) -> RecoveredTask {
    let mut task = recovered(spec(number));
    task.open.held = Some((Token::new(4, number), "worker-1".into(), BEGAN));
    task
}

#[test]
fn nothing_is_granted_before_everything_is_known() {
    let mut world = restarted();
    world.feed(Input::QueuePaused { queue: "mail".into(), paused: true });
    assert!(world.actions.is_empty(), "the store knows of the pause");
    world.join(1, 10);
    world.feed(Input::TaskRecovered(recovered(spec(1))));
    world.feed(Input::TaskRecovered(recovered(after(spec(2), &[(1, false)]))));
    let mut later = recovered(spec(3));
    later.open.retry_at = Some(world.now.plus_ms(500));
    later.open.attempts = 2;
    world.feed(Input::TaskRecovered(later));
    assert_eq!(world.grants(), []);
    world.feed(Input::RecoveryEnded);
    assert_eq!(world.grants(), [(1, 1)]);
    assert_eq!(world.scheduler.lease_token(Seq(1)).unwrap().epoch(), 5);
    world.end(1, 1, finished());
    assert_eq!(world.grants(), [(1, 2)]);
    world.pass_ms(500);
    assert_eq!(world.grants(), [(1, 3)]);
}

#[test]
fn a_held_attempt_goes_on_when_its_worker_comes_back() {
    let mut world = restarted();
    world.feed(Input::TaskRecovered(held_by_lost(1)));
    world.feed(Input::RecoveryEnded);
    assert_eq!(world.scheduler.status(Seq(1)).unwrap().worker, Some("worker-1".into()));
    assert_eq!(world.scheduler.began(Seq(1)), Some(BEGAN), "before its worker is back too");
    world.join_with(7, 1, |worker| worker.held = vec![(Seq(1), Token::new(4, 1))]);
    assert!(world.actions.is_empty());
    assert_eq!(world.scheduler.began(Seq(1)), Some(BEGAN));
    world.submit(vec![spec(2)]);
    assert_eq!(world.grants(), [], "an adopted attempt takes up credit");
    world.pass_ms(20_000);
    assert_eq!(world.fact_names(), Vec::<String>::new(), "held is recorded already");
    world.end(7, 1, finished());
    assert_eq!((world.answers(), world.grants()), (vec![ReportAnswer::Recorded], vec![(7, 2)]));
}

#[test]
fn a_held_attempt_whose_report_comes_first_is_believed() {
    let mut world = restarted();
    world.feed(Input::TaskRecovered(held_by_lost(1)));
    world.feed(Input::RecoveryEnded);
    world.join(7, 1);
    world.report(7, 1, Token::new(4, 99), finished());
    assert_eq!(world.answers(), [ReportAnswer::Refused]);
    world.report(7, 1, Token::new(4, 1), finished());
    assert_eq!(world.answers(), [ReportAnswer::Recorded]);
    assert!(world.scheduler.is_idle());
}

#[test]
fn a_held_attempt_that_nobody_claims_is_lost_after_a_lease_time() {
    let mut world = restarted();
    world.feed(Input::TaskRecovered(held_by_lost(1)));
    world.feed(Input::RecoveryEnded);
    world.join(9, 1);
    assert_eq!(world.grants(), []);
    world.pass_ms(30_000);
    let Fact::AttemptFailed { error, token, worker, .. } = world.facts()[0] else {
        panic!("no fact")
    };
    assert_eq!(
        (error.class, *token, worker.as_str()),
        (ErrorClass::WorkerLost, Token::new(4, 1), "worker-1")
    );
    assert_eq!(world.grants(), [(9, 1)]);
}

#[test]
fn a_short_attempt_is_adopted_only_if_it_cannot_have_failed() {
    let mut world = restarted();
    world.feed(Input::TaskRecovered(recovered(spec(1))));
    let mut failed = recovered(spec(2));
    failed.open.attempts = 1;
    failed.open.retry_at = Some(world.now.plus_ms(60_000));
    world.feed(Input::TaskRecovered(failed));
    world.feed(Input::RecoveryEnded);
    world.submit(vec![spec(3)]);
    let old = Token::new(4, 8);
    world.join_with(1, 4, |worker| {
        worker.kinds = vec!["other".into()];
        worker.held = vec![
            (Seq(1), old),
            (Seq(2), old),
            (Seq(3), old),
            (Seq(4), old),
            (Seq(1), Token::new(5, 1)),
        ];
    });
    let stopped: Vec<u64> = world.stops().iter().map(|(_, seq, ..)| *seq).collect();
    assert_eq!(stopped, [2, 3, 4, 1]);
    assert_eq!(
        (world.state(1), world.state(2)),
        (Some(TaskState::Leased), Some(TaskState::Scheduled))
    );
    world.join(2, 10);
    assert_eq!(world.grants(), [(2, 3)], "the adopted task left its lane");
    world.report(1, 1, old, finished());
    assert_eq!(world.answers(), [ReportAnswer::Recorded]);
}

#[test]
fn a_task_that_was_settling_keeps_its_dependents_until_its_children_are_done() {
    for fails in [false, true] {
        let mut world = restarted();
        world.join(1, 10);
        world.feed(Input::SettlingRecovered {
            seq: Seq(2),
            task: TaskId(2),
            failed: false,
            spawned_by: Some(Seq(1)),
            member: None,
        });
        world.feed(Input::SettlingRecovered {
            seq: Seq(1),
            task: TaskId(1),
            failed: false,
            spawned_by: None,
            member: None,
        });
        let mut child = recovered(spec(3));
        child.open.spawned_by = Some(Seq(2));
        world.feed(Input::TaskRecovered(child));
        world.feed(Input::TaskRecovered(recovered(after(spec(4), &[(1, false)]))));
        world.feed(Input::RecoveryEnded);
        assert_eq!(world.grants(), [(1, 3)]);
        if fails {
            world.end(1, 3, failure(FailureVerdict::Dead));
            assert!(world.cancel_reason(4).is_some());
            assert!(world.scheduler.is_idle());
        } else {
            world.end(1, 3, finished());
            assert_eq!(world.grants(), [(1, 4)]);
        }
    }
}

#[test]
fn a_dependency_that_was_met_before_a_replay_does_not_tie_a_knot() {
    let mut world = restarted();
    world.join(1, 10);
    // Task 1 died, so task 2, which may ignore that, was ready. Then 1 was put back, and finished with a child that
    // waits for 2.
    world.feed(Input::SettlingRecovered {
        seq: Seq(1),
        task: TaskId(1),
        failed: false,
        spawned_by: None,
        member: None,
    });
    world.feed(Input::TaskRecovered(recovered(after(spec(2), &[(1, true)]))));
    let mut child = recovered(after(spec(3), &[(2, false)]));
    child.open.spawned_by = Some(Seq(1));
    world.feed(Input::TaskRecovered(child));
    world.feed(Input::TaskRecovered(recovered(after(spec(4), &[(1, true)]))));
    world.feed(Input::RecoveryEnded);
    assert_eq!(world.grants(), [(1, 2)]);
    world.end(1, 2, finished());
    assert_eq!(world.grants(), [(1, 3)], "whoever is not part of the knot waits");
    world.end(1, 3, finished());
    assert_eq!(world.grants(), [(1, 4)]);
    world.end(1, 4, finished());
    assert!(world.scheduler.is_idle());
}

#[test]
fn a_dependency_that_was_met_before_a_resume_does_not_tie_a_knot() {
    let put_back_at = Timestamp(1_600_000_000_000_000);
    let put_back = |spec| {
        let mut task = recovered(spec);
        task.open.retry_at = Some(put_back_at);
        task
    };
    let mut world = restarted();
    world.join(1, 10);
    let (seq, task) = (Seq(1), TaskId(1));
    let (failed, spawned_by, member) = (false, None, None);
    world.feed(Input::SettlingRecovered { seq, task, failed, spawned_by, member });
    world.feed(Input::TaskRecovered(put_back(after(spec(2), &[(1, false)]))));
    // Task 3 was put back with task 2, so it does wait for that.
    world.feed(Input::TaskRecovered(put_back(after(spec(3), &[(2, true)]))));
    // Task 4 went on when task 3 was cancelled.
    world.feed(Input::TaskRecovered(recovered(after(spec(4), &[(3, true)]))));
    let mut child = put_back(after(spec(5), &[(4, false)]));
    child.open.spawned_by = Some(Seq(1));
    world.feed(Input::TaskRecovered(child));
    world.feed(Input::RecoveryEnded);
    for number in [4, 5, 2, 3] {
        assert_eq!(world.grants(), [(1, number)]);
        world.end(1, number, finished());
    }
    assert!(world.scheduler.is_idle());
}

#[test]
fn a_task_that_has_run_does_not_wait_for_what_was_put_back() {
    let mut world = restarted();
    world.join(1, 10);
    world.feed(Input::TaskRecovered(recovered(spec(1))));
    let mut retried = recovered(after(spec(2), &[(1, true)]));
    (retried.open.attempts, retried.open.retry_at) = (1, Some(world.now));
    world.feed(Input::TaskRecovered(retried));
    world.feed(Input::RecoveryEnded);
    assert_eq!(world.grants(), [(1, 1), (1, 2)]);
}

#[test]
fn a_task_that_was_only_granted_anew_is_ready_after_a_restart_and_not_counted() {
    let mut world = World::new();
    world.join(1, 1);
    world.submit(vec![spec(1)]);
    let first = world.scheduler.lease_token(Seq(1)).unwrap();
    world.report(1, 1, first, AttemptEnd::Other(AttemptOutcome::Released));
    let granted: Vec<(Token, Name)> = world.facts().iter().filter_map(|fact| held(fact)).collect();
    let [(last, worker)] = granted.as_slice() else { panic!("{granted:?}") };
    assert!(*last > first && worker.is_empty(), "{granted:?}");
    // The server is killed before the second attempt has run for long; both workers have theirs.
    for comes_back in [first, *last] {
        let mut world = World::recovering(Options { epoch: 2, ..Options::default() });
        let mut task = recovered(spec(1));
        task.open.held = Some((*last, Name::default(), Timestamp(0)));
        world.feed(Input::TaskRecovered(task));
        world.feed(Input::RecoveryEnded);
        assert_eq!(world.state(1), Some(TaskState::Ready), "nobody is waited for");
        world.join_with(1, 1, |worker| worker.held = vec![(Seq(1), comes_back)]);
        if comes_back == *last {
            assert_eq!((world.stops().len(), world.grants()), (0, vec![]));
            world.report(1, 1, *last, finished());
            assert_eq!(world.answers(), [ReportAnswer::Recorded]);
            continue;
        }
        assert_eq!((world.stops().len(), world.grants()), (1, vec![(1, 1)]), "it is older");
        let names = world.fact_names();
        assert_eq!(names, ["Held 1"], "this one is the last from now on");
        world.join_with(2, 1, |worker| worker.held = vec![(Seq(1), *last)]);
        assert_eq!(world.stops().last().map(|stop| stop.0), Some(2), "it was granted anew");
    }
}

#[test]
fn an_attempt_that_was_held_and_given_back_is_not_waited_for_after_a_restart() {
    let mut world = World::new();
    world.join(1, 1);
    world.submit(vec![spec(1)]);
    world.feed(Input::WorkerDraining { worker: WorkerKey(1) });
    world.pass_ms(5_000);
    let token = world.scheduler.lease_token(Seq(1)).unwrap();
    world.report(1, 1, token, AttemptEnd::Other(AttemptOutcome::Released));
    let last = world.facts().iter().rev().find_map(|fact| held(fact));
    assert_eq!(last, Some((token, Name::default())));
}

#[test]
fn the_beginning_of_an_attempt_is_recorded_and_not_when_it_was_granted() {
    let mut world = World::new();
    let granted = world.now;
    world.join_with(1, 2, |worker| worker.slots = 1);
    world.submit(vec![spec(1), spec(2)]);
    let began = |world: &World| -> Vec<(Option<Seq>, Timestamp)> {
        let held = world.facts().into_iter().filter_map(|fact| match fact {
            Fact::Held { began, .. } => Some((fact.seq(), *began)),
            _ => None,
        });
        held.collect()
    };
    world.pass_ms(10_000);
    let waits = Timestamp(0);
    assert_eq!(began(&world), [(Some(Seq(1)), granted), (Some(Seq(2)), waits)]);
    world.end(1, 1, finished());
    assert_eq!(began(&world), [(Some(Seq(2)), world.now)], "the slot is free for it");
}

fn held(fact: &Fact) -> Option<(Token, Name)> {
    match fact {
        Fact::Held { token, worker, .. } => Some((*token, worker.clone())),
        _ => None,
    }
}
