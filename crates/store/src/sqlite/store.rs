//! The store that owns the files: opening, the lock, commits, and room on the disk.
//!
//! What it makes can be read by its owner only: payloads and results may be secret.

use std::cell::Cell;
use std::fs::{DirBuilder, File, TryLockError};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use divvy_types::{Fact, Seq, TaskId, Timestamp, Verdict};
use rusqlite::{Connection, OptionalExtension as _};

use super::blocks::Blocks;
use super::checkpoint::{self, Checkpointer};
use super::failure::{Failure, Outcome, io_error};
use super::history::{Archive, Days, History};
use super::place::Place;
use super::read::SqliteReader;
use super::schema::{self, Sort};
use super::tally::{Delta, Tally};
use super::write::{self, Moved};
use super::{maintain, recover, revive};
use crate::{Error, Maintenance, Reader, Recovered, Room, Store};

/// How long an answer about room on the disk is good for.
const ROOM_FOR: Duration = Duration::from_millis(100);
const DAY_US: u64 = 86_400_000_000;
/// Memory for pages of the writer, in KiB.
const CACHE_KIB: i64 = 64 << 10;

/// What may be set.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whole days for which ended tasks are kept; dead letters too.
    pub retention_days: u32,
    /// Room that is kept free on the disk for the ends of tasks that were accepted.
    pub reserve_bytes: u64,
    /// How long an ended task stays in the main file before it may move to the file of its day.
    pub history_after: Duration,
    /// The greatest size of the main file; no limit but the disk's if nothing.
    pub size_bytes_max: Option<u64>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            retention_days: 7,
            reserve_bytes: 64 << 20,
            history_after: Duration::from_secs(60),
            size_bytes_max: None,
        }
    }
}

/// A store in SQLite files in one folder. Only one process may have it open.
pub struct SqliteStore {
    // Fields are dropped in this order: the thread ends before the writer closes, the lock is given up last.
    checkpointer: Checkpointer,
    pub(super) conn: Connection,
    pub(super) history: History,
    pub(super) archive: Archive,
    pub(super) days: Days,
    pub(super) tally: Tally,
    pub(super) blocks: Blocks,
    pub(super) moved: Moved,
    pub(super) options: Options,
    pub(super) progress: maintain::Progress,
    path: PathBuf,
    folder: PathBuf,
    place: Place,
    last_used: Option<Timestamp>,
    epoch: u64,
    room: Cell<Option<(Instant, Room)>>,
    _lock: File,
}

impl SqliteStore {
    /// Opens the store in `dir`, which is created if it is missing.
    pub fn open(dir: &Path, options: Options) -> Result<Self, Error> {
        create_private(dir)?;
        let lock = lock(dir)?;
        let path = main_file(dir);
        let left = checkpoint::length(&schema::log_of(&path));
        let mut conn = schema::open_writer(&path, Sort::Hot)?;
        if left > 0 {
            checkpoint::settle(&path, &conn)?;
        }
        let days = Days::open(history_folder(dir))?;
        let mut archive = Archive::new(days.clone(), path.clone());
        let tally = Tally::default();
        let (epoch, moved) = settle(&conn, &mut archive, &days, &tally)
            .and_then(|()| begin(&conn, &options))
            .map_err(|failure| failure.at(&path))?;
        let last_used = last_used(&conn, &days).map_err(|failure| failure.at(&path))?;
        let checkpointer = Checkpointer::start(&path, &mut conn)?;
        let place = Place::of(dir, &[&lock_file(dir), &path, &schema::log_of(&path)])?;
        tracing::debug!(path = %path.display(), epoch, "store opened");
        Ok(Self {
            checkpointer,
            conn,
            history: History::new(days.clone()),
            archive,
            days,
            tally,
            blocks: Blocks::default(),
            moved,
            options,
            progress: maintain::Progress::default(),
            path,
            folder: dir.to_owned(),
            place,
            last_used,
            epoch,
            room: Cell::new(None),
            _lock: lock,
        })
    }

