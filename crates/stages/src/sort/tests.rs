//! Whole sorts, without a server: against GNU sort where it is the judge, with parts that are stopped, on bad input.

use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use divvy_kernels::order::{Layout, Order};
use proptest::prelude::*;
use serde_json::json;

use super::{Expected, Options};
use crate::alone::{Ended, announced_chance, file, run, run_with_stops};
use crate::job::{InputFile, NewJob, OnError};

fn options(order: Order) -> Options {
    Options { order, single: false, check: false, expected: Expected::default() }
}

fn job(inputs: Vec<InputFile>, options: &Options) -> NewJob {
    NewJob { inputs, options: json!(options), ..NewJob::new("sort") }
}

fn fields(field: u32, separator: u8) -> Order {
    Order { layout: Layout::Fields { field, separator: Some(separator) }, ..Order::LINES }
}

const RECORDS: Order = Order {
    layout: Layout::Records { bytes: 10, key_start: 2, key_bytes: 3 },
    numeric: false,
    reverse: false,
};

/// Lines of which many are equal.
fn lines(seed: u64, count: usize) -> Vec<u8> {
    let mut chance = fastrand::Rng::with_seed(seed);
    let line = |_| match chance.u8(0..4) {
        0 => "the same line again\n".to_owned(),
        1 => format!("{},{}\n", chance.u32(0..50), chance.u32(..)),
        _ => format!("{:x},{}\n", chance.u64(..), chance.i32(-99..99)),
    };
    (0..count).map(line).collect::<String>().into_bytes()
}

/// Lines whose second field begins with a number in some way, or does not.
fn numbers(seed: u64, count: usize) -> Vec<u8> {
    let mut chance = fastrand::Rng::with_seed(seed);
    let line = |nth| {
        let (small, large) = (chance.i32(-99..99), chance.i64(..));
        let number = match chance.u8(0..12) {
            0 => format!("{}", 9_007_199_254_740_990_u64 + chance.u64(0..8)),
            1 => format!("{large}"),
            2 => format!("{small}eggs"),
            3 => format!("20{:02}-{:02}-02", chance.u8(0..30), chance.u8(1..13)),
            4 => format!("{}.{}.{}", chance.u8(..), chance.u8(..), chance.u8(..)),
            5 => format!("{small}.{:03}", chance.u16(0..1_000)),
            6 => format!("  {small}e{}", chance.i8(-9..9)),
            7 => format!("+{:05} ", chance.u16(..)),
            8 => format!(".{}", chance.u16(..)),
            9 => ["", "-", "eggs", ".", "--5", "e7", "-0", "0.000"][chance.usize(0..8)].to_owned(),
            _ => format!("{small}"),
        };
        format!("{nth},{number}\n")
    };
    (0..count).map(line).collect::<String>().into_bytes()
}

/// What GNU sort makes of these files.
fn gnu(flags: &[&str], inputs: &[InputFile]) -> Vec<u8> {
    let paths = inputs.iter().map(|input| &input.path);
    let done = Command::new("sort").env("LC_ALL", "C").arg("-s").args(flags).args(paths).output();
    let done = done.expect("GNU sort is the judge; install coreutils");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    done.stdout
}

/// Pieces of a sort depend on the memory; the least makes the most of them.
fn small(new: NewJob) -> NewJob {
    NewJob { memory_bytes: 1_000_000, partitions: Some(5), ..new }
}

fn sorted(new: NewJob) -> Result<Ended, String> {
    let place = tempfile::tempdir().unwrap();
    run(new, place.path())
}

#[test]
fn lines_are_sorted_as_gnu_sort_does() {
    let mut chance = announced_chance();
    let place = tempfile::tempdir().unwrap();
    let inputs = vec![
        file(place.path(), "a", &lines(chance.u64(..), 120_000)),
        file(place.path(), "b", b"last line without its end"),
        file(place.path(), "c", b""),
        file(place.path(), "d", &lines(chance.u64(..), 30_000)),
        file(place.path(), "e", &numbers(chance.u64(..), 60_000)),
    ];
    let numeric = Order { numeric: true, ..fields(2, b',') };
    for (flags, order) in [
        (&[][..], Order::LINES),
        (&["-r"][..], Order { reverse: true, ..Order::LINES }),
        (&["-t,", "-k2,2"][..], fields(2, b',')),
        (&["-t,", "-k2,2", "-g"][..], numeric),
        (&["-t,", "-k2,2", "-g", "-r"][..], Order { reverse: true, ..numeric }),
    ] {
        let ended = sorted(small(job(inputs.clone(), &options(order)))).unwrap();
        assert_eq!(ended.files.len(), 5, "one file for each range");
        assert!(ended.joined() == gnu(flags, &inputs), "differs from sort {flags:?}");
        let runs = &ended.stages[1];
        assert!(runs.parts.len() > 5, "{} pieces", runs.parts.len());
    }
}

