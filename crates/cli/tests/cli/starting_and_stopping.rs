//! `up` and its workers: drains, second signals, crashes, and what is left behind.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use serde_json::{Value, json};

use crate::stack::{Folder, Guarded, Server, finish, until};

fn gone(pid: i32) -> Option<()> {
    // A process that ended and was not waited for yet still has an entry, as a zombie.
    match std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat")) {
        Err(_) => Some(()),
        Ok(stat) => stat.rsplit(')').next()?.trim_start().starts_with('Z').then_some(()),
    }
}

#[test]
fn the_first_line_says_where_it_is_and_what_it_has() {
    let server = Server::up_with_videos(&[]);
    assert_eq!((&server.said["workers"], &server.said["data"]), (&1.into(), &"divvy-data".into()));
    assert_eq!(server.said["pid"], server.process.0.id());
    assert!(server.folder.path().join("divvy-data").is_dir());
}

#[test]
fn local_workers_take_as_many_tasks_ahead_as_was_said() {
    for (args, ahead) in [(&["--prefetch", "3"][..], 3), (&["--prefetch", "0"], 0)] {
        let server = Server::up(args);
        server.run(&["submit", "noop", "--wait"]).expect(0);
        let worker = server.run(&["worker", "list", "--json"]).expect(0).json().remove(0);
        for tier in worker["tiers"].as_array().expect("tiers") {
            let (credit, slots) = (tier["credit"].as_u64(), tier["slots"].as_u64());
            assert_eq!(credit, slots.map(|slots| slots + ahead), "{worker}");
        }
    }
}

#[test]
fn workers_of_a_local_pool_run_its_kinds_on_the_slots_of_their_type() {
    let folder = Folder::new();
    folder.write(
        "divvy.yaml",
        "pools: {mail: {min: 1, max: 1, kinds: [sleep, burst, elsewhere], types: [{name: big, slots: 3}]}}\n",
    );
    let up = ["up", "--workers", "0", "--exec", "burst=/bin/true", "--exec", "other=/bin/true"];
    let server = Server::start(folder, &up);
    let worker = until("the worker of the pool", || {
        server.run(&["worker", "list", "--json"]).expect(0).json().pop()
    });
    assert_eq!(worker["name"], "mail-1");
    let tiers: Vec<(&Value, u64)> = worker["tiers"]
        .as_array()
        .expect("tiers")
        .iter()
        .map(|tier| (&tier["kinds"], tier["slots"].as_u64().unwrap()))
        .collect();
    assert_eq!(tiers, [(&json!(["sleep"]), 192), (&json!(["burst"]), 3)], "{worker}");
    server.run(&["submit", "burst", "--wait"]).expect(0);

    // Its workers are others when it comes to have other terms.
    server.folder.write(
        "divvy.yaml",
        "pools: {mail: {min: 1, max: 1, kinds: [other], types: [{name: big, slots: 2}]}}\n",
    );
    let tiers = until("a worker with the new terms", || {
        let workers = server.run(&["worker", "list", "--json"]).expect(0).json();
        let [worker] = &workers[..] else { return None };
        (worker["name"] != "mail-1").then(|| worker["tiers"].clone())
    });
    assert_eq!((&tiers[0]["kinds"], &tiers[0]["slots"]), (&json!(["other"]), &json!(2)), "{tiers}");

    let none = server.run(&["work", "--kinds", "elsewhere"]).expect(1);
    assert!(none.stderr.contains("runs none of the kinds elsewhere"), "{}", none.stderr);
    assert!(none.stderr.contains("noop, sleep"), "{}", none.stderr);
}

#[test]
fn ctrl_c_drains_so_a_running_task_finishes_once() {
    let server = Server::up(&[]);
    let id = server.run(&["submit", "sleep", "-a", "ms:=1500", "-q"]).expect(0).line().to_owned();
    server.wait_for_state(&id, "leased");
    server.process.signal(Signal::SIGINT);
    let workers = server.worker_pids();
    let (folder, ended) = server.ended();
    workers.into_iter().for_each(|pid| until("the worker is gone", || gone(pid)));
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let again = Server::start(folder, &["serve"]);
    let task = again.task(&id);
    assert_eq!((&task["state"], &task["attempts"]), (&"done".into(), &1.into()));
}

