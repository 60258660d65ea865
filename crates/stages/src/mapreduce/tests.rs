//! MapReduce jobs without a server against slow references, and what becomes of bad input and bad commands.

use std::collections::BTreeMap;
use std::path::Path;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::alone::{Ended, file, run, run_with_stops};
use crate::job::{InputFile, NewJob, OnError};

fn job(inputs: Vec<InputFile>, options: Value) -> NewJob {
    NewJob { inputs, options, split_bytes: 1 << 10, ..NewJob::new("mapreduce") }
}

/// Some lines of words, of which a few are much more frequent than the others.
fn text(seed: u64, lines: usize) -> String {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut text = String::new();
    for _ in 0..lines {
        for _ in 0..random.usize(..8) {
            let word = random.u32(1..1_000);
            text.push_str(&format!("w{} ", 1_000 / word));
        }
        text.push('\n');
    }
    text
}

fn counts(text: &str) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for word in text.split_whitespace() {
        *counts.entry(word.to_owned()).or_default() += 1;
    }
    counts
}

fn as_counts(ended: &Ended) -> BTreeMap<String, u64> {
    let text = String::from_utf8(ended.joined()).unwrap();
    let pair = |line: &str| {
        let (word, count) = line.rsplit_once('\t').unwrap();
        (word.to_owned(), count.trim().parse().unwrap())
    };
    text.lines().map(pair).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn words_are_counted_as_a_map_counts_them(seed: u64, lines in 0_usize..400, split in 1_u64..6, partitions in 1_u32..5) {
        let place = tempfile::tempdir().unwrap();
        let text = text(seed, lines);
        let (half, rest) = text.split_at(text.len() / 2);
        let packed = ruzstd::encoding::compress_to_vec(rest.as_bytes(), ruzstd::encoding::CompressionLevel::Fastest);
        let inputs = vec![file(place.path(), "a.txt", half.as_bytes()), file(place.path(), "b.zst", &packed)];
        let new = NewJob { split_bytes: split << 10, partitions: Some(partitions), ..job(inputs, json!({"program": "wordcount"})) };
        let ended = run(new, place.path()).unwrap();
        let mut expected = counts(half);
        for (word, count) in counts(rest) {
            *expected.entry(word).or_default() += count;
        }
        prop_assert_eq!(as_counts(&ended), expected);
        for file in ended.files.values() {
            let lines: Vec<&[u8]> = file.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).collect();
            prop_assert!(lines.is_sorted());
        }
    }

    #[test]
    fn parts_that_were_killed_change_nothing(seed: u64) {
        let place = tempfile::tempdir().unwrap();
        let inputs = vec![file(place.path(), "a.txt", text(seed, 300).as_bytes())];
        let options = json!({"program": "invert", "skew": 1.0, "skew_bytes": 0});
        let calm = run(job(inputs.clone(), options.clone()), &place.path().join("calm")).unwrap();
        let mut random = fastrand::Rng::with_seed(seed);
        let mut stops = |_: &str| random.bool().then(|| random.u64(..4));
        let torn = run_with_stops(job(inputs, options), &place.path().join("torn"), &mut stops).unwrap();
        prop_assert_eq!((calm.stopped, calm.files), (0, torn.files));
    }
}

#[test]
fn an_index_names_the_files_of_each_word_also_when_partitions_are_divided() {
    let place = tempfile::tempdir().unwrap();
    let texts: Vec<String> = (0..6).map(|seed| text(seed, 150)).collect();
    let inputs: Vec<InputFile> = texts
        .iter()
        .enumerate()
        .map(|(number, text)| file(place.path(), &format!("{number}.txt"), text.as_bytes()))
        .collect();
    let mut expected: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (input, text) in inputs.iter().zip(&texts) {
        for (word, count) in counts(text) {
            expected.entry(word).or_default().push(format!("{}:{count}", input.path.display()));
        }
    }
    for (skew, stages) in [(0.0, 2), (1.0, 3)] {
        let options = json!({"program": "invert", "skew": skew, "skew_bytes": 0});
        let ended =
            run(job(inputs.clone(), options), &place.path().join(stages.to_string())).unwrap();
        let found: BTreeMap<String, Vec<String>> = String::from_utf8(ended.joined())
            .unwrap()
            .lines()
            .map(|line| {
                let (word, files) = line.split_once('\t').unwrap();
                (word.to_owned(), files.split(' ').map(str::to_owned).collect())
            })
            .collect();
        assert_eq!(found, expected);
        assert_eq!(ended.stages.len(), stages);
    }
}

