//! The stream of a worker: hello, grants, reports, fencing, and how streams end.

use bytes::Bytes;
use divvy_proto::v1;
use divvy_proto::v1::from_worker::Message as Say;
use divvy_proto::v1::to_worker::Message as Heard;
use futures_util::FutureExt as _;
use futures_util::future::select_all;
use serde_json::{Value, json};
use tokio::task::AbortHandle;
use tonic::Code;

use crate::world::{Worker, World, failed, finished, from_worker, hello, id, soon};

#[tokio::test]
async fn a_task_is_granted_run_and_recorded() {
    let world = World::start().await;
    let mut worker = world.worker(hello("w1", &["noop"])).await.unwrap();
    let Some(Heard::Welcome(welcome)) = worker.hear().await.unwrap() else {
        panic!("welcome comes first")
    };
    assert_eq!(welcome.server_version, env!("CARGO_PKG_VERSION"));
    assert!(welcome.lease_ms > 0);
    let first = json!({"id": id(1), "kind": "noop", "payload": {"a": 1}});
    let second = json!({"id": id(2), "kind": "noop", "after": [id(1)]});
    world.post("/api/v1/tasks", &json!({"tasks": [first, second]})).await.ok();

    let grant = worker.granted().await;
    let task = grant.task.unwrap();
    assert_eq!((&task.payload[..], grant.attempt), (&br#"{"a":1}"#[..], 1));
    let shown = world.task(&id(1)).await;
    assert_eq!((&shown["state"], &shown["worker"]), (&json!("leased"), &json!("w1")));
    let news = v1::Progress {
        task: task.id.clone(),
        token: grant.token,
        done: 1,
        total: 4,
        ..Default::default()
    };
    worker.say(Say::Heartbeat(v1::Heartbeat { progress: vec![news], load: None })).await;
    worker.report(task.id, grant.token, finished("[42]")).await;
    assert!(worker.answered().await);

    let grant = worker.granted().await;
    assert_eq!(grant.upstream.len(), 1, "the result of the first goes to the second");
    assert_eq!(&grant.upstream[0].result[..], b"[42]");
    let shown = world.task(&id(1)).await;
    assert_eq!((&shown["state"], &shown["result"]), (&json!("done"), &json!([42])));
    assert!(
        world.get(&format!("/api/v1/tasks/{}/log", id(1))).await.text.contains("a line of its log")
    );
    let workers = world.get("/api/v1/workers/w1").await.ok();
    assert_eq!(workers["items"][0]["finished"], 1);
}

#[tokio::test]
async fn a_report_under_an_old_token_is_refused_and_changes_nothing() {
    let world = World::start().await;
    world.post("/api/v1/tasks", &json!({"id": id(1), "kind": "noop"})).await.ok();
    let mut worker = world.worker(hello("w1", &["noop"])).await.unwrap();
    let old = worker.granted().await;
    let task = old.task.unwrap().id;
    worker.report(task.clone(), old.token, v1::report::End::Released(v1::Released {})).await;
    assert!(worker.answered().await);
    let new = worker.granted().await;
    assert!(new.token > old.token);
    let before = world.task(&id(1)).await;

    for end in [
        finished("1"),
        failed("late", v1::FailureVerdict::Dead),
        v1::report::End::Released(v1::Released {}),
    ] {
        worker.report(task.clone(), old.token, end).await;
        assert!(!worker.answered().await);
        assert_eq!(world.task(&id(1)).await, before);
    }
    worker.report(task.clone(), new.token, finished("2")).await;
    assert!(worker.answered().await);
    let done = world.task(&id(1)).await;
    assert_eq!(done["result"], 2);
    worker.report(task, new.token, finished("3")).await;
    worker.answered().await;
    assert_eq!(world.task(&id(1)).await, done);
    let stats = world.get("/api/v1/stats").await.ok();
    assert!(stats["engine"]["refused_reports"].as_u64().unwrap() >= 3);
}

#[tokio::test]
async fn a_bad_hello_is_refused_with_its_field() {
    let world = World::start().await;
    let cases = [
        ("hello.name", v1::Hello { name: String::new(), ..hello("w", &["a"]) }),
        ("hello.kinds", hello("w", &[])),
        ("hello.credit", v1::Hello { credit: 0, ..hello("w", &["a"]) }),
        ("hello.credit", v1::Hello { credit: u32::MAX, ..hello("w", &["a"]) }),
        ("hello.slots", v1::Hello { slots: 9, ..hello("w", &["a"]) }),
        ("hello.queues", v1::Hello { queues: vec!["q".repeat(200)], ..hello("w", &["a"]) }),
    ];
    for (field, bad) in cases {
        let status = world.worker(bad).await.err().expect("refused");
        assert_eq!(status.code(), Code::InvalidArgument);
        assert!(status.message().starts_with(field), "{status}");
    }
    let mut client = world.workers();
    let first = from_worker(Say::Stopping(v1::Stopping {}));
    let status = client.work(tokio_stream::iter([first])).await.expect_err("refused");
    assert_eq!(status.code(), Code::InvalidArgument);
    assert!(status.message().contains("hello"), "{status}");
    assert_eq!(world.get("/api/v1/workers").await.ok()["items"], json!([]));
}

#[tokio::test]
async fn a_malformed_message_ends_the_stream_and_signs_the_worker_off() {
    let no_end =
        v1::Report { task: Bytes::from(vec![0; 16]), token: 1, end: None, log: String::new() };
    let bad_id = v1::Report {
        task: Bytes::from_static(b"x"),
        token: 1,
        end: Some(finished("1")),
        log: String::new(),
    };
    let cases = [
        ("report.end", Some(Say::Reports(v1::Reports { reports: vec![no_end] }))),
        ("report.task", Some(Say::Reports(v1::Reports { reports: vec![bad_id] }))),
        (
            "progress.task",
            Some(Say::Heartbeat(v1::Heartbeat {
                progress: vec![v1::Progress::default()],
                load: None,
            })),
        ),
        ("checkpoint.task", Some(saves(Bytes::new(), 1, "1"))),
        ("checkpoint.data", Some(saves(Bytes::from(vec![0; 16]), 1, "{"))),
        ("checkpoint.data", Some(saves(Bytes::from(vec![0; 16]), 1, &"1".repeat(300_000)))),
        ("message", Some(Say::Hello(hello("again", &["noop"])))),
        ("message", None),
    ];
    let world = World::start().await;
    for (field, message) in cases {
        let mut worker = world.worker(hello("w1", &["noop"])).await.unwrap();
        assert!(matches!(worker.hear().await, Ok(Some(Heard::Welcome(_)))));
        worker.say.as_ref().unwrap().send(v1::FromWorker { message }).await.unwrap();
        let status = worker.hear().await.expect_err("the stream ends");
        assert_eq!(status.code(), Code::InvalidArgument, "{status}");
        assert!(status.message().starts_with(field), "{status}");
        no_workers(&world).await;
    }
}

fn saves(task: Bytes, token: u64, data: &str) -> Say {
    let data = data.to_owned().into();
    let saved = v1::Checkpoint { task, token, data, content_type: String::new() };
    Say::Checkpoints(v1::Checkpoints { checkpoints: vec![saved] })
}

#[tokio::test]
async fn what_an_attempt_saves_is_there_for_the_next_one() {
    let world = World::start().await;
    let policy = json!({"limit": 3, "base_ms": 0, "cap_ms": 0});
    world.post("/api/v1/tasks", &json!({"id": id(1), "kind": "noop", "retry": policy})).await.ok();
    let mut worker = world.worker(hello("w1", &["noop"])).await.unwrap();
    let Some(Heard::Welcome(welcome)) = worker.hear().await.unwrap() else { panic!("a welcome") };
    assert!(welcome.checkpoints, "the server says that it takes them");
    let first = worker.granted().await;
    assert_eq!(first.checkpoint, None);
    let task = first.task.unwrap().id;
    worker.say(saves(task.clone(), first.token, r#"{"page": 1}"#)).await;
    worker.say(saves(task.clone(), first.token, r#"{"page": 2}"#)).await;
    // Under a token that is not the attempt's nothing is saved.
    worker.say(saves(task.clone(), first.token + 9, r#"{"page": 99}"#)).await;
    worker.report(task, first.token, failed("no luck", v1::FailureVerdict::Retry)).await;
    let second = worker.granted().await;
    assert_eq!(&second.checkpoint.unwrap().data[..], br#"{"page": 2}"#);
}

#[tokio::test]
async fn a_worker_that_closes_its_half_still_gets_its_answers() {
    let world = World::start().await;
    world.post("/api/v1/tasks", &json!({"id": id(1), "kind": "noop"})).await.ok();
    let mut worker = world.worker(hello("w1", &["noop"])).await.unwrap();
    let grant = worker.granted().await;
    worker.say(Say::Stopping(v1::Stopping {})).await;
    worker.report(grant.task.unwrap().id, grant.token, finished("1")).await;
    worker.say = None;
    assert!(worker.answered().await);
    assert!(worker.hear().await.unwrap().is_none(), "then the stream ends well");
    no_workers(&world).await;
    assert_eq!(world.task(&id(1)).await["state"], "done");
}

#[tokio::test]
async fn a_lost_connection_gives_its_tasks_back_when_its_grace_runs_out() {
    let world = with_grace(50).await;
    let policy = json!({"limit": 3, "base_ms": 0, "cap_ms": 0});
    world.post("/api/v1/tasks", &json!({"id": id(1), "kind": "noop", "retry": policy})).await.ok();
    let mut lost = world.worker(hello("lost", &["noop"])).await.unwrap();
    let first = lost.granted().await;
    drop(lost);
    let mut next = world.worker(hello("next", &["noop"])).await.unwrap();
    let second = next.granted().await;
    assert!(second.token > first.token);
    assert_eq!(second.attempt, 2);
}

async fn with_grace(away_grace_ms: u64) -> World {
    World::with(|_| {}, divvy_engine::Options { away_grace_ms, ..Default::default() }).await
}

/// Breaks the connection of a worker without a goodbye, and waits until the server has noticed.
async fn cut(world: &World, (worker, wire): (Worker, AbortHandle), name: &str) {
    wire.abort();
    soon("the worker to be away", async {
        loop {
            let workers = world.get("/api/v1/workers").await.ok();
            let items = workers["items"].as_array().unwrap();
            if items.iter().any(|worker| worker["name"] == name && !worker["away_until"].is_null())
            {
                return;
            }
        }
    })
    .await;
    drop(worker);
}

#[tokio::test]
async fn a_process_takes_its_tasks_over_to_its_next_stream() {
    let world = with_grace(3_600_000).await;
    world.post("/api/v1/tasks", &json!({"id": id(1), "kind": "noop"})).await.ok();
    let named = |held| v1::Hello { instance: "one".into(), held, ..hello("w", &["noop"]) };
    let mut wired = world.wired_worker(named(vec![])).await;
    let grant = wired.0.granted().await;
    let task = grant.task.unwrap().id;
    let mut other = world.worker(hello("other", &["noop"])).await.unwrap();
    assert!(matches!(other.hear().await, Ok(Some(Heard::Welcome(_)))));
    for _ in 0..4 {
        cut(&world, wired, "w").await;
        let held = vec![v1::Lease { task: task.clone(), token: grant.token }];
        wired = world.wired_worker(named(held)).await;
        assert!(matches!(wired.0.hear().await, Ok(Some(Heard::Welcome(_)))));
    }
    let mut worker = wired.0;
    worker.report(task, grant.token, finished("1")).await;
    assert!(worker.answered().await);
    let shown = world.task(&id(1)).await;
    assert_eq!((&shown["state"], &shown["attempts"]), (&json!("done"), &json!(1)));
    assert!(other.heard.message().now_or_never().is_none(), "nothing went to another");
}

#[tokio::test]
async fn a_goodbye_has_no_grace() {
    let world = with_grace(3_600_000).await;
    world.post("/api/v1/tasks", &json!({"id": id(1), "kind": "noop"})).await.ok();
    let leaving = v1::Hello { instance: "one".into(), ..hello("leaving", &["noop"]) };
    let mut leaving = world.worker(leaving).await.unwrap();
    leaving.granted().await;
    leaving.say = None;
    let mut next = world.worker(hello("next", &["noop"])).await.unwrap();
    assert_eq!(next.granted().await.attempt, 2);
}

#[tokio::test]
async fn a_new_process_of_the_name_ends_the_grace_of_the_old_one() {
    let world = with_grace(3_600_000).await;
    world.post("/api/v1/tasks", &json!({"id": id(1), "kind": "noop"})).await.ok();
    let named = |instance: &str| v1::Hello { instance: instance.into(), ..hello("w", &["noop"]) };
    let mut killed = world.wired_worker(named("one")).await;
    let first = killed.0.granted().await;
    cut(&world, killed, "w").await;
    let mut anew = world.worker(named("two")).await.unwrap();
    let second = anew.granted().await;
    assert!(second.token > first.token);
    assert_eq!(second.attempt, 2);
}

#[tokio::test]
async fn draining_and_cancelling_reach_the_worker() {
    let world = World::start().await;
    world.post("/api/v1/tasks", &json!({"id": id(1), "kind": "noop"})).await.ok();
    let mut worker = world.worker(hello("w1", &["noop"])).await.unwrap();
    let grant = worker.granted().await;
    let answer = world
        .post(&format!("/api/v1/tasks/{}/cancel", id(1)), &json!({"reason": "not needed"}))
        .await
        .ok();
    assert_eq!(answer["id"], id(1));
    let Some(Heard::Stops(stops)) = worker.hear().await.unwrap() else { panic!("a stop") };
    assert_eq!((stops.stops[0].token, stops.stops[0].reason.as_str()), (grant.token, "not needed"));
    worker
        .report(
            grant.task.unwrap().id,
            grant.token,
            failed("stopped", v1::FailureVerdict::Cancelled),
        )
        .await;
    assert!(worker.answered().await);
    assert_eq!(world.task(&id(1)).await["state"], "cancelled");

    let asked = world.post("/api/v1/workers/w1/drain", &json!({})).await.ok();
    assert_eq!(asked, json!({"name": "w1", "asked": 1}));
    assert!(matches!(worker.hear().await, Ok(Some(Heard::Drain(_)))));
    assert_eq!(world.get("/api/v1/workers/w1").await.ok()["items"][0]["draining"], true);
}

#[tokio::test]
async fn a_stopping_server_ends_streams_and_leaves_the_leases_alone() {
    let mut world = World::start().await;
    world.post("/api/v1/tasks", &json!({"id": id(1), "kind": "noop"})).await.ok();
    let mut worker = world.worker(hello("w1", &["noop"])).await.unwrap();
    worker.granted().await;
    world.shutdown.cancel();
    let status = worker.hear().await.expect_err("the stream ends");
    assert_eq!(status.code(), Code::Unavailable, "{status}");
    drop(worker);
    soon("the end of the server", &mut world.running).await.unwrap().unwrap();
    let task = world.handle.task(divvy_types::TaskId(1)).await.unwrap();
    assert_eq!(task.summary.state, divvy_types::TaskState::Leased, "no attempt is counted as lost");
    assert!(task.history.is_empty());
}

#[tokio::test]
async fn many_idle_workers_share_a_connection_and_one_task_makes_one_grant() {
    let world = World::start().await;
    let client = world.workers();
    let mut workers = Vec::new();
    for number in 0..300 {
        let hello = v1::Hello { credit: 1, ..hello(&format!("w{number}"), &["noop"]) };
        let mut worker = Worker::connect(client.clone(), hello).await.unwrap();
        assert!(matches!(worker.hear().await, Ok(Some(Heard::Welcome(_)))));
        workers.push(worker);
    }
    assert_eq!(world.get("/api/v1/workers").await.ok()["items"].as_array().unwrap().len(), 300);
    world.post("/api/v1/tasks", &json!({"id": id(1), "kind": "noop"})).await.ok();
    let heard = workers.iter_mut().map(|worker| Box::pin(worker.granted()));
    let (grant, chosen, others) = soon("the grant", select_all(heard)).await;
    drop(others);
    // The answer to this report comes after anything else that the task could have caused.
    workers[chosen].report(grant.task.unwrap().id, grant.token, finished("1")).await;
    assert!(workers[chosen].answered().await);
    for worker in &mut workers {
        assert!(worker.heard.message().now_or_never().is_none(), "nothing for anybody else");
    }
    assert_eq!(world.get("/api/v1/stats").await.ok()["engine"]["granted"], 1);
}

/// Waits until no worker is listed.
async fn no_workers(world: &World) {
    soon("the end of the last worker", async {
        loop {
            let workers = world.get("/api/v1/workers").await.ok();
            if workers["items"].as_array().is_some_and(Vec::is_empty) {
                return;
            }
        }
    })
    .await;
    assert_eq!(world.get("/api/v1/stats").await.ok()["engine"]["workers"], Value::from(0));
}
