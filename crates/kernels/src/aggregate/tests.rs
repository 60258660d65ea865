//! Tables, runs and groups against slow references.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;

use proptest::prelude::*;
use serde_json::{Value as Json, json};

use super::hash::partition;
use super::*;
use crate::text::{Field, Number};

fn query(group_by: &[&str], words: &str, approximate: bool) -> Query {
    let group_by: Vec<String> = group_by.iter().map(|name| (*name).to_owned()).collect();
    Query::parse(&group_by, words, approximate).unwrap()
}

/// A row: group, number or nothing, text.
type Row = (String, Option<f64>, String);

fn rows() -> impl Strategy<Value = Vec<Row>> {
    let number = prop_oneof![
        Just(None),
        (-50_i32..50).prop_map(|whole| Some(f64::from(whole))),
        (-1e6_f64..1e6).prop_map(Some)
    ];
    prop::collection::vec(("[a-c]?", number, "[u-z]{0,2}"), 0..60)
}

const WORDS: &str = "count, count(x), sum(x), avg(x), min, max, distinct(u), p50(x), p99(x), top(2,u), histogram(x)";

/// Puts rows into groups of so many at a time, and merges what was written.
fn merged<'q>(query: &'q Query, rows: &[Row], size: usize) -> Groups<'q> {
    let mut all = Groups::new(query);
    for chunk in rows.chunks(size) {
        let mut some = Groups::new(query);
        for (group, number, user) in chunk {
            let text = number.map(|number| format!("{number:?}")).unwrap_or_default();
            let fields = [group, &text, user].map(|text| Field::of_text(text.as_bytes()));
            some.add(&fields).unwrap();
        }
        let merge = |_, key: &[u8], written: &[u8]| all.merge(key, written);
        some.write_sorted(1, merge).unwrap();
    }
    all
}

fn answers(mut groups: Groups<'_>) -> BTreeMap<String, Vec<Cell>> {
    let mut found = BTreeMap::new();
    let take = |answer: Answer| {
        found.insert(String::from_utf8(answer.key[0].clone()).unwrap(), answer.cells);
        Ok::<(), Infallible>(())
    };
    groups.answers(take).unwrap();
    found
}

/// What each group should say, by plain means.
fn reference(rows: &[Row]) -> BTreeMap<String, Vec<Json>> {
    let mut groups: BTreeMap<String, Vec<&Row>> = BTreeMap::new();
    for row in rows {
        groups.entry(row.0.clone()).or_default().push(row);
    }
    let answer = |rows: &Vec<&Row>| {
        let mut numbers: Vec<f64> = rows.iter().filter_map(|row| row.1).collect();
        let sum: f64 = numbers.iter().sum();
        numbers.sort_by(f64::total_cmp);
        let number = |value: Option<f64>| value.map_or(Json::Null, |value| json!(value));
        let quantile = |share: f64| {
            let rank = share * numbers.len().checked_sub(1)? as f64;
            let (low, high) = (numbers[rank.floor() as usize], numbers[rank.ceil() as usize]);
            Some(low + (high - low) * rank.fract())
        };
        let mut users: BTreeMap<&str, u64> = BTreeMap::new();
        for row in rows.iter().filter(|row| !row.2.is_empty()) {
            *users.entry(&row.2).or_default() += 1;
        }
        let mut top: Vec<_> = users.iter().collect();
        top.sort_by_key(|(user, count)| (u64::MAX - **count, **user));
        let top: Json = top
            .iter()
            .take(2)
            .map(|(user, count)| json!({"value": user, "count": count}))
            .collect();
        let some = !numbers.is_empty();
        vec![
            json!(rows.len()),
            json!(numbers.len()),
            number(some.then_some(sum)),
            number(some.then(|| sum / numbers.len() as f64)),
            number(numbers.first().copied()),
            number(numbers.last().copied()),
            json!(users.len()),
            number(quantile(0.5)),
            number(quantile(0.99)),
            top,
        ]
    };
    groups.iter().map(|(group, rows)| (group.clone(), answer(rows))).collect()
}

