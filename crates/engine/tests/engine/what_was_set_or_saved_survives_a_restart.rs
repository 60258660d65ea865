//! Settings, checkpoints, and tasks that were put back with another payload or for later.

use crate::support::{World, done, failed, task};
use divvy_engine::{Error, Options, Request};
use divvy_types::fact::Replay;
use divvy_types::settings::{KindSettings, Limit};
use divvy_types::{FailureVerdict, Payload, Settings, TaskId, TaskState};

fn settings(timeout_ms: u64) -> Settings {
    let limit = Limit { concurrency: Some(5), ..Limit::default() };
    let kind = KindSettings {
        timeout_ms: Some(timeout_ms),
        limits: vec!["api/{tenant}".into()],
        ..KindSettings::default()
    };
    Settings {
        limits: [("api".into(), limit)].into(),
        kinds: [("noop".into(), kind)].into(),
        ..Settings::default()
    }
}

fn apply(world: &mut World, settings: Settings) {
    let settings = Box::new(settings);
    world.ask(|reply| Request::ApplySettings { settings, reply }).expect("sane settings");
}

fn json(text: &'static str) -> Payload {
    Payload::json(text).expect("valid JSON")
}

#[test]
fn settings_hold_after_a_restart_unless_others_are_given() {
    let mut world = World::new();
    apply(&mut world, settings(1));
    apply(&mut world, settings(2));
    let world = world.crash(1);
    assert_eq!(*world.engine.core().scheduler().settings(), settings(2));
    let world = world.restart_with(Options { settings: Some(settings(3)), ..Options::default() });
    assert_eq!(*world.engine.core().scheduler().settings(), settings(3));
    let world = world.restart_with(Options::default());
    assert_eq!(*world.engine.core().scheduler().settings(), settings(2), "the file is gone");
}

#[test]
fn a_limit_starts_full_and_a_restart_lets_no_more_through() {
    let mut world = World::new();
    let limit = |rate: &str, burst| Limit {
        rate: Some(rate.parse().unwrap()),
        burst: Some(burst),
        ..Limit::default()
    };
    let limits = [("slow".into(), limit("6/h", 2)), ("fast".into(), limit("10/s", 2))];
    apply(&mut world, Settings { limits: limits.into(), ..Settings::default() });
    let under = |n: u128, limit: &str| {
        let mut spec = task(n);
        spec.limits = vec![limit.into()];
        spec
    };
    let tasks = |from: u128, limit| (from..from + 3).map(move |n| under(n, limit)).collect();
    world.submit(tasks(10, "slow/a")).unwrap();
    world.submit(tasks(20, "fast/a")).unwrap();
    let mut worker = world.join("w", 20, vec![]);
    let ids = |grants: Vec<divvy_engine::GrantedTask>| -> Vec<u128> {
        let mut ids: Vec<u128> = grants.iter().map(|granted| granted.spec.id.0).collect();
        ids.sort_unstable();
        ids
    };
    assert_eq!(ids(worker.grants()), [10, 11, 20, 21], "the burst goes at once");

    let mut world = world.crash(5);
    world.submit(tasks(30, "slow/b")).unwrap();
    let mut worker = world.join("v", 20, vec![]);
    assert_eq!(ids(worker.grants()), [30, 31], "only what was never used is full");
    world.advance_ms(1_000);
    assert!(ids(worker.grants()).iter().all(|id| *id >= 20), "a fast one is, soon");
    world.advance_ms(300_000);
    assert!(!ids(worker.grants()).iter().any(|id| [10, 11, 12].contains(id)));
    let mut world = world.crash(300_000);
    let mut worker = world.join("u", 20, vec![]);
    let slow: Vec<u128> = ids(worker.grants()).into_iter().filter(|id| *id < 20).collect();
    assert_eq!(slow.len(), 1, "one more after ten minutes, over two crashes: {slow:?}");
}

