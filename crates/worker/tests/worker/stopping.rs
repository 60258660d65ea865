//! Attempts that the server wants stopped.

use std::sync::Arc;

use divvy_types::{AttemptOutcome, ErrorClass, FailureVerdict};
use divvy_worker::{Attempt, CancelReason};

use crate::fake_server::{FakeServer, Gate, finished, grant, options, registry, start, token_of};

fn assert_cancelled(outcome: AttemptOutcome, reason: &str) {
    let AttemptOutcome::Failed(failure) = outcome else { panic!("{outcome:?}") };
    assert_eq!(
        (failure.error.class, failure.verdict),
        (ErrorClass::Cancelled, FailureVerdict::Cancelled)
    );
    assert_eq!(failure.error.message, reason);
}

#[tokio::test]
async fn a_stopped_attempt_reports_that_it_was_cancelled() {
    let mut server = FakeServer::start().await;
    let (mut registry, gate) = registry();
    let watching = Gate::new();
    let seen = watching.clone();
    registry.on_blocking(
        "watches",
        Arc::new(move |attempt: Attempt| {
            seen.announce();
            while !attempt.cancelled().is_cancelled() {
                std::thread::yield_now();
            }
            assert_eq!(
                attempt.cancelled().reason(),
                Some(CancelReason::Stopped("wrong picture".into()))
            );
            // What it returns after it was asked to stop must not count.
            finished()
        }),
    );
    let _running = start(options(&server), registry);
    let mut session = server.accept_welcomed().await;

    session.grant(vec![grant(1, "watches", "null")]).await;
    watching.arrived(1).await;
    session.stop(1, token_of(1), "wrong picture").await;
    assert_cancelled(session.end().await, "wrong picture");

    // This one never looks: it is dropped after the grace time.
    session.grant(vec![grant(2, "gate", "null")]).await;
    gate.arrived(1).await;
    session.stop(2, token_of(2), "changed my mind").await;
    assert_cancelled(session.end().await, "changed my mind");

    // Its slot is free again, and a stop for what is not held does no harm.
    session.stop(2, token_of(2), "again").await;
    session.stop(99, 1, "never heard of").await;
    session.grant(vec![grant(3, "noop", "null")]).await;
    assert_eq!(session.end().await, finished());
}

#[tokio::test]
async fn a_stop_under_an_older_token_leaves_the_newer_attempt_alone() {
    let mut server = FakeServer::start().await;
    let (registry, gate) = registry();
    let _running = start(options(&server), registry);
    let mut session = server.accept_welcomed().await;
    let mut newer = grant(1, "gate", "null");
    newer.token = 900;
    session.grant(vec![grant(1, "gate", "null"), newer]).await;
    gate.arrived(2).await;
    session.stop(1, token_of(1), "lease lost").await;
    assert_cancelled(session.end().await, "lease lost");
    gate.open(2);
    let reports = session.next_reports().await;
    assert_eq!((reports.len(), reports[0].token), (1, 900));
}
