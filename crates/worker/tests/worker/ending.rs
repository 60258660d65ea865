//! How a worker ends: drained, stopped now, or at the server's wish.

use std::time::Duration;

use divvy_proto::v1;
use divvy_proto::v1::from_worker::Message;
use divvy_types::AttemptOutcome;

use crate::fake_server::{FakeServer, finished, grant, options, registry, start};

#[tokio::test]
async fn a_drain_gives_back_what_waits_and_finishes_what_runs() {
    for asked_by_server in [false, true] {
        let mut server = FakeServer::start().await;
        let (registry, gate) = registry();
        let mut one_slot = options(&server);
        one_slot.slots.async_ = 1;
        let running = start(one_slot, registry);
        let mut session = server.accept_welcomed().await;
        session.grant((1..=3).map(|id| grant(id, "gate", "null")).collect()).await;
        gate.arrived(1).await;
        if asked_by_server {
            session.say(v1::to_worker::Message::Drain(v1::Drain {})).await;
        } else {
            running.shutdown.drain();
        }
        assert!(matches!(session.next().await, Some(Message::Stopping(_))));
        let mut released = session.ends(2).await;
        released.sort_by_key(|(id, _)| *id);
        assert_eq!(released, [(2, AttemptOutcome::Released), (3, AttemptOutcome::Released)]);
        // A grant that was under way comes back too.
        session.grant(vec![grant(4, "noop", "null")]).await;
        assert_eq!(session.end().await, AttemptOutcome::Released);
        gate.open(1);
        assert_eq!(session.end().await, finished());
        assert_eq!(session.next().await, None, "the worker closes the stream");
        drop(session);
        let summary = running.ended().await.unwrap();
        assert_eq!((summary.finished, summary.released, summary.unanswered), (1, 3, 0));
    }
}

#[tokio::test]
async fn stopping_now_gives_back_what_runs() {
    let mut server = FakeServer::start().await;
    let (registry, gate) = registry();
    let running = start(options(&server), registry);
    let mut session = server.accept_welcomed().await;
    session.grant(vec![grant(1, "sleep", r#"{"ms": 600000}"#), grant(2, "gate", "null")]).await;
    gate.arrived(1).await;
    running.shutdown.now();
    running.shutdown.now();
    let ends = session.ends(2).await;
    assert!(ends.iter().all(|(_, end)| *end == AttemptOutcome::Released), "{ends:?}");
    assert_eq!(session.next().await, None);
    drop(session);
    assert_eq!(running.ended().await.unwrap().released, 2);
}

#[tokio::test]
async fn who_leaves_gives_back_what_waits_and_finishes_what_runs_however_long_it_takes() {
    let mut server = FakeServer::start().await;
    let (registry, gate) = registry();
    let mut hasty = options(&server);
    (hasty.slots.async_, hasty.drain_timeout) = (1, Duration::from_millis(1));
    let running = start(hasty, registry);
    let mut session = server.accept_welcomed().await;
    session.grant(vec![grant(1, "gate", "null"), grant(2, "gate", "null")]).await;
    gate.arrived(1).await;
    running.shutdown.leave();
    assert!(matches!(session.next().await, Some(Message::Stopping(_))));
    assert_eq!(session.ends(1).await, [(2, AttemptOutcome::Released)]);
    // Longer than a drain would have waited.
    tokio::time::sleep(Duration::from_millis(20)).await;
    gate.open(1);
    assert_eq!(session.end().await, finished());
    assert_eq!(session.next().await, None, "the worker closes the stream");
    drop(session);
    let summary = running.ended().await.unwrap();
    assert_eq!((summary.finished, summary.released, summary.unanswered), (1, 1, 0));
}

#[tokio::test]
async fn who_leaves_can_be_asked_to_hurry() {
    let mut server = FakeServer::start().await;
    let (registry, gate) = registry();
    let mut hasty = options(&server);
    hasty.drain_timeout = Duration::from_millis(50);
    let running = start(hasty, registry);
    let mut session = server.accept_welcomed().await;
    session.grant(vec![grant(1, "gate", "null")]).await;
    gate.arrived(1).await;
    running.shutdown.leave();
    assert!(matches!(session.next().await, Some(Message::Stopping(_))));
    running.shutdown.drain();
    assert_eq!(session.end().await, AttemptOutcome::Released);
}

#[tokio::test]
async fn a_drain_that_takes_too_long_becomes_a_stop() {
    let mut server = FakeServer::start().await;
    let (registry, gate) = registry();
    let mut hasty = options(&server);
    hasty.drain_timeout = Duration::from_millis(50);
    let running = start(hasty, registry);
    let mut session = server.accept_welcomed().await;
    session.grant(vec![grant(1, "gate", "null")]).await;
    gate.arrived(1).await;
    running.shutdown.drain();
    assert_eq!(session.end().await, AttemptOutcome::Released);
    running.ended().await.unwrap();
}

#[tokio::test]
async fn a_worker_without_a_server_ends_when_asked() {
    let server = FakeServer::start().await;
    let (registry, _) = registry();
    let mut nowhere = options(&server);
    nowhere.target.server = "http://127.0.0.1:1".into();
    let running = start(nowhere, registry);
    running.shutdown.drain();
    assert_eq!(running.ended().await.unwrap(), Default::default());
}
