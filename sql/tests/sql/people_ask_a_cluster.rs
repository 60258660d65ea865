//! What a person types and gets: results in every form, one cluster however often it is brought up, errors with cures.

use std::fs;

use nix::sys::signal::Signal;

use crate::data::{QUERY, expected, write_csv};
use crate::world::{World, lives, told, until};

const ROWS: u64 = 20_000;

#[test]
fn a_cluster_answers_about_csv_and_parquet_until_it_is_taken_down() {
    let mut world = World::new();
    write_csv(&world.path("csv"), ROWS);
    let cluster = world.up();

    // At once, on an existing cluster: the same as was computed here.
    let (code, out, err) = world.run(&[
        "run",
        "-e",
        QUERY,
        "--table",
        "t=csv",
        "--format",
        "csv",
        "--cluster",
        &cluster,
    ]);
    assert_eq!((code, out.as_str()), (0, expected(ROWS).as_str()), "{err}");

    // As a task: CSV to Parquet, and the same answer from that.
    let (code, _, err) = world.run(&[
        "run",
        "-e",
        "select * from t",
        "--table",
        "t=csv/*.csv",
        "--out",
        "t.parquet",
    ]);
    assert_eq!(code, 0, "{err}");
    assert!(err.contains(&format!("wrote {ROWS} rows")), "{err}");
    fs::write(world.path("q.sql"), QUERY).unwrap();
    let (code, out, err) =
        world.run(&["run", "q.sql", "--table", "t=t.parquet", "--format", "csv"]);
    assert_eq!((code, out.as_str()), (0, expected(ROWS).as_str()), "{err}");
    let (code, out, _) = world.run(&[
        "run",
        "-e",
        "select count(*) as n from t",
        "--table",
        "t=t.parquet",
        "--format",
        "json",
        "-q",
    ]);
    assert_eq!((code, out), (0, format!("{{\"n\":{ROWS}}}\n")));

    // A file that exists is not touched.
    let (code, _, err) = world.run(&["run", "-e", QUERY, "--table", "t=csv", "--out", "t.parquet"]);
    assert_eq!(code, 5, "{err}");
    assert!(err.contains("t.parquet exists"), "{err}");

    failures(&world, &cluster);

    // Brought up twice it is one cluster, and it is gone when it is taken down.
    let before = (world.pids("scheduler"), world.pids("executor"));
    let (second, address) = world.another_up();
    assert_eq!(address, cluster);
    assert_eq!((world.pids("scheduler"), world.pids("executor")), before);
    assert_eq!((before.0.len(), before.1.len(), world.kept()), (1, 2, 3));
    let (code, _, err) = world.run(&["down"]);
    assert_eq!(code, 0, "{err}");
    assert_eq!(told(second.end()).0, 0);
    let processes = [before.0, before.1].concat();
    until("the processes are gone", || (!processes.iter().any(|pid| lives(*pid))).then_some(()));
    assert_eq!(fs::read_dir(world.path("work")).unwrap().count(), 0);
    assert_eq!(world.run(&["down"]).0, 4);
}

fn failures(world: &World, cluster: &str) {
    let cases: [(&[&str], i32, &str); 8] = [
        (&["run", "-e", "select 1 / (k - k) from t", "--table", "t=csv"], 1, "the query failed: "),
        (&["run", "-e", "selct 1"], 2, "query:1:1: Expected"),
        (
            &["run", "-e", "select 1\nfrom orders", "--cluster", cluster],
            4,
            "query:2:6: there is no table `orders`; say where its data is with --table orders=PATH",
        ),
        (&["run", "-e", "select 1 from orders"], 1, "there is no table `orders`"),
        (&["run", "nowhere.sql"], 4, "cannot read the query nowhere.sql"),
        (
            &["run", "-e", "select * from t", "--table", "t=nowhere.csv", "--cluster", cluster],
            4,
            "table `t`: cannot read nowhere.csv",
        ),
        (
            &["run", "-e", "select 1", "--cluster", "df://127.0.0.1:9"],
            3,
            "the cluster df://127.0.0.1:9 cannot take the query: nobody answers there",
        ),
        (&["run", "-e", "select 1", "--format", "parquet"], 2, "name a file with --out FILE"),
    ];
    for (words, code, part) in cases {
        let (ended, out, err) = world.run(words);
        assert_eq!((ended, out.as_str()), (code, ""), "{words:?}: {err}");
        assert!(err.contains(part), "{words:?}: {err}");
    }
}

#[test]
fn who_stops_waiting_is_told_how_to_go_on() {
    let world = World::new();
    // Nobody has brought the cluster up: the query waits.
    let asked = world.sql(&["run", "-e", "select 1"]);
    until("the query is submitted", || world.query());
    asked.signal(Signal::SIGINT);
    let (code, _, err) = told(asked.end());
    assert_eq!(code, 130, "{err}");
    assert!(err.contains("cluster `main` is not up") && err.contains("the query goes on"), "{err}");
    let (code, _, err) = world.run(&["down", "--name", "other"]);
    assert_eq!((code, err.contains("cluster `other` is not up")), (4, true), "{err}");
}
