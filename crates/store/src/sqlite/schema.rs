//! The tables, the marks that tell our files from others, and how a connection is set up.
//!
//! `task` and `outcome` are the hot tables: rows are only inserted, in ascending order of their number, so that a
//! group of facts touches few pages. `attempt`, `held`, `spill`, `replayed`, `revived`,
//! `checkpoint`, `setting` and `unique_key` are small and rare. Day files have the same `task`, `outcome` and `attempt`, so that
//! one reader serves both.
//!
//! Files that were written before a table or a column came to be get it when they are opened for writing. The name
//! `layout` in `meta` says what a file has had, so that a table that is lost later is noticed.

use std::fs::File;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, OptionalExtension as _};

use super::blocks;
use super::failure::{Failure, Outcome, io_error};
use crate::Error;

/// `PRAGMA application_id` of every file of ours: "dvvy".
const APPLICATION_ID: i64 = 0x6476_7679;
/// `PRAGMA user_version`: raised when a file of the older format can no longer be read as it is.
const FORMAT: i64 = 1;
/// How long a connection waits for another one's lock. Only short locks are ever taken.
pub(super) const BUSY: Duration = Duration::from_secs(10);
/// Statements that one connection keeps prepared: more than there are different ones.
const STATEMENTS_MAX: usize = 64;
/// Files up to this size are checked whole at each open; larger ones only at their edges.
const QUICK_CHECK_BYTES_MAX: u64 = 16 << 20;

/// Tables that hot and day files share.
const SHARED: &str = "
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
";

/// Tables of the hot file only.
const HOT: &str = "
CREATE TABLE held(seq INTEGER PRIMARY KEY, token INTEGER NOT NULL, at INTEGER NOT NULL, worker TEXT NOT NULL);
CREATE TABLE spill(class INTEGER NOT NULL, priority INTEGER NOT NULL, seq INTEGER NOT NULL,
  PRIMARY KEY(class, priority, seq)) WITHOUT ROWID;
CREATE TABLE queue(name TEXT PRIMARY KEY, paused INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE replayed(seq INTEGER PRIMARY KEY, due INTEGER, keep_edges INTEGER NOT NULL DEFAULT 0);
CREATE TABLE revived(seq INTEGER PRIMARY KEY, day INTEGER NOT NULL);
INSERT INTO meta VALUES('epoch', 0);
";

/// Tables of the hot file that files of the first layout lack.
const HOT_LATER: &str = "
CREATE TABLE checkpoint(
  seq INTEGER PRIMARY KEY, token INTEGER NOT NULL, at INTEGER NOT NULL, content_type TEXT,
  checksum INTEGER NOT NULL, data BLOB);
CREATE TABLE setting(key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE unique_key(
  key TEXT PRIMARY KEY, id BLOB NOT NULL, seq INTEGER NOT NULL, at INTEGER NOT NULL, until INTEGER) WITHOUT ROWID;
INSERT INTO meta VALUES('layout', 2);
";

/// What else the first layout lacks.
const HOT_MIGRATION: &str = "
ALTER TABLE replayed ADD COLUMN due INTEGER;
ALTER TABLE replayed ADD COLUMN keep_edges INTEGER NOT NULL DEFAULT 0;
";

/// Tables of a day file only, besides those of `blocks`. `slice` holds the numbers of the last move, to finish it after a
/// crash.
const DAY: &str = "
CREATE TABLE tally(state INTEGER PRIMARY KEY, count INTEGER NOT NULL);
CREATE TABLE slice(seq INTEGER PRIMARY KEY);
";

/// Which of the two sorts of file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sort {
    Hot,
    Day,
}

impl Sort {
    fn tables(self) -> &'static [&'static str] {
        match self {
            Self::Hot => &[
                "task",
                "outcome",
                "attempt",
                "meta",
                "held",
                "spill",
                "queue",
                "replayed",
                "revived",
                "checkpoint",
                "setting",
                "unique_key",
            ],
            Self::Day => &["task", "outcome", "attempt", "meta", "tally", "slice"],
        }
    }
}

/// Opens a file for writing, creates its tables if it is new, and checks that it is ours and looks whole.
pub(super) fn open_writer(path: &Path, sort: Sort) -> Result<Connection, Error> {
    refuse_orphaned_log(path)?;
    create_private(path)?;
    let open = || -> Outcome<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let conn = Connection::open_with_flags(path, flags)?;
        prepare(&conn)?;
        if is_blank(&conn)? {
            create(&conn, sort)?;
        }
        check_marks(&conn, path)?;
        conn.pragma_update(None, "synchronous", "FULL")?;
        if sort == Sort::Hot && !has_later_tables(&conn)? {
            conn.execute_batch(&format!("BEGIN IMMEDIATE; {HOT_MIGRATION} {HOT_LATER} COMMIT;"))?;
        }
        check_edges(&conn, path, sort)?;
        Ok(conn)
    };
    open().map_err(|failure| failure.at(path))
}

/// Opens a file that exists, to look only. It is not opened read-only in the sense of the file system, because
/// another connection's write-ahead log cannot be read that way, but nothing can be written through it.
pub(super) fn open_reader(path: &Path) -> Result<Connection, Error> {
    refuse_orphaned_log(path)?;
    let open = || -> Outcome<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let conn = Connection::open_with_flags(path, flags)?;
        prepare(&conn)?;
        conn.pragma_update(None, "query_only", true)?;
        check_marks(&conn, path)?;
        Ok(conn)
    };
    open().map_err(|failure| failure.at(path))
}