#[test]
fn a_task_is_completed_once_and_stays_the_same_task() {
    let mut world = World::new();
    let mut sent = task(1);
    sent.payload = json(r#"{"tenant": "acme"}"#);
    let mut limited = task(2);
    limited.limits = vec!["api/fixed".into()];
    let refused = world.submit(vec![limited.clone()]).unwrap_err().to_string();
    assert!(refused.contains("divvy limit set api --rate 10/s"), "{refused}");
    apply(&mut world, settings(700));
    assert_eq!(world.submit(vec![sent.clone(), limited.clone()]).unwrap().accepted, 2);
    let refused = world.submit(vec![task(3)]).unwrap_err().to_string();
    assert!(refused.contains("needs the field `tenant` of the payload"), "{refused}");
    apply(&mut world, Settings::default());
    assert_eq!(world.submit(vec![sent.clone(), limited.clone()]).unwrap().known, 2);
    let mut world = world.crash(1);
    assert_eq!(world.submit(vec![sent.clone(), limited]).unwrap().known, 2);
    let mut worker = world.join("w", 1, vec![]);
    let granted = worker.grants().pop().unwrap();
    assert_eq!((granted.spec.timeout_ms, granted.spec.limits[0].as_str()), (Some(700), "api/acme"));
    sent.priority = 5;
    assert!(matches!(world.submit(vec![sent]).unwrap_err(), Error::Spec(_)), "that is another");
}

#[test]
fn a_checkpoint_reaches_the_next_attempt_over_a_crash() {
    let mut world = World::new();
    world.submit(vec![task(1)]).unwrap();
    let mut worker = world.join("w", 1, vec![]);
    let granted = worker.grants().pop().unwrap();
    assert_eq!(granted.checkpoint, None);
    let save = |world: &mut World, token, text| {
        let saved = vec![(TaskId(1), token, json(text))];
        let request = Request::Checkpoint { worker: worker.key, saved };
        world.engine.step(world.now, request).unwrap();
    };
    save(&mut world, granted.token, "1");
    save(&mut world, granted.token, "2");
    let mut world = world.crash(1);
    let mut worker = world.join("v", 1, vec![]);
    let second = worker.grants().pop().expect("nobody announced the first attempt");
    assert_eq!(second.checkpoint, Some(json("2")));
    world.report(&worker, second.spec.id, second.token, failed(FailureVerdict::Dead));
    world.ask(|reply| Request::Retry { id: TaskId(1), reply }).unwrap();
    let third = worker.grants().pop().unwrap();
    assert_eq!(third.checkpoint, Some(json("2")), "a dead letter goes on where it was");
    world.report(&worker, third.spec.id, third.token, failed(FailureVerdict::Dead));
    let replay = Box::new(Replay { payload: Some(json("{}")), ..Replay::default() });
    world.ask(|reply| Request::Replay { id: TaskId(1), replay, reply }).unwrap();
    let fourth = worker.grants().pop().unwrap();
    assert_eq!((fourth.checkpoint, &fourth.spec.payload), (None, &json("{}")), "it is other work");
}

#[test]
fn a_replay_with_another_payload_for_later() {
    let mut world = World::new();
    world.submit(vec![task(1), task(2)]).unwrap();
    let mut worker = world.join("w", 2, vec![]);
    for granted in worker.grants() {
        world.report(&worker, granted.spec.id, granted.token, failed(FailureVerdict::Dead));
    }
    let due = Some(world.now.plus_ms(60_000));
    let replay = Box::new(Replay { due, payload: Some(json("\"fixed\"")), keep_edges: false });
    let state = world.ask(|reply| Request::Replay { id: TaskId(1), replay, reply }).unwrap();
    assert_eq!(state, TaskState::Scheduled);
    let replay = Box::new(Replay::default());
    let open = world.ask(|reply| Request::Replay { id: TaskId(1), replay, reply }).unwrap_err();
    assert!(open.to_string().contains("only a dead or cancelled task can be replayed"), "{open}");
    let mut world = world.crash(59_000);
    let mut worker = world.join("w", 2, vec![]);
    assert!(worker.grants().is_empty(), "it is not due");
    world.advance_ms(2_000);
    let granted = worker.grants().pop().expect("it is due");
    assert_eq!(granted.spec.payload, json("\"fixed\""));
    assert_eq!(granted.attempt, 1);
    world.report(&worker, granted.spec.id, granted.token, done("1"));
    assert_eq!(world.state(TaskId(1)), None);
}
