//! Workers in other languages: programs that a worker may run.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

use nix::sys::signal::Signal;

use crate::stack::{Folder, Guarded, Server, end, until};

const SCRIPT: &str = r#"#!/bin/sh
# Counts the words of the payload and says how far it is.
input=$(cat)
echo "divvy:progress 1/2 counting" >&2
echo "attempt $DIVVY_ATTEMPT of $DIVVY_KIND" >&2
printf '{"words": %d}' "$(printf '%s' "$input" | wc -w)"
"#;

fn folder_with(name: &str, text: &str) -> Folder {
    let folder = Folder::new();
    folder.write(name, text);
    let path = folder.path().join(name);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    folder
}

#[test]
fn a_script_is_a_kind_of_its_own() {
    let folder = folder_with("words.sh", SCRIPT);
    let server =
        Server::start(folder, &["up", "--workers", "1", "--exec", "text.words=./words.sh"]);
    let ended = server.run(&["submit", "text.words", "--payload", "\"a b c\"", "--wait"]).expect(0);
    assert_eq!(ended.line(), "{\"words\": 3}");
    let id = server.run(&["submit", "text.words", "--wait", "-q"]).expect(0).line().to_owned();
    assert!(server.run(&["logs", &id]).expect(0).stdout.contains("attempt 1 of text.words"));
    assert!(server.run(&["logs", "-f", &id]).expect(0).stdout.contains("attempt 1 of text.words"));
}

#[test]
fn python_reads_the_payload_and_decides_the_verdict() {
    let python = "import json, sys\n\
        task = json.load(sys.stdin)\n\
        if task['n'] < 0:\n    print('negative', file=sys.stderr); sys.exit(65)\n\
        json.dump({'double': 2 * task['n']}, sys.stdout)\n";
    let folder = folder_with("double.py", python);
    folder.write("divvy.yaml", "work:\n  exec:\n    double: python3 double.py\n");
    let server = Server::start(folder, &["up", "--workers", "1"]);
    let ended = server.run(&["submit", "double", "-a", "n:=21", "--wait", "--json"]).expect(0);
    assert_eq!(ended.json()[0]["result"]["double"], 42);
    let dead = server.run(&["submit", "double", "-a", "n:=-1", "--wait", "--json"]).expect(1);
    assert_eq!(
        (&dead.json()[0]["state"], &dead.json()[0]["attempts"]),
        (&"dead".into(), &1.into())
    );
    assert!(dead.json()[0]["error"]["message"].as_str().unwrap().contains("negative"));
}

#[test]
fn a_program_that_is_missing_is_told_before_anything_starts() {
    let folder = Folder::new();
    let ended = folder.run(&["up", "--listen", "127.0.0.1:0", "--exec", "x=./gone"]).expect(2);
    assert!(ended.stderr.contains("./gone") && ended.stdout.is_empty(), "{}", ended.stderr);
    assert!(!folder.path().join("divvy-data").exists());
}

#[test]
fn a_worker_that_cannot_work_ends_up_instead_of_being_started_for_ever() {
    let folder = Folder::new();
    let args = ["up", "--workers", "1", "--listen", "127.0.0.1:0", "--slots", "async=0"];
    let ended = folder.run(&args).expect(1);
    assert!(ended.stderr.contains("async") && ended.stderr.contains("local-1"), "{}", ended.stderr);
}

#[test]
fn the_python_program_of_the_guide_works_alone_and_after_others() {
    let guide = include_str!("../../../../docs/guides/workers-any-language.md");
    let program = guide.split("```python\n").nth(1).unwrap().split("```").next().unwrap();
    let folder = folder_with("count.py", program);
    let server =
        Server::start(folder, &["up", "--workers", "1", "--exec", "text.count=./count.py"]);
    let text = "text=to be or not to be";
    let alone = server
        .run(&["submit", "text.count", "--arg", text, "--wait", "--json"])
        .expect(0)
        .json()
        .remove(0);
    assert_eq!(alone["result"]["words"], 6);
    let id = alone["id"].as_str().unwrap();
    let after =
        server.run(&["submit", "text.count", "--arg", text, "--after", id, "--wait"]).expect(0);
    assert_eq!(after.line(), "{\"words\": 12}");
    server.run(&["submit", "text.count", "--payload", "{}", "--wait"]).expect(1);
}

/// Whether a process is gone, or dead and only not collected.
fn is_gone(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").map(|(_, rest)| rest.chars().next());
    matches!(state, None | Some(Some('Z' | 'X')))
}

#[track_caller]
fn assert_gone(pid: &str) {
    assert!(pid.parse::<u32>().is_ok(), "`{pid}` is no process id");
    until(&format!("process {pid} is gone"), || is_gone(pid).then_some(()));
}

/// A keeper of a shell script, as this process would start it for a task.
fn keeper(folder: &Folder, limits: &str, script: &str) -> Command {
    let own = std::process::id().to_string();
    folder.command(&["keep-program", &own, limits, "sh", "-c", script])
}

