//! History, retention, backups, compaction, and the length of the log.

use divvy_types::{Fact, Payload, Select, Seq, TaskState, Timestamp, Verdict};

use super::{SqliteSubject, open, options};
use crate::conformance::agreement::observe;
use crate::conformance::{
    Subject, cancelled, commit, dead, finished, maintain, second, spec, submission, submitted,
};
use crate::sqlite::{Options, SqliteStore, backup, check, compact};
use crate::{Maintenance, Store};

const DAY_S: u64 = 86_400;

fn day_files(subject: &SqliteSubject) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(subject.folder.path().join("history"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".db"))
        .collect();
    names.sort();
    names
}

/// Tasks that ended on three days in a row: 1 to 3, 4 to 6, 7 to 9; 10 is open, 11 is dead since the first day.
fn three_days() -> SqliteSubject {
    let mut subject = SqliteSubject::new();
    let mut facts: Vec<Fact> = (1..=11).map(submitted).collect();
    for n in 1..=9 {
        let mut end = finished(n, n);
        if let Fact::Finished { at, .. } = &mut end {
            *at = second((n - 1) / 3 * DAY_S);
        }
        facts.push(end);
    }
    facts.push(dead(11, 11));
    commit(subject.store(), &facts);
    subject
}

#[test]
fn a_rare_task_behind_many_others_is_found_page_by_page() {
    let mut subject = SqliteSubject::new();
    let mut needle = spec(1);
    needle.kind = "needle".into();
    let mut facts = vec![submission(1, needle)];
    facts.extend((2..=400).map(submitted));
    facts.extend((1..=100).map(|n| finished(n, n)));
    commit(subject.store(), &facts);
    for moved in [false, true] {
        if moved {
            maintain(subject.store(), second(DAY_S));
        }
        let mut reader = subject.store().reader().unwrap();
        for state in [vec![], vec![TaskState::Done], TaskState::ALL.to_vec()] {
            let select = Select { kind: Some("needle".into()), state, ..Select::default() };
            let (mut before, mut found, mut pages) = (None, Vec::new(), 0);
            loop {
                let page = reader.page(&select, before, 10).unwrap();
                found.extend(page.tasks.iter().map(|task| task.seq.0));
                assert!(page.searched_to.is_none() || page.searched_to < before.or(Some(Seq(999))));
                (before, pages) = (page.searched_to, pages + 1);
                if before.is_none() {
                    break;
                }
            }
            assert_eq!(found, [1], "{select:?}");
            assert!((2..50).contains(&pages), "each page looks at some: {pages}");
        }
    }
}

#[test]
fn a_list_goes_straight_to_what_fits_in_both_sorts_of_file() {
    let mut subject = SqliteSubject::new();
    crate::conformance::recovered(subject.store());
    let mut needle = spec(1);
    needle.kind = "some.needle".into();
    needle.queue = "rare".into();
    needle.tags = vec!["red".into()];
    let mut facts = vec![submission(1, needle)];
    facts.extend((2..=400).map(submitted));
    facts.extend((1..=100).map(|n| finished(n, n)));
    commit(subject.store(), &facts);
    let all = Select::default;
    let selects = [
        Select { kind: Some("some.needle".into()), ..all() },
        Select { kind: Some("some.*".into()), ..all() },
        Select { queue: Some("rare".into()), state: vec![TaskState::Done], ..all() },
        Select { tag: Some("red".into()), worker: Some(crate::conformance::worker()), ..all() },
    ];
    for step in ["written", "started anew", "moved", "moved and started anew"] {
        match step {
            "started anew" | "moved and started anew" => {
                subject.restart();
                crate::conformance::recovered(subject.store());
            }
            "moved" => maintain(subject.store(), second(DAY_S)),
            _ => {}
        }
        let mut reader = subject.store().reader().unwrap();
        for select in &selects {
            let page = reader.page(select, None, 10).unwrap();
            let found: Vec<u64> = page.tasks.iter().map(|task| task.seq.0).collect();
            assert_eq!((found, page.searched_to), (vec![1], None), "{step}: {select:?}");
        }
        let none = Select { tag: Some("blue".into()), ..all() };
        let page = reader.page(&none, None, 10).unwrap();
        assert_eq!((page.tasks.len(), page.searched_to), (0, None), "{step}");
    }
}

