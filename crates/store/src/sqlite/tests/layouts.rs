//! Files of the first layout, which had no checkpoints, settings and unique keys, and what is lost of later ones.

use std::path::Path;

use divvy_types::fact::Replay;
use divvy_types::{
    Dependency, Fact, Matching, OnConflict, Payload, Seq, TaskId, TaskSpec, Timestamp, Token,
    Unique, Verdict, Workflow, WorkflowId, WorkflowRole,
};
use rusqlite::Connection;

use super::{open, options};
use crate::conformance::{commit, dead, maintain, recovered, second, submitted};
use crate::sqlite::row::Sum;
use crate::sqlite::{SqliteStore, check, compact};
use crate::{Error, OpenTask, Recovered, Store};

/// The tables as the first layout had them, word for word.
const FIRST: &str = "
CREATE TABLE task(
  seq INTEGER PRIMARY KEY, id BLOB NOT NULL, at INTEGER NOT NULL, kind TEXT NOT NULL, queue TEXT,
  priority INTEGER NOT NULL, spawned_by INTEGER, workflow BLOB, content_type TEXT, extra BLOB,
  checksum INTEGER NOT NULL, payload BLOB);
CREATE UNIQUE INDEX task_id ON task(id);
CREATE INDEX task_spawned_by ON task(spawned_by) WHERE spawned_by IS NOT NULL;
CREATE INDEX task_workflow ON task(workflow, seq) WHERE workflow IS NOT NULL;
CREATE TABLE outcome(
  seq INTEGER PRIMARY KEY, state INTEGER NOT NULL, token INTEGER NOT NULL, at INTEGER NOT NULL, worker TEXT,
  content_type TEXT, class INTEGER, error TEXT, log TEXT, checksum INTEGER NOT NULL, result BLOB);
CREATE INDEX outcome_state ON outcome(state, seq) WHERE state <> 1;
CREATE TABLE attempt(
  seq INTEGER NOT NULL, token INTEGER NOT NULL, at INTEGER NOT NULL, worker TEXT NOT NULL, class INTEGER NOT NULL,
  error TEXT NOT NULL, log TEXT, retry_at INTEGER, counted INTEGER NOT NULL, PRIMARY KEY(seq, token)) WITHOUT ROWID;
