//! `divvy plan` from the command line: a whole small plan, and what is refused with its place and cure.

use crate::stack::{Folder, Server, end};

/// One item a minute, half a minute of work each, done within five minutes.
const TINY: &str = "\
title: a tiny plan
item: letter
arrivals: {per_hour: 60}
stages:
  - {name: write, sec: 20, spread: 30}
  - {name: post, sec: 10, after: [write]}
goal: {percentile: 95, within_sec: 300}
workers:
  - {name: clerk, price_hour: 2, boot_sec: 30, max: 10}
days: 0.1
seeds: 1
";

#[test]
fn a_plan_is_answered_as_text_json_and_page() {
    let folder = Folder::new();
    folder.write("tiny.yaml", TINY);
    let ended = folder.run(&["plan", "tiny.yaml", "--html", "plan.html"]).expect(0);
    let text = &ended.stdout;
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    for words in [
        "First guess",
        "p50",
        "p95",
        "p99",
        "Little's law",
        "a fifth less and a fifth more",
        "times the load",
        "write: 20.0 s, give or take 30.0 %",
        "Targets met: 1 of 1",
    ] {
        assert!(text.contains(words), "{words} is missing:\n{text}");
    }
    let page = std::fs::read_to_string(folder.path().join("plan.html")).unwrap();
    assert!(page.contains("<h1>divvy plan</h1>") && page.matches("<svg").count() == 5);
    let json = folder.run(&["plan", "tiny.yaml", "--json"]).expect(0).json().remove(0);
    assert_eq!(json["met"], true);
    assert_eq!(json["load"]["busy_slots"], 0.5);
    assert!(json["runs"].as_u64().unwrap() > 10, "{json}");
    let again = folder.run(&["plan", "tiny.yaml", "--json"]).expect(0).json().remove(0);
    assert_eq!(json, again, "the same plan has another answer");
}

#[test]
fn a_goal_or_budget_that_cannot_be_met_fails_with_what_would_do() {
    let folder = Folder::new();
    folder.write("late.yaml", &TINY.replace("within_sec: 300", "within_sec: 20"));
    let ended = folder.run(&["plan", "late.yaml"]).expect(1);
    assert!(ended.stdout.contains("MISSED"), "{}", ended.stdout);
    assert!(ended.stderr.contains("no number of workers meets the goal"), "{}", ended.stderr);
    assert!(ended.stderr.contains("that would do for"), "{}", ended.stderr);
    folder.write("poor.yaml", &format!("{TINY}budget_month: 5\n"));
    let error = folder.run(&["plan", "poor.yaml"]).expect(1).stderr;
    assert!(error.contains("the budget of 5 a month is too small"), "{error}");
}

#[test]
fn what_makes_no_sense_is_told_with_its_place_before_any_work() {
    let folder = Folder::new();
    folder.write("empty.csv", "second,arrivals\n");
    folder.write("words.csv", "0,5\n60,many\n");
    let trace = |file: &str| TINY.replace("per_hour: 60", &format!("trace: {file}"));
    for (yaml, words) in [
        (TINY.replace("price_hour: 2", "price_hour: -2"), "workers.0.price_hour: clerk has -2"),
        (TINY.replace("max: 10", "min: 11, max: 10"), "a min of 11 above its max of 10"),
        (TINY.replace("percentile: 95", "percentile: 195"), "goal.percentile: 195"),
        (TINY.replace("per_hour: 60", "per_hour: 0"), "nothing ever comes"),
        (TINY.replace("days: 0.1", "fleet: {clark: 3}"), "there is no worker type `clark`"),
        (
            TINY.replace("boot_sec", "boots_sec"),
            "unknown field `boots_sec`; did you mean `boot_sec`?",
        ),
        (trace("empty.csv"), "empty.csv: the trace is empty"),
        (trace("words.csv"), "words.csv:2: `many` is not a number"),
        (trace("none.csv"), "none.csv"),
    ] {
        folder.write("wrong.yaml", &yaml);
        let args = ["plan", "wrong.yaml"];
        let ended = end(folder.command(&args), "");
        assert!(ended.stderr.contains(words), "{words}: {}", ended.stderr);
        assert!(!ended.stderr.contains("running plan"), "{}", ended.stderr);
    }
    let error = folder.run(&["plan", "nowhere.yaml"]).expect(4).stderr;
    assert!(error.contains("nowhere.yaml"), "{error}");
    folder.run(&["plan"]).expect(2);
    folder.run(&["plan", "--calibrate", "nowhere.mp4"]).expect(4);
}

#[test]
fn arrivals_come_from_the_history_of_a_server_unless_it_is_empty() {
    let server = Server::serve(&[]);
    server.folder.write("tiny.yaml", TINY);
    let plan = || end(server.command(&["plan", "tiny.yaml", "--from-history", "--json"]), "");
    let error = plan().expect(2).json_error();
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("the history of http://127.0.0.1"), "{message}");
    assert!(message.contains("is empty: nothing has come yet"), "{message}");
    for _ in 0..5 {
        end(server.command(&["submit", "letter"]), "").expect(0);
    }
    let json = plan().expect(0).json().remove(0);
    // Five within ten minutes, the shortest past that is looked at.
    assert_eq!(json["plan"]["arrivals"]["per_hour"], 30.0);
    assert!(json["plan"]["assumptions"].to_string().contains("5 items in the history"));
}
