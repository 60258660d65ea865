//! Whole streams, without a server: against a slow reference, with turns that are stopped, with sources that grow and fall
//! silent, on bad input.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use divvy_kernels::window::{Spec, Trigger};
use serde_json::{Value, json};

use super::{END, Format, Options, SoFar, Source, TimeUnit};
use crate::alone::{Ended, run, run_with_stops};
use crate::job::{Folder, NewJob, OnError};

fn options(paths: &[PathBuf]) -> Options {
    Options {
        sources: paths.iter().map(|path| Source::File { path: path.clone() }).collect(),
        format: Format::Jsonl,
        follow: false,
        end_after_idle_ms: None,
        time: "at".to_owned(),
        time_unit: TimeUnit::Ms,
        window: Spec::Tumbling { size_ms: 10_000 },
        lateness_ms: 5_000,
        trigger: Trigger::Close,
        idle_after_ms: None,
        group_by: vec!["k".to_owned()],
        aggregates: "count, sum(x)".to_owned(),
        approximate: false,
    }
}

fn job(options: &Options) -> NewJob {
    NewJob { options: json!(options), ..NewJob::new("stream") }
}

type Event = (i64, u32, i64);
/// Count and sum by window and key.
type Groups = BTreeMap<(i64, u32), (u64, i64)>;

/// Events that come up to ten seconds late.
fn events(seed: u64, count: i64) -> Vec<Event> {
    let mut chance = fastrand::Rng::with_seed(seed);
    (0..count)
        .map(|nth| (nth * 10 - chance.i64(0..10_000), chance.u32(0..7), chance.i64(-5..100)))
        .collect()
}

fn write(path: &Path, events: &[Event]) {
    let line = |(at, k, x): &Event| format!("{{\"at\":{at},\"k\":\"key {k}\",\"x\":{x}}}\n");
    std::fs::write(path, events.iter().map(line).collect::<String>()).unwrap();
}

fn lines(ended: &Ended, name: &str) -> Vec<Value> {
    let text = ended.files.get(name).map_or("", |bytes| std::str::from_utf8(bytes).unwrap());
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Count and sum for each window and key of a single source, event by event.
fn reference(events: &[Event], size: i64, lateness: i64) -> (Groups, usize) {
    let mut groups: Groups = BTreeMap::new();
    let (mut watermark, mut late) = (i64::MIN, 0);
    for (at, k, x) in events {
        let start = at.div_euclid(size) * size;
        if start + size <= watermark {
            late += 1;
        } else {
            let group = groups.entry((start, *k)).or_default();
            *group = (group.0 + 1, group.1 + x);
        }
        watermark = watermark.max(at - lateness);
    }
    (groups, late)
}

#[test]
fn windows_hold_what_a_plain_loop_counts_and_late_events_are_beside_them() {
    let place = tempfile::tempdir().unwrap();
    let (path, events) = (place.path().join("events"), events(1, 20_000));
    write(&path, &events);
    let ended = run(job(&options(&[path])), place.path()).unwrap();
    let (wanted, late) = reference(&events, 10_000, 5_000);
    let rows = lines(&ended, "part-00000");
    let found: Groups = rows
        .iter()
        .map(|row| {
            let start: jiff::Timestamp = row["start"].as_str().unwrap().parse().unwrap();
            let key = row["k"].as_str().unwrap().strip_prefix("key ").unwrap().parse().unwrap();
            let count = row["count"].as_u64().unwrap();
            ((start.as_millisecond(), key), (count, row["sum(x)"].as_i64().unwrap()))
        })
        .collect();
    assert_eq!((found.len(), found == wanted), (rows.len(), true));
    assert!(late > 100, "{late}");
    assert_eq!(lines(&ended, "late.jsonl").len(), late);
    assert_eq!(ended.summary.data["late"], late);
    assert_eq!(rows[0]["end"], "1970-01-01T00:00:00Z");
}

#[test]
fn a_stream_that_was_stopped_anywhere_gives_the_same_bytes() {
    let place = tempfile::tempdir().unwrap();
    let (one, two) = (place.path().join("one"), place.path().join("two"));
    write(&one, &events(2, 60_000));
    write(&two, &events(3, 40_000));
    for (window, trigger) in [
        (Spec::Tumbling { size_ms: 10_000 }, Trigger::Close),
        (Spec::Sliding { size_ms: 30_000, slide_ms: 10_000 }, Trigger::Events(50)),
        (Spec::Session { gap_ms: 700 }, Trigger::EveryMs(60_000)),
    ] {
        let options = Options { window, trigger, ..options(&[one.clone(), two.clone()]) };
        let calm = tempfile::tempdir().unwrap();
        let undisturbed = run(job(&options), calm.path()).unwrap();
        assert!(!undisturbed.files["part-00000"].is_empty());
        let wild = tempfile::tempdir().unwrap();
        let mut turns = 0;
        let ended = run_with_stops(job(&options), wild.path(), &mut |_| {
            turns += 1;
            (turns < 6).then_some(turns)
        })
        .unwrap();
        assert_eq!(
            ended.stopped, 5,
            "it ends long after the last stop, however much was kept before"
        );
        assert_eq!(ended.files, undisturbed.files, "{window:?}");
        assert_eq!(ended.summary, undisturbed.summary);
    }
}

#[test]
fn what_was_written_after_the_last_commit_is_cut() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("events");
    write(&path, &events(4, 5_000));
    let undisturbed = run(job(&options(std::slice::from_ref(&path))), place.path()).unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    // An attempt that died while it wrote leaves lines that no commit knows.
    let keep = elsewhere.path().join("job/keep/0-0");
    std::fs::create_dir_all(&keep).unwrap();
    std::fs::write(keep.join("out.jsonl"), b"{\"half\":").unwrap();
    std::fs::write(keep.join("late.jsonl"), b"more").unwrap();
    let ended = run(job(&options(&[path])), elsewhere.path()).unwrap();
    assert_eq!(ended.files, undisturbed.files);
}