#[test]
fn one_file_is_made_if_that_is_wanted_and_ranges_are_even() {
    let place = tempfile::tempdir().unwrap();
    let inputs = vec![file(place.path(), "a", &b"one line for all\n".repeat(200_000))];
    let single = Options { single: true, ..options(Order::LINES) };
    let ended = sorted(small(job(inputs.clone(), &single))).unwrap();
    assert_eq!(ended.files.keys().collect::<Vec<_>>(), ["part-00000"]);
    assert!(ended.joined() == std::fs::read(&inputs[0].path).unwrap());
    let rows: Vec<u64> = ended.stages[2].parts.iter().map(|part| part.report.rows_out).collect();
    assert_eq!(rows.len(), 5);
    assert!(rows.iter().all(|rows| (20_000..60_000).contains(rows)), "one key is spread: {rows:?}");
}

#[test]
fn stopped_parts_leave_no_trace() {
    let place = tempfile::tempdir().unwrap();
    let inputs = vec![file(place.path(), "a", &lines(3, 60_000))];
    let undisturbed = sorted(small(job(inputs.clone(), &options(Order::LINES)))).unwrap();
    let mut chance = fastrand::Rng::with_seed(4);
    let mut turns = 0u64;
    // Two turns of three are stopped, at once or a little later.
    let mut stops = |_: &str| {
        turns += 1;
        (!turns.is_multiple_of(3)).then(|| chance.u64(0..4))
    };
    let elsewhere = tempfile::tempdir().unwrap();
    let new = small(job(inputs, &options(Order::LINES)));
    let ended = run_with_stops(new, elsewhere.path(), &mut stops).unwrap();
    assert!(ended.stopped > 3, "{}", ended.stopped);
    assert_eq!(ended.files, undisturbed.files);
}

#[test]
fn what_is_larger_than_the_memory_though_it_is_packed_is_spilled() {
    let place = tempfile::tempdir().unwrap();
    let text = lines(5, 400_000);
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packer.write_all(&text).unwrap();
    let packed = vec![file(place.path(), "a.gz", &packer.finish().unwrap())];
    let plain = vec![file(place.path(), "a", &text)];
    let ended = sorted(small(job(packed, &options(Order::LINES)))).unwrap();
    assert!(ended.stages[1].parts[0].report.counters["runs that were spilled"] > 1);
    let reference = sorted(small(job(plain, &options(Order::LINES)))).unwrap();
    assert!(ended.joined() == reference.joined());
}

#[test]
fn a_check_finds_disorder_and_what_is_missing() {
    let place = tempfile::tempdir().unwrap();
    let check = |texts: &[&str], expected: Expected| {
        let inputs = texts
            .iter()
            .enumerate()
            .map(|(nth, text)| file(place.path(), &nth.to_string(), text.as_bytes()));
        let options = Options { check: true, expected, ..options(Order::LINES) };
        sorted(job(inputs.collect(), &options)).map(|ended| ended.summary.lines.join("; "))
    };
    let rows = |rows| Expected { rows: Some(rows), ..Expected::default() };
    let good = check(&["a\nb\n", "", "b\nc\n"], rows(4)).unwrap();
    assert!(good.starts_with("3 files are in order: 4 records, 8 bytes"), "{good}");
    let checksum = good.rsplit(' ').next().unwrap().to_owned();
    let exact = |checksum: String| Expected { checksum: Some(checksum), ..Expected::default() };
    assert!(check(&["a\nb\nb\nc\n"], exact(checksum.clone())).is_ok());
    let wrong = check(&["a\nb\nb\nd\n"], exact(checksum)).unwrap_err();
    assert!(wrong.contains("checksum is"), "{wrong}");
    assert!(check(&["a\nb\n"], rows(3)).unwrap_err().contains("records are 2 instead of 3"));
    let wrong = check(&["a\nc\nb\n"], Expected::default()).unwrap_err();
    assert!(wrong.contains("0:3: is not in order: at byte 4 `b` comes after `c`"), "{wrong}");
    let wrong = check(&["a\nc\n", "b\n"], Expected::default()).unwrap_err();
    assert!(wrong.contains("1:1: is not in order"), "{wrong}");
}