    /// Runs `work` in one synced transaction of the main file; all or nothing.
    pub(super) fn transact<T>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Outcome<T>,
    ) -> Result<T, Error> {
        let begun =
            self.conn.prepare_cached("BEGIN IMMEDIATE").and_then(|mut begin| begin.execute([]));
        let result = begun.map_err(Failure::from).and_then(|_| work(self)).and_then(|value| {
            self.conn.prepare_cached("COMMIT")?.execute([])?;
            Ok(value)
        });
        result.map_err(|failure| {
            if !self.conn.is_autocommit() {
                // The first error is the one to report. If this fails too, closing the connection rolls back.
                let _ = self.conn.execute_batch("ROLLBACK");
            }
            failure.at(&self.path)
        })
    }

    /// The same failure with the main file named.
    pub(super) fn named(&self, failure: impl Into<Failure>) -> Error {
        failure.into().at(&self.path)
    }

    /// Background work on the write-ahead log.
    pub(super) fn tidy_log(&mut self) -> Result<(), Error> {
        self.checkpointer.tidy(&self.conn)
    }

    fn measure_room(&self) -> Room {
        if let Some(limit) = self.options.size_bytes_max {
            let pragma = |name| {
                self.conn.pragma_query_value(None, name, |row| row.get::<_, i64>(0)).unwrap_or(0)
            };
            let pages =
                pragma("page_count").saturating_sub(pragma("freelist_count")).unsigned_abs();
            let used = pages * pragma("page_size").unsigned_abs();
            if used.saturating_add(self.options.reserve_bytes.min(limit / 4)) > limit {
                return Room::Low;
            }
        }
        match nix::sys::statvfs::statvfs(&self.folder) {
            Ok(disk) if free_bytes(&disk) < self.options.reserve_bytes => Room::Low,
            Ok(_) => Room::Enough,
            Err(error) => {
                tracing::warn!(%error, folder = %self.folder.display(), "cannot ask for the free space of the disk");
                Room::Enough
            }
        }
    }
}

impl Store for SqliteStore {
    fn epoch(&self) -> u64 {
        self.epoch
    }

    fn last_used(&self) -> Option<Timestamp> {
        self.last_used
    }

    fn recover(&mut self, visit: &mut dyn FnMut(Recovered)) -> Result<(), Error> {
        let found = recover::recover(&self.conn, &self.moved, visit);
        self.blocks.start_with(found.map_err(|failure| failure.at(&self.path))?);
        Ok(())
    }

    fn commit(&mut self, facts: &[Fact], verdicts: &mut Vec<Verdict>) -> Result<(), Error> {
        verdicts.clear();
        if facts.is_empty() {
            return Ok(());
        }
        self.blocks.note(facts);
        let written = self.transact(|store| write::write(store, facts, verdicts));
        match written {
            Ok(delta) => self.tally.apply(delta),
            Err(error) => {
                verdicts.clear();
                return Err(error);
            }
        }
        self.checkpointer.after_commit(&self.conn)
    }

    fn room(&self) -> Room {
        match self.room.get() {
            Some((at, room)) if at.elapsed() < ROOM_FOR => room,
            _ => {
                let room = self.measure_room();
                self.room.set(Some((Instant::now(), room)));
                room
            }
        }
    }

    fn in_place(&self) -> Result<(), Error> {
        self.place.check()
    }

    fn reader(&self) -> Result<Box<dyn Reader>, Error> {
        Ok(Box::new(SqliteReader {
            path: self.path.clone(),
            hot: schema::open_reader(&self.path)?,
            history: History::new(self.days.clone()),
            tally: self.tally.clone(),
            blocks: self.blocks.clone(),
        }))
    }

    fn maintain(&mut self, now: Timestamp, expiry: Timestamp) -> Result<Maintenance, Error> {
        maintain::slice(self, now, expiry)
    }
}

/// The main file of a data folder.
pub(super) fn main_file(dir: &Path) -> PathBuf {
    dir.join("divvy.db")
}

/// Where a data folder keeps its day files.
pub(super) fn history_folder(dir: &Path) -> PathBuf {
    dir.join("history")
}

/// The file whose lock only one process may have.
fn lock_file(dir: &Path) -> PathBuf {
    dir.join("divvy.lock")
}

/// Creates a folder that only its owner can look into. One that exists is left as it is.
pub(super) fn create_private(dir: &Path) -> Result<(), Error> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .map_err(|error| io_error(dir, "create the folder", &error))?;
    let mode = dir.metadata().map_or(0, |meta| meta.mode());
    if mode & 0o077 != 0 {
        tracing::warn!(
            "other users of this machine can look into {0}; keep them out with: chmod 700 {0}",
            dir.display()
        );
    }
    Ok(())
}