#[test]
fn a_folder_of_segments_is_read_in_order_until_its_end_and_emptied() {
    let place = tempfile::tempdir().unwrap();
    let (whole, folder) = (place.path().join("whole"), place.path().join("segments"));
    let events = events(5, 3_000);
    write(&whole, &events);
    let wanted = run(job(&options(&[whole])), place.path()).unwrap();
    for remove in [false, true] {
        std::fs::create_dir_all(&folder).unwrap();
        for (nth, events) in events.chunks(500).enumerate() {
            write(&folder.join(format!("{nth:06}")), events);
        }
        std::fs::write(folder.join(END), b"").unwrap();
        let sources = vec![Source::Folder { path: folder.clone(), remove }];
        let options = Options { sources, follow: true, ..options(&[]) };
        let elsewhere = tempfile::tempdir().unwrap();
        let ended = run(job(&options), elsewhere.path()).unwrap();
        assert_eq!(ended.files, wanted.files);
        let left = std::fs::read_dir(&folder).unwrap().count();
        assert_eq!(left, if remove { 2 } else { 7 }, "the last segment and the end stay");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}

#[test]
fn a_file_that_grows_is_followed_line_by_line_until_it_is_silent() {
    let place = tempfile::tempdir().unwrap();
    let (whole, path) = (place.path().join("whole"), place.path().join("growing"));
    let all = events(6, 2_000);
    write(&whole, &all);
    let text = std::fs::read(&whole).unwrap();
    let wanted = run(job(&options(&[whole])), place.path()).unwrap();
    let options = Options {
        follow: true,
        end_after_idle_ms: Some(300),
        ..options(std::slice::from_ref(&path))
    };
    let elsewhere = tempfile::tempdir().unwrap();
    // Before each turn the file grows by a piece that ends in the middle of a line.
    let mut pieces = text.chunks(9_973);
    let ended = run_with_stops(job(&options), elsewhere.path(), &mut |_| {
        if let Some(piece) = pieces.next() {
            let mut file = OpenOptions::new().create(true).append(true).open(&path).unwrap();
            file.write_all(piece).unwrap();
        }
        None
    })
    .unwrap();
    assert!(pieces.next().is_none(), "the stream did not end before the file did");
    assert_eq!(ended.files, wanted.files);
}

#[test]
fn a_stream_that_is_told_to_end_closes_its_windows_with_what_it_has_read() {
    let place = tempfile::tempdir().unwrap();
    let (path, all) = (place.path().join("events"), events(8, 4_000));
    write(&path, &all[..2_000]);
    let wanted = run(job(&options(std::slice::from_ref(&path))), place.path()).unwrap();
    let options = Options { follow: true, ..options(std::slice::from_ref(&path)) };
    let elsewhere = tempfile::tempdir().unwrap();
    let folder = Folder::new(elsewhere.path().join("job"));
    assert_eq!(SoFar::read(&folder).unwrap(), None);
    let mut turns = 0;
    let ended = run_with_stops(job(&options), elsewhere.path(), &mut |_| {
        turns += 1;
        if turns == 2 {
            // The first turn has read all that was there, and the windows behind the watermark are open.
            let so_far = SoFar::read(&folder).unwrap().unwrap();
            assert_eq!((so_far.events, so_far.lag_ms()), (2_000, Some(5_000)));
            assert!(so_far.windows_open > 0 && so_far.late > 0, "{so_far:?}");
            for (file, path) in &so_far.files {
                let kept = std::fs::read(path).unwrap();
                assert_eq!(kept.len() as u64, file.bytes);
                assert_eq!(kept.iter().filter(|byte| **byte == b'\n').count() as u64, file.rows);
                assert!(wanted.files[&file.name].starts_with(&kept), "{}", file.name);
            }
            assert!(so_far.files[0].0.bytes < wanted.files["part-00000"].len() as u64);
            write(&path, &all);
            std::fs::write(folder.stop(), b"").unwrap();
        }
        None
    })
    .unwrap();
    assert_eq!((turns, ended.files == wanted.files), (2, true));
    assert_eq!(ended.summary.data["events"], 2_000);
}

#[test]
fn a_source_that_stalls_holds_the_others_only_for_the_idle_time() {
    let place = tempfile::tempdir().unwrap();
    let (busy, silent) = (place.path().join("busy"), place.path().join("silent"));
    write(&busy, &[(1_000, 1, 1), (100_000, 1, 1)]);
    write(&silent, &[(1_000, 2, 1)]);
    let options = Options {
        follow: true,
        idle_after_ms: Some(50),
        end_after_idle_ms: Some(300),
        lateness_ms: 0,
        ..options(&[busy.clone(), silent.clone()])
    };
    // The busy one goes on. When the silent one speaks again, what it says about the past is late.
    let add = |path: &Path, at: u64| {
        let mut file = OpenOptions::new().append(true).open(path).unwrap();
        file.write_all(format!("{{\"at\":{at},\"k\":\"key 2\",\"x\":1}}\n").as_bytes()).unwrap();
    };
    let mut said = false;
    let mut at = 100_000;
    let keep = place.path().join("job/keep/0-0");
    let ended = run_with_stops(job(&options), place.path(), &mut |_| {
        if !said {
            at += 1;
            add(&busy, at);
            said = std::fs::read(keep.join("out.jsonl")).is_ok_and(|out| !out.is_empty());
            if said {
                add(&silent, 2_000);
            }
        }
        None
    })
    .unwrap();
    assert!(said, "the window was closed although one source was silent");
    assert_eq!(lines(&ended, "late.jsonl").len(), 1);
}

#[test]
fn rows_of_csv_and_times_of_all_kinds_are_read() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("events.csv");
    std::fs::write(&path, "x,when,k\n1,2026-11-17T10:00:01Z,a\n2,\"2026-11-17T12:00:02+02:00\",a\n4,2026-11-17T10:00:11Z,b").unwrap();
    let base = Options {
        format: Format::Csv,
        time: "when".to_owned(),
        ..options(std::slice::from_ref(&path))
    };
    let ended = run(job(&base), place.path()).unwrap();
    let rows = lines(&ended, "part-00000");
    assert_eq!((rows.len(), &rows[0]["sum(x)"], &rows[1]["sum(x)"]), (2, &json!(3), &json!(4)));
    assert_eq!((&rows[0]["start"], &rows[1]["k"]), (&json!("2026-11-17T10:00:00Z"), &json!("b")));

    std::fs::write(&path, "k,when,x\na,10,1\na,10.5,1\n").unwrap();
    let seconds = Options { time_unit: TimeUnit::S, ..base };
    let elsewhere = tempfile::tempdir().unwrap();
    let ended = run(job(&seconds), elsewhere.path()).unwrap();
    assert_eq!(lines(&ended, "part-00000")[0]["start"], "1970-01-01T00:00:10Z");
}

