//! Aggregations without a server against slow references, and what becomes of rows that are wrong.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::Aggregate;
use crate::alone::{Ended, file, run, run_with_stops};
use crate::job::{InputFile, Kind as _, NewJob, Next, OnError};

fn job(inputs: Vec<InputFile>, options: Value) -> NewJob {
    NewJob { inputs, options, split_bytes: 1 << 10, ..NewJob::new("aggregate") }
}

/// Group, whole number, user; most rows are of few groups.
fn rows(seed: u64, count: usize) -> Vec<(String, i64, String)> {
    let mut random = fastrand::Rng::with_seed(seed);
    let row = |_| {
        let group = 20 / random.u32(1..20);
        (format!("g,{group}"), random.i64(-100..100), format!("u{}", random.u32(..50)))
    };
    (0..count).map(row).collect()
}

fn csv(rows: &[(String, i64, String)]) -> String {
    let line =
        |(group, number, user): &(String, i64, String)| format!("{user},\"{group}\",{number}\n");
    let lines: String = rows.iter().map(line).collect();
    format!("u,g,x\n{lines}")
}

fn jsonl(rows: &[(String, i64, String)]) -> String {
    rows.iter()
        .map(|(group, number, user)| format!("{}\n", json!({"x": number, "g": group, "u": user})))
        .collect()
}

/// By group: rows, sum, least, greatest, distinct users, median.
fn reference(rows: &[(String, i64, String)]) -> BTreeMap<String, Value> {
    let mut groups: BTreeMap<String, Vec<&(String, i64, String)>> = BTreeMap::new();
    for row in rows {
        groups.entry(row.0.clone()).or_default().push(row);
    }
    let answer = |rows: &Vec<&(String, i64, String)>| {
        let mut numbers: Vec<i64> = rows.iter().map(|row| row.1).collect();
        numbers.sort_unstable();
        let users: BTreeSet<&str> = rows.iter().map(|row| row.2.as_str()).collect();
        let middle = (numbers[(numbers.len() - 1) / 2] + numbers[numbers.len() / 2]) as f64 / 2.0;
        json!({
            "count": rows.len(), "sum(x)": numbers.iter().sum::<i64>(), "min(x)": numbers[0],
            "max(x)": numbers[numbers.len() - 1], "distinct(u)": users.len(), "p50(x)": middle,
        })
    };
    groups.iter().map(|(group, rows)| (group.clone(), answer(rows))).collect()
}

const WORDS: &str = "count, sum(x), min, max, distinct(u), p50(x)";

fn by_group(ended: &Ended) -> BTreeMap<String, Value> {
    let text = String::from_utf8(ended.joined()).unwrap();
    let row = |line: &str| {
        let mut row: Value = serde_json::from_str(line).unwrap();
        let group = row.as_object_mut().unwrap().remove("g").unwrap();
        (group.as_str().unwrap().to_owned(), row)
    };
    text.lines().map(row).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn rows_of_csv_and_json_give_what_a_plain_loop_gives(seed: u64, count in 1_usize..300, partitions in 1_u32..4, divide: bool) {
        let place = tempfile::tempdir().unwrap();
        let rows = rows(seed, count);
        let (first, second) = rows.split_at(count / 2);
        let inputs = vec![
            file(place.path(), "a.csv", csv(first).as_bytes()),
            file(place.path(), "b.jsonl", jsonl(second).as_bytes()),
        ];
        let skew = if divide { 1.0 } else { 0.0 };
        let options = json!({"group_by": ["g"], "agg": WORDS, "output": "jsonl", "skew": skew, "skew_bytes": 0});
        let new = NewJob { partitions: Some(partitions), ..job(inputs, options) };
        let mut random = fastrand::Rng::with_seed(seed);
        let calm = run(new.clone(), &place.path().join("calm")).unwrap();
        let mut stops = |_: &str| random.bool().then(|| random.u64(..3));
        let torn = run_with_stops(new, &place.path().join("torn"), &mut stops).unwrap();
        prop_assert_eq!(by_group(&calm), reference(&rows));
        prop_assert_eq!(calm.files, torn.files, "parts that were killed change nothing");
    }
}

#[test]
fn what_does_not_fit_into_memory_is_spilled() {
    let place = tempfile::tempdir().unwrap();
    let mut random = fastrand::Rng::with_seed(3);
    let rows: Vec<(String, i64, String)> = (0..40_000)
        .map(|_| (format!("group-{}", random.u32(..9_000)), random.i64(-100..100), "u".to_owned()))
        .collect();
    let input = file(place.path(), "a.csv", csv(&rows).as_bytes());
    let options = json!({"group_by": ["g"], "agg": WORDS, "output": "jsonl"});
    let new = NewJob { memory_bytes: 2 << 20, split_bytes: 64 << 20, ..job(vec![input], options) };
    let ended = run(new, place.path()).unwrap();
    assert!(ended.stages[0].parts[0].report.counters["spills"] > 1);
    assert_eq!(by_group(&ended), reference(&rows));
}

