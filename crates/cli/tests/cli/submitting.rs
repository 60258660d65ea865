//! `submit` and `wait` against a server with a worker.

use std::io::{BufRead, BufReader};

use crate::stack::{Guarded, Server, end};

#[test]
fn a_task_runs_and_its_result_is_the_data() {
    let server = Server::up(&[]);
    let ended = server.run(&["submit", "sleep", "--arg", "ms:=5", "--wait"]).expect(0);
    assert_eq!(ended.stdout.lines().count(), 1, "{}", ended.stdout);
    let task = server.run(&["submit", "noop", "--wait", "--json"]).expect(0).json().remove(0);
    assert_eq!(
        (&task["state"], &task["kind"], &task["attempts"]),
        (&"done".into(), &"noop".into(), &1.into())
    );
    let id = server.run(&["submit", "noop", "--wait", "--quiet"]).expect(0);
    assert_eq!(server.task(id.line())["state"], "done");
}

#[test]
fn every_option_reaches_the_spec() {
    let server = Server::serve(&[]);
    let first = server.run(&["submit", "a", "-q"]).expect(0).line().to_owned();
    let second = server.run(&["submit", "a", "-q"]).expect(0).line().to_owned();
    let line = format!(
        "submit b -q -a n:=1 -a s=x --queue mail --priority 5 --after {first} --optional-after {} \
         --timeout 10m --retries 2 --needs gpu,disk",
        &second[..33]
    );
    let args: Vec<&str> = line.split_whitespace().collect();
    let id = server.run(&args).expect(0).line().to_owned();
    let task = server.task(&id);
    assert_eq!(task["payload"], serde_json::json!({ "n": 1, "s": "x" }));
    assert_eq!(
        (&task["queue"], &task["priority"], &task["timeout_ms"]),
        (&"mail".into(), &5.into(), &600_000.into())
    );
    assert_eq!(
        (&task["retry"]["limit"], &task["needs"]),
        (&2.into(), &serde_json::json!(["gpu", "disk"]))
    );
    let after = serde_json::json!([{ "task": first }, { "task": second, "optional": true }]);
    assert_eq!((&task["after"], &task["state"]), (&after, &"blocked".into()));
    let later =
        server.run(&["submit", "c", "--in", "1h", "--json"]).expect(0).json()[0]["ids"][0].clone();
    assert_eq!(server.task(later.as_str().unwrap())["state"], "scheduled");
}

#[test]
fn a_payload_comes_from_the_line_a_file_or_standard_input() {
    let server = Server::serve(&[]);
    server.folder.write("p.json", "{\"from\": \"file\"}");
    let line = server.run(&["submit", "a", "-q", "--payload", "[1]"]).expect(0);
    let file = server.run(&["submit", "a", "-q", "--payload", "@p.json"]).expect(0);
    let input =
        end(server.command(&["submit", "a", "-q", "--payload", "-"]), "{\"from\": \"stdin\"}")
            .expect(0);
    assert_eq!(server.task(line.line())["payload"], serde_json::json!([1]));
    assert_eq!(server.task(file.line())["payload"]["from"], "file");
    assert_eq!(server.task(input.line())["payload"]["from"], "stdin");
}

#[test]
fn the_same_key_is_the_same_task() {
    let server = Server::serve(&[]);
    let first =
        server.run(&["submit", "mail", "--key", "welcome-1", "--json"]).expect(0).json().remove(0);
    let again =
        server.run(&["submit", "mail", "--key", "welcome-1", "--json"]).expect(0).json().remove(0);
    assert_eq!(
        (&first["accepted"], &again["accepted"], &again["known"]),
        (&1.into(), &0.into(), &1.into())
    );
    assert_eq!(first["ids"], again["ids"]);
    let other = server
        .run(&["submit", "mail", "--key", "welcome-1", "-a", "x=1", "--json"])
        .expect(5)
        .json_error();
    assert_eq!(other["code"], "id_taken");
}

#[test]
fn a_file_of_lines_is_submitted_once_however_often_it_is_sent() {
    let server = Server::serve(&[]);
    server.folder.write("mails.jsonl", "{\"to\": \"a\"}\n\n{\"to\": \"b\"}\n");
    let send = || {
        let args = ["submit", "mail", "--from", "mails.jsonl", "--key-field", "to", "--json"];
        server.run(&args).expect(0).json().remove(0)
    };
    let (first, again) = (send(), send());
    assert_eq!((&first["accepted"], &again["known"]), (&2.into(), &2.into()));
    assert_eq!(first["ids"], again["ids"]);
    server.folder.write("tasks.jsonl", "{\"kind\": \"mail\"}\n{\"kind\": \"mail\", \"prio\": 1}\n");
    let wrong = server.run(&["submit", "--whole", "--from", "tasks.jsonl"]).expect(2).stderr;
    assert!(wrong.contains("tasks.jsonl:2: unknown field `prio`"), "{wrong}");
}

#[test]
fn many_are_waited_for_and_a_failed_one_makes_it_fail() {
    let server = Server::up(&[]);
    server.run(&["submit", "noop", "--count", "300", "--wait"]).expect(0);
    let good = server.run(&["submit", "noop", "-q"]).expect(0).line().to_owned();
    let bad =
        server.run(&["submit", "fail", "-a", "verdict=dead", "-q"]).expect(0).line().to_owned();
    server.run(&["wait", &good]).expect(0);
    let ended = server.run(&["wait", &good, &bad]).expect(1);
    assert!(ended.stdout.contains("done") && ended.stdout.contains("dead"), "{}", ended.stdout);
}

#[test]
fn a_wait_for_something_that_cannot_begin_says_why() {
    let server = Server::serve(&[]);
    let mut child = Guarded(server.command(&["submit", "noop", "--wait"]).spawn().unwrap());
    let mut said = BufReader::new(child.0.stderr.take().unwrap()).lines();
    assert!(said.any(|line| line.unwrap().contains("nothing runs yet: no worker is connected")));
    assert!(child.0.try_wait().unwrap().is_none(), "it waits on");
}

#[test]
fn a_deadline_that_cannot_be_met_is_a_warning_or_a_refusal() {
    let server = Server::serve(&[]);
    let past = ["--deadline", "2020-01-01T00:00:00Z"];
    let warned = server.run(&[&["submit", "report"], &past[..]].concat()).expect(0);
    let id = warned.line().to_owned();
    let line = warned.stderr.lines().next().unwrap();
    assert!(line.starts_with(&format!("warning: {id} is expected ")), "{line}");
    assert!(line.ends_with("d after its deadline"), "{line}");
    let json = server.run(&[&["submit", "report", "--json"], &past[..]].concat()).expect(0);
    assert_eq!((&json.json()[0]["late_total"], json.stderr.as_str()), (&1.into(), ""));

    let strict = server.run(&[&["submit", "report", "--strict", "--key", "k"], &past[..]].concat());
    let strict = strict.expect(5);
    assert!(strict.stderr.contains("due at 2020-01-01"), "{}", strict.stderr);
    let strict =
        server.run(&[&["submit", "a", "--strict", "--json"], &past[..]].concat()).expect(5);
    assert_eq!(strict.json_error()["code"], "deadline_unmeetable");
    server.run(&["submit", "report", "--strict", "--key", "k", "--deadline", "1h"]).expect(0);
    server.run(&["submit", "report", "--strict"]).expect(2);
    let many = ["submit", "a", "--deadline", "1h", "--strict", "--count", "10001"];
    let many = server.run(&many).expect(2);
    assert!(many.stderr.contains("at most 10000 tasks at once"), "{}", many.stderr);
}