#[test]
fn a_second_ctrl_c_stops_now_and_the_task_runs_again_later() {
    let server = Server::up(&[]);
    let id = server.run(&["submit", "sleep", "-a", "ms:=600000", "-q"]).expect(0).line().to_owned();
    server.wait_for_state(&id, "leased");
    server.process.signal(Signal::SIGINT);
    until("the worker drains", || {
        let workers = server.run(&["worker", "list", "--json"]).json();
        workers.iter().any(|worker| worker["draining"] == true).then_some(())
    });
    let (folder, ended) = server.stop();
    assert_eq!(ended.code, Some(130), "{}", ended.stderr);
    let again = Server::start(folder, &["serve"]);
    let task = again.task(&id);
    assert_eq!((&task["state"], &task["attempts"]), (&"ready".into(), &0.into()), "{task}");
}

#[test]
fn a_crashed_worker_is_started_again() {
    let server = Server::up(&[]);
    server.run(&["submit", "noop", "--wait"]).expect(0);
    let before = server.worker_pids();
    assert_eq!(before.len(), 1);
    kill(Pid::from_raw(before[0]), Signal::SIGKILL).unwrap();
    until("another worker runs", || {
        server.worker_pids().iter().any(|pid| !before.contains(pid)).then_some(())
    });
    server.run(&["submit", "noop", "--wait"]).expect(0);
}

#[test]
fn workers_are_told_what_is_known_of_the_tools_of_this_machine() {
    let server = Server::up_with_videos(&[]);
    server.run(&["submit", "noop", "--wait"]).expect(0);
    let worker = server.run(&["worker", "list", "--json"]).expect(0).json().remove(0);
    assert!(worker["capabilities"].to_string().contains("\"ffmpeg="), "{worker}");
    let line =
        std::fs::read_to_string(format!("/proc/{}/cmdline", server.worker_pids()[0])).unwrap();
    let tried = line.split('\0').skip_while(|word| *word != "--tools-tried").nth(1);
    let tried: Value = serde_json::from_str(tried.expect("a trial that the server made")).unwrap();
    let build = format!("ffmpeg={}", tried["build"].as_str().unwrap());
    assert!(worker["capabilities"].to_string().contains(&build), "{worker}");
}

#[test]
fn a_worker_that_tries_out_its_tools_ends_when_it_is_asked_to() {
    let folder = Folder::new();
    folder.write("ffmpeg", "#!/bin/sh\nexec sleep 86000\n");
    let ffmpeg = folder.path().join("ffmpeg");
    std::fs::set_permissions(&ffmpeg, std::fs::Permissions::from_mode(0o755)).unwrap();
    let server = "http://127.0.0.1:9";
    let mut command = folder.command(&["--server", server, "work", "--ffmpeg", "./ffmpeg"]);
    let worker = Guarded(command.spawn().unwrap());
    until("it tries them out", || (!worker.children().is_empty()).then_some(()));
    worker.signal(Signal::SIGTERM);
    finish(worker).expect(0);
}

#[test]
fn workers_do_not_outlive_a_server_that_is_killed() {
    let server = Server::up(&[]);
    server.run(&["submit", "noop", "--wait"]).expect(0);
    let workers = server.worker_pids();
    assert!(!workers.is_empty());
    server.process.signal(Signal::SIGKILL);
    workers.into_iter().for_each(|pid| until("the worker is gone", || gone(pid)));
}

#[test]
fn tasks_survive_a_restart() {
    let server = Server::serve(&[]);
    let id = server.run(&["submit", "noop", "-q"]).expect(0).line().to_owned();
    let (folder, ended) = server.stop();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let again = Server::start(folder, &["up", "--workers", "1"]);
    again.run(&["wait", &id]).expect(0);
}

#[test]
fn a_wait_outlives_a_restart_of_the_server() {
    let server = Server::serve(&[]);
    let id = server.run(&["submit", "noop", "-q"]).expect(0).line().to_owned();
    let mut command = server.command(&["wait", &id]);
    let mut wait = Guarded(command.env("DIVVY_LOG", "divvy=debug").spawn().unwrap());
    let mut said = BufReader::new(wait.0.stderr.take().unwrap()).lines();
    assert!(said.any(|line| line.unwrap().contains("listens for changes")));
    let address = server.said["address"].as_str().unwrap().to_owned();
    let (folder, _) = server.stop();
    assert!(wait.0.try_wait().unwrap().is_none(), "it waits on");
    let _again = Server::start_at(folder, &["up", "--workers", "1"], &address);
    let ended = finish(wait).expect(0);
    assert!(ended.stdout.contains("done"), "{}", ended.stdout);
}