#[test]
fn ended_tasks_move_to_the_file_of_their_day_and_old_days_are_dropped() {
    let mut subject = three_days();
    let mut reader = subject.store().reader().unwrap();
    maintain(subject.store(), second(3 * DAY_S));
    assert_eq!(day_files(&subject), ["2025-11-15.db", "2025-11-16.db", "2025-11-17.db"]);
    let listed = |reader: &mut Box<dyn crate::Reader>| -> Vec<u64> {
        let page = reader.page(&Select::default(), None, 100).unwrap();
        page.tasks.iter().map(|task| task.seq.0).collect()
    };
    assert_eq!(listed(&mut reader), (1..=11).rev().collect::<Vec<_>>());
    maintain(subject.store(), second(31 * DAY_S));
    assert_eq!(day_files(&subject), ["2025-11-16.db", "2025-11-17.db"]);
    assert_eq!(
        listed(&mut reader),
        [10, 9, 8, 7, 6, 5, 4],
        "the first day and its dead letter are gone"
    );
    let counts = reader.final_counts().unwrap();
    assert_eq!(counts, [(TaskState::Done, 6), (TaskState::Dead, 0), (TaskState::Cancelled, 0)]);
    maintain(subject.store(), second(90 * DAY_S));
    assert_eq!(listed(&mut reader), [10], "open tasks are never dropped");
    subject.restart();
    let last = crate::conformance::recovered(subject.store()).pop();
    assert!(
        matches!(last, Some(crate::Recovered::End { last_seq: Seq(11), .. })),
        "numbers are not used again: {last:?}"
    );
}

#[test]
fn what_ended_just_now_stays_and_a_slice_is_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let mut store =
        SqliteStore::open(folder.path(), Options { retention_days: 7, ..Options::default() })
            .unwrap();
    let mut facts: Vec<Fact> = (1..=5_000).map(submitted).collect();
    facts.extend(
        (1..=5_000).map(|n| cancelled(n - n % 100 + if n % 100 == 0 { 0 } else { n % 100 })),
    );
    commit(&mut store, &facts);
    assert_eq!(
        store.maintain(second(60), second(60)).unwrap(),
        Maintenance::Rest,
        "nothing ended more than a minute ago"
    );
    let left = |store: &SqliteStore| -> i64 {
        store.conn.query_row("SELECT count(*) FROM task", [], |row| row.get(0)).unwrap()
    };
    assert_eq!(left(&store), 5_000);
    assert_eq!(store.maintain(second(50_000), second(0)).unwrap(), Maintenance::More);
    assert_eq!(left(&store), 4_500);
    maintain(&mut store, second(50_000));
    assert_eq!(left(&store), 0);
    assert_eq!(commit(&mut store, &[submitted(77), cancelled(77)]), [Verdict::Duplicate; 2]);
}

#[test]
fn a_backup_of_a_running_store_opens_and_shows_the_same() {
    let mut subject = three_days();
    maintain(subject.store(), second(2 * DAY_S));
    commit(subject.store(), &[submitted(12), finished(12, 12), cancelled(10)]);
    let target = SqliteSubject::new();
    let missing = target.folder.path().join("deeper/copy");
    let mut last = (0, 0);
    backup(subject.folder.path(), &missing, &mut |done, total| last = (done, total)).unwrap();
    assert!(last.0 == last.1 && last.1 > 5, "{last:?}");
    let again = backup(subject.folder.path(), &missing, &mut |_, _| {}).unwrap_err();
    assert!(again.to_string().contains("empty folder"), "{again}");
    assert!(check(&missing).unwrap().is_sound());
    struct Copy(SqliteStore);
    impl Subject for Copy {
        fn store(&mut self) -> &mut dyn Store {
            &mut self.0
        }
        fn restart(&mut self) {}
    }
    assert_eq!(observe(&mut Copy(open(&missing))), observe(&mut subject));
}

#[test]
fn a_backup_beside_a_busy_writer_holds_whole_groups() {
    let subject = SqliteSubject::new();
    let SqliteSubject { folder, store } = subject;
    let mut store = store.unwrap();
    let group = |g: u64| -> Vec<Fact> { (1..=3).map(|n| heavy(g * 3 + n, 30_000)).collect() };
    (0..40).for_each(|g| drop(commit(&mut store, &group(g))));
    let target = tempfile::tempdir().unwrap();
    // The writer commits between the steps of the copy, which is when a copy without a snapshot would tear.
    let mut next = 40;
    backup(folder.path(), target.path(), &mut |_, _| {
        commit(&mut store, &group(next));
        next += 1;
        assert!(next < 1_000, "the copy begins anew with each commit and never ends");
    })
    .unwrap();
    assert!(next > 41, "the copy had more than one step");
    assert!(check(target.path()).unwrap().is_sound());
    let mut copy = open(target.path());
    assert_eq!(
        crate::conformance::recovered(&mut copy).len(),
        40 * 3 + 1,
        "what was there when it began"
    );
}

