//! Tests of the file of a shard: what is committed is there, what is not is not, whatever happens in between.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use divvy_frontier::frontier::{
    Answer, Discovery, Ending, Everything, Frontier, Link, Next, Outcome, Permission, RobotsAnswer,
};
use divvy_frontier::rules::{Rules, retry::Failure};
use divvy_frontier::seen::{Mode, Settings};
use tempfile::TempDir;

use super::*;

fn place() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shard-0.db");
    (folder, path)
}

fn open(path: &Path, epoch: u64) -> ShardFile {
    ShardFile::open(path, Opening { epoch, seen: Mode::Exact }).unwrap()
}

fn rules() -> Rules {
    Rules { band_memory_max: 3, ..Rules::default() }
}

fn robots() -> RobotsAnswer {
    let permission: Option<Arc<dyn Permission>> = Some(Arc::new(Everything));
    RobotsAnswer {
        permission,
        delay_ms: None,
        until_ms: u64::MAX,
        bytes: 0,
        was_requested: true,
        missing: None,
    }
}

fn find(frontier: &mut Frontier, file: &ShardFile, host: u32, page: u32) -> Discovery {
    let name = format!("http://host-{host}.test");
    let (domain, path) = (&name[7..], format!("/{page}"));
    let link = Link { host: &name, domain, path: &path, depth: 1, hops: 0, is_sitemap: false };
    match frontier.discover(0, &link) {
        Discovery::Ask => {
            let known = file.contains(&[frontier.fingerprint(&link)]).unwrap();
            if known[0] {
                frontier.dismiss(&link);
                return Discovery::Refused(divvy_frontier::frontier::Refusal::Seen);
            }
            frontier.admit(0, &link)
        }
        said => said,
    }
}

fn state(fingerprint: u64, url: &str, end: PageEnd) -> PageState {
    PageState {
        fingerprint,
        host: 0,
        path: url.into(),
        end,
        status: 200,
        fetched_ms: 5,
        depth: 1,
        attempts: 1,
        digest: u64::MAX,
        changes: 2,
        interval_ms: Some(3_600_000),
        etag: Some("\"x\"".into()),
        last_modified: None,
        reason: None,
    }
}

/// Fetches until nothing is left, with a commit after so many pages and a crash after so many commits.
#[test]
fn every_page_is_fetched_over_crashes_and_twice_only_if_it_was_not_committed() {
    let (_folder, path) = place();
    let mut fetched: BTreeMap<String, u32> = BTreeMap::new();
    let mut uncommitted = 0;
    let (mut epoch, mut now_ms, mut lost) = (1, 0, 0);
    let mut file = open(&path, epoch);
    let mut frontier =
        file.frontier(rules(), file.seen(Settings::default()).unwrap(), 1, 0).unwrap();
    for page in 0..40 {
        (0..3)
            .for_each(|host| assert_eq!(find(&mut frontier, &file, host, page), Discovery::Queued));
    }
    file.commit(&Batch { changes: frontier.changes(), ..Batch::default() }).unwrap();
    let mut batch = Batch::default();
    let mut turns = 0;
    loop {
        turns += 1;
        if turns % 37 == 0 {
            // The owner dies with what it has not committed; the next one has what the file has.
            lost += uncommitted;
            (uncommitted, epoch, batch) = (0, epoch + 1, Batch::default());
            drop((frontier, file));
            file = open(&path, epoch);
            assert!(!file.was_clean());
            frontier =
                file.frontier(rules(), file.seen(Settings::default()).unwrap(), 1, now_ms).unwrap();
        }
        match frontier.next(now_ms) {
            Next::Robots(order) => frontier.robots(now_ms, order.lease, robots()),
            Next::Errand(errand) => panic!("nobody sent {errand:?}"),
            Next::Fetch(order) => {
                let answer = Answer { status: 200, is_changed: true, ..Answer::default() };
                let ending = frontier.fetched(now_ms, order.lease, Outcome::Answer(answer));
                assert!(matches!(ending, Ending::Done { .. }));
                *fetched.entry(order.url.clone()).or_default() += 1;
                batch.pages.push(state(order.fingerprint, &order.url, PageEnd::Done));
                uncommitted += 1;
                if uncommitted == 5 {
                    batch.changes = frontier.changes();
                    file.commit(&std::mem::take(&mut batch)).unwrap();
                    uncommitted = 0;
                }
            }
            Next::Load(order) => {
                batch.changes = frontier.changes();
                file.commit(&std::mem::take(&mut batch)).unwrap();
                uncommitted = 0;
                frontier.loaded(&order, &file.blocks(&order).unwrap()).unwrap();
            }
            Next::Wait(until_ms) => now_ms = until_ms,
            Next::Idle => break,
            Next::Enough => panic!("there is no limit"),
        }
    }
    assert_eq!(fetched.len(), 120);
    let twice: u32 = fetched.values().map(|times| times - 1).sum();
    assert!(epoch > 3 && twice <= lost, "{twice} twice, {lost} lost, {epoch} owners");
    assert_eq!(
        find(&mut frontier, &file, 1, 7),
        Discovery::Refused(divvy_frontier::frontier::Refusal::Seen)
    );
}

