//! `up` and its workers: drains, second signals, crashes, and what is left behind.

use std::io::{BufRead, BufReader};
use std::path::Path;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::stack::{Guarded, Server, finish, until};

fn gone(pid: i32) -> Option<()> {
    // A process that ended and was not waited for yet still has an entry, as a zombie.
    match std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat")) {
        Err(_) => Some(()),
        Ok(stat) => stat.rsplit(')').next()?.trim_start().starts_with('Z').then_some(()),
    }
}

#[test]
fn the_first_line_says_where_it_is_and_what_it_has() {
    let server = Server::up(&[]);
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
