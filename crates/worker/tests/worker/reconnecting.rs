//! What happens when the connection breaks, and when the server does not want the worker.

use divvy_client::MARK;
use divvy_types::TaskId;
use tonic::metadata::{MetadataMap, MetadataValue};
use tonic::{Code, Status};

use crate::fake_server::{FakeServer, finished, grant, options, registry, start, token_of};

#[tokio::test]
async fn what_is_held_is_announced_again_and_unanswered_ends_are_sent_again_in_one_message() {
    let mut server = FakeServer::start().await;
    let (registry, gate) = registry();
    let _running = start(options(&server), registry);
    let mut session = server.accept_welcomed().await;
    session.grant((1..=6).map(|id| grant(id, "gate", "null")).collect()).await;
    gate.arrived(6).await;
    gate.open(1);
    let unanswered = session.next_reports().await;
    assert_eq!(unanswered.len(), 1);
    drop(session);

    let mut session = server.accept().await;
    let mut held: Vec<(u128, u64)> = session
        .hello
        .held
        .iter()
        .map(|l| (TaskId::from_slice(&l.task).unwrap().0, l.token))
        .collect();
    held.sort_unstable();
    assert_eq!(held, (1..=6).map(|id| (id, token_of(id))).collect::<Vec<_>>());
    // These end while nothing may be sent yet: they come together with the one from before.
    gate.open(4);
    gate.closed_again().await;
    session.welcome(30_000).await;
    let mut reports = session.next_reports().await;
    while reports.len() < 5 {
        // The last of the four may have passed the gate and not be noted yet.
        reports.extend(session.next_reports().await);
    }
    assert_eq!(reports.iter().filter(|report| **report == unanswered[0]).count(), 1);
    session.answer(&reports).await;
    gate.open(1);
    assert_eq!(session.end().await, finished());
    drop(session);

    let session = server.accept().await;
    assert!(session.hello.held.is_empty(), "answered ends are forgotten: {:?}", session.hello.held);
}

#[tokio::test]
async fn an_attempt_that_was_granted_anew_after_a_reconnect_is_stopped() {
    let mut server = FakeServer::start().await;
    let (registry, gate) = registry();
    let _running = start(options(&server), registry);
    let session = server.accept_welcomed().await;
    session.grant(vec![grant(1, "gate", "null"), grant(2, "gate", "null")]).await;
    gate.arrived(2).await;
    drop(session);
    let mut session = server.accept_welcomed().await;
    let mut anew = grant(1, "gate", "null");
    anew.token = 900;
    session.grant(vec![anew]).await;
    gate.arrived(1).await;
    let reports = session.next_reports().await;
    assert_eq!((reports.len(), reports[0].token), (1, token_of(1)));
    gate.open(2);
    let mut tokens: Vec<u64> = Vec::new();
    while tokens.len() < 2 {
        tokens.extend(session.next_reports().await.iter().map(|report| report.token));
    }
    tokens.sort_unstable();
    assert_eq!(tokens, [token_of(2), 900]);
}

#[tokio::test]
async fn what_is_not_the_servers_last_word_is_tried_until_it_is_back() {
    let mut server = FakeServer::start().await;
    let (registry, _) = registry();
    let _running = start(options(&server), registry);
    server.accept().await.refuse(marked(Code::Unavailable, "not yet")).await;
    // Without the mark it is something in between that speaks, whatever it says.
    for code in
        [Code::Unavailable, Code::Unauthenticated, Code::PermissionDenied, Code::Unimplemented]
    {
        server.accept().await.refuse(Status::new(code, "a proxy's word")).await;
    }
    let mut session = server.accept_welcomed().await;
    session.grant(vec![grant(1, "noop", "null")]).await;
    assert_eq!(session.end().await, finished());
}

/// A refusal as a server gives it.
fn marked(code: Code, message: &str) -> Status {
    let mut metadata = MetadataMap::new();
    metadata.insert(MARK, MetadataValue::from_static("some_code"));
    Status::with_metadata(code, message, metadata)
}

#[tokio::test]
async fn a_refused_hello_is_final_and_says_why() {
    let refusals = [
        (
            marked(Code::Unauthenticated, "token expired"),
            "token expired; give this worker a token with the scope `work`",
        ),
        (marked(Code::InvalidArgument, "name is too long"), "name is too long"),
        (marked(Code::FailedPrecondition, "speaks version 9"), "speaks version 9"),
        (marked(Code::PermissionDenied, "host `x` is not a name"), "host `x` is not a name"),
    ];
    for (status, words) in refusals {
        let mut server = FakeServer::start().await;
        let (registry, _) = registry();
        let running = start(options(&server), registry);
        server.accept().await.refuse(status).await;
        let error = running.ended().await.unwrap_err().to_string();
        assert!(error.contains(words) && error.contains(&server.address), "{error}");
    }
}
