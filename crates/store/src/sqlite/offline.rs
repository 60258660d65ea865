//! Work on the files without a server: check, copy, compact.
//!
//! The check and the compaction take the lock of the data folder; the copy does not, so it works beside a server.

mod check;

use std::path::{Path, PathBuf};

use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};

pub use check::{CheckReport, FileReport, check};

use super::failure::{Failure, Outcome, io_error};
use super::history::{self, Days, file_of};
use super::schema::{self, Sort};
use super::store::{create_private, history_folder, lock, main_file};
use crate::Error;

/// Pages that are copied between two calls of `progress`.
const STEP_PAGES: i32 = 256;

/// How much later the copy of a store counts its starts than the original. Tokens of attempts are made of that number: a
/// server on the copy must not give out those that the original gave out after the copy was made.
const EPOCHS_BETWEEN: u32 = 4_096;

/// What a compaction came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompactReport {
    /// Bytes of all files before.
    pub bytes_before: u64,
    /// Bytes of all files after.
    pub bytes_after: u64,
}

/// Copies the store in `dir` into `target`, which must not hold a store yet. Works while a server runs: the copy is
/// what the store was at one moment. `progress` hears how many pages are done, of how many.
pub fn backup(dir: &Path, target: &Path, progress: &mut dyn FnMut(u64, u64)) -> Result<(), Error> {
    let source = existing(dir)?;
    let copy = main_file(target);
    if copy.exists() {
        let message = "there is a store already; give an empty folder for the backup".to_owned();
        return Err(Error::Io { path: copy.display().to_string(), message });
    }
    let past = history_folder(target);
    create_private(&past)?;
    let hot = schema::open_reader(&source)?;
    // The snapshot of the main file is taken first: whatever leaves it later is copied twice, never not at all.
    snapshot(&hot).map_err(|failure| failure.at(&source))?;
    let mut days: Vec<(PathBuf, PathBuf, Connection)> = Vec::new();
    for day in Days::listed(&history_folder(dir))? {
        let path = file_of(&history_folder(dir), day);
        match schema::open_reader(&path) {
            Ok(conn) => days.push((path, file_of(&past, day), conn)),
            // The retention may have dropped the day in this moment.
            Err(_) if !path.exists() => {}
            Err(error) => return Err(error),
        }
    }
    let mut total = pages(&hot).map_err(|failure| failure.at(&source))?;
    for (path, _, conn) in &days {
        snapshot(conn).map_err(|failure| failure.at(path))?;
        total += pages(conn).map_err(|failure| failure.at(path))?;
    }
    let mut done = 0;
    copy_file(&hot, &copy, &mut done, total, progress)?;
    raise_epoch(&copy)?;
    for (_, copied, conn) in &days {
        copy_file(conn, copied, &mut done, total, progress)?;
        history::remove_shadowed(copied, &copy)?;
    }
    for folder in [&past, target] {
        let synced = std::fs::File::open(folder).and_then(|folder| folder.sync_all());
        synced.map_err(|error| io_error(folder, "sync the folder", &error))?;
    }
    Ok(())
}

fn raise_epoch(copy: &Path) -> Result<(), Error> {
    let work = || -> Outcome<()> {
        let conn = Connection::open(copy)?;
        conn.pragma_update(None, "synchronous", "FULL")?;
        let raise = "UPDATE meta SET value = value + ?1 WHERE name = 'epoch'";
        conn.execute(raise, [EPOCHS_BETWEEN])?;
        Ok(())
    };
    work().map_err(|failure| failure.at(copy))
}

/// Gives unused room back to the disk. No server may run.
pub fn compact(dir: &Path) -> Result<CompactReport, Error> {
    let path = existing(dir)?;
    let _lock = lock(dir)?;
    let mut files = vec![(path, Sort::Hot)];
    let past = history_folder(dir);
    files.extend(Days::listed(&past)?.into_iter().map(|day| (file_of(&past, day), Sort::Day)));
    let bytes_before = size(&files);
    for (path, sort) in &files {
        let conn = schema::open_writer(path, *sort)?;
        let work = || -> Outcome<()> {
            conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
            conn.execute_batch("VACUUM")?;
            conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
            Ok(())
        };
        work().map_err(|failure| failure.at(path))?;
    }
    Ok(CompactReport { bytes_before, bytes_after: size(&files) })
}

/// The main file of a data folder that must have one.
fn existing(dir: &Path) -> Result<PathBuf, Error> {
    let path = main_file(dir);
    if path.exists() {
        return Ok(path);
    }
    let message = "there is no store here; give the --data folder of a divvy server".to_owned();
    Err(Error::Io { path: path.display().to_string(), message })
}

fn size(files: &[(PathBuf, Sort)]) -> u64 {
    let length = |path: &Path| path.metadata().map_or(0, |meta| meta.len());
    files.iter().map(|(path, _)| length(path) + length(&schema::log_of(path))).sum()
}

fn snapshot(conn: &Connection) -> Outcome<()> {
    conn.execute_batch("BEGIN")?;
    // A transaction begins to see at its first read.
    conn.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
    Ok(())
}

fn pages(conn: &Connection) -> Outcome<u64> {
    Ok(conn.pragma_query_value(None, "page_count", |row| row.get::<_, i64>(0))?.unsigned_abs())
}

fn copy_file(
    from: &Connection,
    to: &Path,
    done: &mut u64,
    total: u64,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(), Error> {
    let mut work = || -> Outcome<()> {
        schema::create_private(to)?;
        let mut target = Connection::open(to)?;
        target.pragma_update(None, "synchronous", "FULL")?;
        let backup = Backup::new(from, &mut target)?;
        let before = *done;
        loop {
            let step = backup.step(STEP_PAGES)?;
            let state = backup.progress();
            *done = before + (state.pagecount - state.remaining).unsigned_abs() as u64;
            progress(*done, total);
            match step {
                StepResult::Done => return Ok(()),
                StepResult::More => {}
                other => return Err(Failure::Place(format!("the copy cannot go on: {other:?}"))),
            }
        }
    };
    work().map_err(|failure| failure.at(to))
}
