//! Flags over variables over the file over defaults, and files that are wrong.

use serde_json::Value;

use crate::stack::{Ended, Folder, end};

fn setting(ended: &Ended, key: &str) -> (String, String) {
    let rows = ended.json();
    let row: &Value = rows.iter().find(|row| row["key"] == key).unwrap();
    (row["value"].as_str().unwrap().to_owned(), row["origin"].as_str().unwrap().to_owned())
}

#[test]
fn each_layer_beats_the_one_below_and_its_origin_is_shown() {
    let folder = Folder::new();
    let show = &["config", "show", "--json"];
    assert_eq!(
        setting(&folder.run(show).expect(0), "server"),
        ("http://127.0.0.1:7171".into(), "default".into())
    );
    folder.write("divvy.yaml", "server: http://file:1\nserve: {listen: '127.0.0.1:9', data: d}\n");
    let (value, origin) = setting(&folder.run(show).expect(0), "server");
    assert_eq!(value, "http://file:1");
    assert!(origin.ends_with("divvy.yaml"), "{origin}");
    let (data, _) = setting(&folder.run(show).expect(0), "serve.data");
    assert!(data.starts_with('/') && data.ends_with("/d"), "relative to the file: {data}");
    let mut with_variable = folder.command(show);
    with_variable.env("DIVVY_SERVER", "http://variable:1").env("DIVVY_LISTEN", "127.0.0.1:8");
    let ended = end(with_variable, "").expect(0);
    assert_eq!(setting(&ended, "server"), ("http://variable:1".into(), "DIVVY_SERVER".into()));
    assert_eq!(setting(&ended, "serve.listen"), ("127.0.0.1:8".into(), "DIVVY_LISTEN".into()));
    let mut with_flag = folder.command(show);
    with_flag.env("DIVVY_SERVER", "http://variable:1").args(["--server", "http://flag:1"]);
    assert_eq!(
        setting(&end(with_flag, "").expect(0), "server"),
        ("http://flag:1".into(), "--server".into())
    );
    folder.write("divvy.yaml", "work: {prefetch: 3}\n");
    let (prefetch, origin) = setting(&folder.run(show).expect(0), "work.prefetch");
    assert!(prefetch == "3" && origin.ends_with("divvy.yaml"), "{prefetch} {origin}");
    let mut with_variable = folder.command(show);
    with_variable.env("DIVVY_PREFETCH", "0");
    assert_eq!(
        setting(&end(with_variable, "").expect(0), "work.prefetch"),
        ("0".into(), "DIVVY_PREFETCH".into())
    );
    let long = "http://divvy.a-rather-long-name.of-a-department.example:7171";
    let mut origins = folder.command(&["config", "show", "--origin"]);
    origins.env("DIVVY_SERVER", long);
    let table = end(origins, "").expect(0).stdout;
    assert!(table.contains(long), "{table}");
    assert!(table.contains("ORIGIN") && table.contains("divvy.yaml"), "{table}");
}

#[test]
fn the_nearest_file_upwards_counts() {
    let folder = Folder::new();
    folder.write("divvy.yaml", "server: http://above:1\n");
    let below = folder.path().join("a/b");
    std::fs::create_dir_all(&below).unwrap();
    let mut command = folder.command(&["config", "show", "--json"]);
    command.current_dir(&below);
    assert_eq!(setting(&end(command, "").expect(0), "server").0, "http://above:1");
    std::fs::write(folder.path().join("a/divvy.yaml"), "server: http://nearer:1\n").unwrap();
    let mut command = folder.command(&["config", "show", "--json"]);
    command.current_dir(&below);
    assert_eq!(setting(&end(command, "").expect(0), "server").0, "http://nearer:1");
}

#[test]
fn a_wrong_file_is_named_with_its_line_and_stops_only_commands_that_need_it() {
    let folder = Folder::new();
    folder.write("divvy.yaml", "server: http://127.0.0.1:9\nserve:\n  lissen: 127.0.0.1:1\n");
    // A command that only asks a server goes on to ask it, and nobody answers there.
    for (command, code) in [(&["config", "check"][..], 2), (&["status"], 3), (&["up"], 2)] {
        let ended = folder.run(command).expect(code);
        assert!(
            ended.stderr.contains("divvy.yaml:3:") && ended.stderr.contains("`listen`"),
            "{}",
            ended.stderr
        );
    }
    let mut command = folder.command(&["status", "--config", "/dev/null"]);
    command.env("DIVVY_LEASE", "long");
    assert!(end(command, "").expect(2).stderr.contains("DIVVY_LEASE"));
}

#[test]
fn init_writes_a_file_that_is_valid_and_not_overwritten() {
    let folder = Folder::new();
    folder.run(&["config", "init"]).expect(0);
    folder.run(&["config", "check"]).expect(0);
    assert!(folder.run(&["config", "init"]).expect(5).stderr.contains("--force"));
    folder.write("divvy.yaml", "broken: [");
    folder.run(&["config", "init", "--force"]).expect(0);
    folder.run(&["config", "check"]).expect(0);
}

#[test]
fn doctor_checks_this_machine_without_a_server() {
    let folder = Folder::new();
    folder.write("divvy.yaml", "server: http://127.0.0.1:9\nserve: {listen: '127.0.0.1:0'}\n");
    let rows = folder.run(&["doctor", "--json"]).expect(0).json();
    let grade =
        |check: &str| rows.iter().find(|row| row["check"] == check).unwrap()["grade"].clone();
    assert_eq!(
        (grade("server"), grade("data"), grade("clock")),
        ("note".into(), "ok".into(), "ok".into())
    );
    let people = folder.run(&["doctor"]).expect(0).stdout;
    assert!(people.contains("divvy up"), "{people}");
}
