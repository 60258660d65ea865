//! The tables of a shard's file, and how a file is opened: made if there is none, refused if it is something else.

use std::fs::File;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use divvy_frontier::seen::Mode;
use rusqlite::{Connection, OpenFlags, OptionalExtension as _};

use super::error::{At as _, Error, io_error};
use super::{Opening, ShardFile};

/// "dvcw" in the header of the file.
const APPLICATION_ID: i64 = 0x6476_6377;
const FORMAT: i64 = 1;
/// How long another program's lock is waited for.
const BUSY: Duration = Duration::from_secs(5);
const STATEMENTS_MAX: usize = 64;
/// The cache of pages.
const CACHE_KIB: i64 = 16 << 10;
/// After so many pages the log is copied into the file.
const LOG_PAGES: i64 = 4_000;
/// A file of at most so many bytes whose last owner crashed is checked whole.
const CHECKED_BYTES_MAX: u64 = 64 << 20;

const TABLES: &str = "
CREATE TABLE meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE host (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL, domain TEXT NOT NULL, state BLOB NOT NULL);
CREATE TABLE block (id INTEGER PRIMARY KEY, count INTEGER NOT NULL, bytes BLOB NOT NULL);
CREATE TABLE later (
    fingerprint INTEGER PRIMARY KEY, due INTEGER NOT NULL, host INTEGER NOT NULL,
    band INTEGER NOT NULL, entry BLOB NOT NULL);
CREATE INDEX later_due ON later (due);
CREATE TABLE seen (fingerprint INTEGER PRIMARY KEY);
CREATE TABLE seen_log (id INTEGER PRIMARY KEY, fingerprints BLOB NOT NULL);
CREATE TABLE page (
    fingerprint INTEGER PRIMARY KEY, host INTEGER NOT NULL, path TEXT NOT NULL, end INTEGER NOT NULL,
    status INTEGER NOT NULL, fetched INTEGER NOT NULL, depth INTEGER NOT NULL, attempts INTEGER NOT NULL,
    digest INTEGER NOT NULL, changes INTEGER NOT NULL, interval INTEGER, etag TEXT, modified TEXT, reason TEXT);
CREATE INDEX page_dead ON page (fingerprint) WHERE end = 2;
CREATE TABLE robots (
    host INTEGER PRIMARY KEY, fetched INTEGER NOT NULL, about TEXT NOT NULL, body BLOB NOT NULL);
CREATE TABLE outbox (
    shard INTEGER NOT NULL, number INTEGER NOT NULL, bytes BLOB NOT NULL,
    PRIMARY KEY (shard, number)) WITHOUT ROWID;
CREATE TABLE peer (
    shard INTEGER PRIMARY KEY, made INTEGER NOT NULL DEFAULT 0, received INTEGER NOT NULL DEFAULT 0);
