//! Workflows from YAML files, and the sample.

use crate::stack::{Folder, Server, end};

const DIAMOND: &str = "
name: diamond
tasks:
  top: {kind: noop}
  left: {kind: sleep, payload: {ms: 1}, after: [top]}
  right: {kind: noop, after: [top], priority: 5}
  bottom: {kind: noop, after: [left, right]}
";

#[test]
fn a_workflow_runs_in_order() {
    let server = Server::up(&[]);
    server.folder.write("w.yaml", DIAMOND);
    let done = server.run(&["run", "w.yaml", "--wait", "--json"]).expect(0).json().remove(0);
    assert_eq!(done["name"], "diamond");
    let ended = |name: &str| {
        let task = server.task(done["tasks"][name]["id"].as_str().unwrap());
        assert_eq!(task["state"], "done", "{name}");
        task["ended_at"].as_str().unwrap().to_owned()
    };
    assert!(
        ended("top") <= ended("left")
            && ended("left") <= ended("bottom")
            && ended("right") <= ended("bottom")
    );
    let listed = server
        .run(&["task", "list", "--workflow", done["workflow"].as_str().unwrap(), "-q"])
        .expect(0);
    assert_eq!(listed.stdout.lines().count(), 4);
    let table = server.run(&["run", "w.yaml", "--wait"]).expect(0);
    assert!(table.stdout.contains("bottom") && table.stderr.contains("noop 3/3"), "{table:?}");
}

#[test]
fn a_task_joins_a_workflow_and_its_groups_from_the_command_line() {
    let server = Server::up(&[]);
    let yaml = "name: night\ntasks:\n  first: {kind: noop}\n";
    let run = end(server.command(&["run", "-", "--json"]), yaml).expect(0).json().remove(0);
    let workflow = run["workflow"].as_str().unwrap();
    let submit = |more: &[&str]| {
        let words = [&["submit", "noop", "--workflow", workflow], more].concat();
        server.run(&words).expect(0).line().to_owned()
    };
    let part = submit(&["--group", "parts"]);
    let join = submit(&["--after-group", "parts"]);
    let (part, join) = (server.task(&part), server.wait_for_state(&join, "done"));
    assert_eq!((&part["workflow"]["name"], &part["group"]), (&"night".into(), &"parts".into()));
    assert_eq!(join["after_groups"][0]["group"], "parts");
    let shown = server.run(&["workflow", "show", workflow, "--json"]).expect(0).json().remove(0);
    assert_eq!(shown["total"], 3, "{shown}");
    server.run(&["submit", "noop", "--group", "parts"]).expect(2);
    let nowhere = "0198c0de-0000-7000-8000-000000000009";
    server.run(&["submit", "noop", "--workflow", nowhere]).expect(4);
}

#[test]
fn a_failed_required_task_cancels_what_follows_and_an_optional_one_does_not() {
    let server = Server::up(&[]);
    let yaml = "tasks:
  bad: {kind: fail, payload: {verdict: dead, message: broken}}
  strict: {kind: noop, after: [bad]}
  lax: {kind: noop, after: {bad: optional}}
";
    let ended = end(server.command(&["run", "-", "--wait", "--json"]), yaml).expect(1);
    let tasks = &ended.json()[0]["tasks"];
    let state = |name: &str| tasks[name]["state"].as_str().unwrap().to_owned();
    assert_eq!([state("bad"), state("strict"), state("lax")], ["dead", "cancelled", "done"]);
}

#[test]
fn the_same_key_submits_once() {
    let server = Server::serve(&[]);
    server.folder.write("w.yaml", DIAMOND);
    let first =
        server.run(&["run", "w.yaml", "--key", "monday", "--json"]).expect(0).json().remove(0);
    let again =
        server.run(&["run", "w.yaml", "--key", "monday", "--json"]).expect(0).json().remove(0);
    assert_eq!(
        (&first["accepted"], &again["accepted"], &again["known"]),
        (&4.into(), &0.into(), &4.into())
    );
    assert_eq!(first["tasks"], again["tasks"]);
}