#[test]
fn what_does_not_fit_into_memory_is_spilled_and_counted_all_the_same() {
    let place = tempfile::tempdir().unwrap();
    let mut text = String::new();
    for number in 0..60_000_u32 {
        text.push_str(&format!("word-that-is-quite-long-{} ", number % 20_011));
    }
    let input = file(place.path(), "a.txt", text.as_bytes());
    for program in ["wordcount", "lengths"] {
        add("lengths", Lengths, Lengths);
        let new = NewJob {
            memory_bytes: 1 << 20,
            split_bytes: 64 << 20,
            ..job(vec![input.clone()], json!({ "program": program }))
        };
        let ended = run(new, &place.path().join(program)).unwrap();
        assert!(ended.summary.data["counters"]["spills"].as_u64() > Some(1), "{:?}", ended.summary);
        if program == "wordcount" {
            assert_eq!(as_counts(&ended), counts(&text));
        } else {
            assert_eq!(as_counts(&ended).values().sum::<u64>(), 60_000);
        }
    }
}

/// How many words there are of each text; the value is larger than it has to be, to fill memory.
struct Lengths;

impl Map for Lengths {
    type Key = (String, u64);
    type Value = u64;

    fn map(&self, line: &str, emit: &mut Emit<'_, (String, u64), u64>) -> Result<(), String> {
        if line.starts_with('#') {
            return Err("a line begins with #".to_owned());
        }
        for word in line.split(' ').filter(|word| !word.is_empty()) {
            emit.pair(&(word.to_owned(), word.len() as u64), &1);
        }
        Ok(())
    }
}

impl Reduce for Lengths {
    type Key = (String, u64);
    type Value = u64;
    type Output = u64;

    fn merge(&self) -> Option<Merging<u64>> {
        Some(|left, right| left + right)
    }

    fn reduce(
        &self,
        _: &(String, u64),
        values: &mut dyn Iterator<Item = u64>,
        _: &mut Counters<'_>,
    ) -> u64 {
        values.sum()
    }
}

/// All values of a key, in the order of the input.
struct Gather;

impl Map for Gather {
    type Key = i64;
    type Value = String;

    fn map(&self, line: &str, emit: &mut Emit<'_, i64, String>) -> Result<(), String> {
        emit.count("lines met", 1);
        let (key, value) = line.split_once(' ').ok_or("the line has no blank")?;
        emit.pair(&key.parse().map_err(|_| format!("`{key}` is no number"))?, &value.to_owned());
        Ok(())
    }
}

impl Reduce for Gather {
    type Key = i64;
    type Value = String;
    type Output = Vec<String>;

    fn reduce(
        &self,
        key: &i64,
        values: &mut dyn Iterator<Item = String>,
        counters: &mut Counters<'_>,
    ) -> Vec<String> {
        counters.count("keys below nothing", u64::from(*key < 0));
        values.collect()
    }
}

#[test]
fn programs_in_rust_have_types_and_say_what_is_wrong_with_a_line() {
    add("gather", Gather, Gather);
    let place = tempfile::tempdir().unwrap();
    let input = file(place.path(), "a.txt", b"-3 a\n7 b\nbad line\n-3 c\nworse\n");
    let new =
        |on_error| NewJob { on_error, ..job(vec![input.clone()], json!({"program": "gather"})) };
    let error = run(new(OnError::Fail), place.path()).unwrap_err();
    assert!(error.contains("a.txt:3: `bad` is no number; correct it, or"), "{error}");
    let ended = run(new(OnError::Skip), place.path()).unwrap();
    let mut lines: Vec<String> =
        String::from_utf8(ended.joined()).unwrap().lines().map(str::to_owned).collect();
    lines.sort();
    assert_eq!(lines, ["-3\ta c", "7\tb"]);
    let report = &ended.stages[0].parts[0].report;
    let skipped: Vec<(u64, &str)> =
        report.first_skipped.iter().map(|skip| (skip.line, skip.why.as_str())).collect();
    assert_eq!(skipped, [(3, "`bad` is no number"), (5, "the line has no blank")]);
    assert_eq!(ended.summary.data["skipped"], 2);
    let counters = &ended.summary.data["counters"];
    assert_eq!((&counters["lines met"], &counters["keys below nothing"]), (&json!(5), &json!(1)));
}

#[test]
fn grep_keeps_lines_in_their_order() {
    let place = tempfile::tempdir().unwrap();
    let text: String = (0..500)
        .map(|number| format!("line {number} {}\n", if number % 7 == 0 { "Yes" } else { "no" }))
        .collect();
    let input = file(place.path(), "a.txt", text.as_bytes());
    let options = json!({"program": "grep", "settings": {"pattern": "YES", "ignore_case": true}});
    let ended = run(job(vec![input.clone()], options), place.path()).unwrap();
    let expected: String =
        text.lines().filter(|line| line.contains("Yes")).map(|line| format!("{line}\n")).collect();
    assert_eq!(String::from_utf8(ended.joined()).unwrap(), expected);
    assert!(ended.files.len() > 1 && ended.stages.len() == 1);
    assert_eq!(ended.summary.data["counters"]["lines found"], 72);
    let error = run(job(vec![input], json!({"program": "grep"})), place.path()).unwrap_err();
    assert!(error.contains("settings cannot be used"), "{error}");
}

