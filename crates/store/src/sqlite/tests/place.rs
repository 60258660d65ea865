//! Folders that vanish, disks without room for background work, locks of other programs, and who can read what.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use divvy_types::{Fact, Seq, Verdict};

use super::{open, options};
use crate::conformance::{commit, finished, maintain, second, submitted};
use crate::sqlite::{Options, SqliteStore};
use crate::{Error, Maintenance, Room, Store};

fn away(store: &SqliteStore) -> String {
    match store.in_place() {
        Err(error @ Error::Away { .. }) => error.to_string(),
        other => panic!("the store is not where it was, but says {other:?}"),
    }
}

#[test]
fn a_folder_that_is_moved_replaced_or_deleted_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let (data, elsewhere) = (folder.path().join("data"), folder.path().join("elsewhere"));
    let mut store = open(&data);
    commit(&mut store, &[submitted(1)]);
    store.in_place().unwrap();
    std::fs::rename(&data, &elsewhere).unwrap();
    assert!(away(&store).contains("divvy.lock is not there"), "{}", away(&store));
    let other = open(&data);
    assert!(away(&store).contains("another divvy.lock is there"), "{}", away(&store));
    drop(other);
    std::fs::remove_dir_all(&data).unwrap();
    std::fs::rename(&elsewhere, &data).unwrap();
    store.in_place().expect("it is back");
    commit(&mut store, &[submitted(2)]);
    for name in ["divvy.db-wal", "divvy.db"] {
        let (file, aside) = (data.join(name), data.join("aside"));
        std::fs::rename(&file, &aside).unwrap();
        assert!(away(&store).contains(&format!("{name} is not there")), "{}", away(&store));
        std::fs::rename(&aside, &file).unwrap();
    }
    store.in_place().expect("all files are back");
    std::fs::remove_dir_all(&data).unwrap();
    away(&store);
}

fn ended(store: &mut SqliteStore, count: u64) {
    let mut facts: Vec<Fact> = (1..=count).map(submitted).collect();
    facts.extend((1..=count).map(|n| finished(n, n)));
    commit(store, &facts);
}

fn rows(store: &SqliteStore) -> i64 {
    store.conn.query_row("SELECT count(*) FROM outcome", [], |row| row.get(0)).unwrap()
}

#[test]
fn nothing_moves_to_history_while_room_is_low_but_old_tasks_are_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let low = Options { reserve_bytes: u64::MAX, ..options() };
    let mut store = SqliteStore::open(folder.path(), low).unwrap();
    assert_eq!(store.room(), Room::Low);
    ended(&mut store, 3);
    maintain(&mut store, second(3_600));
    assert_eq!(rows(&store), 3, "a move would need room");
    maintain(&mut store, second(90 * 86_400));
    assert_eq!(rows(&store), 0, "what is too old gives room back");
}

#[test]
fn background_work_that_fails_leaves_everything_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = open(folder.path());
    ended(&mut store, 3);
    // A folder where the file of the day would be: it cannot be opened, as with no file descriptors left.
    let day = folder.path().join("history/2025-11-15.db");
    std::fs::create_dir(&day).unwrap();
    store.maintain(second(3_600), second(3_600)).unwrap_err();
    assert_eq!(rows(&store), 3);
    std::fs::remove_dir(&day).unwrap();
    maintain(&mut store, second(3_600));
    assert_eq!(rows(&store), 0);
}

#[test]
fn the_clock_in_doubt_deletes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = open(folder.path());
    ended(&mut store, 3);
    let (now, expiry) = (second(90 * 86_400), second(3_600));
    while store.maintain(now, expiry).unwrap() == Maintenance::More {}
    let mut reader = store.reader().unwrap();
    assert!(reader.get(Seq(1)).unwrap().is_some(), "moved, and kept");
    while store.maintain(now, now).unwrap() == Maintenance::More {}
    assert!(reader.get(Seq(1)).unwrap().is_none());
}

#[test]
fn the_lock_of_another_program_is_in_the_way_and_no_failure() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = open(folder.path());
    let other = rusqlite::Connection::open(folder.path().join("divvy.db")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    store.conn.busy_timeout(std::time::Duration::ZERO).unwrap();
    let mut verdicts = Vec::new();
    let error = store.commit(&[submitted(1)], &mut verdicts).unwrap_err();
    assert!(
        matches!(&error, Error::Blocked { message, .. } if message.contains("locked")),
        "{error}"
    );
    other.execute_batch("ROLLBACK").unwrap();
    assert_eq!(commit(&mut store, &[submitted(1)]), [Verdict::Applied], "the same group again");
}

#[test]
fn only_the_owner_can_read_what_the_store_makes() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("deep/data");
    let mut store = open(&data);
    ended(&mut store, 3);
    maintain(&mut store, second(3_600));
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    for (path, expected) in [
        ("", 0o700),
        ("divvy.db", 0o600),
        ("divvy.db-wal", 0o600),
        ("divvy.lock", 0o600),
        ("history", 0o700),
        ("history/2025-11-15.db", 0o600),
    ] {
        assert_eq!(mode(&data.join(path)), expected, "{path}");
    }
}
