//! Attempts run on their tiers, in order of priority, and their ends are reported.

use std::sync::Arc;
use std::time::Duration;

use divvy_client::Target;
use divvy_proto::v1;
use divvy_types::{AttemptOutcome, ErrorClass, FailureVerdict, Payload, TaskId, TaskSpec};
use divvy_worker::{Attempt, Registry, Worker};

use crate::fake_server::{FakeServer, finished, grant, grant_of, options, registry, start};

fn failure(outcome: AttemptOutcome) -> (ErrorClass, FailureVerdict, String) {
    match outcome {
        AttemptOutcome::Failed(failure) => {
            (failure.error.class, failure.verdict, failure.error.message.to_string())
        }
        other => panic!("expected a failure, got {other:?}"),
    }
}

#[tokio::test]
async fn hello_says_what_the_worker_offers() {
    let mut server = FakeServer::start().await;
    let (registry, _) = registry();
    let mut offered = options(&server);
    offered.target.token = Some("secret".into());
    offered.queues = vec!["video".into()];
    offered.capabilities = vec!["gpu".into()];
    offered.prefetch = Some(5);
    let running = start(offered, registry);
    let session = server.accept_welcomed().await;
    assert_eq!(session.authorization.as_deref(), Some("Bearer secret"));
    assert_eq!(session.hello.name, "tester");
    assert_eq!(session.hello.queues, ["video"]);
    assert_eq!(session.hello.capabilities, ["gpu"]);
    assert_eq!(session.hello.kinds, ["fail", "gate", "http", "noop", "sleep"]);
    assert_eq!(session.hello.credit, 8 + 5, "only tiers with a kind on them count");
    assert!(session.hello.held.is_empty());
    running.shutdown.drain();
    drop(session);
}

#[tokio::test]
async fn hello_says_which_kinds_share_slots() {
    let mut server = FakeServer::start().await;
    for (prefetch, expected) in [(None, [(16, 8), (4, 2)]), (Some(1), [(9, 8), (3, 2)])] {
        let (mut registry, _) = registry();
        registry.on_process("encode", Arc::new(divvy_worker::builtin::Noop));
        let mut offered = options(&server);
        offered.slots.process = 2;
        offered.prefetch = prefetch;
        let running = start(offered, registry);
        let hello = server.accept_welcomed().await.hello;
        let tiers: Vec<_> = hello.tiers.iter().map(|tier| (tier.credit, tier.slots)).collect();
        assert_eq!(tiers, expected);
        assert_eq!(hello.tiers[0].kinds, ["fail", "gate", "http", "noop", "sleep"]);
        assert_eq!(hello.tiers[1].kinds, ["encode"]);
        assert_eq!((hello.credit, hello.slots), (expected[0].0 + expected[1].0, 10));
        running.shutdown.drain();
    }
}

