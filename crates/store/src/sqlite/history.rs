//! The files of days: which there are, how they are read, and how tasks are copied into them.
//!
//! A task is first copied and synced into the file of the day it ended on, then deleted from the hot file. After a
//! crash in between it is in both; whoever reads lets the hot file win, and the next open finishes the move from the
//! `slice` table, which holds the numbers of the last copy.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use divvy_types::{TaskState, Timestamp};
use rusqlite::{Connection, params};

use super::blocks;
use super::failure::{Failure, Outcome, io_error};
use super::schema::{self, Sort};
use super::store::create_private;
use super::tally;
use crate::Error;

/// The days that have a file, shared by the store and its readers.
#[derive(Clone, Debug)]
pub(super) struct Days {
    folder: PathBuf,
    present: Arc<Mutex<BTreeSet<u32>>>,
}

/// Connections to look into day files, opened when first needed and closed when their day is dropped.
pub(super) struct History {
    days: Days,
    open: BTreeMap<u32, Connection>,
}

/// Copies tasks into day files; keeps the file of one day open, because most tasks end today.
pub(super) struct Archive {
    days: Days,
    hot: PathBuf,
    current: Option<(u32, Connection)>,
}

impl Days {
    /// Lists the folder; a file whose name is no day is left alone.
    pub(super) fn open(folder: PathBuf) -> Result<Self, Error> {
        create_private(&folder)?;
        let present = Arc::new(Mutex::new(Self::listed(&folder)?));
        Ok(Self { folder, present })
    }

