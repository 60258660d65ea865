//! What attempts save for later ones: what may be saved, when it is sent, and in which order.

use std::sync::Arc;

use bytes::Bytes;
use divvy_proto::v1;
use divvy_proto::v1::from_worker::Message;
use divvy_types::limits::CHECKPOINT_BYTES_MAX;
use divvy_types::{AttemptOutcome, ErrorClass, Failure, FailureVerdict, Payload, TaskError};
use divvy_worker::{Attempt, Registry};

use crate::fake_server::{FakeServer, Gate, Session, detached, finished, grant, options, start};

fn failed() -> AttemptOutcome {
    let error = TaskError::new(ErrorClass::Failed, "no luck");
    AttemptOutcome::Failed(Failure { verdict: FailureVerdict::Retry, error })
}

fn save(attempt: &Attempt, text: &str) {
    attempt.checkpoints().save(Payload::json(text.to_owned()).unwrap()).unwrap();
}

/// Kind `saves`: saves 1, passes the gate, saves 2 and 3, and fails. Kind `finishes`: saves and finishes.
fn registry() -> (Registry, Gate) {
    let mut registry = Registry::new();
    let gate = Gate::new();
    let at_gate = gate.clone();
    let saves = move |attempt: Attempt| {
        let gate = at_gate.clone();
        async move {
            save(&attempt, "1");
            gate.pass().await;
            save(&attempt, "2");
            save(&attempt, "3");
            failed()
        }
    };
    let finishes = |attempt: Attempt| {
        save(&attempt, "4");
        finished()
    };
    registry.on("saves", Arc::new(saves)).on_cpu("finishes", Arc::new(finishes));
    (registry, gate)
}

/// The next message, past heartbeats.
async fn heard(session: &mut Session) -> Message {
    loop {
        match session.next().await.unwrap() {
            Message::Heartbeat(_) => {}
            other => return other,
        }
    }
}

#[tokio::test]
async fn a_save_is_sent_while_the_attempt_runs_and_the_last_one_before_its_report() {
    let mut server = FakeServer::start().await;
    let (registry, gate) = registry();
    let _running = start(options(&server), registry);
    let mut session = server.accept_welcomed().await;
    session.grant(vec![grant(1, "saves", "null")]).await;
    assert_eq!(session.next_saved().await, [(1, 101, "1".to_owned())]);
    gate.open(1);
    assert_eq!(session.next_saved().await, [(1, 101, "3".to_owned())], "only the last counts");
    assert_eq!(session.end().await, failed());
    // A finished task has no later attempt.
    session.grant(vec![grant(2, "finishes", "null")]).await;
    let next = heard(&mut session).await;
    assert!(matches!(next, Message::Reports(_)), "{next:?}");
}

#[tokio::test]
async fn the_last_save_is_sent_again_over_a_new_connection() {
    let mut server = FakeServer::start().await;
    let (registry, gate) = registry();
    let _running = start(options(&server), registry);
    let mut session = server.accept_welcomed().await;
    session.grant(vec![grant(1, "saves", "null")]).await;
    assert_eq!(session.next_saved().await, [(1, 101, "1".to_owned())]);
    drop(session);
    let mut session = server.accept_welcomed().await;
    assert_eq!(session.next_saved().await, [(1, 101, "1".to_owned())], "while it runs");
    gate.open(1);
    assert_eq!(session.next_saved().await, [(1, 101, "3".to_owned())]);
    assert_eq!(session.next_reports().await.len(), 1);
    drop(session);
    // The report was not answered: it comes again, and the save before it.
    let mut session = server.accept_welcomed().await;
    assert_eq!(session.next_saved().await, [(1, 101, "3".to_owned())], "while it is unanswered");
    assert_eq!(session.end().await, failed());
}

#[tokio::test]
async fn a_server_that_knows_no_checkpoints_is_not_sent_any() {
    let mut server = FakeServer::start().await;
    let (registry, gate) = registry();
    let _running = start(options(&server), registry);
    let mut session = server.accept().await;
    let welcome = v1::Welcome { lease_ms: 30_000, ..v1::Welcome::default() };
    session.say(v1::to_worker::Message::Welcome(welcome)).await;
    session.grant(vec![grant(1, "saves", "null")]).await;
    gate.arrived(1).await;
    gate.open(1);
    let next = heard(&mut session).await;
    assert!(matches!(next, Message::Reports(_)), "{next:?}");
}

#[tokio::test]
async fn a_later_attempt_gets_what_an_earlier_one_saved() {
    let mut server = FakeServer::start().await;
    let mut registry = Registry::new();
    let resumes = |attempt: Attempt| AttemptOutcome::Finished {
        result: attempt.resume_point.unwrap_or_default(),
        spawned: Vec::new(),
    };
    registry.on_cpu("resumes", Arc::new(resumes));
    let _running = start(options(&server), registry);
    let mut session = server.accept_welcomed().await;
    let mut second = grant(1, "resumes", "null");
    let data = Bytes::from_static(b"[7]");
    second.checkpoint = Some(v1::Saved { data, content_type: String::new() });
    session.grant(vec![second]).await;
    let AttemptOutcome::Finished { result, .. } = session.end().await else { panic!("finished") };
    assert_eq!(result.json_text(), Some("[7]"));
}

#[tokio::test]
async fn what_cannot_be_saved_is_told_and_changes_nothing() {
    let (attempt, probe) = detached("saves", "null");
    save(&attempt, "1");
    let large = Payload::new("a/b", vec![0; CHECKPOINT_BYTES_MAX + 1]).unwrap();
    let error = attempt.checkpoints().save(large).unwrap_err().to_string();
    assert!(error.starts_with("the checkpoint is 262145 bytes, at most 262144"), "{error}");
    let broken = Payload::trusted("", Bytes::from_static(b"{"));
    let error = attempt.checkpoints().save(broken).unwrap_err().to_string();
    assert!(error.starts_with("the checkpoint is not valid JSON"), "{error}");
    assert_eq!(probe.checkpoint().unwrap().json_text(), Some("1"));
}

#[tokio::test]
async fn many_large_saves_go_in_several_messages_and_all_before_their_reports() {
    let mut server = FakeServer::start().await;
    let mut registry = Registry::new();
    let gate = Gate::new();
    let at_gate = gate.clone();
    let large = move |attempt: Attempt| {
        let gate = at_gate.clone();
        async move {
            gate.pass().await;
            let data = Payload::new("a/b", vec![b'x'; CHECKPOINT_BYTES_MAX]).unwrap();
            attempt.checkpoints().save(data).unwrap();
            failed()
        }
    };
    registry.on("large", Arc::new(large));
    let mut many = options(&server);
    many.slots.async_ = 40;
    let _running = start(many, registry);
    let mut session = server.accept_welcomed().await;
    session.grant((0..40).map(|id| grant(id, "large", "null")).collect()).await;
    gate.arrived(40).await;
    gate.open(40);
    let (mut saved, mut reported) = (Vec::new(), 0);
    while reported < 40 {
        match heard(&mut session).await {
            Message::Checkpoints(message) => {
                let bytes: usize = message.checkpoints.iter().map(|one| one.data.len()).sum();
                assert!(bytes <= (2 << 20) + CHECKPOINT_BYTES_MAX, "{bytes}");
                saved.extend(message.checkpoints.into_iter().map(|one| one.task));
            }
            Message::Reports(message) => {
                for report in message.reports {
                    assert!(saved.contains(&report.task), "a report before its save");
                    reported += 1;
                }
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(saved.len(), 40);
}