#[tokio::test]
async fn ends_of_all_sorts_are_reported_and_the_worker_goes_on() {
    let mut server = FakeServer::start().await;
    let (registry, _) = registry();
    let _running = start(options(&server), registry);
    let mut session = server.accept_welcomed().await;
    session.grant(vec![grant(1, "noop", "null")]).await;
    assert_eq!(session.end().await, finished());
    session.grant(vec![grant(2, "sleep", r#"{"ms": 5}"#)]).await;
    assert_eq!(session.end().await, finished());
    session
        .grant(vec![grant(
            3,
            "fail",
            r#"{"message": "no luck", "verdict": "snooze", "wait_ms": 9}"#,
        )])
        .await;
    assert_eq!(
        failure(session.end().await),
        (ErrorClass::Failed, FailureVerdict::SnoozeMs(9), "no luck".into())
    );
    session.grant(vec![grant(4, "fail", r#"{"times": 0}"#)]).await;
    assert_eq!(session.end().await, finished());
    session.grant(vec![grant(5, "sleep", r#"{"ms": "long"}"#)]).await;
    let (_, verdict, message) = failure(session.end().await);
    assert_eq!(verdict, FailureVerdict::Dead);
    assert!(message.contains("payload of `sleep`"), "{message}");
    session.grant(vec![grant(6, "unheard.of", "null")]).await;
    let (_, verdict, message) = failure(session.end().await);
    assert_eq!(
        (verdict, message.as_str()),
        (FailureVerdict::Retry, "this worker has no handler for kind `unheard.of`")
    );
    let mut broken = grant(7, "noop", "null");
    let workflow = v1::Workflow { id: bytes::Bytes::from_static(b"short"), ..Default::default() };
    broken.task.as_mut().unwrap().workflow = Some(workflow);
    session.grant(vec![broken]).await;
    assert_eq!(failure(session.end().await).1, FailureVerdict::Dead);
    session.grant((10..2_010).map(|id| grant(id, "noop", "null")).collect()).await;
    let mut ids: Vec<u128> = session.ends(2_000).await.into_iter().map(|(id, _)| id).collect();
    ids.sort_unstable();
    assert_eq!(ids, (10..2_010).collect::<Vec<u128>>());
}

#[tokio::test]
async fn a_panic_is_a_crash_of_its_attempt_only() {
    let mut server = FakeServer::start().await;
    let (mut registry, _) = registry();
    let panics = |_: Attempt| -> AttemptOutcome { panic!("oh {}", "no") };
    registry
        .on_blocking("panics.blocking", Arc::new(panics))
        .on_cpu("panics.cpu", Arc::new(panics));
    let early = |_: Attempt| -> std::future::Ready<AttemptOutcome> { panic!("oh no") };
    registry.on("panics.early", Arc::new(early));
    let _running = start(options(&server), registry);
    let mut session = server.accept_welcomed().await;
    for kind in
        ["fail", "panics.blocking", "panics.cpu", "panics.early", "panics.cpu", "panics.cpu"]
    {
        session.grant(vec![grant(1, kind, r#"{"message": "oh no", "verdict": "panic"}"#)]).await;
        let expected = (ErrorClass::Crashed, FailureVerdict::Retry, "panicked: oh no".to_owned());
        assert_eq!(failure(session.end().await), expected, "{kind}");
    }
    session.grant(vec![grant(2, "noop", "null")]).await;
    assert_eq!(session.end().await, finished());
}

#[tokio::test]
async fn threads_of_a_tier_are_its_slots_and_carry_its_name() {
    let mut server = FakeServer::start().await;
    let mut registry = Registry::new();
    let name = |_: Attempt| AttemptOutcome::Finished {
        result: Payload::from_value(&std::thread::current().name()).unwrap(),
        spawned: Vec::new(),
    };
    registry.on_blocking("blocking", Arc::new(name)).on_cpu("cpu", Arc::new(name));
    let _running = start(options(&server), registry);
    let mut session = server.accept_welcomed().await;
    for kind in ["blocking", "cpu"] {
        session.grant((0..50).map(|id| grant(id, kind, "null")).collect()).await;
        let mut names: Vec<String> = Vec::new();
        for (_, end) in session.ends(50).await {
            let AttemptOutcome::Finished { result, .. } = end else { panic!("{end:?}") };
            names.push(result.parse().unwrap());
        }
        names.sort_unstable();
        names.dedup();
        assert!(
            names.len() <= 2 && names.iter().all(|n| n.starts_with(&format!("divvy-{kind}-"))),
            "{names:?}"
        );
    }
}

#[tokio::test]
async fn all_slots_of_a_thread_tier_are_used_at_once() {
    let mut server = FakeServer::start().await;
    let mut registry = Registry::new();
    // Each attempt ends only beside another one.
    let pair = Arc::new(std::sync::Barrier::new(2));
    let meet = move |_: Attempt| {
        pair.wait();
        finished()
    };
    registry.on_blocking("blocking", Arc::new(meet.clone())).on_cpu("cpu", Arc::new(meet));
    let _running = start(options(&server), registry);
    let mut session = server.accept_welcomed().await;
    for round in 0..100 {
        for kind in ["blocking", "cpu"] {
            // One by one, so that the second comes while the first wakes a thread or already runs.
            for id in [2 * round, 2 * round + 1] {
                session.grant(vec![grant(id, kind, "null")]).await;
            }
            assert_eq!(session.ends(2).await.len(), 2);
        }
    }
}

#[tokio::test]
async fn higher_priority_goes_first_among_those_that_wait() {
    let mut server = FakeServer::start().await;
    let (registry, gate) = registry();
    let mut one_slot = options(&server);
    one_slot.slots.async_ = 1;
    let _running = start(one_slot, registry);
    let mut session = server.accept_welcomed().await;
    session.grant(vec![grant(1, "gate", "null")]).await;
    gate.arrived(1).await;
    let with = |id, priority| grant_of(TaskSpec { priority, ..TaskSpec::new(TaskId(id), "noop") });
    session.grant(vec![with(2, 1), with(3, 5), with(4, 3), with(5, 5)]).await;
    // A stop that is answered shows that the grants before it were taken.
    session.stop(2, 102, "not this one").await;
    assert_eq!(failure(session.end().await).2, "not this one");
    gate.open(1);
    let order: Vec<u128> = session.ends(4).await.into_iter().map(|(id, _)| id).collect();
    assert_eq!(order, [1, 3, 5, 4]);
}

#[tokio::test]
async fn a_time_out_ends_futures_and_threads() {
    let mut server = FakeServer::start().await;
    let (mut registry, _) = registry();
    let polite = |attempt: Attempt| {
        while !attempt.cancelled().is_cancelled() {
            std::thread::yield_now();
        }
        finished()
    };
    let (release, stuck) = std::sync::mpsc::channel::<()>();
    let stuck = std::sync::Mutex::new(stuck);
    let rude = move |_: Attempt| {
        let _ = stuck.lock().unwrap().recv_timeout(Duration::from_secs(30));
        finished()
    };
    registry.on_cpu("polite", Arc::new(polite)).on_blocking("rude", Arc::new(rude));
    registry.on("endless", Arc::new(|_: Attempt| std::future::pending()));
    let _running = start(options(&server), registry);
    let mut session = server.accept_welcomed().await;
    for (id, kind) in [(1, "sleep"), (2, "polite"), (3, "rude"), (4, "endless")] {
        let mut spec = TaskSpec::new(TaskId(id), kind);
        spec.payload = Payload::json(r#"{"ms": 600000}"#).unwrap();
        spec.timeout_ms = Some(20);
        session.grant(vec![grant_of(spec)]).await;
        let expected = "the attempt took longer than its timeout_ms of 20".to_owned();
        assert_eq!(
            failure(session.end().await),
            (ErrorClass::Timeout, FailureVerdict::Retry, expected),
            "{kind}"
        );
    }
    release.send(()).unwrap();
}

#[tokio::test]
async fn an_end_that_the_server_would_refuse_is_a_clear_failure() {
    let mut server = FakeServer::start().await;
    let mut registry = Registry::new();
    let ends = |attempt: Attempt| {
        let mut child = TaskSpec::new(TaskId(50), "noop");
        let (result, spawned) = match attempt.task.id.0 {
            1 => (Payload::trusted("", vec![b' '; 2 << 20].into()), vec![]),
            2 => (Payload::trusted("", "{".into()), vec![]),
            _ => {
                child.priority = 77;
                (Payload::null(), vec![child])
            }
        };
        std::future::ready(AttemptOutcome::Finished { result, spawned })
    };
    registry.on("odd", Arc::new(ends));
    let _running = start(options(&server), registry);
    let mut session = server.accept_welcomed().await;
    for (id, words) in
        [(1, "the result is 2097152 bytes"), (2, "not valid JSON"), (3, "priority is 77")]
    {
        session.grant(vec![grant(id, "odd", "null")]).await;
        let (_, verdict, message) = failure(session.end().await);
        assert_eq!(verdict, FailureVerdict::Dead);
        assert!(message.contains(words), "{message}");
    }
}

#[tokio::test]
async fn bad_options_are_refused_with_the_field_named() {
    let server = FakeServer::start().await;
    let refused = |change: fn(&mut divvy_worker::Options)| {
        let mut options = options(&server);
        change(&mut options);
        Worker::new(options, registry().0).unwrap_err().to_string()
    };
    assert!(
        refused(|o| o.target.server = "ftp://127.0.0.1".into())
            .starts_with("worker option server is `ftp://127.0.0.1`")
    );
    let no_authority = refused(|o| o.target = Target::new("https://x").ca("no-such-file.pem"));
    assert!(no_authority.starts_with("worker option ca "), "{no_authority}");
    assert!(refused(|o| o.name = "".into()).starts_with("worker option name "));
    assert!(refused(|o| o.target.token = Some("a\nb".into())).starts_with("worker option token "));
    assert!(
        refused(|o| o.slots.async_ = 0)
            .contains("slots of tier async are 0, but kind `fail` runs on it")
    );
    let mut threads = Registry::new();
    threads.on_cpu("sum", Arc::new(|_: Attempt| finished()));
    let mut crowded = options(&server);
    (crowded.slots.blocking, crowded.slots.cpu) = (5_000, 1_025);
    let refusal = Worker::new(crowded, threads).unwrap_err().to_string();
    assert!(refusal.contains("slots of tier cpu are 1025, at most 1024"), "{refusal}");
    let mut twice = registry().0;
    twice.on("noop", Arc::new(divvy_worker::builtin::Noop));
    assert!(
        Worker::new(options(&server), twice)
            .unwrap_err()
            .to_string()
            .contains("`noop` has two handlers")
    );
    assert!(
        Worker::new(options(&server), Registry::new())
            .unwrap_err()
            .to_string()
            .contains("no handlers")
    );
}