const SPLIT: &str = "tr -s ' ' '\\n' | sed -e '/^$/d' -e 's/$/\\t1/'";
const SUM: &str =
    "awk -F'\\t' '$1!=k{if(NR>1)print k\"\\t\"s;k=$1;s=0}{s+=$2}END{if(NR)print k\"\\t\"s}'";

#[test]
fn commands_count_words_with_and_without_combiner_and_when_divided() {
    let place = tempfile::tempdir().unwrap();
    let text = text(3, 400);
    let inputs = vec![file(place.path(), "a.txt", text.as_bytes())];
    let expected = counts(&text);
    let cases = [
        json!({"map": SPLIT, "reduce": SUM}),
        json!({"map": SPLIT, "combine": SUM, "reduce": SUM}),
        json!({"map": SPLIT, "reduce": SUM, "mergeable": true, "skew": 1.0, "skew_bytes": 0}),
    ];
    for (number, options) in cases.into_iter().enumerate() {
        let new =
            NewJob { split_bytes: 4 << 10, partitions: Some(3), ..job(inputs.clone(), options) };
        let ended = run(new, &place.path().join(number.to_string())).unwrap();
        assert_eq!(as_counts(&ended), expected, "case {number}");
        assert_eq!(ended.stages.len(), if number == 2 { 3 } else { 2 });
        let hot = ended.summary.lines.iter().any(|line| line.starts_with("hot key `w1`: "));
        assert_eq!(hot, number != 1, "a combiner makes one pair of a key: {:?}", ended.summary);
    }
}

fn command(place: &Path, text: &[u8], options: Value) -> Result<Ended, String> {
    let inputs = vec![file(place, "a.txt", text)];
    run(NewJob { split_bytes: 64 << 20, ..job(inputs, options) }, place)
}

#[test]
fn a_command_that_fails_is_named_with_its_code_and_its_last_words() {
    let place = tempfile::tempdir().unwrap();
    let failing = json!({"map": "cat >/dev/null; echo this is why >&2; exit 3"});
    let error = command(place.path(), b"x\n", failing).unwrap_err();
    assert!(error.contains("exit 3` ended with code 3; it wrote: this is why"), "{error}");
    let killed = command(place.path(), b"x\n", json!({"map": "kill -9 $$"})).unwrap_err();
    assert!(killed.contains("was ended by signal 9"), "{killed}");
}

#[test]
fn a_command_may_write_much_more_than_it_reads_or_stop_to_read() {
    let place = tempfile::tempdir().unwrap();
    let text = "0123456789\n".repeat(100_000);
    let much = json!({"map": "awk '{for(i=0;i<5;i++) print $0}'"});
    let ended = command(place.path(), text.as_bytes(), much).unwrap();
    assert_eq!(ended.joined().len(), 5 * text.len());
    let first = command(place.path(), text.as_bytes(), json!({"map": "head -n 1"})).unwrap();
    assert_eq!(first.joined(), b"0123456789\n");
}

#[test]
fn counters_of_commands_are_added_up() {
    let place = tempfile::tempdir().unwrap();
    let options = json!({"map": "while read l; do echo reporter:counter:logs,lines,2 >&2; done; echo \"$DIVVY_FLOW_STAGE\""});
    let ended = command(place.path(), b"a\nb\nc\n", options).unwrap();
    assert_eq!(ended.summary.data["counters"]["logs.lines"], 6);
    assert_eq!(ended.joined(), b"map\n");
}

#[test]
fn jobs_that_make_no_sense_are_refused_with_the_field() {
    let place = tempfile::tempdir().unwrap();
    for (options, expected) in [
        (json!({}), "program is missing"),
        (
            json!({"program": "sum"}),
            "program `sum` is not known; use one of wordcount, grep, invert",
        ),
        (json!({"program": "wordcount", "map": "cat"}), "map cannot be given together with"),
        (json!({"map": " "}), "map must have 1 to"),
        (json!({"map": "cat", "combine": "cat"}), "combine needs a reduce command"),
        (json!({"program": "wordcount", "settings": {"folded": true}}), "settings cannot be used"),
        (json!({"programm": "wordcount"}), "options cannot be read: unknown field"),
    ] {
        let error = command(place.path(), b"", options).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
    let error = run(job(Vec::new(), json!({"program": "wordcount"})), place.path()).unwrap_err();
    assert!(error.contains("inputs is empty"), "{error}");
}
