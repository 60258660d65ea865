//! Programs as handlers: what they get, what their ends mean, and that nothing of them is left behind.

use std::time::Duration;

use divvy_types::view::Upstream;
use divvy_types::{
    AttemptOutcome, ErrorClass, FailureVerdict, Payload, TaskId, TaskSpec, TaskState, Token,
};
use divvy_worker::builtin::{Builtins, ExecProgram, register};
use divvy_worker::{Attempt, AttemptProbe, CancelReason, Registry};

use crate::fake_server::{FakeServer, detached, grant_of, options, start, within};

/// A registry that may run one shell script, under the name `script`.
fn script(text: &str) -> Registry {
    let args = vec!["-c".to_owned(), text.to_owned(), "script".to_owned()];
    let program =
        ExecProgram { name: "script".into(), program: "sh".into(), args, more_args: true };
    let mut registry = Registry::new();
    register(&mut registry, &Builtins { programs: vec![program], ..Builtins::default() }).unwrap();
    registry
}

async fn run(text: &str, payload: &str) -> (AttemptOutcome, AttemptProbe) {
    let (attempt, probe) = detached("script", payload);
    (within(script(text).execute(attempt)).await, probe)
}

fn result(outcome: &AttemptOutcome) -> &str {
    match outcome {
        AttemptOutcome::Finished { result, .. } => result.json_text().unwrap(),
        other => panic!("expected a finish, got {other:?}"),
    }
}

fn failure(outcome: AttemptOutcome) -> (ErrorClass, FailureVerdict, String) {
    match outcome {
        AttemptOutcome::Failed(failure) => {
            (failure.error.class, failure.verdict, failure.error.message.to_string())
        }
        other => panic!("expected a failure, got {other:?}"),
    }
}

