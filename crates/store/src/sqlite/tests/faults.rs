//! Full disks, damaged files, torn logs, second servers.

use std::path::Path;

use divvy_types::fact::Replay;
use divvy_types::{Fact, Payload, Seq, TaskState, Verdict};

use super::{SqliteSubject, open, options};
use crate::conformance::{
    Subject, cancelled, commit, finished, recovered, second, spec, submission, submitted,
};
use crate::sqlite::{Options, SqliteStore, check};
use crate::{Error, Recovered, Room, Store};

fn refused(dir: &Path) -> Error {
    match SqliteStore::open(dir, options()) {
        Ok(_) => panic!("the store opened although it should not"),
        Err(error) => error,
    }
}

/// A store on which `n` tasks were submitted and which was closed.
fn closed_store(n: u64) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut store = open(folder.path());
    commit(&mut store, &(1..=n).map(submitted).collect::<Vec<_>>());
    folder
}

fn damage(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = std::fs::read(path).unwrap();
    change(&mut bytes);
    std::fs::write(path, bytes).unwrap();
}

fn marked(n: u64, text: &str) -> Fact {
    let mut spec = spec(n);
    spec.payload = Payload::json(format!("\"{text}\"")).unwrap();
    submission(n, spec)
}

fn replace(bytes: &mut [u8], old: &[u8], new: &[u8]) {
    let at =
        bytes.windows(old.len()).position(|window| window == old).expect("the text is in the file");
    bytes[at..at + new.len()].copy_from_slice(new);
}

#[test]
fn a_second_server_on_the_same_folder_is_refused() {
    let mut subject = SqliteSubject::new();
    let error = refused(subject.folder.path());
    assert!(
        matches!(&error, Error::InUse(path) if Path::new(path) == subject.folder.path()),
        "{error}"
    );
    assert!(matches!(check(subject.folder.path()), Err(Error::InUse(_))));
    subject.restart();
}

#[test]
fn a_full_disk_refuses_the_group_and_keeps_what_was_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let limit = Options { size_bytes_max: Some(1 << 20), ..options() };
    let mut store = SqliteStore::open(folder.path(), limit).unwrap();
    assert_eq!(store.room(), Room::Enough);
    let large = |n: u64| marked(n, &"x".repeat(50_000));
    let mut accepted = 0;
    let mut verdicts = Vec::new();
    let error = loop {
        match store.commit(&[large(accepted + 1), large(accepted + 2)], &mut verdicts) {
            Ok(()) => accepted += 2,
            Err(error) => break error,
        }
        assert!(accepted < 100, "the limit does not hold");
    };
    assert!(matches!(error, Error::Full(_)), "{error}");
    assert!(verdicts.is_empty() && accepted > 4);
    let mut reader = store.reader().unwrap();
    assert!(reader.get(Seq(accepted)).unwrap().is_some(), "reads still work");
    assert!(
        reader.get(Seq(accepted + 1)).unwrap().is_none(),
        "nothing of the refused group is kept"
    );
    let ends: Vec<_> = (1..=accepted).map(|n| finished(n, n)).collect();
    assert_eq!(
        commit(&mut store, &ends),
        vec![Verdict::Applied; ends.len()],
        "small facts still fit"
    );
    drop((store, reader));
    let mut store = open(folder.path());
    assert_eq!(
        commit(&mut store, &[large(accepted + 1), large(accepted + 2)]),
        [Verdict::Applied; 2]
    );
    assert_eq!(recovered(&mut store).len(), 3);
}

#[test]
fn a_nearly_full_disk_is_seen_before_it_is_full() {
    let folder = tempfile::tempdir().unwrap();
    let store =
        SqliteStore::open(folder.path(), Options { reserve_bytes: u64::MAX, ..options() }).unwrap();
    assert_eq!(store.room(), Room::Low);
}

