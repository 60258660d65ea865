//! Each exit code, and what stands beside it.

use std::net::TcpListener;

use nix::sys::signal::Signal;

use crate::stack::{Folder, Guarded, Server, end, finish, until};

#[test]
fn no_server_is_3_with_the_cure() {
    let folder = Folder::new();
    // A port that was free a moment ago and on which nobody listens.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = format!("http://127.0.0.1:{port}");
    for args in [
        &["status"][..],
        &["task", "list"],
        &["submit", "noop"],
        &["wait", "0198c0de"],
        &["logs", "0198"],
    ] {
        let args: Vec<&str> = args.iter().copied().chain(["--server", &url]).collect();
        let ended = folder.run(&args).expect(3);
        assert!(
            ended.stderr.contains("divvy up") && ended.stdout.is_empty(),
            "{args:?}: {}",
            ended.stderr
        );
    }
    let error = folder.run(&["status", "--json", "--server", &url]).expect(3).json_error();
    assert_eq!(error["code"], "unreachable");
    assert!(error["cure"].as_str().unwrap().contains("divvy up"));
}

#[test]
fn what_makes_no_sense_is_2_and_names_it() {
    let server = Server::serve(&[]);
    for (args, words) in [
        (&["submit", "noop", "--arg", "x"][..], "expected k=text or k:=json"),
        (&["submit", "noop", "--payload", "{"], "is not valid JSON"),
        (&["submit", "noop", "--in", "5"], "span of time"),
        (&["submit", "noop", "--at", "tomorrow"], "RFC 3339"),
        (&["submit", "noop", "--priority", "9"], "1..=5"),
        (&["submit", ""], "kind is empty"),
        (&["task", "list", "--state", "runing"], "similar value exists: 'running'"),
        (&["task", "list", "--after", "nonsense"], "cursor"),
        (&["dead", "replay"], "which tasks"),
        (&["up", "--once"], "--sample"),
        (&["work", "--slots", "cup=1"], "did you mean `cpu`"),
        (&["work", "--prefetch", "all"], "`all` is not a number of tasks"),
        (&["work", "--exec", "x=./no-such-program"], "no-such-program"),
        (&["serve", "--lease", "1ms"], "--lease"),
        (&["status", "--server", "ftp://localhost:7171"], "http://"),
    ] {
        let ended = server.run(args).expect(2);
        assert!(ended.stderr.contains(words), "{args:?}: {}", ended.stderr);
    }
}

#[test]
fn what_is_not_there_is_4() {
    let server = Server::serve(&[]);
    for args in [
        &["task", "show", "0198c0de-7a3b-7cc1-9e55-3f2a1b0c9d8e"][..],
        &["explain", "0198c0de"],
        &["wait", "0198c0de-7a3b-7cc1-9e55-3f2a1b0c9d8e"],
        &["queue", "show", "nowhere"],
        &["worker", "drain", "nobody"],
        &["run", "missing.yaml"],
        &["store", "check", "--data", "missing"],
        &["status", "--config", "missing.yaml"],
    ] {
        server.run(args).expect(4);
    }
}

#[test]
fn what_is_refused_is_5() {
    let server = Server::serve(&[]);
    let id = server.run(&["submit", "noop", "-q"]).expect(0).line().to_owned();
    server.run(&["task", "cancel", &id]).expect(0);
    let error = server.run(&["task", "cancel", &id, "--json"]).expect(5).json_error();
    assert_eq!(error["code"], "conflict");
    let address = server.url.trim_start_matches("http://").to_owned();
    let taken = server.run(&["serve", "--listen", &address, "--data", "other"]).expect(5);
    assert!(taken.stderr.contains("in use") && taken.stderr.contains(&address), "{}", taken.stderr);
    let shared = server.run(&["up", "--listen", "127.0.0.1:0"]).expect(5);
    assert!(shared.stderr.contains("in use by another divvy server"), "{}", shared.stderr);
    let open = server.run(&["serve", "--listen", "0.0.0.0:0", "--data", "third"]).expect(5);
    assert!(open.stderr.contains("token"), "{}", open.stderr);
}

#[test]
fn a_wrong_token_is_5_and_the_right_one_works() {
    let folder = Folder::new();
    folder.write("divvy.yaml", "token: open-sesame\n");
    let server = Server::start(folder, &["up", "--workers", "1"]);
    server.run(&["submit", "noop", "--wait"]).expect(0);
    let ended = server.run(&["task", "list", "--token", "wrong"]).expect(5);
    assert!(
        ended.stderr.contains("DIVVY_TOKEN") && !ended.stderr.contains("open-sesame"),
        "{}",
        ended.stderr
    );
    server.run(&["work", "--token", "wrong"]).expect(5);
}

#[test]
fn time_over_is_6_and_says_where_to_look() {
    let server = Server::serve(&[]);
    let id = server.run(&["submit", "noop", "-q"]).expect(0).line().to_owned();
    let ended = server.run(&["wait", &id, "--timeout", "200ms"]).expect(6);
    assert!(ended.stderr.contains(&format!("divvy explain {id}")), "{}", ended.stderr);
}

#[test]
fn failed_work_is_1() {
    let server = Server::up(&[]);
    let ended = server
        .run(&["submit", "fail", "-a", "verdict=dead", "-a", "message=no luck", "--wait"])
        .expect(1);
    assert!(ended.stderr.contains("no luck"), "{}", ended.stderr);
}

#[test]
fn an_interrupt_is_130() {
    let server = Server::serve(&[]);
    let id = server.run(&["submit", "noop", "-q"]).expect(0).line().to_owned();
    let mut child = Guarded(server.command(&["wait", &id]).spawn().unwrap());
    // The wait catches the signal once its handler is in place; the mask of caught signals says when.
    let caught = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.0.id())).ok()?;
        let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"))?.trim().to_owned();
        (u64::from_str_radix(&mask, 16).ok()? & (1 << (Signal::SIGINT as i32 - 1)) != 0)
            .then_some(())
    };
    until("the wait listens for signals", caught);
    assert!(child.0.try_wait().unwrap().is_none());
    child.signal(Signal::SIGINT);
    finish(child).expect(130);
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let folder = Folder::new();
    let mut child = Guarded(folder.command(&["completions", "bash"]).spawn().unwrap());
    drop(child.0.stdout.take());
    assert_eq!(finish(child).expect(0).stderr, "");
}

#[test]
fn data_and_notes_do_not_mix() {
    let server = Server::serve(&[]);
    let ended = server.run(&["submit", "noop"]).expect(0);
    assert_eq!(ended.stdout.lines().count(), 1, "{}", ended.stdout);
    assert!(ended.stderr.contains("divvy wait"));
    let quiet = end(server.command(&["submit", "noop", "--quiet"]), "").expect(0);
    assert_eq!(quiet.stderr, "");
}