#[test]
fn bad_events_windows_and_sources_are_named() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("events");
    let good = "{\"at\":1,\"k\":1,\"x\":2}\n";
    let says = |text: &str, change: &dyn Fn(&mut Options), on_error: OnError| {
        std::fs::write(&path, text).unwrap();
        let mut options = options(std::slice::from_ref(&path));
        change(&mut options);
        let place = tempfile::tempdir().unwrap();
        run(NewJob { on_error, ..job(&options) }, place.path())
    };
    let fails = |text: &str| says(text, &|_| {}, OnError::Fail).unwrap_err();
    let error = fails(&format!("{good}{{\"at\":\n"));
    assert!(error.contains("events:2: the line is no JSON object"), "{error}");
    assert!(
        fails(&format!("{good}{good}{{\"k\":1}}\n"))
            .contains("events:3: the event has no time in `at`")
    );
    assert!(fails("{\"at\":\"soon\"}\n").contains("`soon`, which is no time"));
    assert!(fails("{\"at\":1e300}\n").contains("no time"));
    assert!(fails("{\"at\":1,\"x\":\"many\"}\n").contains("not a number"));
    let bad = format!("{good}nonsense\n{good}");
    let ended = says(&bad, &|_| {}, OnError::Skip).unwrap();
    let report = &ended.stages[0].parts[0].report;
    assert_eq!((report.rows_in, report.skipped, report.first_skipped[0].line), (2, 1, 2));

    let refused = |change: &dyn Fn(&mut Options)| says(good, change, OnError::Fail).unwrap_err();
    assert!(
        refused(&|options| options.window = Spec::Tumbling { size_ms: -1 })
            .contains("window the window is -1 ms")
    );
    assert!(
        refused(&|options| options.window = Spec::Session { gap_ms: i64::MAX })
            .contains("ten years")
    );
    assert!(refused(&|options| options.lateness_ms = -1).contains("lateness_ms is -1 ms"));
    assert!(refused(&|options| options.aggregates = "sum".to_owned()).contains("needs a column"));
    assert!(refused(&|options| options.sources.clear()).contains("sources has 0 entries"));
    let missing =
        refused(&|options| options.sources = vec![Source::File { path: "/no/such/file".into() }]);
    assert!(missing.contains("/no/such/file"), "{missing}");
    let packed =
        refused(&|options| options.sources = vec![Source::File { path: "/tmp/events.gz".into() }]);
    assert!(packed.contains("unpack it first"), "{packed}");
    for (format, text) in [
        (Format::Jsonl, &b"{\"at\":1,\"k\":1,\"x\":2}\n{\"at\":1,\"k\":\"\xff\",\"x\":2}\n"[..]),
        (Format::Csv, b"at,k,x\n1,\xff,2\n1,k,2\n"),
    ] {
        let ends = |on_error| {
            std::fs::write(&path, text).unwrap();
            let options = Options { format, ..options(std::slice::from_ref(&path)) };
            let place = tempfile::tempdir().unwrap();
            run(NewJob { on_error, ..job(&options) }, place.path())
        };
        let error = ends(OnError::Fail).unwrap_err();
        assert!(error.contains("events:2: "), "{error}");
        let ended = ends(OnError::Skip).unwrap();
        let report = &ended.stages[0].parts[0].report;
        assert_eq!((report.rows_in, report.skipped, report.first_skipped[0].line), (1, 1, 2));
    }
    let csv =
        says("a,b\n1,2\n", &|options| options.format = Format::Csv, OnError::Fail).unwrap_err();
    assert!(csv.contains("events:1: the header has no column `k`"), "{csv}");
}

#[test]
fn a_line_without_an_end_is_named_by_its_number() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("events");
    let good = "{\"at\":1,\"k\":1,\"x\":2}\n";
    std::fs::write(&path, [&good.repeat(3), "x".repeat(3 << 20).as_str()].concat()).unwrap();
    let error = run(job(&options(&[path])), place.path()).unwrap_err();
    assert!(error.contains("events:4: the line at byte 63 is longer than"), "{error}");
}

#[test]
fn a_source_that_shrinks_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("events");
    write(&path, &events(7, 100));
    let options = Options { follow: true, ..options(std::slice::from_ref(&path)) };
    let mut turns = 0;
    let error = run_with_stops(job(&options), place.path(), &mut |_| {
        turns += 1;
        if turns == 2 {
            write(&path, &events(7, 10));
        }
        None
    });
    assert!(error.unwrap_err().contains("a source may only grow"));
}