#[test]
fn everything_that_was_committed_comes_back_and_nothing_else() {
    let (_folder, path) = place();
    let mut file = open(&path, 1);
    assert!(file.was_clean() && file.load().unwrap().outputs.is_empty());
    let mut batch = Batch {
        pages: vec![state(u64::MAX, "/a", PageEnd::Dead), state(7, "/b", PageEnd::Done)],
        robots: vec![RobotsCopy { host: 3, fetched_ms: 9, about: "200".into(), body: vec![1, 2] }],
        received: vec![(2, 5), (2, 4)],
        outgoing: vec![(1, vec![1]), (1, vec![2]), (3, vec![3])],
        outputs: vec![("pages.jsonl".into(), 17)],
        notes: vec![("counts".into(), vec![9])],
        ..Batch::default()
    };
    assert_eq!(file.commit(&batch).unwrap(), [1, 2, 1]);
    let sent =
        Batch { sent: vec![(1, 1)], outputs: vec![("pages.jsonl".into(), 20)], ..Batch::default() };
    file.commit(&sent).unwrap();
    drop(file);

    let file = open(&path, 1);
    let saved = file.load().unwrap();
    assert_eq!(
        (saved.made, saved.received),
        (vec![(1, 2), (2, 0), (3, 1)], vec![(1, 0), (2, 5), (3, 0)])
    );
    assert_eq!(
        (saved.outputs, saved.notes),
        (vec![("pages.jsonl".into(), 20)], std::mem::take(&mut batch.notes))
    );
    let unsent: Vec<(u32, u64)> =
        file.unsent().unwrap().iter().map(|out| (out.to, out.number)).collect();
    assert_eq!(unsent, [(1, 2), (3, 1)]);
    assert_eq!(file.robots(3).unwrap().as_ref(), batch.robots.first());
    assert_eq!((file.robots(4).unwrap(), file.page(8).unwrap()), (None, None));
    assert_eq!(file.page(u64::MAX).unwrap().as_ref(), batch.pages.first());
    let dead = file.pages(PageFilter { end: Some(PageEnd::Dead), after: None }, 9).unwrap();
    assert_eq!(dead, batch.pages[..1]);
    let first = file.pages(PageFilter::default(), 1).unwrap();
    let after = Some(first[0].fingerprint);
    let second = file.pages(PageFilter { after, ..PageFilter::default() }, 9).unwrap();
    assert_eq!((first.len(), second.len()), (1, 1));
}

#[test]
fn what_failed_is_due_later_and_leaves_the_list_when_it_is_queued() {
    let (_folder, path) = place();
    let mut file = open(&path, 1);
    let mut frontier =
        file.frontier(rules(), file.seen(Settings::default()).unwrap(), 1, 0).unwrap();
    find(&mut frontier, &file, 0, 1);
    let Next::Robots(order) = frontier.next(0) else { panic!() };
    frontier.robots(0, order.lease, RobotsAnswer { was_requested: false, ..robots() });
    let Next::Fetch(order) = frontier.next(0) else { panic!() };
    let ending = frontier.fetched(0, order.lease, Outcome::Failed(Failure::NoSuchName));
    assert_eq!(ending, Ending::Again { due_ms: 3_600_000 });
    file.commit(&Batch { changes: frontier.changes(), ..Batch::default() }).unwrap();
    assert_eq!(file.next_due().unwrap(), Some(3_600_000));
    assert!(file.due(3_599_999, 10).unwrap().is_empty());
    let due = file.due(3_600_000, 10).unwrap();
    due.iter().for_each(|later| frontier.again(later));
    file.commit(&Batch { changes: frontier.changes(), ..Batch::default() }).unwrap();
    assert_eq!((due.len(), file.next_due().unwrap()), (1, None));
    assert!(matches!(frontier.next(7_200_000), Next::Fetch(order) if order.attempt == 2));
}