/// Opens a file that exists, to copy its log into it.
pub(super) fn open_checkpointer(path: &Path) -> Result<Connection, Error> {
    let open = || -> Outcome<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let conn = Connection::open_with_flags(path, flags)?;
        prepare(&conn)?;
        conn.pragma_update(None, "synchronous", "FULL")?;
        conn.pragma_update(None, "wal_autocheckpoint", 0)?;
        Ok(conn)
    };
    open().map_err(|failure| failure.at(path))
}

fn prepare(conn: &Connection) -> Outcome<()> {
    conn.busy_timeout(BUSY)?;
    conn.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    // Otherwise a statement that could use a partial index is planned anew for every value that is bound to it, which
    // costs more than the look-up.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(())
}

/// Creates the file so that only its owner can read it; SQLite gives its log the same mode.
pub(super) fn create_private(path: &Path) -> Result<(), Error> {
    let created = File::options().create(true).append(true).mode(0o600).open(path);
    created.map(drop).map_err(|error| io_error(path, "open the file", &error))
}

/// SQLite would quietly throw away a log whose main file is gone, and with it whatever only the log holds.
fn refuse_orphaned_log(path: &Path) -> Result<(), Error> {
    let length = |path: &Path| path.metadata().map_or(0, |meta| meta.len());
    let log = log_of(path);
    if length(path) == 0 && length(&log) > 0 {
        let place = format!("the file is missing or empty, but its log {} is there", log.display());
        return Err(Error::Damaged { path: path.display().to_string(), place });
    }
    Ok(())
}

/// The write-ahead log of a file.
pub(super) fn log_of(path: &Path) -> std::path::PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-wal");
    name.into()
}

/// A file that a crash left between its creation and its first commit counts as new.
fn is_blank(conn: &Connection) -> Outcome<bool> {
    let mark: i64 = conn.pragma_query_value(None, "application_id", |row| row.get(0))?;
    let objects: i64 =
        conn.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    Ok(mark == 0 && objects == 0)
}

fn create(conn: &Connection, sort: Sort) -> Outcome<()> {
    conn.pragma_update(None, "journal_mode", "WAL")?;
    conn.pragma_update(None, "synchronous", "FULL")?;
    let (own, later) = if sort == Sort::Hot { (HOT, HOT_LATER) } else { (DAY, blocks::DAY) };
    conn.execute_batch(&format!(
        "BEGIN IMMEDIATE; {SHARED} {own} {later}
         PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {FORMAT}; COMMIT;"
    ))?;
    Ok(())
}

/// Whether a hot file has had the tables that came later.
pub(super) fn has_later_tables(conn: &Connection) -> Outcome<bool> {
    let layout: Option<i64> = conn
        .query_row("SELECT value FROM meta WHERE name = 'layout'", [], |row| row.get(0))
        .optional()?;
    Ok(layout.is_some_and(|layout| layout >= 2))
}

fn check_marks(conn: &Connection, path: &Path) -> Outcome<()> {
    let mark: i64 = conn.pragma_query_value(None, "application_id", |row| row.get(0))?;
    if mark != APPLICATION_ID {
        return Err(Failure::Place(format!(
            "it is not a divvy store (application id {mark:#x} in its header)"
        )));
    }
    let found: i64 = conn.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if found != FORMAT {
        return Err(
            Error::Version { path: path.display().to_string(), found, known: FORMAT }.into()
        );
    }
    Ok(())
}

/// Cheap checks: all tables are there, both ends of each can be read, and the file is as long as its header says.
/// A small file is checked whole. Damage elsewhere is found when the row is read, or by the offline check.
fn check_edges(conn: &Connection, path: &Path, sort: Sort) -> Outcome<()> {
    for table in sort.tables() {
        let key = match *table {
            "meta" | "queue" => "name",
            "setting" | "unique_key" => "key",
            _ => "1",
        };
        conn.query_row(
            &format!("SELECT count(*) FROM (SELECT * FROM {table} ORDER BY {key} LIMIT 1)"),
            [],
            |_| Ok(()),
        )?;
    }
    conn.query_row("SELECT min(seq), max(seq) FROM task", [], |_| Ok(()))?;
    conn.query_row("SELECT min(seq), max(seq) FROM outcome", [], |_| Ok(()))?;
    let page_size: u64 =
        conn.pragma_query_value(None, "page_size", |row| row.get::<_, i64>(0))?.unsigned_abs();
    let pages: u64 =
        conn.pragma_query_value(None, "page_count", |row| row.get::<_, i64>(0))?.unsigned_abs();
    let length = path.metadata().map_or(0, |meta| meta.len());
    let in_log = log_of(path).metadata().map_or(0, |meta| meta.len());
    if in_log == 0 && length < pages * page_size {
        let place =
            format!("it is cut short: {length} bytes, its header promises {}", pages * page_size);
        return Err(Failure::Place(place));
    }
    if pages * page_size <= QUICK_CHECK_BYTES_MAX {
        let found: String = conn.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
        if found != "ok" {
            return Err(Failure::Place(found));
        }
    }
    Ok(())
}
