//! The benchmark that needs no server: its figures and its refusals. How fast it is says nothing here.

use crate::stack::Folder;

#[test]
fn the_scheduler_alone_is_measured_over_a_growing_backlog() {
    let folder = Folder::new();
    let args = ["bench", "scheduler", "--lives", "5000", "--max-waiting", "10000", "--json"];
    let ended = folder.run(&args).expect(0);
    assert!(ended.stderr.is_empty(), "{}", ended.stderr);
    let figures = &ended.json()[0];
    let number = |name: &str| figures[name].as_f64().unwrap_or_else(|| panic!("{name}: {figures}"));
    assert_eq!((number("classes"), number("workers"), number("backlog")), (20.0, 100.0, 10_000.0));
    let sizes: Vec<u64> = figures["flatness"]
        .as_array()
        .unwrap()
        .iter()
        .map(|size| {
            assert!(size["ns_per_life"].as_f64().unwrap() > 0.0);
            assert!(size["lives_per_s"].as_f64().unwrap() > 0.0);
            size["waiting"].as_u64().unwrap()
        })
        .collect();
    assert_eq!(sizes, [1_000, 10_000]);
    assert!(number("lives_per_s") > 0.0 && number("flatness_ratio") >= 1.0);
    assert!(number("bytes_per_waiting_task") > 0.0, "{figures}");
    assert_eq!(figures["skipped"].as_array().unwrap().len(), 0);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "something was left behind");
}

#[test]
fn people_get_a_table_and_sizes_that_measure_nothing_are_refused() {
    let folder = Folder::new();
    let args = ["bench", "scheduler", "--quick", "--lives", "5000", "--max-waiting", "1000"];
    let ended = folder.run(&args).expect(0);
    assert!(ended.stdout.contains("NS PER LIFE") && ended.stdout.contains("flatness_ratio"));
    assert!(ended.stdout.lines().all(|line| line.chars().count() <= 80), "{}", ended.stdout);
    assert!(ended.stderr.contains("20 classes, 1000 waiting"), "{}", ended.stderr);
    let error = folder.run(&["bench", "scheduler", "--max-waiting", "10"]).expect(2).stderr;
    assert!(error.contains("--max-waiting"), "{error}");
}
