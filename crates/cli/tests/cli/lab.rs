//! Experiments from the command line: what is printed, which files appear, and what is refused.

use crate::stack::Folder;

#[test]
fn every_experiment_is_listed_with_what_it_looks_at() {
    let folder = Folder::new();
    let text = folder.run(&["lab", "list"]).expect(0).stdout;
    assert!(
        text.lines().any(|line| line.starts_with("herd ") && line.contains("10,000")),
        "{text}"
    );
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let json = folder.run(&["lab", "list", "--json"]).expect(0).json();
    let names: Vec<&str> = json.iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"herd"));
    let guide = include_str!("../../../../docs/guides/lab.md");
    for name in &names {
        assert!(guide.contains(&format!("| `{name}` |")), "the guide lacks `{name}`");
    }
    let quiet = folder.run(&["lab", "list", "--quiet"]).expect(0).stdout;
    assert_eq!(quiet.lines().collect::<Vec<_>>(), names);
}

#[test]
fn a_run_prints_its_report_and_writes_its_charts_and_page() {
    let folder = Folder::new();
    let args = ["lab", "run", "herd", "--quick", "--svg", "herd.svg", "--html", "lab.html"];
    let ended = folder.run(&args).expect(0);
    assert!(ended.stdout.contains("Targets met: 3 of 3"), "{}", ended.stdout);
    assert!(ended.stdout.lines().all(|line| line.chars().count() <= 80), "{}", ended.stdout);
    assert!(ended.stderr.contains("wrote herd.svg") && ended.stderr.contains("wrote lab.html"));
    let svg = std::fs::read_to_string(folder.path().join("herd.svg")).unwrap();
    assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
    let page = std::fs::read_to_string(folder.path().join("lab.html")).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.contains("The thundering herd"));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "a draft was left behind");
}

#[test]
fn the_same_seed_prints_the_same_figures() {
    let folder = Folder::new();
    let run = |seed: &str| {
        let args = ["lab", "run", "herd", "herd", "--quick", "--json", "--seed", seed];
        folder.run(&args).expect(0)
    };
    let (first, again, other) = (run("5"), run("5"), run("6"));
    assert_eq!(first.stdout, again.stdout);
    assert_ne!(first.stdout, other.stdout);
    let json = first.json();
    assert_eq!((json.len(), &json[0]["name"]), (1, &"herd".into()));
}

#[test]
fn simulated_guards_meet_their_targets_on_a_terminal_of_eighty_columns() {
    let folder = Folder::new();
    let names = ["breaker", "fan-out", "degradation"];
    let mut args = vec!["lab", "run", "--quick", "--html", "lab.html"];
    args.extend(names);
    let text = folder.run(&args).expect(0).stdout;
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(!text.contains("MISSED") && text.contains("every target was met"), "{text}");
    let page = std::fs::read_to_string(folder.path().join("lab.html")).unwrap();
    assert!(names.iter().all(|name| page.contains(&format!("id=\"{name}\""))));
}

#[test]
fn simulated_clusters_can_be_read_on_a_terminal_of_eighty_columns() {
    let folder = Folder::new();
    let names = ["hot-spot", "protection", "limits", "deadlines"];
    let mut args = vec!["lab", "run", "--quick"];
    args.extend(names);
    let text = folder.run(&args).expect(0).stdout;
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    for words in ["hybrid", "wait p99", "Jain", "5, protected", "rate 2/s", "least slack"] {
        assert!(text.contains(words), "{words} is missing:\n{text}");
    }
}

#[test]
fn the_three_tier_experiment_starts_this_binary_as_its_child() {
    let folder = Folder::new();
    let json = folder.run(&["lab", "run", "three-tier", "--quick", "--json"]).expect(0).json();
    assert_eq!(json[0]["verdicts"][0]["met"], true, "{}", json[0]["verdicts"]);
    let help = folder.run(&["--help"]).expect(0).stdout;
    assert!(!help.contains("lab-child"), "{help}");
}

#[test]
fn unknown_experiments_and_places_that_cannot_be_written_are_refused_before_any_work() {
    let folder = Folder::new();
    let error = folder.run(&["lab", "run", "hred"]).expect(2).stderr;
    assert!(error.contains("did you mean `herd`?") && error.contains("divvy lab list"), "{error}");
    let error = folder.run(&["lab", "run", "herd", "--html", "nowhere/x.html"]).expect(2).stderr;
    assert!(error.contains("nowhere/x.html cannot be written"), "{error}");
    assert!(!error.contains("running"), "{error}");
    let error = folder.run(&["lab", "run", "herd", "--svg", "."]).expect(2).stderr;
    assert!(error.contains("is a folder"), "{error}");
    folder.run(&["lab", "run"]).expect(2);
}
