//! Dead letters: seen in groups, replayed and dropped only when someone says so.

use crate::stack::Server;

fn kill_some(server: &Server) {
    for (message, count) in [("disk 1 is full", "3"), ("no route", "2")] {
        let text = format!("message={message}");
        let args =
            ["submit", "fail", "-a", "verdict=dead", "-a", &text, "--count", count, "--wait", "-q"];
        server.run(&args).expect(1);
    }
}

#[test]
fn they_are_grouped_and_replayed_by_selection() {
    let server = Server::up(&[]);
    kill_some(&server);
    let groups = server.run(&["dead", "list", "--json"]).expect(0).json();
    assert_eq!(
        groups.iter().map(|group| group["count"].as_u64().unwrap()).sum::<u64>(),
        5,
        "{groups:?}"
    );
    assert!(server.run(&["dead", "list"]).expect(0).stdout.contains("no route"));
    let dry = server.run(&["dead", "replay", "--error", "no route", "--dry-run"]).expect(0).stdout;
    assert!(dry.starts_with("2 dead letters would be replayed"), "{dry}");
    let asked = server.run(&["dead", "replay", "--kind", "fail"]).expect(5);
    assert!(
        asked.stderr.contains("5 dead letters") && asked.stderr.contains("--yes"),
        "{}",
        asked.stderr
    );
    let ids: Vec<String> = server
        .run(&["task", "list", "--state", "dead", "-q"])
        .expect(0)
        .stdout
        .lines()
        .map(String::from)
        .collect();
    assert_eq!(ids.len(), 5);
    let before = server.task(&ids[0])["history"].as_array().unwrap().len();
    let replayed = server
        .run(&["dead", "replay", "--kind", "fail", "--yes", "--json"])
        .expect(0)
        .json()
        .remove(0);
    assert_eq!((&replayed["matched"], &replayed["done"]), (&5.into(), &5.into()));
    // They fail again, each with one attempt more in its history.
    let wait: Vec<&str> = ["wait"].into_iter().chain(ids.iter().map(String::as_str)).collect();
    server.run(&wait).expect(1);
    assert!(server.task(&ids[0])["history"].as_array().unwrap().len() > before);
}

#[test]
fn dropped_ones_are_cancelled_and_gone_from_the_list() {
    let server = Server::up(&[]);
    kill_some(&server);
    let id = server
        .run(&["task", "list", "--state", "dead", "--limit", "1", "-q"])
        .expect(0)
        .line()
        .to_owned();
    assert!(
        server
            .run(&["dead", "drop", &id, "--yes"])
            .expect(0)
            .stdout
            .starts_with("1 of 1 dead letter dropped")
    );
    assert_eq!(server.task(&id)["state"], "cancelled");
    assert!(server.run(&["dead", "drop", "--all", "--yes"]).expect(0).stdout.starts_with("4 of 4"));
    assert!(server.run(&["dead", "list"]).expect(0).stderr.contains("no dead letters"));
    server.run(&["dead", "drop", "--all", "--kind", "fail"]).expect(2);
}