CREATE TABLE meta(name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE held(seq INTEGER PRIMARY KEY, token INTEGER NOT NULL, at INTEGER NOT NULL, worker TEXT NOT NULL);
CREATE TABLE spill(class INTEGER NOT NULL, priority INTEGER NOT NULL, seq INTEGER NOT NULL,
  PRIMARY KEY(class, priority, seq)) WITHOUT ROWID;
CREATE TABLE queue(name TEXT PRIMARY KEY, paused INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE replayed(seq INTEGER PRIMARY KEY);
CREATE TABLE revived(seq INTEGER PRIMARY KEY, day INTEGER NOT NULL);
INSERT INTO meta VALUES('epoch', 3);
PRAGMA application_id = 1685485177; PRAGMA user_version = 1;
";

/// A folder with a file of the first layout: task 1 is open with an extra of that time, task 2 is open and was
/// replayed, task 3 is dead.
fn first_layout() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    // Rows are made by a store of today and copied; what a row of that time looks like inside is tested below.
    let donor = tempfile::tempdir().unwrap();
    let mut store = open(donor.path());
    let mut spec = crate::conformance::spec(1);
    spec.needs = vec!["gpu".into()];
    spec.retry.limit = 2;
    commit(&mut store, &[crate::conformance::submission(1, spec), submitted(2), dead(2, 1)]);
    let replay = Fact::Replayed { seq: Seq(2), at: second(9), replay: Replay::default() };
    commit(&mut store, &[replay, submitted(3), dead(3, 2)]);
    drop(store);
    let old = Connection::open(folder.path().join("divvy.db")).unwrap();
    old.pragma_update(None, "journal_mode", "WAL").unwrap();
    old.execute_batch(FIRST).unwrap();
    let donor = donor.path().join("divvy.db");
    old.execute("ATTACH DATABASE ?1 AS donor", [donor.to_string_lossy()]).unwrap();
    old.execute_batch(
        "INSERT INTO main.task SELECT * FROM donor.task; INSERT INTO main.outcome SELECT * FROM donor.outcome;
         INSERT INTO main.attempt SELECT * FROM donor.attempt; INSERT INTO main.replayed SELECT seq FROM donor.replayed;",
    )
    .unwrap();
    folder
}

fn open_tasks(store: &mut SqliteStore) -> Vec<OpenTask> {
    let tasks = recovered(store).into_iter().filter_map(|one| match one {
        Recovered::Open(task) => Some(task),
        _ => None,
    });
    tasks.collect()
}

#[test]
fn a_file_of_the_first_layout_opens_and_learns_the_rest() {
    let folder = first_layout();
    let report = check(folder.path()).unwrap();
    assert!(report.is_sound(), "the check knows it as it is: {report:?}");
    let mut store = open(folder.path());
    assert_eq!(store.epoch(), 4);
    let tasks = open_tasks(&mut store);
    let seen: Vec<_> =
        tasks.iter().map(|t| (t.seq.0, t.replayed, t.retry_at, t.lost.len())).collect();
    assert_eq!(seen, [(1, false, None, 0), (2, true, None, 0)]);
    assert_eq!((tasks[0].spec.needs[0].as_str(), tasks[0].spec.retry.limit), ("gpu", 2));
    let replay = Replay { due: Some(second(70)), payload: None, keep_edges: true };
    let facts = [
        Fact::Checkpoint { seq: Seq(1), token: Token(9), at: second(9), data: Payload::null() },
        Fact::Setting { key: "settings".into(), value: Some("{}".into()) },
        Fact::Replayed { seq: Seq(3), at: second(10), replay },
    ];
    assert_eq!(commit(&mut store, &facts), [Verdict::Applied; 3]);
    drop(store);
    let mut store = open(folder.path());
    let seen: Vec<_> = open_tasks(&mut store)
        .iter()
        .map(|task| (task.seq.0, task.checkpointed, task.retry_at))
        .collect();
    assert_eq!(seen, [(1, true, None), (2, false, None), (3, false, Some(second(70)))]);
    maintain(&mut store, second(3_600));
    drop(store);
    compact(folder.path()).unwrap();
    assert!(check(folder.path()).unwrap().is_sound());
}

/// A row as stores before today's shape wrote it, word for word, with the sum that such a store gave it.
#[test]
fn a_row_of_the_earlier_shape_is_read_as_the_task_that_it_was() {
    let folder = tempfile::tempdir().unwrap();
    drop(open(folder.path()));
    let extra = concat!(
        r#"{"needs":["gpu"],"after":[{"task":"00000000-0000-0000-0000-000000000009","optional":true}],"#,
        r#""run_at_us":7000001,"timeout_ms":5,"#,
        r#""retry":{"limit":2,"base_ms":1000,"cap_ms":300000,"jitter_percent":20},"#,
        r#""workflow_name":"night","workflow_role":"on_failure","matching":"exact","#,
        r#""deadline_us":9000000,"unique":{"key":"k","window_ms":3,"on_conflict":"skip"},"#,
        r#""limits":["api"],"fair_key":"acme","affinity":"film","cost_hint":4}"#
    );
    let id = crate::conformance::id(1).to_bytes();
    let workflow = WorkflowId(42).to_bytes();
    let mut sum = Sum::new();
    sum.number(1).bytes(&id).number(5).bytes(b"encode").option(None).number(3).number(0);
    sum.option(Some(&workflow)).option(None).option(Some(extra.as_bytes())).bytes(b"");
    let conn = Connection::open(folder.path().join("divvy.db")).unwrap();
    conn.execute(
        "INSERT INTO task(seq, id, at, kind, priority, workflow, extra, checksum)
         VALUES(1, ?1, 5, 'encode', 3, ?2, ?3, ?4)",
        rusqlite::params![&id[..], &workflow[..], extra.as_bytes(), sum.finish()],
    )
    .unwrap();
    drop(conn);
    let mut expected = TaskSpec::new(crate::conformance::id(1), "encode");
    expected.needs = vec!["gpu".into()];
    expected.after = vec![Dependency { task: TaskId(9), optional: true }];
    (expected.run_at, expected.deadline) = (Some(Timestamp(7_000_001)), Some(Timestamp(9_000_000)));
    (expected.timeout_ms, expected.retry.limit) = (Some(5), 2);
    let (name, role) = ("night".into(), WorkflowRole::OnFailure);
    expected.workflow = Some(Box::new(Workflow { id: WorkflowId(42), name, role }));
    expected.matching = Some(Matching::Exact);
    let (key, on_conflict) = ("k".into(), OnConflict::Skip);
    expected.unique = Some(Unique { key, window_ms: Some(3), on_conflict });
    expected.limits = vec!["api".into()];
    (expected.fair_key, expected.affinity) = (Some("acme".into()), Some("film".into()));
    expected.cost_hint = Some(4);
    let mut store = open(folder.path());
    assert_eq!(*open_tasks(&mut store)[0].spec, expected);
    drop(store);
    assert!(check(folder.path()).unwrap().is_sound());
}

fn refused(dir: &Path) -> Error {
    SqliteStore::open(dir, options()).err().expect("the store is refused")
}

#[test]
fn a_table_that_was_there_and_is_lost_is_not_made_anew() {
    for table in ["checkpoint", "setting", "unique_key"] {
        let folder = tempfile::tempdir().unwrap();
        drop(open(folder.path()));
        let conn = Connection::open(folder.path().join("divvy.db")).unwrap();
        conn.execute_batch(&format!("DROP TABLE {table}")).unwrap();
        drop(conn);
        let error = refused(folder.path());
        assert!(
            matches!(&error, Error::Damaged { place, .. } if place.contains(table)),
            "{table}: {error}"
        );
        assert!(!check(folder.path()).unwrap().is_sound(), "{table}");
    }
}

#[test]
fn a_flipped_bit_in_a_checkpoint_is_found_when_it_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = open(folder.path());
    let data = Payload::json("\"frame 41\"").unwrap();
    let save = Fact::Checkpoint { seq: Seq(1), token: Token(5), at: second(2), data };
    commit(&mut store, &[submitted(1), save]);
    store.conn.execute("UPDATE checkpoint SET data = CAST('\"frame 42\"' AS BLOB)", []).unwrap();
    let error = store.reader().unwrap().checkpoint(Seq(1)).unwrap_err();
    assert!(error.to_string().contains("table checkpoint, row 1"), "{error}");
    drop(store);
    let report = check(folder.path()).unwrap();
    assert!(report.files[0].problems[0].contains("table checkpoint, row 1"), "{report:?}");
}