#[test]
fn a_flipped_bit_in_a_payload_refuses_to_start_and_names_the_row() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = open(folder.path());
    commit(&mut store, &[submitted(1), marked(2, "precious"), submitted(3)]);
    drop(store);
    damage(&folder.path().join("divvy.db"), |bytes| replace(bytes, b"precious", b"precioux"));
    let mut store = open(folder.path());
    let error = store.recover(&mut |_| {}).unwrap_err();
    assert!(
        matches!(&error, Error::Damaged { place, .. } if place.contains("table task, row 2")),
        "{error}"
    );
    drop(store);
    let report = check(folder.path()).unwrap();
    assert!(
        !report.is_sound() && report.files[0].problems[0].contains("table task, row 2"),
        "{report:?}"
    );
}

#[test]
fn a_flipped_bit_in_a_result_is_found_when_it_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = open(folder.path());
    commit(&mut store, &[submitted(1), finished(1, 7)]);
    drop(store);
    damage(&folder.path().join("divvy.db"), |bytes| replace(bytes, b"{\"by\":7}", b"{\"by\":8}"));
    let store = open(folder.path());
    let error = store.reader().unwrap().get(Seq(1)).unwrap_err();
    assert!(
        matches!(&error, Error::Damaged { place, .. } if place.contains("table outcome, row 1")),
        "{error}"
    );
}

#[test]
fn files_that_are_not_ours_or_not_whole_are_refused() {
    type Change = fn(&mut Vec<u8>);
    let cases: [(&str, Change, &str); 4] = [
        ("no header", |bytes| bytes[..16].fill(0x55), "not a database"),
        ("foreign application id", |bytes| bytes[68..72].fill(1), "not a divvy store"),
        ("cut short", |bytes| bytes.truncate(bytes.len() - 8192), ""),
        ("broken page", |bytes| bytes[4096..12288].fill(0xee), ""),
    ];
    for (name, change, words) in cases {
        let folder = closed_store(500);
        damage(&folder.path().join("divvy.db"), change);
        let error = refused(folder.path());
        assert!(matches!(&error, Error::Damaged { .. }), "{name}: {error}");
        assert!(error.to_string().contains(words), "{name}: {error}");
        assert!(error.to_string().contains("divvy.db"), "{name}: {error}");
        let report = check(folder.path()).unwrap();
        assert!(!report.is_sound(), "{name}: {report:?}");
    }
}

#[test]
fn a_file_of_another_format_is_refused_with_both_versions() {
    let folder = closed_store(1);
    damage(&folder.path().join("divvy.db"), |bytes| {
        bytes[60..64].copy_from_slice(&9u32.to_be_bytes())
    });
    let error = refused(folder.path());
    assert!(matches!(error, Error::Version { found: 9, known: 1, .. }), "{error}");
}

#[test]
fn a_log_without_its_main_file_is_not_thrown_away() {
    let mut subject = SqliteSubject::new();
    commit(subject.store(), &[submitted(1)]);
    let copy = tempfile::tempdir().unwrap();
    std::fs::copy(subject.folder.path().join("divvy.db-wal"), copy.path().join("divvy.db-wal"))
        .unwrap();
    let error = refused(copy.path());
    assert!(matches!(&error, Error::Damaged { place, .. } if place.contains("missing")), "{error}");
}

/// Groups of a store whose log is cut anywhere are there whole up to some group, and not at all after it.
/// How far a log is written: a header, then frames of a page and its own header. Beyond are the zeros that it was made
/// longer with.
fn used(log: &[u8]) -> u64 {
    const HEADER: usize = 32;
    const FRAME: usize = 24 + 4096;
    let last = log.iter().rposition(|byte| *byte != 0).expect("a log with a header");
    (HEADER + (last + 1 - HEADER).div_ceil(FRAME) * FRAME) as u64
}