#[test]
fn a_wrong_file_is_refused_before_anything_is_submitted() {
    let server = Server::serve(&[]);
    server.folder.write("w.yaml", "tasks:\n  a:\n    kind: noop\n    retris: 1\n");
    let ended = server.run(&["run", "w.yaml"]).expect(2);
    assert!(
        ended.stderr.contains("w.yaml:4:") && ended.stderr.contains("did you mean `retries`"),
        "{}",
        ended.stderr
    );
    server
        .folder
        .write("w.yaml", "tasks:\n  a: {kind: x, after: [b]}\n  b: {kind: x, after: [a]}\n");
    assert!(server.run(&["run", "w.yaml"]).expect(2).stderr.contains("wait for each other"));
    assert_eq!(server.run(&["task", "list", "-q"]).expect(0).stdout, "");
}

#[test]
fn the_sample_counts_primes_on_a_terminal_and_all_logs_stand_above_its_bars() {
    let folder = Folder::new();
    let divvy = env!("CARGO_BIN_EXE_divvy");
    let up =
        format!("stty rows 40 cols 100; {divvy} up --sample primes --once --listen 127.0.0.1:0");
    let mut command = folder.program("script", &["-qec", &up, "/dev/null"]);
    command.env("DIVVY_LOG", "divvy_wire=debug,divvy_cli=info").env("TERM", "xterm");
    let seen = end(command, "").expect(0).stdout;
    for words in ["216816 primes below 3000000, as expected", "= 16/16", "draining"] {
        assert!(seen.contains(words), "{words}: {seen}");
    }
    let drawn = seen.find("sample.count").expect("there are bars");
    // The server hears of a worker while bars are shown, and the worker says that it works.
    for level in [" DEBUG ", " INFO "] {
        let logged: Vec<_> =
            seen.match_indices(level).filter(|(place, _)| *place > drawn).collect();
        assert!(!logged.is_empty(), "{level}: {seen}");
        for (place, _) in logged {
            let line = &seen[..place];
            let line = &line[line.rfind(['\n', '\r', '\u{1b}']).map_or(0, |end| end + 1)..];
            assert!(!line.contains("sample."), "a line of the log begins in a bar: {line}");
        }
    }
}

#[test]
fn the_workflow_of_the_guide_is_accepted() {
    let guide = include_str!("../../../../docs/guides/workflows.md");
    let yaml = guide.split("```yaml\n").nth(1).unwrap().split("```").next().unwrap();
    let server = Server::serve(&[]);
    let said = end(server.command(&["run", "-", "--json"]), yaml).expect(0).json().remove(0);
    assert_eq!((&said["accepted"], &said["name"]), (&4.into(), &"nightly".into()));
    let notify = server.task(said["tasks"]["notify"].as_str().unwrap());
    assert_eq!(notify["after"].as_array().unwrap().len(), 2);
}

#[test]
fn a_failed_workflow_calls_back_is_resumed_and_can_be_cancelled() {
    let server = Server::up(&[]);
    let yaml = "name: nightly
tasks:
  flaky: {kind: fail, payload: {verdict: dead, message: broken}}
  last: {kind: noop, after: [flaky]}
on_success: {publish: {kind: noop}}
on_failure: {alarm: {kind: noop}}
";
    let ended = end(server.command(&["run", "-", "--wait", "--json"]), yaml).expect(1);
    let run = ended.json().remove(0);
    let state = |name: &str| run["tasks"][name]["state"].as_str().unwrap().to_owned();
    let states = ["flaky", "last", "publish", "alarm"].map(state);
    assert_eq!(states, ["dead", "cancelled", "cancelled", "done"]);

    let id = run["workflow"].as_str().unwrap();
    let shown = server.run(&["workflow", "show", id]).expect(0);
    assert!(shown.stdout.contains("nightly") && shown.stdout.contains("failed"), "{shown:?}");
    assert!(shown.stdout.contains("broken"), "{shown:?}");
    assert!(shown.stdout.lines().all(|line| line.chars().count() <= 80), "{}", shown.stdout);
    let listed = server.run(&["workflow", "list", "-q"]).expect(0);
    assert_eq!(listed.stdout.trim(), id);

    let again = server.run(&["workflow", "resume", id, "--wait"]).expect(1);
    assert!(again.stdout.contains("2 tasks put back"), "{again:?}");
    let nobody = "0198c0de-0000-7000-8000-00000000ffff";
    server.run(&["workflow", "cancel", nobody]).expect(4);
    let none = server.run(&["workflow", "cancel", id, "--json"]).expect(0).json().remove(0);
    assert_eq!(none["cancelled"], 0);
}
