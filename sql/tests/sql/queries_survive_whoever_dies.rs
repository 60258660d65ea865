//! Kills in the middle of a query: the result is the same and is written once.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use crate::data::{QUERY, expected, write_csv};
use crate::world::{Process, World, crash, lives, told, until};

const ROWS: u64 = 400_000;

fn begin(world: &mut World) -> Process {
    write_csv(&world.path("csv"), ROWS);
    world.up();
    world.sql(&["run", "-e", QUERY, "--table", "t=csv", "--out", "out.csv"])
}

/// The result is there whole, and nothing else is left of it.
fn check(world: &World, asked: Process) {
    let (code, _, err) = told(asked.end());
    assert_eq!(code, 0, "{err}");
    assert_eq!(fs::read_to_string(world.path("out.csv")).unwrap(), expected(ROWS), "{err}");
    until("only the result is left", || {
        let names = fs::read_dir(world.folder.path()).unwrap().flatten();
        let rests =
            names.filter(|entry| entry.file_name().to_string_lossy().starts_with(".out.csv"));
        (rests.count() == 0 && links(&world.path("out.csv")) == 1).then_some(())
    });
}

fn links(file: &Path) -> u64 {
    fs::metadata(file).unwrap().nlink()
}

#[test]
fn an_executor_is_killed() {
    let mut world = World::new();
    let asked = begin(&mut world);
    let victim = world.busy_executor();
    crash(victim);
    assert!(!world.path("out.csv").exists(), "it was killed in the middle");
    check(&world, asked);
    // The query was not asked again, and the dead one came back.
    assert_eq!(world.query().unwrap()["attempts"], 1);
    until("there are two executors again", || {
        let executors = world.pids("executor");
        (executors.len() == 2 && !executors.contains(&victim)).then_some(())
    });
}

#[test]
fn the_scheduler_is_killed() {
    let mut world = World::new();
    let asked = begin(&mut world);
    world.busy_executor();
    let victim = world.pids("scheduler")[0];
    crash(victim);
    assert!(!world.path("out.csv").exists(), "it was killed in the middle");
    check(&world, asked);
    let task = world.query().unwrap();
    assert!(task["attempts"].as_u64().unwrap() >= 2, "{task}");
    assert!(task["history"].to_string().contains("the cluster was lost"), "{task}");
    assert_ne!(world.pids("scheduler"), [victim]);
}

#[test]
fn the_server_is_killed() {
    let mut world = World::new();
    let asked = begin(&mut world);
    world.busy_executor();
    let processes = [world.pids("scheduler"), world.pids("executor")].concat();
    world.crash_server();
    check(&world, asked);
    // The cluster went on without it.
    assert_eq!([world.pids("scheduler"), world.pids("executor")].concat(), processes);
}

#[test]
fn the_worker_and_the_server_are_killed() {
    let mut world = World::new();
    let asked = begin(&mut world);
    world.busy_executor();
    let processes = [world.pids("scheduler"), world.pids("executor")].concat();
    assert_eq!(processes.len(), 3);
    world.cluster().crash();
    world.crash_server();
    assert!(!world.path("out.csv").exists(), "they were killed in the middle");
    until("nobody outlives the worker", || {
        (!processes.iter().any(|pid| lives(*pid))).then_some(())
    });
    world.up();
    check(&world, asked);
}
