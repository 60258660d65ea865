//! The whole way of a sort against a slow reference: runs of any size, ranges, merges.

use std::io::Read as _;

use proptest::prelude::*;

use super::*;

/// Sorts as the whole does: pieces to runs, runs to ranges, ranges merged.
fn sorted_by_parts(order: Order, parts: &[Vec<u8>], memory: usize, ranges: usize) -> Vec<Vec<u8>> {
    let mut samples = Vec::new();
    for (part, input) in parts.iter().enumerate() {
        let mut run = Run::new(order, memory);
        run.fill(&mut &input[..]).unwrap();
        samples.extend(run.records().step_by(3).map(|(offset, record)| Sample {
            key: order.key(record).to_vec(),
            file: part as u32,
            offset,
        }));
    }
    let splitters = choose(&order, samples, ranges);
    let mut outputs: Vec<Vec<Vec<u8>>> = vec![Vec::new(); splitters.len() + 1];
    let mut tally = Tally::default();
    for (part, input) in parts.iter().enumerate() {
        let mut run = Run::new(order, memory);
        let mut rest = &input[..];
        loop {
            let filled = run.fill(&mut rest).unwrap();
            run.sort();
            for (output, range) in outputs.iter_mut().zip(run.ranges(&splitters, part as u32)) {
                let mut written = Vec::new();
                tally.merge(&run.write(range, &mut written).unwrap());
                output.push(written);
            }
            if filled == Filled::End {
                break;
            }
        }
    }
    let mut merged_tally = Tally::default();
    let merged: Vec<Vec<u8>> = outputs
        .iter()
        .map(|runs| {
            let mut output = Vec::new();
            let streams: Vec<&[u8]> = runs.iter().map(Vec::as_slice).collect();
            let mut step = |_| Ok::<(), OrderError>(());
            merged_tally.merge(&merge(&order, streams, 1, &mut output, &mut step).unwrap());
            output
        })
        .collect();
    assert_eq!(tally, merged_tally);
    merged
}

/// A stable sort of all records, by comparing keys only.
fn reference(order: Order, parts: &[Vec<u8>]) -> Vec<u8> {
    let mut records: Vec<Vec<u8>> = Vec::new();
    for part in parts {
        match order.layout {
            Layout::Records { bytes, .. } => {
                records.extend(part.chunks(bytes as usize).map(<[u8]>::to_vec));
            }
            _ => records.extend(
                part.split_inclusive(|byte| *byte == b'\n')
                    .map(|line| line.strip_suffix(b"\n").unwrap_or(line).to_vec()),
            ),
        }
    }
    // The longest beginning that is a number, found by trying all of them.
    let number = |key: &[u8]| {
        let text = String::from_utf8_lossy(key).into_owned();
        let text = text.trim_start();
        (0..=text.len()).rev().filter_map(|end| text.get(..end)).find_map(|start| {
            let is_digital = start.bytes().any(|byte| byte.is_ascii_digit());
            start.parse::<f64>().ok().filter(|_| is_digital)
        })
    };
    records.sort_by(|a, b| {
        let (a, b) = (order.key(a), order.key(b));
        let compared =
            if order.numeric { number(a).partial_cmp(&number(b)).unwrap() } else { a.cmp(b) };
        if order.reverse { compared.reverse() } else { compared }
    });
    let end: &[u8] = if order.is_lines() { b"\n" } else { b"" };
    records.iter().flat_map(|record| [record, end].concat()).collect()
}

fn lines() -> impl Strategy<Value = Vec<Vec<u8>>> {
    // Few letters and long common beginnings, zeros at the end among them, so that all ways of breaking ties are met.
    let line = prop_oneof![
        "[ab\0]{0,3}",
        "common beginning of a line [ab]{0,2}",
        "same",
        "[ab]{0,20},[0-9]{1,2},[xy]",
        "-?[0-9]{1,3}(\\.[0-9])?",
        "[+-]?[0-9]{0,2}\\.?[0-9]{0,2}(e[0-9]?)?[ab-]?",
    ];
    let part = (prop::collection::vec(line, 0..80), any::<bool>()).prop_map(|(lines, ends)| {
        let mut text = lines.join("\n").into_bytes();
        if ends && !text.is_empty() {
            text.push(b'\n');
        }
        text
    });
    prop::collection::vec(part, 1..4)
}

