//! Keeps the write-ahead log short without making commits wait for it.
//!
//! A thread with a connection of its own copies the log into the main file whenever the log has grown by a few
//! thousand pages. It does so beside the writer, so under steady load it never quite catches up, and SQLite starts
//! the log over only when everything in it is copied. The writer therefore copies the small rest itself, between two
//! commits, once the log is long and the thread is idle; past the hard limit it waits for the thread and for readers.
//!
//! | pages in the log | who acts |
//! |---|---|
//! | every [`STEP_PAGES`] | the thread copies what it can |
//! | [`REST_PAGES`] | the writer copies the rest, if nobody is in the way |
//! | [`LIMIT_PAGES`] | the writer waits for the others and starts the log over |
//!
//! **When copying fails.** The log keeps everything until it is copied and synced, so a lack of room or a lock in the
//! way loses nothing and is tried again later. Anything else is fatal, whoever meets it: after a sync of the main file
//! that failed, the next one may succeed without having written anything, and the log would then be started over.
//!
//! The log is a file that is written over and over, and it is long from the start: a sync of a file that does not
//! grow has no new length to write down, which about halves the time of a lone commit.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rusqlite::Connection;

use super::failure::Failure;
use super::schema;
use crate::Error;

const STEP_PAGES: u32 = 2_000;
const REST_PAGES: u32 = 8_000;
const LIMIT_PAGES: u32 = 64_000;
/// How long the log is made ahead of its use: the thread's step and some more, with a header for each page.
const AHEAD_BYTES: u64 = (STEP_PAGES as u64 + 200) * (4_096 + 24);
/// How long the log may stay when nothing happens.
const IDLE_BYTES_MAX: u64 = AHEAD_BYTES + AHEAD_BYTES / 2;
/// How long the writer waits for readers at the hard limit.
const LIMIT_WAIT: Duration = Duration::from_millis(200);

/// The thread, and what the writer knows of the log.
pub(super) struct Checkpointer {
    pages: Arc<AtomicU32>,
    copied_at: u32,
    idle: Arc<AtomicBool>,
    wake: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
    /// What ended the thread.
    failed: Arc<Mutex<Option<Error>>>,
    path: PathBuf,
    log: PathBuf,
}

impl Checkpointer {
    /// Takes over the log of the writer's connection.
    pub(super) fn start(path: &Path, writer: &mut Connection) -> Result<Self, Error> {
        let pages = Arc::new(AtomicU32::new(0));
        let seen = Arc::clone(&pages);
        let setup = |failure: rusqlite::Error| Failure::from(failure).at(path);
        writer.pragma_update(None, "wal_autocheckpoint", 0).map_err(setup)?;
        let hook = move |_: &mut rusqlite::hooks::Wal, count: std::ffi::c_int| {
            seen.store(count.unsigned_abs(), Ordering::Relaxed);
            Ok(())
        };
        writer.wal_hook(Some(hook)).map_err(setup)?;
        let own = schema::open_checkpointer(path)?;
        let idle = Arc::new(AtomicBool::new(true));
        let (wake, woken) = sync_channel(1);
        let (at_rest, copied) = (Arc::clone(&idle), path.to_owned());
        let failed = Arc::new(Mutex::new(None));
        let end = Arc::clone(&failed);
        let work = move || {
            let ended = run(&own, &copied, &woken, &at_rest);
            *end.lock().unwrap_or_else(PoisonError::into_inner) = ended.err();
        };
        let spawned = std::thread::Builder::new().name("divvy-checkpoint".into()).spawn(work);
        let thread = spawned.map_err(|error| {
            super::failure::io_error(path, "start the checkpoint thread", &error)
        })?;
        let log = schema::log_of(path);
        lengthen(&log);
        let path = path.to_owned();
        Ok(Self {
            pages,
            copied_at: 0,
            idle,
            wake: Some(wake),
            thread: Some(thread),
            failed,
            path,
            log,
        })
    }

    /// Looks at the log after a commit. An error is fatal.
    pub(super) fn after_commit(&mut self, writer: &Connection) -> Result<(), Error> {
        self.look_at_thread()?;
        let pages = self.pages.load(Ordering::Relaxed);
        if pages < self.copied_at {
            self.copied_at = 0;
        }
        if pages >= LIMIT_PAGES && pages >= self.copied_at + STEP_PAGES {
            // A reader that stays for minutes, such as a backup, must not cost every commit this wait.
            self.copied_at = pages;
            bear(&self.path, checkpoint_within(writer, "RESTART", LIMIT_WAIT))?;
        } else if (REST_PAGES..LIMIT_PAGES).contains(&pages)
            && self.idle.load(Ordering::Acquire)
            && pages > self.copied_at
        {
            bear(&self.path, checkpoint(writer, "PASSIVE"))?;
            self.copied_at = pages;
        } else if pages >= self.copied_at + STEP_PAGES {
            self.copied_at = pages;
            self.wake();
        }
        Ok(())
    }

