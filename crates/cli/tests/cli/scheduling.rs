//! Settings of scheduling: the file and its changes, limits, queue weights, reasons and health, from outside.

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::stack::{Folder, Server, until};

/// Clients of these tests must not stumble over the file that the server follows.
fn settings(server: &Server) -> Value {
    let shown = server.run(&["settings", "show", "--json", "--config", "/dev/null"]);
    shown.expect(0).json().remove(0)
}

fn serve_with(yaml: &str) -> Server {
    let folder = Folder::new();
    folder.write("divvy.yaml", yaml);
    Server::start(folder, &["serve"])
}

#[test]
fn a_changed_file_holds_after_a_signal_and_a_bad_one_changes_nothing() {
    let server = serve_with("load_balancing: {strategy: pull}\nlimits: {api: {rate: 10/s}}\n");
    let first = settings(&server);
    assert_eq!(first["settings"]["load_balancing"]["strategy"], "pull");
    assert_eq!(first["settings"]["limits"]["api"]["rate"], "10/s");
    assert_eq!(first["file_sections"], json!(["load_balancing", "limits"]));

    server.folder.write("divvy.yaml", "load_balancing: {strategy: push}\nlimits: {}\n");
    server.process.signal(Signal::SIGHUP);
    let second = until("the new file holds", || {
        Some(settings(&server))
            .filter(|now| now["settings"]["load_balancing"]["strategy"] == "push")
    });
    assert_eq!(second["settings"]["limits"], Value::Null, "the section is exactly the file's");

    server.folder.write("divvy.yaml", "load_balancing:\n  thresholds: {idle_threshold: 90}\n");
    server.process.signal(Signal::SIGHUP);
    let third = until("the fault is told", || {
        Some(settings(&server)).filter(|now| !now["reload_error"].is_null())
    });
    let error = third["reload_error"].as_str().unwrap();
    assert!(error.contains("divvy.yaml:2:") && error.contains("idle_threshold is 90"), "{error}");
    assert_eq!(third["settings"], second["settings"], "the old settings hold");
    let status = server.run(&["status", "--config", "/dev/null"]).expect(1).stdout;
    assert!(status.contains("degraded") && status.contains("idle_threshold is 90"), "{status}");
    let doctor = server.run(&["doctor", "--live", "--config", "/dev/null"]).expect(1).stdout;
    assert!(doctor.contains("FAULT  settings_reload"), "{doctor}");

    // Without a signal: the file is looked at every two seconds.
    server.folder.write("divvy.yaml", "load_balancing: {strategy: none}\n");
    until("the corrected file holds", || {
        let now = settings(&server);
        (now["settings"]["load_balancing"]["strategy"] == "none" && now["reload_error"].is_null())
            .then_some(())
    });
    server.run(&["status"]).expect(0);
    let (_, ended) = server.stop();
    let log = ended.expect(0).stderr;
    assert!(log.contains("settings not reloaded") && log.contains("settings reloaded"), "{log}");
}

#[test]
fn what_the_file_says_cannot_be_changed_elsewhere_and_the_rest_can() {
    let server = serve_with("limits: {api: {concurrency: 1}}\n");
    let refused = server.run(&["limit", "set", "api", "--concurrency", "9"]).expect(5);
    assert!(refused.stderr.contains("limits is set by"), "{}", refused.stderr);
    assert!(refused.stderr.contains("divvy.yaml"), "{}", refused.stderr);
    server.run(&["queue", "set", "reports", "--weight", "3"]).expect(0);
    let shown = server.run(&["settings", "show"]).expect(0).stdout;
    let line = |start: &str| shown.lines().find(|line| line.starts_with(start)).unwrap();
    assert!(line("limits.api.concurrency").ends_with("file"), "{shown}");
    assert!(line("queues.reports.weight").ends_with("API"), "{shown}");
    assert!(line("poison_after").ends_with("default"), "{shown}");
    assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
}