#[test]
fn a_group_that_is_too_large_for_an_exact_answer_says_so() {
    let place = tempfile::tempdir().unwrap();
    let text: String = (0..300_000).map(|number| format!("u{number},a\n")).collect();
    let input = file(place.path(), "a.csv", text.as_bytes());
    let new = |approx: bool| {
        let options = json!({"group_by": ["g"], "agg": "distinct(u)", "columns": ["u", "g"], "approx": approx});
        NewJob { memory_bytes: 4 << 20, split_bytes: 64 << 20, ..job(vec![input.clone()], options) }
    };
    let error = run(new(false), &place.path().join("exact")).unwrap_err();
    assert!(
        error.contains("group (a) needs more than the 4.0 MiB") && error.contains("use --approx"),
        "{error}"
    );
    let ended = run(new(true), &place.path().join("rough")).unwrap();
    let text = String::from_utf8(ended.joined()).unwrap();
    let numbers: Vec<f64> =
        text.lines().nth(1).unwrap().split(',').skip(1).map(|cell| cell.parse().unwrap()).collect();
    assert_eq!(text.lines().next().unwrap(), "g,distinct(u),distinct(u)_low,distinct(u)_high");
    assert!(numbers[1] <= 300_000.0 && 300_000.0 <= numbers[2] && numbers[2] < 320_000.0, "{text}");
    assert!(
        ended.summary.lines.iter().any(|line| line.contains("within 3.3 % with 95 % confidence"))
    );
}

#[test]
fn rows_that_are_wrong_are_named_or_left_out() {
    let place = tempfile::tempdir().unwrap();
    let text = b"g,x\na,1\nb,two\na,3,4\n\n\"a,5\na,\"6\"\n";
    let input = file(place.path(), "bad.csv", text);
    let new = |on_error| {
        let options = json!({"group_by": ["g"], "agg": "count, sum(x)"});
        NewJob { on_error, ..job(vec![input.clone()], options) }
    };
    let error = run(new(OnError::Fail), place.path()).unwrap_err();
    assert!(error.contains("bad.csv:3: column x is `two`, not a number"), "{error}");
    let ended = run(new(OnError::Skip), place.path()).unwrap();
    assert_eq!(ended.joined(), b"g,count,sum(x)\na,2,7\n");
    let report = &ended.stages[0].parts[0].report;
    assert_eq!((report.skipped, report.rows_in), (3, 2));
    let whys: Vec<(u64, &str)> =
        report.first_skipped.iter().map(|skip| (skip.line, skip.why.as_str())).collect();
    assert_eq!(whys[1], (4, "the row has 3 fields, the header 2"));
    assert!(
        whys[2].0 == 6 && whys[2].1.contains("a quoted field does not end on its line"),
        "{whys:?}"
    );
}

#[test]
fn files_and_words_that_cannot_be_used_are_refused_with_the_cure() {
    let place = tempfile::tempdir().unwrap();
    let options = json!({"group_by": ["g"], "agg": "count"});
    for (name, options, expected) in [
        ("a.parquet", options.clone(), "nobody reads Parquet in tests of one process"),
        ("a.parquet.gz", options.clone(), "a Parquet file that is packed once more; unpack it"),
        ("a.data", options, "does not say what it is; add --format csv, jsonl or parquet"),
        ("a.csv", json!({"agg": "mode(x)"}), "agg cannot be read: `mode(x)` is not known"),
        ("a.csv", json!({"agg": "count", "delimiter": "é"}), "delimiter must be one ASCII letter"),
        (
            "a.csv",
            json!({"group_by": ["k"], "agg": "count"}),
            "a.csv:1: there is no column `k`; the header has g, x",
        ),
    ] {
        let input = file(place.path(), name, b"g,x\n1,2\n");
        let error = run(job(vec![input], options), place.path()).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn a_hot_group_is_named_and_its_partition_divided() {
    let place = tempfile::tempdir().unwrap();
    let text: String = (0..4_000)
        .map(|number| format!("{},u{number}\n", if number % 10 == 0 { "cold" } else { "hot" }))
        .collect();
    let input = file(place.path(), "a.csv", format!("g,u\n{text}").as_bytes());
    let options = json!({"group_by": ["g"], "agg": "count, distinct(u)", "skew_bytes": 1_000});
    let new = NewJob { partitions: Some(4), ..job(vec![input], options) };
    let ended = run(new, place.path()).unwrap();
    assert_eq!(ended.stages.len(), 3);
    let hot = &ended.summary.data["hot_groups"][0];
    assert_eq!(hot[0], "hot");
    let text = String::from_utf8(ended.joined()).unwrap();
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["cold,400,400", "g,count,distinct(u)", "hot,3600,3600"]);
}

#[test]
fn only_parts_that_read_parquet_need_who_reads_it() {
    let place = tempfile::tempdir().unwrap();
    let inputs = [("a.csv", 3_000), ("b.parquet", 3_000), ("c.csv", 10), ("d.data", 2_000)];
    let inputs = inputs.map(|(name, size)| file(place.path(), name, &vec![b'1'; size])).to_vec();
    let options = json!({"agg": "count"});
    let needs = |options, inputs: &[InputFile]| {
        let new = NewJob { split_bytes: 2_000, ..job(inputs.to_vec(), options) };
        let spec = new.check("job".to_owned(), 0).unwrap();
        let explained = Aggregate.explain(&spec, &[]).join("\n");
        let Ok(Next::Stage(stage)) = Aggregate.next(&spec, &[]) else { panic!("no stage") };
        let needs = stage.parts.iter().map(|part| part.needs.concat()).collect::<Vec<_>>();
        (needs, explained)
    };
    let (found, explained) = needs(options, &inputs[..3]);
    assert_eq!(found, ["", "", "duckdb", "duckdb", ""], "two parts of each large file");
    assert!(
        explained.contains("1 of the files are Parquet") && explained.contains("install duckdb")
    );
    let (found, _) = needs(json!({"agg": "count", "format": "parquet"}), &inputs[3..]);
    assert_eq!(found, ["duckdb"]);
}