    /// Copies the log while nothing else waits, if it holds enough to be worth it, and cuts one that has become long.
    /// An error is fatal.
    pub(super) fn tidy(&mut self, writer: &Connection) -> Result<(), Error> {
        self.look_at_thread()?;
        if self.pages.load(Ordering::Relaxed) < STEP_PAGES / 2 {
            return Ok(());
        }
        let copied = if length(&self.log) <= IDLE_BYTES_MAX {
            bear(&self.path, checkpoint(writer, "PASSIVE"))?
        } else {
            // Not being able to now, because somebody reads, is no error: the answer is a row that says busy.
            let copied = bear(&self.path, checkpoint_within(writer, "TRUNCATE", Duration::ZERO))?;
            lengthen(&self.log);
            copied
        };
        if !copied {
            return Ok(());
        }
        self.pages.store(0, Ordering::Relaxed);
        self.copied_at = 0;
        Ok(())
    }

    fn look_at_thread(&self) -> Result<(), Error> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).take().map_or(Ok(()), Err)
    }

    fn wake(&self) {
        if let Some(wake) = &self.wake
            && let Err(TrySendError::Disconnected(())) = wake.try_send(())
        {
            tracing::warn!("the checkpoint thread has ended; the writer copies the log itself");
        }
    }
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        drop(self.wake.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::warn!("the checkpoint thread panicked");
        }
    }
}

fn run(
    conn: &Connection,
    path: &Path,
    woken: &Receiver<()>,
    idle: &AtomicBool,
) -> Result<(), Error> {
    while woken.recv().is_ok() {
        idle.store(false, Ordering::Release);
        bear(path, checkpoint(conn, "PASSIVE"))?;
        idle.store(true, Ordering::Release);
    }
    Ok(())
}

/// Makes durable in the main file what an earlier process left in the log. It may not be on the disk even if it can be
/// read: the sync that was to bring it there may be what ended that process.
pub(super) fn settle(path: &Path, conn: &Connection) -> Result<(), Error> {
    bear(path, checkpoint(conn, "FULL")).map(drop)
}

/// Whether the log was copied; what may pass by itself is told and borne.
fn bear(path: &Path, copied: Result<bool, rusqlite::Error>) -> Result<bool, Error> {
    match copied.map_err(|error| Failure::from(error).at(path)) {
        Ok(copied) => Ok(copied),
        Err(error @ (Error::Full(_) | Error::Blocked { .. })) => {
            tracing::warn!(%error, "cannot copy the write-ahead log into the main file now");
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// Appends zeros, which SQLite takes for the end of the log wherever it meets them. Only the writer's thread does this,
/// between two commits, so nothing is written over. Without room the log simply stays short.
fn lengthen(log: &Path) {
    let present = length(log);
    if present == 0 || present >= AHEAD_BYTES {
        return;
    }
    let zeros = vec![0; 1 << 20];
    let mut missing = AHEAD_BYTES - present;
    let Ok(mut file) = File::options().append(true).open(log) else { return };
    while missing > 0 {
        let count = missing.min(zeros.len() as u64);
        if let Err(error) = file.write_all(&zeros[..count as usize]) {
            tracing::debug!(%error, "cannot make the write-ahead log longer in advance");
            return;
        }
        missing -= count;
    }
}

/// How long a file is; one that is not there has no length.
pub(super) fn length(path: &Path) -> u64 {
    path.metadata().map_or(0, |meta| meta.len())
}

fn checkpoint_within(
    conn: &Connection,
    mode: &str,
    wait: Duration,
) -> Result<bool, rusqlite::Error> {
    conn.busy_timeout(wait)?;
    let result = checkpoint(conn, mode);
    conn.busy_timeout(schema::BUSY)?;
    result
}

/// Copies the log; returns whether nobody was in the way.
fn checkpoint(conn: &Connection, mode: &str) -> Result<bool, rusqlite::Error> {
    conn.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |row| {
        row.get::<_, i64>(0).map(|busy| busy == 0)
    })
}