#[test]
fn a_server_does_not_start_with_a_file_that_makes_no_sense() {
    let folder = Folder::new();
    folder.write("divvy.yaml", "queues:\n  mail:\n    weight: 0\n");
    for command in [&["serve", "--listen", "127.0.0.1:0"][..], &["settings", "check", "divvy.yaml"]]
    {
        let stderr = folder.run(command).expect(2).stderr;
        assert!(stderr.contains("divvy.yaml:3:13: queues.mail.weight is 0"), "{stderr}");
    }
    folder.write("good.yaml", "queues: {mail: {weight: 2}}\npoison_after: 5\n");
    let good = folder.run(&["settings", "check", "good.yaml", "--json"]).expect(0).json();
    assert_eq!(good[0]["sections"], json!(["queues", "poison_after"]));
}

#[test]
fn limits_are_set_listed_and_removed() {
    let server = Server::serve(&[]);
    assert!(server.run(&["limit", "list"]).expect(0).stderr.contains("divvy limit set"));
    let args = ["limit", "set", "api", "--rate", "10/s", "--burst", "20", "--concurrency", "4"];
    server.run(&args).expect(0);
    let row = server.run(&["limit", "list", "--json"]).expect(0).json().remove(0);
    assert_eq!(row["limit"], json!({"rate": "10/s", "burst": 20, "concurrency": 4}));
    let table = server.run(&["limit", "list"]).expect(0).stdout;
    assert!(table.lines().nth(1).unwrap().starts_with("api    10/s     20        4"), "{table}");
    assert!(table.lines().all(|line| line.chars().count() <= 80), "{table}");
    server.run(&["limit", "remove", "api"]).expect(0);
    server.run(&["limit", "remove", "api"]).expect(4);
    assert_eq!(server.run(&["limit", "list", "--json"]).expect(0).stdout, "");
    assert!(server.run(&["limit", "set", "api"]).expect(2).stderr.contains("--rate"));
    let wrong = server.run(&["limit", "set", "api", "--rate", "fast"]).expect(2).stderr;
    assert!(wrong.contains("10/s"), "{wrong}");
    let wrong = server.run(&["limit", "set", "api", "--concurrency", "0"]).expect(2).stderr;
    assert!(wrong.contains("limits.api.concurrency is 0"), "{wrong}");
}

#[test]
fn queue_weights_are_merged_shown_and_reset() {
    let server = Server::serve(&[]);
    server.run(&["queue", "set", "mail", "--weight", "3", "--fair-weight", "acme=5"]).expect(0);
    let set = ["queue", "set", "mail", "--fair-by", "time", "--fair-weight", "b=2", "--json"];
    let queue = server.run(&set).expect(0).json().remove(0);
    assert_eq!((&queue["weight"], &queue["fair_by"]), (&json!(3), &json!("time")));
    assert_eq!(queue["fair_weights"], json!({"acme": 5, "b": 2}));
    let shown = server.run(&["queue", "show", "mail"]).expect(0).stdout;
    assert!(shown.contains("fair keys share run time: acme 5, b 2, others 1"), "{shown}");
    assert!(server.run(&["queue", "list"]).expect(0).stdout.contains("WEIGHT"));
    server.run(&["queue", "set", "mail", "--reset"]).expect(0);
    server.run(&["queue", "show", "mail"]).expect(4);
    server.run(&["queue", "set", "mail"]).expect(2);
}

#[test]
fn every_term_of_a_task_can_be_given_and_is_shown() {
    let server = Server::serve(&[]);
    let args = [
        "submit",
        "encode",
        "-q",
        "--needs",
        "gpu>=2,region=eu",
        "--matching",
        "fallback",
        "--deadline",
        "30m",
        "--fair-key",
        "acme",
        "--limit",
        "api",
        "--limit",
        "gpu/acme",
        "--unique",
        "acme:10m",
        "--on-conflict",
        "replace",
        "--affinity",
        "film-7",
        "--cost-hint",
        "4096",
    ];
    let refused = server.run(&args).expect(2).stderr;
    assert!(refused.contains("divvy limit set api"), "a limit must be defined first: {refused}");
    for limit in ["api", "gpu"] {
        server.run(&["limit", "set", limit, "--concurrency", "4"]).expect(0);
    }
    let id = server.run(&args).expect(0).line().to_owned();
    let task = server.task(&id);
    assert_eq!(task["needs"], json!(["gpu>=2", "region=eu"]));
    assert_eq!(task["limits"], json!(["api", "gpu/acme"]));
    assert_eq!(
        task["unique"],
        json!({"key": "acme", "window_ms": 600_000, "on_conflict": "replace"})
    );
    assert_eq!(
        (&task["matching"], &task["fair_key"], &task["affinity"], &task["cost_hint"]),
        (&json!("fallback"), &json!("acme"), &json!("film-7"), &json!(4096))
    );
    let shown = server.run(&["task", "show", &id]).expect(0).stdout;
    for words in ["deadline   in 29m", "limits     api, gpu/acme", "unique     acme (within 10m)"] {
        assert!(shown.contains(words), "{words}:\n{shown}");
    }
    let text = server.run(&["explain", &id]).expect(0).stdout;
    assert!(text.contains("deadline   in 29m, expected to be met"), "{text}");
    for wrong in [["--deadline", "soon"], ["--matching", "luck"], ["--needs", "gpu>2"]] {
        server.run(&["submit", "encode", wrong[0], wrong[1]]).expect(2);
    }
    server.run(&["submit", "encode", "--on-conflict", "skip"]).expect(2);
}