#[test]
fn a_later_owner_shuts_the_earlier_one_out_and_a_clean_close_is_remembered() {
    let (_folder, path) = place();
    let mut first = open(&path, 1);
    let second = open(&path, 2);
    let refused = first.commit(&Batch::default()).unwrap_err().to_string();
    assert!(refused.contains("owner of epoch 2"), "{refused}");
    assert!(matches!(first.close(), Err(Error::TakenOver { .. })));
    assert!(!second.was_clean());
    second.close().unwrap();
    let opening = Opening { epoch: 1, seen: Mode::Exact };
    assert!(matches!(ShardFile::open(&path, opening), Err(Error::TakenOver { found: 2, .. })));
    let third = open(&path, 3);
    assert_eq!((third.was_clean(), third.left_by()), (true, Some(2)));
    let fourth = open(&path, 4);
    assert_eq!((fourth.was_clean(), fourth.left_by()), (false, None), "the third did not close it");
    let opening = Opening { epoch: 5, seen: Mode::Bloom };
    assert!(matches!(
        ShardFile::open(&path, opening),
        Err(Error::OtherMode { found: "exact", .. })
    ));
}

#[test]
fn the_pure_filter_remembers_over_restarts_without_a_table_of_addresses() {
    let (_folder, path) = place();
    let opening = |epoch| Opening { epoch, seen: Mode::Bloom };
    let mut file = ShardFile::open(&path, opening(1)).unwrap();
    let mut frontier =
        file.frontier(rules(), file.seen(Settings::default()).unwrap(), 1, 0).unwrap();
    for page in 0..500 {
        find(&mut frontier, &file, 0, page);
    }
    file.commit(&Batch { changes: frontier.changes(), ..Batch::default() }).unwrap();
    let queued = frontier.queued();
    drop(file);
    let file = ShardFile::open(&path, opening(2)).unwrap();
    let mut frontier =
        file.frontier(rules(), file.seen(Settings::default()).unwrap(), 1, 0).unwrap();
    assert_eq!(frontier.queued(), queued);
    assert!((0..500).all(|page| find(&mut frontier, &file, 0, page) != Discovery::Queued));
    let rows: i64 = file.conn.query_row("SELECT count(*) FROM seen", [], |row| row.get(0)).unwrap();
    assert_eq!(rows, 0);
}

#[test]
fn damaged_and_foreign_files_are_named_with_what_is_wrong() {
    let (folder, path) = place();
    let opening = Opening { epoch: 9, seen: Mode::Exact };
    let refused = |path: &Path| ShardFile::open(path, opening).unwrap_err();

    let text = folder.path().join("text.db");
    std::fs::write(&text, "something else entirely, and long enough to be a header ".repeat(40))
        .unwrap();
    assert!(matches!(refused(&text), Error::Foreign { path, .. } if path.ends_with("text.db")));

    let other = folder.path().join("other.db");
    let conn = Connection::open(&other).unwrap();
    conn.execute_batch("CREATE TABLE t (x); PRAGMA application_id = 77;").unwrap();
    drop(conn);
    assert!(matches!(refused(&other), Error::Foreign { .. }));

    let mut file = open(&path, 1);
    let mut frontier =
        file.frontier(rules(), file.seen(Settings::default()).unwrap(), 1, 0).unwrap();
    for page in 0..2_000 {
        find(&mut frontier, &file, page % 50, page);
    }
    file.commit(&Batch { changes: frontier.changes(), ..Batch::default() }).unwrap();
    file.conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    drop(file);
    let whole = std::fs::read(&path).unwrap();
    let mut broken = whole.clone();
    broken.truncate(whole.len() / 2);
    std::fs::write(&path, &broken).unwrap();
    assert!(matches!(refused(&path), Error::Damaged { .. }), "cut in half");
    std::fs::write(&path, b"").unwrap();
    std::fs::write(folder.path().join("shard-0.db-wal"), b"left over").unwrap();
    assert!(matches!(refused(&path), Error::Damaged { .. }), "a log without its file");
    std::fs::remove_file(folder.path().join("shard-0.db-wal")).unwrap();

    std::fs::write(&path, &whole).unwrap();
    let conn = Connection::open(&path).unwrap();
    conn.execute("UPDATE host SET state = x'0102' WHERE id = 3", []).unwrap();
    drop(conn);
    let file = open(&path, 2);
    let seen = file.seen(Settings::default()).unwrap();
    let said = file.frontier(rules(), seen, 1, 0).unwrap_err().to_string();
    assert!(said.contains("shard-0.db") && said.contains("http://host-3.test"), "{said}");

    let conn = Connection::open(&path).unwrap();
    conn.execute_batch("DROP TABLE later;").unwrap();
    drop(conn);
    assert!(matches!(refused(&path), Error::Damaged { .. }), "a table is missing");
    let conn = Connection::open(&path).unwrap();
    conn.execute_batch("PRAGMA user_version = 2;").unwrap();
    drop(conn);
    assert!(matches!(refused(&path), Error::Version { found: 2, known: 1, .. }));
}