#[test]
fn a_torn_log_keeps_whole_groups_only() {
    let mut subject = SqliteSubject::new();
    let mut sizes = Vec::new();
    let log = subject.folder.path().join("divvy.db-wal");
    for group in 0..12u64 {
        // Each group also ends a task of the one before, so that half a group would show as a wrong mixture.
        let mut facts: Vec<_> = (1..=7).map(|n| marked(group * 7 + n, &"y".repeat(300))).collect();
        if group > 0 {
            facts.push(finished(group * 7, group));
            facts.push(cancelled(group * 7 - 1));
        }
        commit(subject.store(), &facts);
        sizes.push(used(&std::fs::read(&log).unwrap()));
    }
    let mut whole = (
        std::fs::read(subject.folder.path().join("divvy.db")).unwrap(),
        std::fs::read(&log).unwrap(),
    );
    whole.1.truncate(*sizes.last().unwrap() as usize);
    let mut cuts: Vec<u64> = (0..40u64).map(|n| n * 7_919 % whole.1.len() as u64).collect();
    cuts.extend(sizes.iter().flat_map(|size| [size - 1, *size]));
    for (n, cut) in cuts.into_iter().enumerate() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("divvy.db"), &whole.0).unwrap();
        let mut torn = whole.1[..cut as usize].to_vec();
        if n % 3 == 0 {
            // A block that was allocated but never written.
            torn.resize(torn.len() + 5_000, 0);
        }
        std::fs::write(folder.path().join("divvy.db-wal"), torn).unwrap();
        // Before the very first commit the file may hold no tables yet: then it is a new store.
        let mut store = open(folder.path());
        let open_tasks =
            recovered(&mut store).iter().filter(|one| matches!(one, Recovered::Open(_))).count()
                as u64;
        let groups = sizes.iter().filter(|size| **size <= cut).count() as u64;
        assert_eq!(
            open_tasks,
            groups * 7 - 2 * groups.saturating_sub(1),
            "cut at {cut}, {groups} whole groups"
        );
        let counts = store.reader().unwrap().final_counts().unwrap();
        let ended = groups.saturating_sub(1);
        assert_eq!(
            counts,
            [(TaskState::Done, ended), (TaskState::Dead, 0), (TaskState::Cancelled, ended)]
        );
    }
}

#[test]
fn a_crash_between_copy_and_delete_is_harmless() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = open(folder.path());
    commit(&mut store, &[submitted(1), submitted(2), submitted(3), finished(1, 1), cancelled(2)]);
    store.archive.copy(second(2).day(), &[1, 2]).unwrap();
    let look = |store: &SqliteStore| {
        let mut reader = store.reader().unwrap();
        let page = reader.page(&Default::default(), None, 9).unwrap();
        let seqs: Vec<u64> = page.tasks.iter().map(|task| task.seq.0).collect();
        (seqs, reader.final_counts().unwrap())
    };
    let expected = (
        vec![3, 2, 1],
        vec![(TaskState::Done, 1), (TaskState::Dead, 0), (TaskState::Cancelled, 1)],
    );
    assert_eq!(look(&store), expected, "while both files have them");
    drop(store);
    let mut store = open(folder.path());
    assert_eq!(look(&store), expected, "after the start that finished the move");
    let left: i64 =
        store.conn.query_row("SELECT count(*) FROM task", [], |row| row.get(0)).unwrap();
    assert_eq!(left, 1, "the main file has only the open task");
    assert_eq!(commit(&mut store, &[submitted(1), finished(1, 1)]), [Verdict::Duplicate; 2]);
    drop(store);
    assert!(check(folder.path()).unwrap().is_sound());
}

/// A task that came back from history must not be deleted by the start that finishes moves.
#[test]
fn a_revived_task_survives_a_crash_before_its_old_copy_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = open(folder.path());
    commit(&mut store, &[submitted(1), cancelled(1)]);
    crate::conformance::maintain(&mut store, second(3_600));
    let replay = Fact::Replayed { seq: Seq(1), at: second(4_000), replay: Replay::default() };
    assert_eq!(commit(&mut store, std::slice::from_ref(&replay)), [Verdict::Applied]);
    drop(store);
    let mut store = open(folder.path());
    assert_eq!(recovered(&mut store).len(), 2, "it is open");
    assert_eq!(commit(&mut store, &[replay, finished(1, 9)]), [Verdict::Stale, Verdict::Applied]);
    drop(store);
    let store = open(folder.path());
    let counts = store.reader().unwrap().final_counts().unwrap();
    assert_eq!(counts, [(TaskState::Done, 1), (TaskState::Dead, 0), (TaskState::Cancelled, 0)]);
}
