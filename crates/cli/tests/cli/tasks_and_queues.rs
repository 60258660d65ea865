//! Lists, details, queues, workers, explanations.

use std::collections::HashSet;

use crate::stack::{Server, until};

#[test]
fn pages_follow_each_other_without_gaps_or_repeats() {
    let server = Server::serve(&[]);
    server.run(&["submit", "noop", "--count", "25"]).expect(0);
    let mut seen = HashSet::new();
    let mut after: Option<String> = None;
    loop {
        let mut args = vec!["task", "list", "--limit", "10"];
        args.extend(after.iter().flat_map(|cursor| ["--after", cursor.as_str()]));
        let page = server.run(&args).expect(0);
        let quiet: Vec<&str> = args.iter().copied().chain(["-q"]).collect();
        for id in server.run(&quiet).expect(0).stdout.lines() {
            assert!(seen.insert(id.to_owned()), "{id} is on two pages");
        }
        let next = page
            .stderr
            .split("--after ")
            .nth(1)
            .map(|rest| rest.split(',').next().unwrap().to_owned());
        match next {
            Some(cursor) => after = Some(cursor),
            None => break,
        }
    }
    assert_eq!(seen.len(), 25);
    assert_eq!(server.run(&["task", "list", "--all", "--json"]).expect(0).json().len(), 25);
    assert_eq!(server.run(&["task", "list", "--state", "dead", "--json"]).expect(0).stdout, "");
}

#[test]
fn a_table_fits_80_columns_and_its_short_ids_work() {
    let server = Server::serve(&[]);
    let kind = "a.rather.long.kind.of.task.that.does.not.fit.into.the.column.of.a.narrow.table";
    server.run(&["submit", kind, "--count", "20"]).expect(0);
    let table = server.run(&["task", "list"]).expect(0).stdout;
    assert!(table.lines().all(|line| line.chars().count() <= 80), "{table}");
    let ids: Vec<&str> =
        table.lines().skip(1).map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(ids.iter().collect::<HashSet<_>>().len(), 20, "{table}");
    for id in ids.iter().take(3) {
        assert_eq!(server.task(id)["kind"], kind);
    }
    assert!(!table.contains('\x1b'));
    assert!(server.run(&["task", "list", "--color", "always"]).expect(0).stdout.contains("\x1b["));
}

#[test]
fn what_runs_is_told_from_what_is_queued_at_a_worker() {
    let server = Server::up(&["--slots", "async=1", "--prefetch", "2"]);
    server.run(&["submit", "sleep", "--arg", "ms:=600000", "--count", "4"]).expect(0);
    let row = |table: &str, number: usize| -> Vec<String> {
        let line = table.lines().nth(number).unwrap_or_default();
        line.split_whitespace().map(ToOwned::to_owned).collect()
    };
    let queues = until("three are at the worker", || {
        let table = server.run(&["queue", "list"]).expect(0).stdout;
        let cells = row(&table, 1);
        (cells.get(3..6) == Some(&["1", "1", "2"].map(String::from)[..])).then_some(table)
    });
    assert_eq!(row(&queues, 0)[3..6], ["READY", "RUNNING", "QUEUED"]);
    let status = server.run(&["status"]).expect(0).stdout;
    assert!(status.contains("running 1   queued at workers 2   ready 1 "), "{status}");
    let stats = &server.run(&["status", "--json"]).expect(0).json()[0]["stats"]["engine"];
    assert_eq!((&stats["leased"], &stats["queued"]), (&3.into(), &2.into()));
    let states = server.run(&["task", "list"]).expect(0).stdout;
    let count = |word| states.lines().filter(|line| line.contains(word)).count();
    assert_eq!((count(" running "), count(" queued ")), (1, 2), "{states}");
    let workers = server.run(&["worker", "list"]).expect(0).stdout;
    assert_eq!(row(&workers, 1)[2..4], ["1", "2"], "{workers}");
}

#[test]
fn names_on_the_command_line_do_not_change_what_is_asked_for() {
    let server = Server::serve(&[]);
    let id = server.run(&["submit", "noop", "-q"]).expect(0).line().to_owned();
    for line in [
        &["task", "cancel", ".."][..],
        &["task", "show", "."],
        &["task", "show", ""],
        &["queue", "show", ".."],
        &["limit", "remove", ".."],
        &["schedule", "remove", "."],
    ] {
        let refused = server.run(line).expect(2);
        assert!(refused.stderr.contains("cannot be a name or an id"), "{}", refused.stderr);
    }
    server.run(&["queue", "show", "../tasks"]).expect(4);
    let named = server.run(&["submit", "a\u{2028}b"]).expect(2);
    assert!(named.stderr.contains("invisible character U+2028"), "{}", named.stderr);
    for payload in ["1e400", r#""\ud800""#] {
        let refused = server.run(&["submit", "noop", "--payload", payload]).expect(2);
        assert!(refused.stderr.contains("not every reader can take"), "{}", refused.stderr);
    }
    assert_eq!(server.task(&id)["state"], "ready");
}

