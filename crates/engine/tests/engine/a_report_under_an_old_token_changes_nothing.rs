//! Fencing: only the holder of the newest token ends a task.

use crate::support::{World, done, task};
use divvy_engine::{ProgressUpdate, Request, ToWorker};
use divvy_types::view::Progress;
use divvy_types::{AttemptOutcome, Payload, TaskState};

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

#[test]
fn after_a_crash_the_last_one_granted_goes_on_and_an_earlier_one_does_not() {
    let mut world = World::new();
    world.submit(vec![task(1)]).unwrap();
    let mut first = world.join("first", 1, vec![]);
    let old = first.grants().pop().unwrap();
    let mut second = world.join("second", 1, vec![]);
    world.engine.step(world.now, Request::Stopping { worker: first.key }).unwrap();
    world.report(&first, old.spec.id, old.token, AttemptOutcome::Released);
    let new = second.grants().pop().expect("it went to the second worker");
    let save = |worker: &crate::support::TestWorker, token| Request::Checkpoint {
        worker: worker.key,
        saved: vec![(old.spec.id, token, Payload::json("1").unwrap())],
    };
    world.engine.step(world.now, save(&second, new.token)).unwrap();

    // The second attempt is too young to be waited for. The first worker is back before the second, and nothing is
    // granted anew meanwhile.
    let pause = |reply| Request::PauseQueue { queue: "default".into(), paused: true, reply };
    world.ask(pause).unwrap();
    let mut world = world.crash(100);
    let mut first = world.join("first", 1, vec![(old.spec.id, old.token)]);
    let stopped =
        matches!(first.messages().as_slice(), [ToWorker::Stops(s)] if s[0].1 == old.token);
    assert!(stopped, "an older attempt is not gone on with");
    world.engine.step(world.now, save(&first, old.token)).unwrap();
    let mut second = world.join("second", 1, vec![(new.spec.id, new.token)]);
    assert!(second.messages().is_empty());
    world.engine.step(world.now, save(&second, new.token)).unwrap();
    world.report(&first, old.spec.id, old.token, done("\"old\""));
    assert!(matches!(first.messages().as_slice(), [ToWorker::Answers(a)] if !a[0].2));
    world.report(&second, new.spec.id, new.token, done("\"new\""));
    assert!(matches!(second.messages().as_slice(), [ToWorker::Answers(a)] if a[0].2));
}

#[test]
fn nobody_but_the_holder_says_how_far_a_task_is() {
    let mut world = World::new();
    world.submit(vec![task(1)]).unwrap();
    let mut holder = world.join("holder", 1, vec![]);
    let granted = holder.grants().pop().unwrap();
    let other = world.join("other", 1, vec![]);
    for (worker, total) in [(&other, None), (&holder, Some(7))] {
        let progress = vec![ProgressUpdate {
            task: granted.spec.id,
            token: granted.token,
            progress: Progress { done: 1, total: 7, message: "x".into() },
            log: String::new(),
        }];
        let said = Request::Heartbeat { worker: worker.key, progress };
        world.engine.step(world.now, said).unwrap();
        let core = world.engine.core();
        let news = core.live.of(core.seq_of(granted.spec.id).unwrap());
        assert_eq!(news.map(|news| news.progress.total), total);
    }
}