#[tokio::test]
async fn stdin_is_the_payload_stdout_the_result_and_stderr_the_log() {
    let (outcome, probe) =
        run("echo working >&2; echo divvy:progress 3/10 half way >&2; cat", r#"{"a": [1, 2]}"#)
            .await;
    assert_eq!(result(&outcome), r#"{"a": [1, 2]}"#);
    assert_eq!(probe.log(), "working\n");
    let progress = probe.progress();
    assert_eq!((progress.done, progress.total, progress.message.as_str()), (3, 10, "half way"));
    assert_eq!(result(&run("echo plain words", "null").await.0), r#""plain words""#);
    assert_eq!(result(&run("cat", "").await.0), "null");
    assert_eq!(
        result(&run("exec 0<&-; echo 1", &format!("{:?}", "x".repeat(500_000))).await.0),
        "1"
    );
}

#[tokio::test]
async fn kind_exec_names_a_program_of_the_list_and_adds_arguments() {
    let registry = script(r#"printf '["%s","%s"]' "$1" "$2"; cat >&2"#);
    let payload = r#"{"program": "script", "args": ["a b", "$(id)"], "input": {"deep": true}}"#;
    let (attempt, probe) = detached("exec", payload);
    assert_eq!(result(&within(registry.execute(attempt)).await), r#"["a b","$(id)"]"#);
    assert_eq!(probe.log(), "{\"deep\": true}\n");
    let (attempt, _) = detached("exec", r#"{"program": "rm", "args": ["-rf", "/"]}"#);
    let (_, verdict, message) = failure(within(registry.execute(attempt)).await);
    assert_eq!(verdict, FailureVerdict::SnoozeMs(5_000), "another worker may have it");
    assert_eq!(message, "program `rm` is not on this worker's list (script)");
}

#[tokio::test]
async fn a_task_adds_arguments_only_where_that_is_allowed() {
    let fixed = Builtins { programs: vec!["echo=echo 7".parse().unwrap()], ..Builtins::default() };
    assert_eq!(fixed.capabilities().collect::<Vec<_>>(), ["exec.echo"]);
    let mut registry = Registry::new();
    register(&mut registry, &fixed).unwrap();
    let (attempt, _) = detached("exec", r#"{"program": "echo"}"#);
    assert_eq!(result(&within(registry.execute(attempt)).await), "7");
    let (attempt, _) = detached("exec", r#"{"program": "echo", "args": ["8"]}"#);
    let (_, verdict, message) = failure(within(registry.execute(attempt)).await);
    assert_eq!(verdict, FailureVerdict::Dead);
    assert!(message.ends_with("divvy work --exec-args echo"), "{message}");
}

#[tokio::test]
async fn a_program_that_leaves_a_daemon_does_not_hold_its_slot() {
    // It keeps all three pipes, and is in a session of its own.
    let script = "setsid sleep 1000 & echo $! >&2; printf 'half a line' >&2; echo 5";
    let payload = format!("{:?}", "x".repeat(500_000));
    let (outcome, probe) = run(script, &payload).await;
    assert_eq!(result(&outcome), "5");
    let log = probe.log();
    assert!(log.ends_with("half a line\n"), "{log}");
    let daemon = log.lines().next().unwrap().parse().map(nix::unistd::Pid::from_raw).unwrap();
    nix::sys::signal::kill(daemon, nix::sys::signal::Signal::SIGKILL).unwrap();
}

#[tokio::test]
async fn a_program_is_told_the_time_that_its_task_is_for() {
    let (mut attempt, _) = detached("script", "null");
    attempt.task.run_at = Some("2026-11-17T02:00:00Z".parse().unwrap());
    let outcome = within(script(r#"printf '"%s"' "$DIVVY_RUN_AT""#).execute(attempt)).await;
    assert_eq!(result(&outcome), r#""2026-11-17T02:00:00.000000Z""#);
}

#[tokio::test]
async fn the_environment_is_clean() {
    let (outcome, probe) = run("env >&2", "null").await;
    assert_eq!(result(&outcome), "null");
    let log = probe.log();
    let mut names: Vec<&str> = log.lines().map(|line| line.split_once('=').unwrap().0).collect();
    // The shell sets these for itself.
    names.retain(|name| !["PWD", "OLDPWD", "SHLVL", "_", "HOME", "LANG", "TZ"].contains(name));
    names.sort_unstable();
    assert_eq!(
        names,
        [
            "DIVVY_ATTEMPT",
            "DIVVY_ATTEMPT_TOKEN",
            "DIVVY_CHECKPOINT_FILE",
            "DIVVY_KIND",
            "DIVVY_TASK_ID",
            "PATH",
            "TRACEPARENT"
        ]
    );
    assert!(
        log.contains("DIVVY_ATTEMPT_TOKEN=7\n") && log.contains("DIVVY_KIND=script\n"),
        "{log}"
    );
}

#[tokio::test]
async fn a_program_can_read_how_the_dependencies_ended() {
    let upstream = Upstream {
        task: TaskId(5),
        kind: "count".into(),
        state: TaskState::Done,
        result: Payload::json(r#"{"words": 12}"#).unwrap(),
        spawned: false,
    };
    let task = TaskSpec::new(TaskId(1), "script");
    let (attempt, probe) = Attempt::detached(task, Token(7), 1, vec![upstream].into());
    let outcome =
        within(script(r#"cat "$DIVVY_UPSTREAM"; echo "$DIVVY_UPSTREAM" >&2"#).execute(attempt))
            .await;
    let expected = r#"[{"task":"00000000-0000-0000-0000-000000000005","kind":"count","state":"done","result":{"words": 12},"spawned":false}]"#;
    assert_eq!(result(&outcome), expected);
    assert!(
        !std::path::Path::new(probe.log().trim()).exists(),
        "the file goes away with the attempt"
    );
}

/// Says what its checkpoint file held, and writes another one in its place.
const SAVES: &str = r#"cat "$DIVVY_CHECKPOINT_FILE" >&2 2> /dev/null; echo "$DIVVY_CHECKPOINT_FILE" >&2
    echo '{"page": 2}' > "$DIVVY_CHECKPOINT_FILE.new"; mv "$DIVVY_CHECKPOINT_FILE.new" "$DIVVY_CHECKPOINT_FILE""#;

#[tokio::test]
async fn a_program_saves_to_a_file_and_a_later_attempt_finds_it_there() {
    let (outcome, probe) = run(&format!("{SAVES}; exit 75"), "null").await;
    assert_eq!(failure(outcome).1, FailureVerdict::Retry);
    let saved = probe.checkpoint().unwrap();
    assert_eq!(saved.json_text(), Some("{\"page\": 2}\n"));
    let log = probe.log();
    let file = std::path::Path::new(log.lines().next().unwrap());
    assert!(!file.parent().unwrap().exists(), "the folder goes away with the attempt");

    let (mut attempt, probe) = detached("script", "null");
    attempt.resume_point = Some(saved);
    let read = r#"cat "$DIVVY_CHECKPOINT_FILE" >&2; exit 75"#;
    within(script(read).execute(attempt)).await;
    assert_eq!(probe.log(), "{\"page\": 2}\n");
    assert_eq!(probe.checkpoint(), None, "what was there before is not saved again");

    let (_, probe) = run(r#"printf '\377\000' > "$DIVVY_CHECKPOINT_FILE"; exit 1"#, "null").await;
    let bytes = probe.checkpoint().unwrap();
    assert_eq!(
        (bytes.content_type(), &bytes.data()[..]),
        ("application/octet-stream", &[255, 0][..])
    );
    let large = r#"head -c 300000 /dev/zero > "$DIVVY_CHECKPOINT_FILE"; exit 1"#;
    let (_, probe) = run(large, "null").await;
    assert_eq!(probe.checkpoint(), None);
    let told = "the checkpoint file is 300000 bytes, at most 262144: not saved\n";
    assert_eq!(probe.log(), told);
    let odd = r#"mkfifo "$DIVVY_CHECKPOINT_FILE"; exit 1"#;
    assert_eq!(run(odd, "null").await.1.checkpoint(), None, "a pipe does not hold the worker up");
}

#[tokio::test]
async fn what_a_program_saves_is_taken_while_it_runs_and_when_it_is_asked_to_stop() {
    let text = r#"trap 'echo 2 > "$DIVVY_CHECKPOINT_FILE"; exit 0' TERM
        echo 1 > "$DIVVY_CHECKPOINT_FILE"; while :; do sleep 0.01; done"#;
    let (attempt, probe) = detached("script", "null");
    let registry = script(text);
    let running = tokio::spawn(async move { registry.execute(attempt).await });
    let saved = |text: &'static str| {
        let probe = probe.clone();
        within(async move {
            while probe.checkpoint().is_none_or(|data| data.data() != text.as_bytes()) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
    };
    saved("1\n").await;
    assert!(!running.is_finished());
    probe.cancel(CancelReason::Recalled);
    within(running).await.unwrap();
    saved("2\n").await;
}

#[tokio::test]
async fn each_exit_has_its_meaning() {
    let cases = [
        (
            "echo busy >&2; exit 75",
            ErrorClass::Failed,
            FailureVerdict::Retry,
            "exit status 75 (try again): busy",
        ),
        (
            "echo bad >&2; exit 65",
            ErrorClass::Failed,
            FailureVerdict::Dead,
            "exit status 65 (bad data): bad",
        ),
        (
            "echo a >&2; echo b >&2; exit 3",
            ErrorClass::Failed,
            FailureVerdict::Retry,
            "exit status 3: b",
        ),
        ("exit 1", ErrorClass::Failed, FailureVerdict::Retry, "exit status 1"),
        ("kill -9 $$", ErrorClass::Crashed, FailureVerdict::Retry, "killed by SIGKILL"),
    ];
    for (text, class, verdict, message) in cases {
        assert_eq!(
            failure(run(text, "null").await.0),
            (class, verdict, message.to_owned()),
            "{text}"
        );
    }
}

#[tokio::test]
async fn endless_output_is_cut_off() {
    let (_, verdict, message) = failure(run("yes", "null").await.0);
    assert_eq!(verdict, FailureVerdict::Dead);
    assert!(message.starts_with("stdout is more than 1048576 bytes"), "{message}");
    let (outcome, probe) = run("yes | head -c 1000000 >&2; echo last >&2", "null").await;
    assert_eq!(result(&outcome), "null");
    assert!(probe.log().len() <= 64 << 10 && probe.log().ends_with("last\n"));
}

/// The process ids that a script wrote into its log, once there are `count`.
async fn pids(probe: &AttemptProbe, count: usize) -> Vec<u32> {
    within(async {
        loop {
            let log = probe.log();
            if log.lines().count() >= count {
                return log.lines().map(|line| line.parse().unwrap()).collect();
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
}

/// Waits until a process is gone, or dead and only not collected by its parent.
pub(crate) async fn gone(pid: u32) {
    within(async {
        loop {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let state = stat.rsplit_once(')').map(|(_, rest)| rest.trim_start().chars().next());
            if matches!(state, None | Some(Some('Z' | 'X'))) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

/// Has a child that ignores SIGTERM, and tells the ids of both.
const STUBBORN_FAMILY: &str =
    r#"sh -c 'trap "" TERM; echo $$ >&2; while :; do sleep 1; done' & echo $$ >&2; wait"#;

#[tokio::test]
async fn a_stop_reaches_the_children_of_the_program() {
    let (attempt, probe) = detached("script", "null");
    let registry = script(STUBBORN_FAMILY);
    let running = tokio::spawn(async move { registry.execute(attempt).await });
    let family = pids(&probe, 2).await;
    probe.cancel(CancelReason::Stopped("enough".into()));
    // The leader obeys SIGTERM; its child does not, and dies with the group.
    assert_eq!(failure(within(running).await.unwrap()).0, ErrorClass::Crashed);
    for pid in family {
        gone(pid).await;
    }
}

#[tokio::test]
async fn a_program_that_ignores_everything_is_killed_after_the_grace_time() {
    let mut server = FakeServer::start().await;
    let folder = tempfile::tempdir().unwrap();
    let note = folder.path().join("pids");
    let text = format!(
        r#"trap "" TERM; echo $$ > {0}.new; mv {0}.new {0}; while :; do sleep 1; done"#,
        note.display()
    );
    let _running = start(options(&server), script(&text));
    let mut session = server.accept_welcomed().await;
    let mut spec = TaskSpec::new(TaskId(1), "script");
    spec.timeout_ms = Some(300);
    spec.payload = Payload::null();
    session.grant(vec![grant_of(spec)]).await;
    assert_eq!(failure(session.end().await).0, ErrorClass::Timeout);
    let pid = std::fs::read_to_string(note).unwrap().trim().parse().unwrap();
    gone(pid).await;
}

#[tokio::test]
async fn a_program_that_leaves_a_process_behind_loses_it() {
    let (outcome, probe) = run("sleep 1000 & echo $! >&2; echo 5", "null").await;
    assert_eq!(result(&outcome), "5");
    gone(pids(&probe, 1).await[0]).await;
}

#[test]
fn a_missing_program_is_an_error_at_start() {
    let program = "tool=/no/such/tool --flag".parse::<ExecProgram>().unwrap();
    let missing = Builtins { programs: vec![program], ..Builtins::default() };
    let error = register(&mut Registry::new(), &missing).unwrap_err().to_string();
    assert!(error.starts_with("program `/no/such/tool` for kind `tool` does not exist"), "{error}");
}