#[test]
fn cancel_and_retry_move_a_task() {
    let server = Server::serve(&[]);
    let id = server.run(&["submit", "noop", "-q"]).expect(0).line().to_owned();
    assert!(
        server
            .run(&["task", "cancel", &id, "--reason", "not needed"])
            .expect(0)
            .stdout
            .contains("cancelled")
    );
    assert_eq!(server.task(&id)["error"]["message"], "not needed");
    assert!(server.run(&["explain", &id]).expect(0).stdout.contains("divvy task retry"));
    assert!(server.run(&["task", "retry", &id]).expect(0).stdout.contains("ready"));
    assert_eq!(server.task(&id)["state"], "ready");
    assert!(server.run(&["task", "show", &id]).expect(0).stdout.contains("payload"));
}

#[test]
fn a_kind_that_nobody_serves_is_explained() {
    let server = Server::up(&[]);
    until("the worker is connected", || {
        (!server.run(&["worker", "list", "--json"]).stdout.is_empty()).then_some(())
    });
    let id = server.run(&["submit", "no.such.kind", "-q"]).expect(0).line().to_owned();
    let text = server.run(&["explain", &id]).expect(0).stdout;
    assert!(
        text.contains("serves kind `no.such.kind`") && text.contains("--exec no.such.kind="),
        "{text}"
    );
    assert_eq!(
        server.run(&["explain", &id, "--json"]).expect(0).json()[0]["wait"]["reason"],
        "no_worker"
    );
    let parent = id;
    let child =
        server.run(&["submit", "noop", "--after", &parent, "-q"]).expect(0).line().to_owned();
    let text = server.run(&["explain", &child]).expect(0).stdout;
    assert!(
        text.contains("blocked") && text.contains(&format!("after no.such.kind {parent} (ready)")),
        "{text}"
    );
    let needy = server.run(&["submit", "noop", "--needs", "gpu", "-q"]).expect(0).line().to_owned();
    let text = server.run(&["explain", &needy]).expect(0).stdout;
    assert!(text.contains("divvy work --caps gpu"), "{text}");
}

#[test]
fn a_paused_queue_holds_its_tasks_until_it_is_resumed() {
    let server = Server::up(&[]);
    server.run(&["queue", "pause", "mail"]).expect(0);
    let id = server.run(&["submit", "noop", "--queue", "mail", "-q"]).expect(0).line().to_owned();
    assert!(server.run(&["explain", &id]).expect(0).stdout.contains("queue `mail` is paused"));
    let queue = server.run(&["queue", "show", "mail", "--json"]).expect(0).json().remove(0);
    assert_eq!((&queue["paused"], &queue["ready"]), (&true.into(), &1.into()));
    assert!(server.run(&["queue", "list"]).expect(0).stdout.contains("paused"));
    server.run(&["queue", "resume", "mail"]).expect(0);
    server.run(&["wait", &id]).expect(0);
}

#[test]
fn status_is_0_when_healthy_and_1_when_nobody_works() {
    let server = Server::serve(&[]);
    assert!(server.run(&["status"]).expect(0).stdout.starts_with("healthy"));
    server.run(&["submit", "noop"]).expect(0);
    let ended = server.run(&["status"]).expect(1);
    assert!(
        ended.stdout.starts_with("degraded") && ended.stdout.contains("divvy work"),
        "{}",
        ended.stdout
    );
    assert_eq!(server.run(&["status", "--json"]).expect(1).json()[0]["status"], "degraded");
}

#[test]
fn kinds_are_listed_with_who_runs_them_and_what_the_built_in_ones_do() {
    let server = Server::up(&["--exec", "resize=/bin/true"]);
    server.run(&["submit", "resize", "--wait"]).expect(0);
    server.run(&["submit", "unknown"]).expect(0);
    let kinds = server.run(&["kind", "list", "--json"]).expect(0).json();
    let kind = |name: &str| kinds.iter().find(|kind| kind["name"] == name).unwrap().clone();
    let resize = kind("resize");
    assert_eq!((&resize["workers"], &resize["waiting"]), (&1.into(), &0.into()), "{resize}");
    assert!(resize["slots"].as_u64() > Some(0) && resize["run_mean_ms"].is_u64(), "{resize}");
    let unknown = kind("unknown");
    assert_eq!((&unknown["workers"], &unknown["waiting"]), (&0.into(), &1.into()), "{unknown}");
    let text = server.run(&["kinds", "ls"]).expect(0).stdout;
    for line in ["sleep ", "waits: ms", "exec ", "unknown "] {
        assert!(text.contains(line), "{text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn workers_are_listed_shown_and_drained() {
    let server = Server::up(&[]);
    server.run(&["submit", "noop", "--wait"]).expect(0);
    let worker = server.run(&["worker", "list", "--json"]).expect(0).json().remove(0);
    assert_eq!(worker["name"], "local-1");
    let text = server.run(&["worker", "show", "local-1"]).expect(0).stdout;
    assert!(text.contains("kinds") && text.contains("noop"), "{text}");
    assert!(server.run(&["worker", "list"]).expect(0).stdout.contains("local-1"));
    server.run(&["worker", "drain", "local-1"]).expect(0);
    until("the worker is gone", || {
        server.run(&["worker", "list", "-q"]).stdout.is_empty().then_some(())
    });
}
