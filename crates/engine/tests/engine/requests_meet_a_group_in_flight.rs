//! Requests that come while the facts that they depend on are on their way to the disk.

use crate::support::pipeline::Pipeline;
use crate::support::{after, task};
use divvy_engine::{Error, Options, Request, SubmitOptions, ToWorker};
use divvy_types::fact::Replay;
use divvy_types::{Name, OnConflict, SpecError, TaskId, TaskSpec, TaskState, Unique, WorkerHello};
use tokio::sync::mpsc;

const T: TaskId = TaskId(200);

fn submit(pipeline: &mut Pipeline, specs: Vec<TaskSpec>) {
    let options = SubmitOptions::default();
    drop(pipeline.ask(|reply| Request::Submit { specs, options, reply }));
}

fn cancel(pipeline: &mut Pipeline, id: TaskId) {
    drop(pipeline.ask(|reply| Request::Cancel { id, reason: "no need".into(), reply }));
}

fn small_window() -> Options {
    Options { window_tasks: 50, ..Options::default() }
}

#[test]
fn a_task_that_is_cancelled_while_it_is_fetched_from_the_store_leaves_no_ghost() {
    let mut pipeline = Pipeline::new(&small_window());
    submit(&mut pipeline, (1..=T.0).map(task).collect());
    pipeline.settle();
    assert_eq!(pipeline.core.seq_of(T), None, "it waits in the store");
    let mut pipeline = pipeline.crash(&Options::default());
    pipeline.hand_over();
    cancel(&mut pipeline, T);
    pipeline.commit();
    pipeline.settle();
    assert_eq!(pipeline.core.seq_of(T), None, "nothing of it is left in memory");
    submit(&mut pipeline, vec![after(500, &[T.0])]);
    pipeline.settle();
    assert_eq!(
        pipeline.state(TaskId(500)),
        Some(TaskState::Cancelled),
        "it does not wait for ever"
    );
    let mut retried = pipeline.ask(|reply| Request::Retry { id: T, reply });
    pipeline.settle();
    assert_eq!(retried.try_recv().unwrap().unwrap(), TaskState::Ready);
}

#[test]
fn a_task_that_is_granted_and_cancelled_in_one_group_is_told_to_stop_after_its_grant() {
    let mut pipeline = Pipeline::new(&Options::default());
    let (outbox, mut inbox) = mpsc::channel(64);
    let hello = WorkerHello {
        name: "w".into(),
        kinds: vec!["noop".into()],
        credit: 1,
        ..WorkerHello::default()
    };
    drop(pipeline.ask(|reply| Request::Connect { hello, outbox, reply }));
    pipeline.settle();
    submit(&mut pipeline, vec![task(1)]);
    cancel(&mut pipeline, TaskId(1));
    pipeline.settle();
    let told: Vec<ToWorker> = std::iter::from_fn(|| inbox.try_recv().ok()).collect();
    // A worker that hears of a stop before the grant has nothing to stop, and would run the task.
    let [ToWorker::Grants(grants), ToWorker::Stops(stops)] = told.as_slice() else {
        panic!("{told:?}");
    };
    assert_eq!((stops[0].0, stops[0].1), (grants[0].spec.id, grants[0].token));
}

#[test]
fn a_refusal_leaves_when_what_it_rests_on_is_durable() {
    let mut pipeline = Pipeline::new(&Options::default());
    let unique = |id| {
        let mut spec = task(id);
        let (key, on_conflict) = (Name::from("k"), OnConflict::Refuse);
        spec.unique = Some(Unique { key, window_ms: None, on_conflict });
        spec
    };
    submit(&mut pipeline, vec![unique(1)]);
    pipeline.hand_over();
    let (specs, options) = (vec![unique(2)], SubmitOptions::default());
    let mut refused = pipeline.ask(|reply| Request::Submit { specs, options, reply });
    submit(&mut pipeline, vec![task(3)]);
    cancel(&mut pipeline, TaskId(3));
    let (id, reason) = (TaskId(3), Name::from("again"));
    let mut too_late = pipeline.ask(|reply| Request::Cancel { id, reason, reply });
    assert!(refused.try_recv().is_err(), "task 1, which it names, may never have been");
    pipeline.settle();
    let error = refused.try_recv().unwrap().unwrap_err();
    let holder = TaskId(1);
    let named =
        matches!(error, Error::Spec(SpecError::NotUnique { holder: of, .. }) if of == holder);
    assert!(named, "{error}");
    assert!(matches!(too_late.try_recv().unwrap(), Err(Error::Conflict { .. })));
}

#[test]
fn a_task_that_goes_to_the_store_to_wait_is_cancelled_with_the_others() {
    let mut pipeline = Pipeline::new(&small_window());
    submit(&mut pipeline, (1..=T.0).map(task).collect());
    pipeline.hand_over();
    let (ids, reason) = ((1..=T.0).map(TaskId).collect(), Name::from("all of them"));
    drop(pipeline.ask(|reply| Request::CancelMembers { ids, reason, reply }));
    pipeline.settle();
    for id in 1..=T.0 {
        assert_eq!(pipeline.state(TaskId(id)), Some(TaskState::Cancelled), "task {id}");
    }
}

#[test]
fn a_replay_waits_to_hear_how_a_dependency_ended() {
    let mut pipeline = Pipeline::new(&Options::default());
    submit(&mut pipeline, vec![task(1), after(2, &[1])]);
    cancel(&mut pipeline, TaskId(2));
    pipeline.settle();
    cancel(&mut pipeline, TaskId(1));
    pipeline.hand_over();
    let replay = Box::new(Replay { keep_edges: true, ..Replay::default() });
    drop(pipeline.ask(|reply| Request::Replay { id: TaskId(2), replay, reply }));
    assert_eq!(pipeline.state(TaskId(2)), Some(TaskState::Cancelled), "nothing is decided yet");
    pipeline.settle();
    assert_eq!(pipeline.state(TaskId(2)), Some(TaskState::Cancelled), "what it needs has failed");
}
