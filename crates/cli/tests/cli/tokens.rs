//! Tokens with scopes, from the first one in a data folder to the end of one.

use crate::stack::{Folder, Server, end};

#[test]
fn tokens_open_what_their_scopes_say_until_they_are_revoked() {
    let folder = Folder::new();
    let offline = ["--data", "divvy-data"];
    let create = |args: &[&str]| folder.run(&[&["token", "create"], args].concat());
    let ops = create(&[&["ops", "--scope", "admin"], &offline[..]].concat()).expect(0);
    assert!(ops.stderr.contains("not told again"), "{ops:?}");
    let ops = ops.line().to_owned();
    create(&["x", "--scope", "root"]).expect(2);
    let server = Server::start(folder, &["up", "--workers", "1"]);

    let stranger = server.run(&["status"]).expect(5);
    assert!(stranger.stderr.contains("a token is needed"), "{stranger:?}");
    let doctor = server.run(&["doctor"]).expect(1);
    let line = doctor.stdout.lines().find(|line| line.contains(" server "));
    let line = line.unwrap_or_default();
    assert!(line.starts_with("FAULT") && line.contains("DIVVY_TOKEN"), "{doctor:?}");
    let busy = server.run(&["token", "create", "y", "--scope", "read", "--data", "divvy-data"]);
    assert!(busy.expect(5).stderr.contains("leave out --data"));

    let run = |token: &str, args: &[&str]| {
        let mut command = server.command(args);
        command.env("DIVVY_TOKEN", token);
        end(command, "")
    };
    let make = |name: &str, scopes: &str| {
        let args = ["token", "create", name, "--scope", scopes, "--expires", "1h"];
        run(&ops, &args).expect(0).line().to_owned()
    };
    let ci = make("ci", "submit,read");
    run(&ci, &["submit", "noop", "--wait"]).expect(0);
    let refused = run(&ci, &["queue", "pause", "q"]).expect(5);
    assert!(refused.stderr.contains("`admin`"), "{refused:?}");
    let worker = run(&ci, &["work", "--no-video"]).expect(5);
    assert!(worker.stderr.contains("give this worker a token with the scope `work`"), "{worker:?}");

    let listed = run(&ops, &["token", "list"]).expect(0);
    assert!(listed.stdout.contains("ci") && listed.stdout.contains("read,submit"), "{listed:?}");
    assert!(!listed.stdout.contains(&ci) && !listed.stdout.contains("local"), "{listed:?}");
    run(&ops, &["token", "revoke", "ci"]).expect(0);
    run(&ops, &["token", "revoke", "ci"]).expect(4);
    run(&ci, &["task", "list"]).expect(5);
    run(&ops, &["token", "revoke", "ops"]).expect(0);
}