fn close(left: &Json, right: &Json) -> bool {
    match (left.as_f64(), right.as_f64()) {
        (Some(left), Some(right)) => (left - right).abs() <= 1e-9 * left.abs().max(1.0),
        _ => left == right,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn groups_say_what_a_plain_loop_says_however_rows_are_divided(rows in rows(), size in 1_usize..20) {
        let query = query(&["g"], WORDS, false);
        prop_assert_eq!(query.columns(), ["g", "x", "u"]);
        let (found, expected) = (answers(merged(&query, &rows, size)), reference(&rows));
        prop_assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
        for (group, cells) in &found {
            for (at, cell) in cells[..10].iter().enumerate() {
                let expected = &expected[group][at];
                prop_assert!(close(&cell.value, expected), "{}: {} is {} for {}", group, query.measures()[at].name, cell.value, expected);
            }
            let counted: u64 = cells[10].value.as_array().unwrap().iter().map(|range| range["count"].as_u64().unwrap()).sum();
            prop_assert_eq!(json!(counted), expected[group][1].clone());
        }
    }

    #[test]
    fn different_texts_are_counted_with_or_without_how_often(rows in rows(), size in 1_usize..20, long in any::<bool>()) {
        let end = if long { " and more" } else { "" };
        let lengthen = |mut row: Row| {
            if !row.2.is_empty() && row.2 != "z" { row.2 += end; }
            row
        };
        let rows: Vec<Row> = rows.into_iter().map(lengthen).collect();
        let expected = reference(&rows);
        for (words, at) in [
            ("sum(x), distinct(u)", 1),
            ("sum(x), distinct(u), top(2,u)", 1),
            ("sum(x), top(2,u), distinct(u)", 2),
        ] {
            let query = query(&["g"], words, false);
            prop_assert_eq!(query.states().len(), 2, "what counts texts tells how many there are");
            // In pieces, and as many rows in one that most texts do not wait for the end.
            let many: Vec<Row> = rows.iter().cycle().take(rows.len() * 20).cloned().collect();
            for groups in [merged(&query, &rows, size), merged(&query, &many, many.len() + 1)] {
                for (group, cells) in answers(groups) {
                    prop_assert_eq!(&cells[at].value, &expected[&group][6]);
                }
            }
        }
    }

    #[test]
    fn approximate_answers_keep_within_their_bounds(rows in rows(), size in 1_usize..20) {
        let (exact, rough) = (query(&["g"], WORDS, false), query(&["g"], WORDS, true));
        let expected = answers(merged(&exact, &rows, rows.len().max(1)));
        for (group, cells) in answers(merged(&rough, &rows, size)) {
            for at in [6, 7, 8] {
                let exact = &expected[&group][at].value;
                let (low, high) = cells[at].bounds.clone().unwrap();
                let Some(exact) = exact.as_f64() else { continue };
                prop_assert!(low.as_f64().unwrap() <= exact && exact <= high.as_f64().unwrap(), "{} of {low} to {high}", exact);
                // So few numbers are kept as they are.
                prop_assert!(at == 6 || close(&cells[at].value, &json!(exact)), "{} is not {}", cells[at].value, exact);
            }
        }
    }

    #[test]
    fn the_order_of_rows_does_not_change_sketches(rows in rows()) {
        let rough = query(&["g"], "common(u,g), distinct(u), count", true);
        let mut turned = rows.clone();
        turned.reverse();
        let (forth, back) = (answers(merged(&rough, &rows, 7)), answers(merged(&rough, &turned, 3)));
        prop_assert_eq!(forth, back);
    }

    #[test]
    fn what_two_columns_have_in_common_is_what_sets_have(
        rows in prop::collection::vec(("[a-b]", "[u-z]{0,2}|[u-w]-and-much-more-than-a-word", "[u-z]{0,2}|[u-w]-and-much-more-than-a-word"), 0..80),
        size in 1_usize..20,
    ) {
        let mut sets: BTreeMap<&str, [BTreeSet<&str>; 2]> = BTreeMap::new();
        for (group, left, right) in &rows {
            for (at, text) in [left, right].into_iter().enumerate() {
                sets.entry(group).or_default()[at].extend((!text.is_empty()).then_some(text.as_str()));
            }
        }
        // Alone, and where something else wants to know how often each text is there.
        for (words, approximate) in [("common(l,r)", false), ("common(l,r), top(1,r), distinct(l)", false), ("common(l, r)", true)] {
            let query = query(&["g"], words, approximate);
            let mut all = Groups::new(&query);
            for chunk in rows.chunks(size) {
                let mut some = Groups::new(&query);
                for (group, left, right) in chunk {
                    some.add(&[group, left, right].map(|text| Field::of_text(text.as_bytes()))).unwrap();
                }
                some.write_sorted(1, |_, key: &[u8], written: &[u8]| all.merge(key, written)).unwrap();
            }
            for (group, cells) in answers(all) {
                let [left, right] = &sets[group.as_str()];
                let common = json!(left.intersection(right).count());
                // So few are kept as they are, so that there is nothing to estimate.
                prop_assert_eq!(&cells[0].value, &common);
                prop_assert_eq!(&cells[0].bounds, &approximate.then(|| (common.clone(), common.clone())));
            }
        }
    }

    #[test]
    fn a_table_counts_as_a_map_does(
        words in prop::collection::vec(("[a-d]{0,3}", "|-that-is-too-long-for-a-slot"), 0..300),
        partitions in 1_u32..5,
    ) {
        let words: Vec<String> = words.iter().map(|(word, long)| format!("{word}{long}")).collect();
        let mut table = Table::new();
        let mut expected: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
        for word in &words {
            *table.value(word.as_bytes()) += 1;
            *expected.entry(word.clone().into_bytes()).or_default() += 1;
        }
        prop_assert_eq!(table.len(), expected.len());
        let sorted = table.sorted(partitions);
        let found: Vec<_> = sorted.iter().map(|(at, key, count)| (at, key.to_vec(), count)).collect();
        let mut wanted: Vec<_> = expected.into_iter().map(|(key, count)| (partition(&key, partitions), key, count)).collect();
        wanted.sort();
        for word in &words {
            let other = format!("{word}!");
            prop_assert!(table.has(word.as_bytes()) && !table.has(other.as_bytes()));
        }
        prop_assert_eq!(found, wanted);
        table.clear();
        prop_assert!(!table.has(b"a"));
        prop_assert!(table.is_empty() && table.sorted(1).iter().next().is_none());
        prop_assert_eq!(table.entry(b"again"), (&mut 0, true));
    }

    #[test]
    fn merged_runs_are_sorted_and_keep_the_order_of_runs(runs in prop::collection::vec(prop::collection::vec("[ab]{0,12}", 0..20), 0..6)) {
        let mut expected = Vec::new();
        let mut readers = Vec::new();
        for (number, mut keys) in runs.into_iter().enumerate() {
            keys.sort();
            let mut writer = RunWriter::new(Vec::new());
            for (place, key) in keys.iter().enumerate() {
                let value = vec![b'v'; 300 * (place % 2)];
                writer.write(key.as_bytes(), &value).unwrap();
                expected.push((key.clone().into_bytes(), number, place, value));
            }
            readers.push(RunReader::new(std::io::Cursor::new(writer.into_inner()), 0));
        }
        expected.sort();
        let mut merge = Merge::new(readers);
        let mut found = Vec::new();
        while merge.advance().unwrap() {
            let (key, value) = merge.record();
            found.push((key.to_vec(), value.to_vec()));
        }
        let expected: Vec<_> = expected.into_iter().map(|(key, _, _, value)| (key, value)).collect();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn keys_of_several_columns_come_back(columns in prop::collection::vec("[a\0\u{1}é]{0,4}", 1..4)) {
        let names: Vec<String> = (0..columns.len()).map(|number| number.to_string()).collect();
        let query = Query::parse(&names, "count", false).unwrap();
        let mut groups = Groups::new(&query);
        let fields: Vec<Field<'_>> = columns.iter().map(|text| Field::of_text(text.as_bytes())).collect();
        groups.add(&fields).unwrap();
        let mut found = Vec::new();
        groups.answers(|answer| { found = answer.key; Ok::<(), Infallible>(()) }).unwrap();
        prop_assert_eq!(found, columns.iter().map(|text| text.clone().into_bytes()).collect::<Vec<_>>());
    }
}

#[test]
fn short_keys_are_their_words() {
    let mut seen = BTreeSet::new();
    for length in 0..=16 {
        let key: Vec<u8> = (0..length).map(|at| b'a' + at).collect();
        let (first, second) = hash::words(&key).unwrap();
        let mut back = Vec::new();
        hash::unwords(first, second, key.len(), &mut back);
        assert_eq!(back, key);
        assert!(seen.insert(hash::hash(&key)));
    }
    assert_eq!(hash::words(&[0; 17]), None);
}

#[test]
fn a_million_distinct_values_are_estimated_within_the_bounds() {
    let query = query(&[], "distinct(u), p50(x), p99(x), top(3,u)", true);
    let mut groups = Groups::new(&query);
    for number in 0..200_000_u32 {
        // A tenth of all rows have the same text.
        let text = if number % 10 == 0 { "hot".to_owned() } else { number.to_string() };
        let fields = [Field::Text(text.as_bytes()), Field::Number(Number::Whole(number.into()))];
        groups.add(&fields).unwrap();
    }
    let cells = answers_of_all(groups);
    let inside = |at: usize, exact: f64| {
        let (low, high) = cells[at].bounds.clone().unwrap();
        low.as_f64().unwrap() <= exact && exact <= high.as_f64().unwrap()
    };
    assert!(inside(0, 180_001.0) && inside(1, 99_999.5) && inside(2, 197_999.01), "{cells:?}");
    assert_eq!(cells[3].value[0]["value"], "hot");
    let (low, high) =
        (cells[3].value[0]["low"].as_u64().unwrap(), cells[3].value[0]["high"].as_u64().unwrap());
    assert!(low <= 20_000 && 20_000 <= high && high - low < 20_000 / 10, "{low} to {high}");
}

/// What is written where all rows are one group.
fn written_of_all(mut groups: Groups<'_>) -> Vec<u8> {
    let mut written = Vec::new();
    groups
        .write_sorted(1, |_, _, state| {
            written = state.to_vec();
            Ok::<(), Infallible>(())
        })
        .unwrap();
    written
}

/// The answers where all rows are one group.
fn answers_of_all(mut groups: Groups<'_>) -> Vec<Cell> {
    let mut cells = Vec::new();
    groups
        .answers(|answer| {
            cells = answer.cells;
            Ok::<(), Infallible>(())
        })
        .unwrap();
    cells
}

#[test]
fn quantiles_of_times_are_told_apart_although_they_lie_close_together() {
    let query = query(&[], "p0(x), p1(x), p50(x), p99(x), p100(x)", true);
    // Seconds of a day in 2026, in an order of their own: all in one bucket.
    let (start, seconds) = (1_780_000_000_u64, 86_400);
    let mut all = Groups::new(&query);
    for part in 0..7 {
        let mut groups = Groups::new(&query);
        for nth in (part..seconds).step_by(7) {
            let time = start + nth * 7_919 % seconds;
            groups.add(&[Field::Number(Number::Whole(time as i64))]).unwrap();
        }
        all.merge(b"", &written_of_all(groups)).unwrap();
    }
    for (cell, share) in answers_of_all(all).iter().zip([0.0, 0.01, 0.5, 0.99, 1.0]) {
        let exact = start as f64 + share * (seconds - 1) as f64;
        let number = |value: &Json| value.as_f64().unwrap();
        let (low, high) = cell.bounds.as_ref().unwrap();
        assert!(number(low) <= exact && exact <= number(high), "{cell:?} for {exact}");
        let off = (number(&cell.value) - exact).abs() / seconds as f64;
        assert!(off <= 0.005, "{share} is off by {off} of the day");
        assert!(off == 0.0 || share > 0.0 && share < 1.0, "the ends are exact: {cell:?}");
    }
}

#[test]
fn how_often_quantiles_are_written_and_read_on_the_way_does_not_matter() {
    let query = query(&[], "p10(x), p90(x)", true);
    let mut chance = fastrand::Rng::with_seed(7);
    let numbers: Vec<f64> = (0..2_000).map(|_| chance.f64().powi(3) * 1e6 - 10.0).collect();
    let mut found = BTreeSet::new();
    for step in [2_000, 1, 100, 257, 1_000] {
        let mut groups = Groups::new(&query);
        for some in numbers.chunks(step) {
            for number in some {
                groups.add(&[Field::Number(Number::Float(*number))]).unwrap();
            }
            let written = written_of_all(groups);
            groups = Groups::new(&query);
            groups.merge(b"", &written).unwrap();
        }
        found.insert(written_of_all(groups));
    }
    assert_eq!(found.len(), 1, "the same bytes each time");
}

#[test]
fn samples_of_two_large_columns_tell_what_they_have_in_common() {
    let query = query(&[], "common(l,r)", true);
    // Left are 0 to 120,000, right 60,000 to 180,000; in pieces that overlap, from either end.
    let (exact, together) = (60_000.0, 180_000.0);
    let piece = |from: u32| {
        let mut groups = Groups::new(&query);
        for number in from..(from + 30_000).min(120_000) {
            let texts = [number, number + 60_000].map(|number| number.to_string());
            groups.add(&texts.each_ref().map(|text| Field::Text(text.as_bytes()))).unwrap();
        }
        written_of_all(groups)
    };
    let mut pieces: Vec<Vec<u8>> = (0..120_000).step_by(20_000).map(piece).collect();
    let mut found = Vec::new();
    for _ in 0..2 {
        let mut groups = Groups::new(&query);
        pieces.iter().for_each(|written| groups.merge(b"", written).unwrap());
        found.extend(answers_of_all(groups));
        pieces.reverse();
    }
    assert_eq!(found[0], found[1], "the order of pieces does not matter");
    let number = |value: &Json| value.as_f64().unwrap();
    let (low, high) = found[0].bounds.clone().unwrap();
    assert!(number(&low) <= exact && exact <= number(&high), "{found:?}");
    assert!((number(&found[0].value) - exact).abs() < 0.032 * together, "{found:?}");
    assert!(number(&low) < number(&high), "{found:?}");
}

#[test]
fn a_text_where_a_number_must_be_is_named_and_the_row_not_taken() {
    let query = query(&["g"], "count, sum(x), max(g)", false);
    let mut groups = Groups::new(&query);
    let error = groups.add(&[Field::Text(b"a"), Field::Text(b"many")]).unwrap_err();
    assert_eq!(error.to_string(), "column x is `many`, not a number");
    assert!(groups.is_empty());
    groups.add(&[Field::Text(b"a"), Field::Nothing]).unwrap();
    let found = answers(groups);
    let values: Vec<Json> = found["a"].iter().map(|cell| cell.value.clone()).collect();
    assert_eq!(values, [json!(1), Json::Null, json!("a")]);
}

#[test]
fn sums_of_whole_numbers_are_exact_and_floats_lose_little() {
    let mut sum = sum::Sum::default();
    sum.add(Number::Whole(i64::MAX));
    sum.add(Number::Whole(i64::MAX));
    assert_eq!(sum.whole(), Some(2 * i128::from(i64::MAX)));
    let mut sum = sum::Sum::default();
    for number in [1e16, 1.0, -1e16] {
        sum.add(Number::Float(number));
    }
    assert_eq!(sum.float(), 1.0);
    let (mut one, mut other) = (sum::Sum::default(), sum::Sum::default());
    one.add(Number::Float(-1e16));
    other.add(Number::Float(1e16));
    other.add(Number::Float(1.0));
    let mut written = Vec::new();
    other.write(&mut written);
    one.merge(&sum::Sum::read(&mut &written[..]).unwrap());
    assert_eq!(one.float(), 1.0, "what rounding lost elsewhere is not forgotten");
}

#[test]
fn queries_that_make_no_sense_name_the_word() {
    for (words, expected) in [
        ("", "asks for nothing"),
        ("sum", "`sum` needs a column in brackets"),
        ("min", "`min` needs a column"),
        ("sum(x", "`sum(x` needs a column in brackets"),
        ("p101(x)", "`p101(x)` is no percentile"),
        ("top(0,u)", "`top(0,u)` is not top(COUNT,COLUMN)"),
        ("common(u)", "`common(u)` is not common(COLUMN,COLUMN)"),
        ("common(u, u)", "`common(u, u)` is not common(COLUMN,COLUMN)"),
        ("count, mode(x)", "`mode(x)` is not known; use count"),
    ] {
        let error = Query::parse(&[], words, false).unwrap_err().to_string();
        assert!(error.contains(expected), "{words}: {error}");
    }
    assert!(Query::parse(&["k".into(), "k".into()], "count", false).is_err());
}

#[test]
fn what_was_damaged_is_not_merged() {
    let words = format!("{WORDS}, common(u,x)");
    let query = query(&["g"], &words, true);
    let written = written_of_all(merged(&query, &[("a".into(), Some(1.5), "u".into())], 1));
    for cut in 0..written.len() {
        assert!(Groups::new(&query).merge(b"a", &written[..cut]).is_err(), "cut at {cut}");
    }
    assert!(Groups::new(&query).merge(b"a", &written).is_ok());
}

#[test]
fn hot_keys_are_named_with_what_they_certainly_have() {
    let mut hot = Hot::default();
    for number in 0..10_000_u32 {
        hot.add(&number.to_be_bytes(), 10);
        hot.add(b"the", 10);
        hot.add(b"of", 2);
    }
    let keys: Vec<(Vec<u8>, u64)> = hot.keys(0.05);
    assert_eq!(
        keys.iter().map(|(key, _)| key.as_slice()).collect::<Vec<_>>(),
        [&b"the"[..], b"of"]
    );
    assert!(keys[0].1 <= 100_000 && keys[0].1 > 95_000, "{}", keys[0].1);
}

#[test]
fn histograms_have_powers_of_two_as_edges() {
    let query = query(&[], "histogram(x)", false);
    let mut groups = Groups::new(&query);
    for number in ["3", "2", "-3", "0.75", "3.999"] {
        groups.add(&[Field::Text(number.as_bytes())]).unwrap();
    }
    let mut told = Json::Null;
    let take = |answer: Answer| {
        told = answer.cells[0].value.clone();
        Ok::<(), Infallible>(())
    };
    groups.answers(take).unwrap();
    let range = |from: f64, to: f64, count: u64| json!({"from": from, "to": to, "count": count});
    assert_eq!(told, json!([range(-4.0, -2.0, 1), range(0.5, 1.0, 1), range(2.0, 4.0, 3)]));
}