fn orders() -> impl Strategy<Value = Order> {
    let layout = prop_oneof![
        Just(Layout::Lines),
        Just(Layout::Fields { field: 2, separator: Some(b',') }),
        Just(Layout::Fields { field: 1, separator: None }),
    ];
    (layout, any::<bool>(), any::<bool>()).prop_map(|(layout, numeric, reverse)| Order {
        layout,
        numeric,
        reverse,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn lines_are_sorted_as_a_stable_sort_does(order in orders(), parts in lines(), ranges in 1usize..6) {
        let merged = sorted_by_parts(order, &parts, 0, ranges);
        prop_assert_eq!(merged.concat(), reference(order, &parts));
    }

    #[test]
    fn records_are_sorted_as_a_stable_sort_does(
        keys in prop::collection::vec(prop::collection::vec(0u8..3, 12), 0..300),
        reverse in any::<bool>(),
        ranges in 1usize..6,
    ) {
        let layout = Layout::Records { bytes: 12, key_start: 1, key_bytes: 9 };
        let order = Order { layout, numeric: false, reverse };
        let parts: Vec<Vec<u8>> = keys.chunks(100).map(<[Vec<u8>]>::concat).collect();
        let merged = sorted_by_parts(order, &parts, 0, ranges);
        prop_assert_eq!(merged.concat(), reference(order, &parts));
    }
}

#[test]
fn one_key_alone_is_spread_over_all_ranges() {
    let parts = vec![b"same\n".repeat(3_000), b"same\n".repeat(3_000)];
    let merged = sorted_by_parts(Order::LINES, &parts, 0, 4);
    let sizes: Vec<usize> = merged.iter().map(Vec::len).collect();
    assert_eq!(sizes.len(), 4);
    assert!(sizes.iter().all(|size| (5_000..10_000).contains(size)), "{sizes:?}");
}

#[test]
fn what_does_not_fit_becomes_several_runs_and_the_memory_is_kept() {
    let mut random = fastrand::Rng::with_seed(1);
    let input: Vec<u8> = (0..300_000)
        .flat_map(|_| format!("{:06} {}\n", random.u32(..1_000_000), "x".repeat(30)).into_bytes())
        .collect();
    let mut run = Run::new(Order::LINES, 6 << 20);
    let mut rest = &input[..];
    let mut runs = 1;
    while run.fill(&mut rest).unwrap() == Filled::Full {
        assert!(run.used() <= 6 << 20);
        runs += 1;
    }
    assert!((3..=4).contains(&runs), "{runs}");
    let parts = [input];
    let merged = sorted_by_parts(Order::LINES, &parts, 6 << 20, 3);
    assert_eq!((merged.len(), merged.concat() == reference(Order::LINES, &parts)), (3, true));
}

#[test]
fn a_cut_record_and_an_endless_line_are_named() {
    let layout = Layout::Records { bytes: 10, key_start: 0, key_bytes: 4 };
    let mut run = Run::new(Order { layout, ..Order::LINES }, 0);
    let error = run.fill(&mut &[0u8; 25][..]).unwrap_err();
    assert!(
        error.to_string().starts_with("the record at byte 20 has 5 bytes instead of 10"),
        "{error}"
    );
    assert_eq!(run.rows(), 2, "those before it are there");

    let mut run = Run::new(Order::LINES, 0);
    let error = run.fill(&mut std::io::repeat(b'a').take(20 << 20)).unwrap_err();
    assert!(matches!(error, OrderError::Long { offset: 0, .. }), "{error}");
}

#[test]
fn a_stream_out_of_order_is_found_where_it_is() {
    let look = |text: &str| {
        let mut step = |_| Ok::<(), OrderError>(());
        check(&Order::LINES, &mut text.as_bytes(), 0, &mut step).unwrap()
    };
    let good = look("a\nb\nb\nc");
    assert_eq!((good.tally.rows, good.disorder.clone()), (4, None));
    assert_eq!((good.first.as_deref(), good.last.as_deref()), (Some(&b"a"[..]), Some(&b"c"[..])));
    let bad = look("a\nc\nb\n");
    let place = bad.disorder.unwrap();
    assert_eq!(
        (place.row, place.offset, place.key.as_str(), place.before.as_str()),
        (3, 4, "b", "c")
    );
    assert!(look("a\n").may_be_followed_by(&Order::LINES, &good));
    assert!(!good.may_be_followed_by(&Order::LINES, &look("a\n")));
    assert_eq!(look("b\na\nc\nb").tally, good.tally, "the order is not in the tally");
}

#[test]
fn a_run_that_was_cut_is_no_run() {
    let mut output = Vec::new();
    let mut step = |_| Ok::<(), OrderError>(());
    let merged = merge(&Order::LINES, vec![&b"a\nb"[..]], 1, &mut output, &mut step);
    assert!(matches!(merged, Err(OrderError::Io(_))));
}

#[test]
fn splitters_come_back_from_their_plan() {
    let splitter = Splitter { key: vec![0, 255, 16], file: 3, offset: 7 };
    let text = serde_json::to_string(&splitter).unwrap();
    assert_eq!(text, r#"{"key":"00ff10","file":3,"offset":7}"#);
    assert_eq!(serde_json::from_str::<Splitter>(&text).unwrap(), splitter);
    assert!(serde_json::from_str::<Splitter>(&text.replace("ff", "fz")).is_err());
}