#[test]
fn bad_input_is_named() {
    let place = tempfile::tempdir().unwrap();
    let says = |input: InputFile, order: Order, on_error: OnError| {
        sorted(NewJob { on_error, ..job(vec![input], &options(order)) })
    };
    let cut = says(file(place.path(), "cut", &[7; 25]), RECORDS, OnError::Fail).unwrap_err();
    assert!(cut.contains("cut has 25 bytes, which is no whole number of records of 10"), "{cut}");
    let ended = says(file(place.path(), "cut", &[7; 25]), RECORDS, OnError::Skip).unwrap();
    assert_eq!((ended.joined().len(), ended.stages[1].parts[0].report.skipped), (20, 1));

    let changed = file(place.path(), "changed", b"a\n");
    std::fs::write(place.path().join("changed"), b"a\nb\n").unwrap();
    let changed = says(changed, Order::LINES, OnError::Fail).unwrap_err();
    assert!(changed.contains("has changed since the job was started"), "{changed}");
    let gone = InputFile { path: Path::new("/no/such/file").to_owned(), bytes: 1, modified_ms: 0 };
    assert!(says(gone, Order::LINES, OnError::Fail).unwrap_err().contains("no such file"));
    let none = sorted(job(Vec::new(), &options(Order::LINES))).unwrap_err();
    assert!(none.contains("inputs is empty"), "{none}");
}

#[test]
fn a_packed_file_that_is_cut_is_named_with_its_line_and_what_was_whole_can_be_kept() {
    let place = tempfile::tempdir().unwrap();
    let text = lines(1, 500_000);
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packer.write_all(&text).unwrap();
    let packed = packer.finish().unwrap();
    let cut = file(place.path(), "cut.gz", &packed[..packed.len() / 2]);
    let ends = |options: &Options, on_error: OnError| {
        sorted(small(NewJob { on_error, ..job(vec![cut.clone()], options) }))
    };
    let ended = ends(&options(Order::LINES), OnError::Skip).unwrap();
    let kept = ended.joined();
    let rows = kept.iter().filter(|byte| **byte == b'\n').count();
    let mut wanted: Vec<&[u8]> = text.split_inclusive(|byte| *byte == b'\n').take(rows).collect();
    wanted.sort_unstable();
    assert!(rows > 50_000 && kept == wanted.concat(), "{rows} whole lines are kept");
    let report = &ended.stages[1].parts[0].report;
    assert!(
        report.counters["runs that were spilled"] > 1,
        "the cut is behind the first memory full"
    );
    assert_eq!((report.skipped, report.first_skipped[0].line), (1, rows as u64 + 1));

    let place_of_cut = format!("cut.gz:{}: the packed data is cut or damaged", rows + 1);
    let checks = Options { check: true, ..options(Order { reverse: true, ..Order::LINES }) };
    for options in [options(Order::LINES), checks] {
        let error = ends(&options, OnError::Fail).unwrap_err();
        assert!(error.contains(&place_of_cut) && error.contains("fetch it again"), "{error}");
    }
    // A packed file may also be whole, and its last record not.
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packer.write_all(&[7; 25]).unwrap();
    let odd = file(place.path(), "odd.gz", &packer.finish().unwrap());
    let ends = |on_error| sorted(NewJob { on_error, ..job(vec![odd.clone()], &options(RECORDS)) });
    let error = ends(OnError::Fail).unwrap_err();
    assert!(error.contains("odd.gz:3: the record at byte 20 has 5 bytes"), "{error}");
    let ended = ends(OnError::Skip).unwrap();
    assert_eq!((ended.joined().len(), ended.stages[1].parts[0].report.skipped), (20, 1));
}

#[test]
fn a_line_that_is_longer_than_the_memory_is_named_by_its_number() {
    let place = tempfile::tempdir().unwrap();
    let text = ["short\n".repeat(20_000), "long".repeat(5 << 18)].concat();
    let input = file(place.path(), "a", text.as_bytes());
    let job = NewJob { partitions: Some(1), ..small(job(vec![input], &options(Order::LINES))) };
    let error = sorted(job).unwrap_err();
    assert!(error.contains("a:20001: the line at byte 120000 is longer than"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Cuts fall anywhere: in lines, at their ends, in the last one.
    #[test]
    fn records_and_lines_are_all_there_wherever_pieces_are_cut(
        texts in prop::collection::vec("[ab\n]{0,200}", 1..4),
        partitions in 1u32..6,
    ) {
        let place = tempfile::tempdir().unwrap();
        let texts: Vec<String> = texts.iter().map(|text| text.repeat(40)).collect();
        let inputs: Vec<InputFile> = (0..).zip(&texts)
            .map(|(nth, text)| file(place.path(), &format!("{nth}"), text.as_bytes()))
            .collect();
        let new = NewJob { partitions: Some(partitions), ..job(inputs, &options(Order::LINES)) };
        let ended = run(new, place.path()).unwrap();
        let mut wanted: Vec<&str> = texts.iter().flat_map(|text| text.lines()).collect();
        wanted.sort_unstable();
        let wanted: String = wanted.iter().flat_map(|line| [line, "\n"]).collect();
        prop_assert_eq!(String::from_utf8(ended.joined()).unwrap(), wanted);
    }
}