CREATE TABLE output (name TEXT PRIMARY KEY, length INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE note (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
";

/// Every table, to see whether it is there.
const NAMES: [&str; 12] = [
    "meta", "host", "block", "later", "seen", "seen_log", "page", "robots", "outbox", "peer",
    "output", "note",
];

impl ShardFile {
    /// Opens the file, makes it if there is none, and becomes its owner.
    pub fn open(path: &Path, opening: Opening) -> Result<Self, Error> {
        refuse_orphaned_log(path)?;
        let created = File::options().create(true).append(true).mode(0o600).open(path);
        created.map_err(|error| io_error(path, &error))?;
        let conn = connect(path).at(path)?;
        if is_blank(&conn).at(path)? {
            create(&conn, opening.seen).at(path)?;
        }
        check_marks(&conn, path)?;
        conn.pragma_update(None, "synchronous", "FULL").at(path)?;
        check_tables(&conn, path)?;
        let epoch = meta(&conn, "epoch").at(path)?.cast_unsigned();
        if epoch > opening.epoch {
            let (path, found, own) = (path.display().to_string(), epoch, opening.epoch);
            return Err(Error::TakenOver { path, found, own });
        }
        let mode = mode_of(meta(&conn, "bloom").at(path)?);
        if mode != opening.seen {
            let found = if mode == Mode::Exact { "exact" } else { "bloom" };
            return Err(Error::OtherMode { path: path.display().to_string(), found });
        }
        let was_clean = meta(&conn, "clean").at(path)? != 0;
        if !was_clean {
            check_whole(&conn, path)?;
        }
        let salt = meta(&conn, "salt").at(path)?.cast_unsigned();
        let (own, before) = (opening.epoch, epoch);
        let file = Self { conn, path: path.to_owned(), epoch: own, mode, salt, was_clean, before };
        file.own().at(path)?;
        Ok(file)
    }

    /// Opens the file to look at what its owner has committed, whoever that is; nothing if there is no file. It cannot
    /// commit.
    pub fn look(path: &Path) -> Result<Option<Self>, Error> {
        if !path.exists() {
            return Ok(None);
        }
        let conn = connect(path).at(path)?;
        conn.pragma_update(None, "query_only", true).at(path)?;
        if is_blank(&conn).at(path)? {
            return Ok(None);
        }
        check_marks(&conn, path)?;
        let mode = mode_of(meta(&conn, "bloom").at(path)?);
        let salt = meta(&conn, "salt").at(path)?.cast_unsigned();
        // No owner has this epoch, and times are told as they were committed.
        let (path, epoch) = (path.to_owned(), u64::MAX);
        Ok(Some(Self { conn, path, epoch, mode, salt, was_clean: true, before: epoch }))
    }

    /// Says that all times in the file are exact, and closes it.
    pub fn close(self) -> Result<(), Error> {
        self.check_epoch()?;
        let close = || -> rusqlite::Result<()> {
            self.conn.execute("UPDATE meta SET value = 1 WHERE name = 'clean'", [])?;
            self.conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
        };
        close().at(&self.path)
    }

    /// Fails if another owner has taken the file over.
    pub(super) fn check_epoch(&self) -> Result<(), Error> {
        let found = meta(&self.conn, "epoch").at(&self.path)?.cast_unsigned();
        if found == self.epoch {
            return Ok(());
        }
        Err(Error::TakenOver { path: self.path.display().to_string(), found, own: self.epoch })
    }

    fn own(&self) -> rusqlite::Result<()> {
        let sql = "INSERT OR REPLACE INTO meta VALUES ('epoch', ?1), ('clean', 0)";
        self.conn.execute(sql, [self.epoch.cast_signed()]).map(drop)
    }
}

pub(super) fn meta(conn: &Connection, name: &str) -> rusqlite::Result<i64> {
    conn.prepare_cached("SELECT value FROM meta WHERE name = ?1")?
        .query_row([name], |row| row.get(0))
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(path, flags)?;
    conn.busy_timeout(BUSY)?;
    conn.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    conn.pragma_update(None, "cache_size", -CACHE_KIB)?;
    conn.pragma_update(None, "wal_autocheckpoint", LOG_PAGES)?;
    Ok(conn)
}

/// A file that a crash left between its creation and its first commit counts as new.
fn is_blank(conn: &Connection) -> rusqlite::Result<bool> {
    let mark: i64 = conn.pragma_query_value(None, "application_id", |row| row.get(0))?;
    let objects: i64 =
        conn.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    Ok(mark == 0 && objects == 0)
}

fn create(conn: &Connection, seen: Mode) -> rusqlite::Result<()> {
    conn.pragma_update(None, "journal_mode", "WAL")?;
    conn.pragma_update(None, "synchronous", "FULL")?;
    let salt = fastrand::u64(..).cast_signed();
    let bloom = i64::from(seen == Mode::Bloom);
    conn.execute_batch(&format!(
        "BEGIN IMMEDIATE; {TABLES}
         INSERT INTO meta VALUES ('epoch', 0), ('clean', 1), ('seen', 0), ('salt', {salt}), ('bloom', {bloom});
         PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {FORMAT}; COMMIT;"
    ))
}

fn check_marks(conn: &Connection, path: &Path) -> Result<(), Error> {
    let read = |name| conn.pragma_query_value(None, name, |row| row.get::<_, i64>(0)).at(path);
    let (mark, found) = (read("application_id")?, read("user_version")?);
    let path = path.display().to_string();
    if mark != APPLICATION_ID {
        let problem = format!("its header says {mark:#x} instead of {APPLICATION_ID:#x}");
        return Err(Error::Foreign { path, problem });
    }
    if found != FORMAT {
        return Err(Error::Version { path, found, known: FORMAT });
    }
    Ok(())
}

/// All tables are there and begin as they should. What is damaged elsewhere is found when it is read.
fn check_tables(conn: &Connection, path: &Path) -> Result<(), Error> {
    for name in NAMES {
        let sql = format!("SELECT * FROM {name} LIMIT 1");
        conn.query_row(&sql, [], |_| Ok(())).optional().at(path)?;
    }
    Ok(())
}

fn check_whole(conn: &Connection, path: &Path) -> Result<(), Error> {
    if path.metadata().map_or(0, |meta| meta.len()) > CHECKED_BYTES_MAX {
        return Ok(());
    }
    let sql = "PRAGMA quick_check(1)";
    let said: String = conn.query_row(sql, [], |row| row.get(0)).at(path)?;
    if said == "ok" {
        return Ok(());
    }
    Err(Error::Damaged { path: path.display().to_string(), problem: said })
}

/// SQLite would quietly throw away a log whose main file is gone, and with it whatever only the log holds.
fn refuse_orphaned_log(path: &Path) -> Result<(), Error> {
    let length = |path: &Path| path.metadata().map_or(0, |meta| meta.len());
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    let log = PathBuf::from(log);
    if length(path) == 0 && length(&log) > 0 {
        let problem = format!("it is missing or empty, but its log {} is there", log.display());
        return Err(Error::Damaged { path: path.display().to_string(), problem });
    }
    Ok(())
}

fn mode_of(bloom: i64) -> Mode {
    if bloom == 0 { Mode::Exact } else { Mode::Bloom }
}