#[test]
fn a_check_finds_what_does_not_belong_together_and_changes_nothing() {
    let mut subject = three_days();
    maintain(subject.store(), second(3 * DAY_S));
    let dir = subject.folder.path().to_owned();
    let SqliteSubject { folder: _folder, store } = subject;
    drop(store);
    let report = check(&dir).unwrap();
    assert!(report.is_sound(), "{report:?}");
    assert_eq!(
        report.files.iter().map(|file| (file.tasks, file.open)).collect::<Vec<_>>(),
        [(2, 1), (3, 0), (3, 0), (3, 0)]
    );
    let spoil = rusqlite::Connection::open(dir.join("divvy.db")).unwrap();
    spoil
        .execute_batch("DELETE FROM task WHERE seq = 11; INSERT INTO spill VALUES(1, 3, 99)")
        .unwrap();
    drop(spoil);
    let spoil = rusqlite::Connection::open(dir.join("history/2025-11-16.db")).unwrap();
    spoil.execute_batch("DELETE FROM outcome WHERE seq = 5").unwrap();
    drop(spoil);
    let before = std::fs::read(dir.join("divvy.db")).unwrap();
    let report = check(&dir).unwrap();
    let all: String = report
        .files
        .iter()
        .flat_map(|file| &file.problems)
        .map(|line| format!("{line}\n"))
        .collect();
    for expected in [
        "task 11: outcome without its task",
        "task 99: spilled but not there",
        "task 5: in history but open",
        "table tally: 2 tasks of state 1",
    ] {
        assert!(all.contains(expected), "`{expected}` is missing in:\n{all}");
    }
    assert_eq!(std::fs::read(dir.join("divvy.db")).unwrap(), before);
    let missing = check(&dir.join("nowhere")).unwrap_err();
    assert!(missing.to_string().contains("there is no store here"), "{missing}");
}

fn heavy(n: u64, bytes: usize) -> Fact {
    let mut spec = spec(n);
    spec.payload = Payload::trusted("application/octet-stream", vec![b'z'; bytes].into());
    submission(n, spec)
}

#[test]
fn compaction_gives_room_back() {
    let folder = tempfile::tempdir().unwrap();
    let short = Options { retention_days: 0, ..options() };
    let mut store = SqliteStore::open(folder.path(), short).unwrap();
    for n in 1..=20 {
        commit(&mut store, &[heavy(n, 100_000), finished(n, n)]);
    }
    commit(&mut store, &[submitted(21)]);
    assert!(matches!(compact(folder.path()), Err(crate::Error::InUse(_))));
    maintain(&mut store, second(5 * DAY_S));
    drop(store);
    let report = compact(folder.path()).unwrap();
    assert!(report.bytes_before > 2_000_000 && report.bytes_after < 200_000, "{report:?}");
    let mut store = open(folder.path());
    assert_eq!(crate::conformance::recovered(&mut store).len(), 2, "the open task is still there");
}

#[test]
fn the_log_does_not_grow_without_bound() {
    let mut subject = SqliteSubject::new();
    let mut reader = subject.store().reader().unwrap();
    for n in 1..=160 {
        commit(subject.store(), &[heavy(n, 1 << 20)]);
        assert!(reader.get(Seq(n)).unwrap().is_some());
    }
    let length = std::fs::metadata(subject.folder.path().join("divvy.db-wal")).unwrap().len();
    assert!(length < 80 << 20, "{length} bytes of log for 160 MiB of facts");
    let started = std::time::Instant::now();
    loop {
        // The thread that copies the log may be in the way for a moment.
        maintain(subject.store(), Timestamp(0));
        let length = std::fs::metadata(subject.folder.path().join("divvy.db-wal")).unwrap().len();
        if length < 16 << 20 {
            break;
        }
        assert!(started.elapsed().as_secs() < 30, "{length} bytes of log at rest");
    }
}
