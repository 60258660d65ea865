//! Alerts and `divvy top` from the command line.

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};

use nix::sys::signal::Signal;
use nix::unistd::Pid;

use crate::stack::{Folder, Guarded, Server, until};

/// Tells a program, which keeps a line for each, at once.
const SETTINGS: &str = r#"
alerts:
  rules:
    no_worker: {for_sec: 0, calm_sec: 0}
    disk_low: {enabled: false}
  sinks:
    keeper:
      command: {run: [sh, -c, 'echo "$DIVVY_ALERT $DIVVY_ALERT_STATE" >> told']}
"#;

fn told(folder: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(folder.join("told")).unwrap_or_default();
    text.lines().map(ToOwned::to_owned).collect()
}

/// Waits until so many deliveries are on record. One that a kill keeps from being recorded is delivered again.
fn until_recorded(server: &Server, count: usize) {
    let list = ["task", "list", "--queue", "divvy-alerts", "--state", "done", "--json"];
    let recorded = || server.run(&list).expect(0).json().len();
    until("deliveries are recorded", || (recorded() == count).then_some(()));
}

#[test]
fn an_alert_is_told_once_and_its_end_once_though_the_server_is_killed_in_between() {
    let folder = Folder::new();
    folder.write("divvy.yaml", SETTINGS);
    let server = Server::start(folder, &["serve"]);
    server.run(&["submit", "noop"]).expect(0);
    let listed = server.run(&["alert", "list"]).expect(1);
    assert!(listed.stdout.contains("no_worker (fault, since"), "{listed:?}");
    assert!(listed.stdout.contains("cure: start one with `divvy work`"), "{listed:?}");
    until("the alert is told", || Some(told(server.folder.path())).filter(|it| !it.is_empty()));
    until_recorded(&server, 1);
    server.process.signal(Signal::SIGKILL);
    let (folder, _) = server.ended();
    assert_eq!(told(folder.path()), ["no_worker fired"]);

    let server = Server::start(folder, &["serve"]);
    server.run(&["alert", "list", "-q"]).expect(1);
    server.run(&["alert", "test"]).expect(0);
    until("a test is told", || {
        told(server.folder.path()).contains(&"test test".to_owned()).then_some(())
    });
    assert_eq!(told(server.folder.path()), ["no_worker fired", "test test"], "and nothing again");
    until_recorded(&server, 2);
    server.process.signal(Signal::SIGKILL);
    let (folder, _) = server.ended();

    let server = Server::start(folder, &["up", "--workers", "1"]);
    let end = "no_worker resolved".to_owned();
    until("the end is told", || told(server.folder.path()).contains(&end).then_some(()));
    let history = server.run(&["alert", "list", "--history", "--json"]).expect(0).json();
    let states: Vec<&str> = history.iter().map(|it| it["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["resolved", "fired"]);
    assert_eq!(told(server.folder.path()).len(), 3);
}

#[test]
fn an_alert_that_was_taken_when_the_server_was_killed_comes_again_under_the_same_id() {
    let folder = Folder::new();
    // It has taken the alert, and does not say so before somebody lets it.
    let run = r#"echo "$DIVVY_ALERT_ID $DIVVY_ALERT $DIVVY_ALERT_STATE" >> told
while [ -e hold ]; do sleep 0.1; done"#;
    folder.write("take.sh", run);
    folder.write("hold", "");
    let settings = SETTINGS.lines().filter(|line| !line.contains("command:"));
    let settings: Vec<&str> = settings.chain(["      command: {run: [sh, take.sh]}"]).collect();
    folder.write("divvy.yaml", &settings.join("\n"));
    let server = Server::start(folder, &["serve"]);
    server.run(&["submit", "noop"]).expect(0);
    server.run(&["alert", "list", "-q"]).expect(1);
    until("the alert is taken", || Some(told(server.folder.path())).filter(|it| !it.is_empty()));
    server.process.signal(Signal::SIGKILL);
    let (folder, _) = server.ended();
    std::fs::remove_file(folder.path().join("hold")).unwrap();

    let server = Server::start(folder, &["serve"]);
    until_recorded(&server, 1);
    let told = told(server.folder.path());
    assert_eq!(told.len(), 2, "{told:?}");
    assert_eq!(told[0], told[1], "whoever keeps ids has heard it once");
    assert!(told[0].ends_with(" no_worker fired"), "{told:?}");
    let history = server.run(&["alert", "list", "--history", "--json"]).expect(0).json();
    assert_eq!(history.len(), 1, "it fired once: {history:?}");
}

#[test]
fn rules_are_listed_and_silenced_and_a_wrong_name_is_refused() {
    let server = Server::serve(&[]);
    let all = server.run(&["alert", "list", "--all"]).expect(0);
    for rule in ["oldest_wait", "workers_flap", "ticks_missed"] {
        assert!(all.stdout.contains(rule), "{all:?}");
    }
    let said = server.run(&["alert", "silence", "oldest_wait", "--for", "2h"]).expect(0);
    assert!(said.line().starts_with("nobody is told of oldest_wait until 2"), "{said:?}");
    let rules = server.run(&["alert", "list", "--all", "--json"]).expect(0).json();
    let rule = rules.iter().find(|rule| rule["name"] == "oldest_wait").unwrap();
    assert!(rule["silenced_until"].is_string(), "{rule}");
    server.run(&["alert", "silence", "oldest_wait", "--end"]).expect(0);
    server.run(&["alert", "silence", "oldest_weight"]).expect(4);
    let test = server.run(&["alert", "test"]).expect(0);
    assert!(test.stderr.contains("only the log"), "{test:?}");
}

#[test]
fn top_prints_once_and_needs_a_terminal_for_more() {
    let server = Server::up(&[]);
    server.run(&["submit", "noop", "--wait"]).expect(0);
    let once = server.run(&["top", "--once"]).expect(0);
    assert!(once.stdout.contains("waiting 0") && once.stdout.contains("\nWORKERS\n"), "{once:?}");
    assert!(once.stdout.lines().all(|line| line.chars().count() <= 80), "{once:?}");
    let json = server.run(&["top", "--once", "--json"]).expect(0).json().remove(0);
    assert_eq!((&json["finished"], &json["workers"]), (&1.into(), &1.into()), "{json}");
    let refused = server.run(&["top"]).expect(2);
    assert!(refused.stderr.contains("--once"), "{refused:?}");
}

/// The bytes that end raw drawing: the usual screen is back.
const BACK: &str = "\u{1b}[?1049l";

/// Runs `divvy top` on a terminal of its own. `act` ends it, and is given its keys and a look for a text on the screen.
fn on_a_terminal(
    server: &Server,
    act: impl FnOnce(&mut ChildStdin, &dyn Fn(&str) -> Option<()>),
) -> ExitStatus {
    let divvy = env!("CARGO_BIN_EXE_divvy");
    let top = format!("sh -c 'echo $$ > top.pid; exec {divvy} top'");
    let mut command = Command::new("script");
    let run = format!("stty rows 24 cols 80; {top}; ended=$?; stty -a; exit $ended");
    command.args(["-qec", &run, "/dev/null"]);
    command.current_dir(server.folder.path()).env("DIVVY_SERVER", &server.url);
    command.env("TERM", "xterm").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut terminal = Guarded(command.spawn().unwrap());
    let seen = Arc::new(Mutex::new(String::new()));
    let (mut output, shared) = (terminal.0.stdout.take().unwrap(), Arc::clone(&seen));
    let reader = std::thread::spawn(move || {
        let mut bytes = [0; 4_096];
        while let Ok(count @ 1..) = output.read(&mut bytes) {
            shared.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..count]));
        }
    });
    let shows = |text: &str| seen.lock().unwrap().contains(text).then_some(());
    until("the screen is drawn", || shows("QUEUE"));
    let mut keys = terminal.0.stdin.take().unwrap();
    act(&mut keys, &shows);
    let status = until("it ends", || terminal.0.try_wait().unwrap());
    drop(keys);
    reader.join().unwrap();
    let seen = seen.lock().unwrap();
    let after = seen.rsplit_once(BACK).expect("the screen is given back").1;
    assert!(
        after.contains(" icanon") && after.contains(" echo "),
        "lines and echo are on again: {after}"
    );
    status
}

#[test]
fn top_takes_the_terminal_and_gives_it_back() {
    let server = Server::serve(&[]);
    server.run(&["submit", "noop"]).expect(0);
    let status = on_a_terminal(&server, |keys, shows| {
        // The queue is paused by a key, and the server knows.
        keys.write_all(b"p").unwrap();
        until("the queue is paused", || {
            let queues = server.run(&["queue", "list", "--json"]).expect(0).json();
            (queues[0]["paused"] == true).then_some(())
        });
        keys.write_all(b"4").unwrap();
        until("the alerts are shown", || shows("no_worker"));
        keys.write_all(b"q").unwrap();
    });
    assert!(status.success(), "{status}");
    let status = on_a_terminal(&server, |_, _| {
        let pid = std::fs::read_to_string(server.folder.path().join("top.pid")).unwrap();
        nix::sys::signal::kill(Pid::from_raw(pid.trim().parse().unwrap()), Signal::SIGTERM)
            .unwrap();
    });
    assert_eq!(status.code(), Some(130), "somebody ended it");
}
