//! Tasks that the server wants back, for another worker.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use divvy_types::{AttemptOutcome, TaskId, TaskSpec};
use divvy_worker::builtin::{Builtins, ExecProgram, register};
use divvy_worker::{Attempt, CancelReason, Registry};

use crate::fake_server::{FakeServer, Gate, finished, grant, grant_of, options, registry, start};

#[tokio::test]
async fn what_waits_is_given_back_at_once_and_what_runs_is_left_alone() {
    let mut server = FakeServer::start().await;
    let (registry, gate) = registry();
    let mut one_slot = options(&server);
    one_slot.slots.async_ = 1;
    let running = start(one_slot, registry);
    let mut session = server.accept_welcomed().await;
    assert_eq!((session.hello.slots, session.hello.credit > 1), (1, true));
    session.grant((1..=4).map(|id| grant(id, "gate", "null")).collect()).await;
    gate.arrived(1).await;
    // The first runs; the second and the third wait; nobody knows the others.
    session.recall([1, 2, 3, 77, 78], false).await;
    let mut ends = session.ends(2).await;
    ends.sort_by_key(|(id, _)| *id);
    assert_eq!(ends, [(2, AttemptOutcome::Released), (3, AttemptOutcome::Released)]);
    // Again: they have left, and the first still runs.
    session.recall([1, 2, 3], false).await;
    gate.open(2);
    let ends = session.ends(2).await;
    assert_eq!(ends, [(1, finished()), (4, finished())], "each is reported once");
    running.shutdown.drain();
    drop(session);
}

#[tokio::test]
async fn an_older_token_recalls_nothing() {
    let mut server = FakeServer::start().await;
    let (registry, gate) = registry();
    let mut one_slot = options(&server);
    one_slot.slots.async_ = 1;
    let _running = start(one_slot, registry);
    let mut session = server.accept_welcomed().await;
    session.grant(vec![grant(1, "gate", "null")]).await;
    gate.arrived(1).await;
    let mut newer = grant(2, "gate", "null");
    newer.token = 900;
    session.grant(vec![newer]).await;
    session.recall([2], true).await;
    gate.open(2);
    assert_eq!(session.ends(2).await, [(1, finished()), (2, finished())]);
}

#[tokio::test]
async fn what_has_begun_is_stopped_and_given_back_where_that_is_wanted() {
    let mut server = FakeServer::start().await;
    let (mut registry, gate) = registry();
    let watching = Gate::new();
    let seen = watching.clone();
    let watches = move |attempt: Attempt| {
        seen.announce();
        while !attempt.cancelled().is_cancelled() {
            std::thread::yield_now();
        }
        assert_eq!(attempt.cancelled().reason(), Some(CancelReason::Recalled));
        // What it returns after it was asked to stop must not count.
        finished()
    };
    registry.on_blocking("watches", Arc::new(watches));
    let _running = start(options(&server), registry);
    let mut session = server.accept_welcomed().await;
    session.grant(vec![grant(1, "watches", "null")]).await;
    watching.arrived(1).await;
    session.recall([1], true).await;
    assert_eq!(session.end().await, AttemptOutcome::Released);
    // This one never looks: it is dropped after the grace time.
    session.grant(vec![grant(2, "gate", "null")]).await;
    gate.arrived(1).await;
    session.recall([2], true).await;
    assert_eq!(session.end().await, AttemptOutcome::Released);
    session.grant(vec![grant(3, "noop", "null")]).await;
    assert_eq!(session.end().await, finished(), "the slots are free again");
}

#[tokio::test]
async fn a_recalled_program_is_told_and_then_killed_with_all_that_it_started() {
    let mut server = FakeServer::start().await;
    let folder = tempfile::tempdir().unwrap();
    let (begun, told) = (folder.path().join("begun"), folder.path().join("told"));
    let text = format!(
        r#"trap "touch {0}" TERM; echo $$ > {1}.new; mv {1}.new {1}; while :; do sleep 0.01; done"#,
        told.display(),
        begun.display()
    );
    let args = vec!["-c".to_owned(), text];
    let program =
        ExecProgram { name: "script".into(), program: "sh".into(), args, more_args: true };
    let mut registry = Registry::new();
    register(&mut registry, &Builtins { programs: vec![program], ..Builtins::default() }).unwrap();
    let _running = start(options(&server), registry);
    let mut session = server.accept_welcomed().await;
    session.grant(vec![grant_of(TaskSpec::new(TaskId(1), "script"))]).await;
    crate::fake_server::within(async {
        while !begun.exists() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    session.recall([1], true).await;
    assert_eq!(session.end().await, AttemptOutcome::Released);
    assert!(told.exists(), "it was asked to stop before it was killed");
    let pid: u32 = std::fs::read_to_string(begun).unwrap().trim().parse().unwrap();
    crate::exec_programs::gone(pid).await;
}

#[tokio::test]
async fn a_recall_and_a_start_never_both_win() {
    let mut server = FakeServer::start().await;
    let mut registry = Registry::new();
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    let run = move |_: Attempt| {
        counted.fetch_add(1, Ordering::SeqCst);
        finished()
    };
    registry.on_blocking("blocking", Arc::new(run.clone())).on_cpu("cpu", Arc::new(run));
    let _running = start(options(&server), registry);
    let mut session = server.accept_welcomed().await;
    let (mut done, mut released) = (0, 0);
    for round in 0..50 {
        let ids = round * 100..(round + 1) * 100;
        let kind = |id| if id % 2 == 0 { "cpu" } else { "blocking" };
        session.grant(ids.clone().map(|id| grant(id, kind(id), "null")).collect()).await;
        session.recall(ids.clone().rev(), false).await;
        let mut ends = session.ends(100).await;
        ends.sort_by_key(|(id, _)| *id);
        let reported: Vec<u128> = ends.iter().map(|(id, _)| *id).collect();
        assert_eq!(reported, ids.collect::<Vec<_>>(), "each is reported once");
        released += ends.iter().filter(|(_, end)| *end == AttemptOutcome::Released).count();
        done += ends.iter().filter(|(_, end)| *end == finished()).count();
    }
    assert_eq!(done + released, 5_000);
    assert_eq!(runs.load(Ordering::SeqCst), done, "what was given back has not run");
}