/// Takes the lock of a data folder, which only one process may have, until the file is dropped.
///
/// # Errors
/// If another process has it, or the folder cannot be written.
pub fn lock(dir: &Path) -> Result<File, Error> {
    let path = lock_file(dir);
    let file = File::options().create(true).truncate(false).write(true).mode(0o600).open(&path);
    let file = file.map_err(|error| io_error(&path, "open the lock file", &error))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(Error::InUse(dir.display().to_string())),
        Err(TryLockError::Error(error)) => Err(io_error(&path, "lock the file", &error)),
    }
}

/// Counts this start, durably, and reads what the file knows of the past.
fn begin(conn: &Connection, options: &Options) -> Outcome<(u64, Moved)> {
    conn.pragma_update(None, "cache_size", -CACHE_KIB)?;
    if let Some(limit) = options.size_bytes_max {
        let page_size: i64 = conn.pragma_query_value(None, "page_size", |row| row.get(0))?;
        let pages = i64::try_from(limit).unwrap_or(i64::MAX) / page_size.max(1);
        conn.pragma_update_and_check(None, "max_page_count", pages.max(1), |_| Ok(()))?;
    }
    let counted = conn.execute("UPDATE meta SET value = value + 1 WHERE name = 'epoch'", [])?;
    let epoch = conn
        .query_row("SELECT value FROM meta WHERE name = 'epoch'", [], |row| row.get::<_, i64>(0))
        .optional()?;
    let (1, Some(epoch @ 1..)) = (counted, epoch) else {
        return Err(Failure::Place(
            "table meta: the count of starts is missing or not positive".into(),
        ));
    };
    let id = |name: &str| -> Outcome<Option<TaskId>> {
        let bytes: Option<Vec<u8>> = conn
            .query_row("SELECT value FROM meta WHERE name = ?1", [name], |row| row.get(0))
            .optional()?;
        Ok(bytes.and_then(|bytes| TaskId::from_slice(&bytes)))
    };
    let seq: Option<i64> = conn
        .query_row("SELECT value FROM meta WHERE name = 'moved_seq'", [], |row| row.get(0))
        .optional()?;
    let moved = Moved {
        seq: seq.map(|seq| Seq(seq as u64)),
        id: id("moved_id")?,
        timed_id: id("moved_timed_id")?,
    };
    Ok((epoch.unsigned_abs(), moved))
}

/// The newest time among the last rows. What ended last need not be the last row, but it is never far from it.
fn last_used(conn: &Connection, days: &Days) -> Outcome<Option<Timestamp>> {
    let mut newest = days.newest_first().first().map(|day| Timestamp(u64::from(*day) * DAY_US));
    for table in ["task", "outcome"] {
        let sql = format!("SELECT at FROM {table} ORDER BY seq DESC LIMIT 1");
        let at: Option<i64> = conn.query_row(&sql, [], |row| row.get(0)).optional()?;
        newest = newest.max(at.map(|at| Timestamp(at.unsigned_abs())));
    }
    Ok(newest)
}

/// Finishes what the last process may have left half done between files, and counts.
fn settle(conn: &Connection, archive: &mut Archive, days: &Days, tally: &Tally) -> Outcome<()> {
    let present = days.newest_first();
    while revive::clean(conn, archive, &present, maintain::SLICE_TASKS_MAX)? {}
    let mut delta = Delta::default();
    for day in present {
        let unfinished = archive.unfinished(day)?;
        if !unfinished.is_empty() {
            tracing::info!(
                day,
                tasks = unfinished.len(),
                "finishing a move to history that a crash interrupted"
            );
            conn.execute_batch("BEGIN IMMEDIATE")?;
            maintain::delete(conn, &unfinished)?;
            conn.execute_batch("COMMIT")?;
        }
        for (state, count) in archive.tally(day)? {
            delta.add(state, count);
        }
    }
    tally.apply(delta);
    tally.apply(write::count_hot(conn)?);
    Ok(())
}

#[allow(
    clippy::unnecessary_cast,
    clippy::useless_conversion,
    reason = "the width of the fields differs between systems"
)]
fn free_bytes(disk: &nix::sys::statvfs::Statvfs) -> u64 {
    (disk.blocks_available() as u64).saturating_mul(disk.fragment_size() as u64)
}