#[test]
fn an_ended_task_is_explained_by_its_attempts() {
    let server = Server::up(&[]);
    let id = server.run(&["submit", "fail", "-q", "--retries", "0"]).expect(0).line().to_owned();
    server.run(&["wait", &id]).expect(1);
    let text = server.run(&["explain", &id]).expect(0).stdout;
    for words in ["is dead", "local-1, which ran it last", "ATTEMPT", "divvy dead replay"] {
        assert!(text.contains(words), "{words}:\n{text}");
    }
    let body = server.run(&["explain", &id, "--json"]).expect(0).json().remove(0);
    assert_eq!((&body["state"], &body["attempts_max"]), (&json!("dead"), &json!(1)));
    assert_eq!(body["history"].as_array().unwrap().len(), 1);
    server.run(&["explain", "00000000-0000-0000-0000-00000000dead"]).expect(4);
}

#[test]
fn worker_status_and_rebalance_say_how_the_load_is_spread() {
    let server = Server::up(&[]);
    server.run(&["submit", "noop", "--wait"]).expect(0);
    let table = server.run(&["worker", "status"]).expect(0).stdout;
    assert!(table.contains("SUCCESS") && table.contains("local-1"), "{table}");
    assert!(table.lines().all(|line| line.chars().count() <= 80), "{table}");
    let one = server.run(&["worker", "status", "local-1", "--json"]).expect(0).json().remove(0);
    assert_eq!((&one["queue_length"], &one["finished"]), (&json!(0), &json!(1)));
    server.run(&["worker", "status", "nobody"]).expect(4);
    let list = server.run(&["worker", "list"]).expect(0).stdout;
    assert!(list.contains("QUEUE") && list.contains("100%"), "{list}");
    assert!(list.lines().all(|line| line.chars().count() <= 80), "{list}");
    let plan = server.run(&["queue", "rebalance", "--dry-run", "--json"]).expect(0).json();
    assert_eq!(plan[0], json!({"dry_run": true, "moves": []}));
    assert!(server.run(&["queue", "rebalance"]).expect(0).stderr.contains("nothing to move"));
}

#[test]
fn the_doctor_says_what_is_wrong_with_a_running_server_and_how_to_cure_it() {
    let server = Server::up(&[]);
    until("the worker is connected", || {
        (!server.run(&["worker", "list", "--json"]).stdout.is_empty()).then_some(())
    });
    let well = server.run(&["doctor", "--live"]).expect(0);
    assert!(well.stdout.contains("ok     clock"), "{}", well.stdout);
    server.run(&["submit", "noop", "--needs", "gpu"]).expect(0);
    let ill = server.run(&["doctor", "--live"]).expect(1).stdout;
    assert!(ill.contains("FAULT  no_capable_worker"), "{ill}");
    assert!(ill.contains("no worker has gpu") && ill.contains("divvy work --caps gpu"), "{ill}");
    let rows = server.run(&["doctor", "--live", "--json"]).expect(1).json();
    let row = rows.iter().find(|row| row["check"] == "no_capable_worker").unwrap();
    assert_eq!(row["grade"], "fault");
    assert!(server.run(&["status"]).expect(1).stdout.contains("no worker has gpu"));
    let folder = Folder::new();
    folder.run(&["doctor", "--live", "--server", "http://127.0.0.1:9"]).expect(3);
}
