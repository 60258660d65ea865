//! Many tasks by filter, dead letters at a rate or with another payload, and unique keys.

use crate::stack::Server;

fn count(server: &Server, state: &str) -> usize {
    server.run(&["task", "list", "--state", state, "--all", "-q"]).expect(0).stdout.lines().count()
}

#[test]
fn a_filter_is_counted_asked_about_and_then_carried_out() {
    let server = Server::serve(&[]);
    server.run(&["submit", "mail.send", "--queue", "mail", "--count", "30"]).expect(0);
    server.run(&["submit", "video", "--count", "5"]).expect(0);
    let dry = server.run(&["task", "cancel", "--queue", "mail", "--dry-run"]).expect(0).stdout;
    assert!(dry.lines().all(|line| line.chars().count() <= 80), "{dry}");
    assert!(dry.contains("30  kind   mail.send") && dry.contains("30  state  ready"), "{dry}");
    assert!(dry.ends_with("30 tasks would be cancelled\n"), "{dry}");
    let asked = server.run(&["task", "cancel", "--kind", "mail.*"]).expect(5);
    assert!(
        asked.stderr.contains("cancel 30 tasks?") && asked.stderr.contains("--yes"),
        "{}",
        asked.stderr
    );
    assert_eq!(count(&server, "ready"), 35, "nothing was done so far");

    let some =
        ["task", "cancel", "--kind", "mail.*", "--limit", "10", "--reason", "flood", "--yes"];
    assert_eq!(server.run(&some).expect(0).stdout, "10 of 10 tasks cancelled\n");
    let all = ["task", "cancel", "--queue", "mail", "--state", "ready,leased", "--yes", "--json"];
    let report = server.run(&all).expect(0).json().remove(0);
    assert_eq!((&report["matched"], &report["done"]), (&20.into(), &20.into()));
    assert_eq!((count(&server, "ready"), count(&server, "cancelled")), (5, 30));

    let usual = server.run(&["task", "retry", "--queue", "mail", "--yes"]).expect(0);
    assert_eq!(usual.stdout, "0 of 0 tasks retried\n", "only dead ones, unless it is said");
    let back = ["task", "retry", "--queue", "mail", "--state", "cancelled", "--yes"];
    assert_eq!(server.run(&back).expect(0).stdout, "30 of 30 tasks retried\n");
    let old = ["task", "cancel", "--older-than", "1h", "--yes"];
    assert_eq!(server.run(&old).expect(0).stdout, "0 of 0 tasks cancelled\n");
    server.run(&["task", "cancel"]).expect(2);
    server.run(&["task", "cancel", "0198c0de", "--kind", "x"]).expect(2);
    let wrong = server.run(&["task", "retry", "--state", "leased", "--yes"]).expect(2);
    assert!(wrong.stderr.contains("dead, cancelled, scheduled"), "{}", wrong.stderr);
}

#[test]
fn a_dead_letter_gets_another_payload_and_many_go_one_after_another() {
    let server = Server::up(&[]);
    let kill = ["submit", "fail", "-a", "verdict=dead", "-a", "message=code 7", "-q", "--wait"];
    let id = server.run(&kill).expect(1).line().to_owned();
    let mut many = kill.to_vec();
    many.extend(["--count", "3"]);
    server.run(&many).expect(1);

    let payload = r#"{"verdict": "dead", "message": "another"}"#;
    let replay = ["dead", "replay", &id, "--payload", payload, "--yes"];
    assert!(server.run(&replay).expect(0).stdout.starts_with("1 of 1 dead letter replayed"));
    server.run(&["wait", &id]).expect(1);
    let task = server.task(&id);
    assert_eq!(task["payload"]["message"], "another");
    assert_eq!(task["history"].as_array().unwrap().len(), 2);
    server.run(&["dead", "replay", "--all", "--payload", "1", "--yes"]).expect(2);
    server.run(&["dead", "replay", &id, "--payload", "{", "--yes"]).expect(2);

    let group = ["dead", "replay", "--error", "code #", "--class", "failed", "--rate", "1/h"];
    let mut dry = group.to_vec();
    dry.push("--dry-run");
    let told = server.run(&dry).expect(0).stdout;
    assert!(told.starts_with("3 dead letters would be replayed, the last one in 1"), "{told}");
    let mut real = group.to_vec();
    real.push("--yes");
    server.run(&real).expect(0);
    assert_eq!(count(&server, "scheduled"), 2, "the first went at once");
    server.run(&["dead", "replay", "--all", "--rate", "fast"]).expect(2);
}

#[test]
fn tags_are_shown_and_find_tasks() {
    let server = Server::serve(&[]);
    let id = server.run(&["submit", "report", "--tag", "nightly", "--tag", "acme"]).expect(0);
    let id = id.line().to_owned();
    server.run(&["submit", "report", "--tag", "acme"]).expect(0);
    let shown = server.run(&["task", "show", &id]).expect(0).stdout;
    assert!(shown.contains("tags       nightly, acme"), "{shown}");
    let listed = server.run(&["task", "list", "--tag", "nightly", "-q"]).expect(0);
    assert_eq!(listed.line(), id);
    let cancel = ["task", "cancel", "--tag", "acme", "--yes"];
    assert!(server.run(&cancel).expect(0).stdout.starts_with("2 of 2 tasks"));
}

#[test]
fn a_second_task_with_a_unique_key_is_skipped_or_refused() {
    let server = Server::serve(&[]);
    let submit = ["submit", "report", "--unique", "daily"];
    let first = server.run(&submit).expect(0).line().to_owned();
    let second = server.run(&submit).expect(0);
    assert_eq!(second.line(), first, "the one that has the key stands for it");
    assert!(second.stderr.contains(&format!("skipped: {first} has its unique key")), "{second:?}");
    let json: Vec<&str> = submit.iter().copied().chain(["--json"]).collect();
    let reply = server.run(&json).expect(0).json().remove(0);
    assert_eq!(reply["conflicts"][0]["first"], first.as_str());
    let refuse: Vec<&str> = submit.iter().copied().chain(["--on-conflict", "refuse"]).collect();
    let refused = server.run(&refuse).expect(5);
    assert!(refused.stderr.contains("`daily`") && refused.stderr.contains(&first), "{refused:?}");
    let replace: Vec<&str> = submit.iter().copied().chain(["--on-conflict", "replace"]).collect();
    assert_ne!(server.run(&replace).expect(0).line(), first);
    assert_eq!(server.task(&first)["state"], "cancelled");

    // While it is open, or within a window: only the second outlives the task.
    for (key, outlives) in [("hourly", false), ("hourly-2:1h", true)] {
        let submit = ["submit", "report", "--unique", key];
        let first = server.run(&submit).expect(0).line().to_owned();
        server.run(&["task", "cancel", &first]).expect(0);
        let second = server.run(&submit).expect(0).line().to_owned();
        assert_eq!(second == first, outlives, "{key}");
    }
}
