//! Workers in other languages: programs that a worker may run.

use std::os::unix::fs::PermissionsExt;

use crate::stack::{Folder, Server};

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
