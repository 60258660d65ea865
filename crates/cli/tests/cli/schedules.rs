//! Schedules from the command line.

use crate::stack::{Folder, Server, until};

#[test]
fn a_schedule_is_set_shown_paused_triggered_and_removed() {
    let server = Server::up(&[]);
    let set = [
        "schedule",
        "set",
        "nightly",
        "--cron",
        "0 3 * * *",
        "--zone",
        "europe/berlin",
        "--kind",
        "noop",
        "--payload",
        r#"{"days": 1}"#,
        "--catch-up",
        "last",
        "--overlap",
        "skip",
        "--timeout",
        "10m",
        "--jitter",
        "30s",
    ];
    let told = server.run(&set).expect(0).stdout;
    assert!(told.contains("at 03:00 every day, Europe/Berlin time; next in "), "{told}");
    let view = server.run(&["schedule", "show", "nightly", "--json"]).expect(0).json().remove(0);
    assert_eq!(view["schedule"]["catch_up"], "last");
    assert_eq!(view["schedule"]["task"]["payload"]["days"], 1);
    assert_eq!(view["schedule"]["task"]["timeout_ms"], 600_000);
    assert_eq!(view["next"].as_array().unwrap().len(), 5);

    let text = server.run(&["schedule", "show", "nightly"]).expect(0).stdout;
    let ticks: Vec<&str> = text.lines().filter(|line| line.contains(" 03:00:00 CE")).collect();
    assert_eq!(ticks.len(), 5, "{text}");
    assert!(ticks.iter().all(|line| line.contains("T0") && line.contains(":00:00Z")), "{text}");
    let table = server.run(&["schedule", "list"]).expect(0).stdout;
    assert!(table.contains("nightly") && table.contains("0 3 * * *"), "{table}");
    for line in text.lines().chain(table.lines()) {
        assert!(line.chars().count() <= 80, "{line}");
    }

    server.run(&["schedule", "pause", "nightly"]).expect(0);
    assert!(server.run(&["schedule", "list"]).expect(0).stdout.contains("paused"));
    let resumed = server.run(&["schedule", "resume", "nightly"]).expect(0).stdout;
    assert!(resumed.contains("next in"), "{resumed}");
    let task = server.run(&["schedule", "trigger", "nightly", "-q"]).expect(0).line().to_owned();
    server.run(&["wait", &task]).expect(0);
    assert_eq!(server.task(&task)["payload"]["days"], 1);
    server.run(&["schedule", "remove", "nightly"]).expect(0);
    assert_eq!(server.run(&["schedule", "list", "-q"]).expect(0).stdout, "");
    for verb in ["show", "pause", "resume", "remove", "trigger"] {
        let error = server.run(&["schedule", verb, "nightly", "--json"]).expect(4).json_error();
        assert_eq!(error["code"], "no_such_schedule");
    }
}

#[test]
fn a_tick_comes_by_itself() {
    let server = Server::up(&[]);
    server.run(&["schedule", "set", "beat", "--every", "1s", "--kind", "noop"]).expect(0);
    let task = until("a tick has come", || {
        let list = server.run(&["task", "list", "--state", "done", "--json"]).expect(0).json();
        list.into_iter().next()
    });
    server.run(&["schedule", "remove", "beat"]).expect(0);
    let task = server.task(task["id"].as_str().unwrap());
    let tick = task["run_at"].as_str().unwrap();
    assert!(tick.ends_with(".000000Z"), "the task knows its tick: {tick}");
}

#[test]
fn what_makes_no_sense_is_2_and_names_the_field() {
    let server = Server::serve(&[]);
    let set = |more: &[&'static str]| {
        let mut args = vec!["schedule", "set", "x", "--kind", "noop"];
        args.extend(more);
        args
    };
    for (args, words) in [
        (set(&["--cron", "61 3 * * *"]), "cron minutes `61`: expected 0 to 59"),
        (set(&["--cron", "0 0 30 2 *"]), "never comes"),
        (set(&["--cron", "@daily", "--zone", "Berlin"]), "such as Europe/Berlin"),
        (set(&["--every", "10"]), "90s, 15m, 1h30m"),
        (set(&["--every", "1m", "--jitter", "2m"]), "only 60000 ms apart"),
        (set(&["--cron", "@daily", "--every", "1m"]), "cannot be used with"),
        (set(&[]), "--cron"),
        (set(&["--cron", "@daily", "--catch-up", "some"]), "skip, last, all"),
        (set(&["--cron", "@daily", "--payload", "{"]), "is not valid JSON"),
        (vec!["schedule", "preview", "0 25 * * *"], "hours `25`: expected 0 to 23"),
        (vec!["schedule", "preview", "@daily", "--zone", "Mars"], "is not a time zone"),
    ] {
        let ended = server.run(&args).expect(2);
        assert!(ended.stderr.contains(words), "{args:?}: {}", ended.stderr);
    }
    let error = server.run(&["schedule", "set", "x", "--kind", "a", "--cron", "x", "--json"]);
    assert_eq!(error.expect(2).json_error()["field"], "cron");
    assert_eq!(server.run(&["schedule", "list", "-q"]).expect(0).stdout, "");
}

#[test]
fn an_expression_can_be_tried_without_a_server() {
    let folder = Folder::new();
    let args = [
        "schedule",
        "preview",
        "30 2 * * *",
        "--zone",
        "Europe/Berlin",
        "--count",
        "2",
        "--from",
        "2026-03-28T12:00:00Z",
    ];
    let shown = folder.run(&args).expect(0);
    assert!(shown.stderr.contains("at 02:30 every day"), "{}", shown.stderr);
    assert!(shown.stdout.contains("Sun 2026-03-29 03:00:00 CEST"), "{}", shown.stdout);
    assert!(shown.stdout.contains("2026-03-30T00:30:00Z"), "{}", shown.stdout);
    let json: Vec<&str> = args.iter().copied().chain(["--json"]).collect();
    let ticks = folder.run(&json).expect(0).json();
    assert_eq!(ticks[0]["local"], "2026-03-29T03:00:00+02:00");
    let quiet: Vec<&str> = args.iter().copied().chain(["-q"]).collect();
    assert_eq!(folder.run(&quiet).expect(0).stdout.lines().next(), Some("2026-03-29T01:00:00Z"));
}
