//! Heartbeats, progress and logs: sent while tasks are held, and never otherwise.

use std::sync::Arc;
use std::time::Duration;

use divvy_proto::v1::from_worker::Message;
use divvy_worker::Attempt;

use crate::fake_server::{FakeServer, Gate, finished, grant, options, registry, start};

#[tokio::test]
async fn heartbeats_come_only_while_tasks_are_held() {
    let mut server = FakeServer::start().await;
    let (registry, gate) = registry();
    let _running = start(options(&server), registry);
    let mut session = server.accept().await;
    session.welcome(90).await;
    // Ten beats' time without a task: silence. This waits for something not to happen, so it needs a time.
    assert!(tokio::time::timeout(Duration::from_millis(300), session.next()).await.is_err());
    session.grant(vec![grant(1, "gate", "null")]).await;
    for _ in 0..3 {
        let message = session.next().await;
        assert!(
            matches!(&message, Some(Message::Heartbeat(beat)) if beat.progress.is_empty()),
            "{message:?}"
        );
    }
    gate.open(1);
    assert_eq!(session.end().await, finished());
    // A beat may have been under way when the answer arrived.
    let mut beats = 0;
    while tokio::time::timeout(Duration::from_millis(300), session.next()).await.is_ok() {
        beats += 1;
        assert!(beats <= 2, "heartbeats must end with the last answer");
    }
}

#[tokio::test]
async fn progress_and_new_log_text_go_at_once_and_the_report_has_the_whole_log() {
    let mut server = FakeServer::start().await;
    let (mut registry, _) = registry();
    let gate = Gate::new();
    let at_gate = gate.clone();
    registry.on(
        "talks",
        Arc::new(move |attempt: Attempt| {
            let gate = at_gate.clone();
            async move {
                attempt.progress().set(3, 10);
                attempt.progress().message("reading");
                attempt.log("opened the file");
                gate.clone().pass().await;
                for part in 0..1_000 {
                    attempt.progress().set(part, 1_000);
                }
                attempt.log("closed the file");
                gate.pass().await
            }
        }),
    );
    let _running = start(options(&server), registry);
    // The lease is long: what arrives does not wait for the next regular heartbeat.
    let mut session = server.accept_welcomed().await;
    session.grant(vec![grant(1, "talks", "null")]).await;
    let Some(Message::Heartbeat(beat)) = session.next().await else {
        panic!("a heartbeat with progress must come")
    };
    let progress = &beat.progress[0];
    // The beat may leave after any of the first three calls.
    assert_eq!((progress.done, progress.total, progress.token), (3, 10, 101));
    gate.arrived(1).await;
    gate.open(1);
    let Some(Message::Heartbeat(beat)) = session.next().await else {
        panic!("a second heartbeat must come")
    };
    assert_eq!(beat.progress.len(), 1, "a thousand changes are one update");
    assert_eq!((beat.progress[0].done, beat.progress[0].total), (999, 1_000));
    assert!(beat.progress[0].log.ends_with("closed the file\n"), "{:?}", beat.progress[0].log);
    gate.open(1);
    let reports = session.next_reports().await;
    assert_eq!(reports[0].log, "opened the file\nclosed the file\n");
}