    /// The days that have a file in a folder, which may not exist.
    pub(super) fn listed(folder: &Path) -> Result<BTreeSet<u32>, Error> {
        let entries = match std::fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(BTreeSet::new());
            }
            Err(error) => return Err(io_error(folder, "list the folder", &error)),
        };
        let mut days = BTreeSet::new();
        for entry in entries {
            let entry = entry.map_err(|error| io_error(folder, "list the folder", &error))?;
            let name = entry.file_name();
            let day = name.to_str().and_then(|name| name.strip_suffix(".db"));
            days.extend(
                day.and_then(|day| format!("{day}T00:00:00Z").parse::<Timestamp>().ok())
                    .map(Timestamp::day),
            );
        }
        Ok(days)
    }

    /// The file of a day.
    pub(super) fn path(&self, day: u32) -> PathBuf {
        file_of(&self.folder, day)
    }

    /// The days, newest first.
    pub(super) fn newest_first(&self) -> Vec<u32> {
        self.lock().iter().rev().copied().collect()
    }

    /// Deletes the file of a day.
    pub(super) fn drop_day(&self, day: u32) -> Result<(), Error> {
        self.lock().remove(&day);
        let path = self.path(day);
        for suffix in ["", "-wal", "-shm"] {
            let mut name = path.clone().into_os_string();
            name.push(suffix);
            match std::fs::remove_file(&name) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(io_error(Path::new(&name), "delete the file", &error));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<u32>> {
        self.present.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The file of a day in a folder.
pub(super) fn file_of(folder: &Path, day: u32) -> PathBuf {
    let date = Timestamp(u64::from(day) * 86_400_000_000).to_string();
    folder.join(format!("{}.db", &date[..10]))
}

impl History {
    pub(super) fn new(days: Days) -> Self {
        Self { days, open: BTreeMap::new() }
    }

    /// Calls `look` with each day file, newest first, until it finds something.
    pub(super) fn search<T>(
        &mut self,
        mut look: impl FnMut(u32, &Connection) -> Outcome<Option<T>>,
    ) -> Result<Option<T>, Error> {
        let days = self.days.newest_first();
        self.open.retain(|day, _| days.contains(day));
        for day in days {
            let path = self.days.path(day);
            let conn = match self.open.entry(day) {
                Entry::Occupied(open) => open.into_mut(),
                Entry::Vacant(free) => match schema::open_reader(&path) {
                    Ok(conn) => free.insert(conn),
                    // The day may have been dropped between the listing and the opening.
                    Err(_) if !self.days.lock().contains(&day) => continue,
                    Err(error) if !path.exists() => {
                        tracing::error!(%error, "a day of history is gone; its tasks are not known any more");
                        self.days.lock().remove(&day);
                        continue;
                    }
                    Err(error) => return Err(error),
                },
            };
            let found = look(day, conn).map_err(|failure| failure.at(&path))?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// Calls `look` with every day file, newest first.
    pub(super) fn each(
        &mut self,
        mut look: impl FnMut(u32, &Connection) -> Outcome<()>,
    ) -> Result<(), Error> {
        self.search(|day, conn| look(day, conn).map(|()| None::<()>)).map(drop)
    }
}

impl Archive {
    pub(super) fn new(days: Days, hot: PathBuf) -> Self {
        Self { days, hot, current: None }
    }

    /// Copies these tasks into the file of `day` and syncs it. Tasks that are there already are replaced.
    pub(super) fn copy(&mut self, day: u32, seqs: &[i64]) -> Result<(), Error> {
        let path = self.days.path(day);
        let conn = self.writer(day)?;
        in_transaction(conn, |conn| {
            conn.execute("DELETE FROM main.slice", [])?;
            let mut insert = conn.prepare_cached("INSERT INTO main.slice VALUES(?1)")?;
            for seq in seqs {
                insert.execute([seq])?;
            }
            remove(conn, "SELECT seq FROM main.slice")?;
            for table in ["task", "outcome", "attempt"] {
                conn.prepare_cached(&format!(
                    "INSERT INTO main.{table} SELECT * FROM hot.{table} WHERE seq IN (SELECT seq FROM main.slice)"
                ))?
                .execute([])?;
            }
            blocks::note_copied(conn)?;
            count(conn, "SELECT seq FROM main.slice", "+")
        })
        .map_err(|failure| failure.at(&path))
    }

    /// Removes tasks from the file of `day`, because they are open again.
    pub(super) fn remove(&mut self, day: u32, seq: i64) -> Result<(), Error> {
        let path = self.days.path(day);
        let conn = self.writer(day)?;
        in_transaction(conn, |conn| {
            conn.execute("DELETE FROM main.slice WHERE seq = ?1", [seq])?;
            remove(conn, &format!("VALUES({seq})"))
        })
        .map_err(|failure| failure.at(&path))
    }

    /// How many tasks of each final state the file of `day` holds.
    pub(super) fn tally(&mut self, day: u32) -> Result<Vec<(TaskState, i64)>, Error> {
        let path = self.days.path(day);
        let conn = self.writer(day)?;
        let read = || -> Outcome<Vec<(TaskState, i64)>> {
            let mut statement = conn.prepare_cached("SELECT state, count FROM main.tally")?;
            let mut rows = statement.query([])?;
            let mut counts = Vec::new();
            while let Some(row) = rows.next()? {
                let code: i64 = row.get(0)?;
                let state = tally::state(code)
                    .ok_or_else(|| Failure::row("tally", code, "is no final state"))?;
                counts.push((state, row.get(1)?));
            }
            Ok(counts)
        };
        read().map_err(|failure| failure.at(&path))
    }

    /// Tasks of the last copy into the file of `day` that the hot file still has, ended just the same.
    pub(super) fn unfinished(&mut self, day: u32) -> Result<Vec<i64>, Error> {
        let path = self.days.path(day);
        let conn = self.writer(day)?;
        let read = || -> Outcome<Vec<i64>> {
            let mut statement = conn.prepare_cached(
                "SELECT s.seq FROM main.slice s JOIN main.outcome d ON d.seq = s.seq JOIN hot.outcome o ON o.seq = s.seq
                 WHERE o.state = d.state AND o.token = d.token AND o.at = d.at",
            )?;
            let seqs = statement.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
            Ok(seqs)
        };
        read().map_err(|failure| failure.at(&path))
    }

    /// Forgets the connection to a day that is dropped.
    pub(super) fn close(&mut self, day: u32) {
        self.current.take_if(|(open, _)| *open == day);
    }

    fn writer(&mut self, day: u32) -> Result<&Connection, Error> {
        self.current.take_if(|(open, _)| *open != day);
        if self.current.is_none() {
            let path = self.days.path(day);
            let conn = schema::open_writer(&path, Sort::Day)?;
            conn.execute("ATTACH DATABASE ?1 AS hot", params![self.hot.to_string_lossy()])
                .map_err(|error| Failure::from(error).at(&self.hot))?;
            self.days.lock().insert(day);
            self.current = Some((day, conn));
        }
        Ok(&self.current.as_ref().expect("the connection was opened above").1)
    }
}

/// Removes from a copied day file what the hot file beside it still has; used by backups, which copy the one first.
pub(super) fn remove_shadowed(day: &Path, hot: &Path) -> Result<(), Error> {
    let conn = schema::open_writer(day, Sort::Day)?;
    let work = || -> Outcome<()> {
        conn.execute("ATTACH DATABASE ?1 AS hot", params![hot.to_string_lossy()])?;
        in_transaction(&conn, |conn| {
            conn.execute("DELETE FROM main.slice", [])?;
            remove(conn, "SELECT d.seq FROM main.task d WHERE d.seq IN (SELECT seq FROM hot.task)")
        })
    };
    work().map_err(|failure| failure.at(day))
}

/// Deletes tasks from the day file and from its counts.
fn remove(conn: &Connection, seqs: &str) -> Outcome<()> {
    count(conn, seqs, "-")?;
    // `task` goes last, because the selection may be read from it.
    for table in ["outcome", "attempt", "task"] {
        conn.execute(&format!("DELETE FROM main.{table} WHERE seq IN ({seqs})"), [])?;
    }
    Ok(())
}

fn count(conn: &Connection, seqs: &str, sign: &str) -> Outcome<()> {
    conn.execute(
        &format!(
            "INSERT INTO main.tally SELECT state, {sign}count(*) FROM main.outcome WHERE seq IN ({seqs}) GROUP BY state
             ON CONFLICT(state) DO UPDATE SET count = count + excluded.count"
        ),
        [],
    )?;
    Ok(())
}

/// Runs `work` in a transaction of the day file; the attached hot file is only read.
fn in_transaction(conn: &Connection, work: impl FnOnce(&Connection) -> Outcome<()>) -> Outcome<()> {
    conn.execute_batch("BEGIN")?;
    let result = work(conn).and_then(|()| Ok(conn.execute_batch("COMMIT")?));
    if result.is_err() && !conn.is_autocommit() {
        // The first error is the one to report; a failed rollback leaves nothing behind either.
        let _ = conn.execute_batch("ROLLBACK");
    }
    result
}