#[test]
fn a_keeper_ends_like_its_program_and_after_all_that_came_of_it() {
    let folder = Folder::new();
    let script = "setsid sleep 1000 & echo $!; ulimit -n; cat; exit 7";
    let ended = end(keeper(&folder, "files=100,processes=none", script), "words").expect(7);
    let lines: Vec<&str> = ended.stdout.lines().collect();
    assert_eq!(lines[1..], ["100", "words"]);
    assert!(is_gone(lines[0]), "the daemon is gone before the keeper is");
    let killed = keeper(&folder, "", "kill -SEGV $$").status().unwrap();
    assert_eq!(killed.signal(), Some(Signal::SIGSEGV as i32));
    let own = std::process::id().to_string();
    let missing = folder.run(&["keep-program", &own, "", "/no/such/program"]).expect(127);
    assert!(missing.stderr.starts_with("cannot start `/no/such/program`"), "{}", missing.stderr);
    folder.run(&["keep-program", "1", "", "echo", "without a worker"]).expect(1);
}

#[test]
fn a_keeper_passes_a_stop_on_and_ends_everything_when_it_is_told_to() {
    let folder = Folder::new();
    let asked = "trap 'exit 5' TERM; echo; while :; do sleep 0.01; done";
    let stubborn = "trap '' TERM; setsid sleep 1000 & echo $!; while :; do sleep 1; done";
    for (script, signal, code) in
        [(asked, Signal::SIGTERM, Some(5)), (stubborn, Signal::SIGUSR1, None)]
    {
        let mut process = Guarded(keeper(&folder, "", script).spawn().unwrap());
        let mut line = String::new();
        let mut stdout = std::io::BufReader::new(process.0.stdout.take().unwrap());
        std::io::BufRead::read_line(&mut stdout, &mut line).unwrap();
        process.signal(signal);
        let status = until("the keeper ends", || process.0.try_wait().unwrap());
        assert_eq!(status.code(), code);
        assert!(line.trim().is_empty() || is_gone(line.trim()));
    }
}

/// Shows what can be seen of the processes above it, and leaves a daemon behind.
const CURIOUS: &str = r#"#!/bin/sh
worker=$(sed -n 's/^PPid:[[:space:]]*//p' /proc/$PPID/status)
cat /proc/$PPID/environ /proc/$worker/environ | tr '\000' '\n' >&2
setsid sleep 1000 &
echo "[$!, $(ulimit -n)]"
"#;

/// Tells who it is and whom it started, and stays.
const STAYS: &str =
    "#!/bin/sh\nsetsid sleep 1000 &\necho $$ $! > pids.new\nmv pids.new pids\nsleep 1000\n";

#[test]
fn a_program_sees_no_token_and_does_not_outlive_a_worker_that_is_killed() {
    let server = Server::start(folder_with("curious.sh", CURIOUS), &["serve"]);
    let path = server.folder.path().join("stays.sh");
    std::fs::write(&path, STAYS).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    let args = ["work", "--exec", "curious=./curious.sh", "--exec", "stays=./stays.sh"];
    let mut command = server.command(&args);
    command.args(["--exec-limits", "files=99"]).env("DIVVY_TOKEN", "open-sesame");
    let worker = Guarded(command.stderr(Stdio::null()).spawn().unwrap());
    let seen = server.run(&["submit", "curious", "--wait", "--json"]).expect(0).json().remove(0);
    assert_eq!(seen["result"][1], 99);
    assert_gone(&seen["result"][0].to_string());
    let log = server.run(&["logs", seen["id"].as_str().unwrap()]).expect(0).stdout;
    assert!(log.contains("DIVVY_KIND=curious") && !log.contains("open-sesame"), "{log}");

    server.run(&["submit", "stays", "-q"]).expect(0);
    let pids = server.folder.path().join("pids");
    let pids = until("the program runs", || std::fs::read_to_string(&pids).ok());
    worker.signal(Signal::SIGKILL);
    pids.split_whitespace().for_each(assert_gone);
}

#[test]
fn a_task_of_kind_exec_goes_where_its_program_is() {
    let server = Server::serve(&[]);
    let work = |program: &str| {
        let mut command = server.command(&["work", "--exec", program, "--prefetch", "0"]);
        Guarded(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    };
    let _first = work("a=cat");
    let payload = r#"{"program": "b", "input": {"n": 1}}"#;
    let id = server.run(&["submit", "exec", "--payload", payload, "-q"]).expect(0);
    let explained = until("the worker is there", || {
        let text = server.run(&["explain", id.line()]).expect(0).stdout;
        text.contains("nearest").then_some(text)
    });
    assert!(explained.contains("no worker has the program `b`"), "{explained}");
    assert!(explained.contains("divvy work --exec b=PROGRAM"), "{explained}");
    let _second = work("b=cat");
    let again =
        server.run(&["submit", "exec", "--payload", payload, "--count", "10", "--wait", "--json"]);
    assert!(again.expect(0).json().iter().all(|task| task["result"]["n"] == 1));
    server.wait_for_state(id.line(), "done");
    let odd = server.folder.run(&["work", "--exec", "a=cat", "--exec-args", "b"]).expect(2);
    assert!(odd.stderr.contains("`b`, which is no program"), "{}", odd.stderr);
}
