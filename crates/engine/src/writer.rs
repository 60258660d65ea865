//! The writer: commits one group after another on a thread of its own, and does the background work of the store.
//!
//! The effects of a small group are let out here, at once: a lone task should not wait for another thread. Those of a
//! large group are left to the loop, so that the disk has the next group while they leave. Either way no group
//! overtakes another: whoever lets effects out holds the outlet, and the loop takes it before it hands the next over.
//!
//! Everything that queued up while one group was being synced is the next group, so a lone task pays one sync and a
//! flood shares it.
//!
//! **When the store fails.** A failed sync is fatal: the thread ends with the error and the process must stop, because
//! what is in memory is ahead of what is on disk. These are not; they are waited for, and new tasks are refused
//! meanwhile:
//!
//! | what | why it can wait |
//! |---|---|
//! | a full disk, a quota, the lock of another program | nothing of the group was kept; it is tried again whole |
//! | a data folder that was moved, replaced or deleted | looked for before a group is written and before it is let out, so nothing is acknowledged that nobody will find. The process does not end: whoever restarts it would start it on an empty folder |
//! | any of these during background work, or damage that it meets | it left everything as it was |
//!
//! **Background work** is done a slice at a time when nothing else is to do, and under load as well, in a tenth of the
//! time: history, retention and the length of the log must not wait for a quiet moment that never comes.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use divvy_store::{Error as StoreError, Maintenance, Room, Store};
use divvy_types::Verdict;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::clock::Shared;
use crate::group::{Group, Outlet, Released};
use crate::request::Error;
use crate::stats::Stats;
use crate::verdicts;

/// How long the writer is idle before it does a slice of background work, and how long it rests when all is done.
const REST: Duration = Duration::from_secs(1);
/// How long it rests between two slices while nothing else is to do.
const BREATH: Duration = Duration::from_millis(5);
/// The same under load, at least; and how many times longer than the slice took.
const BREATH_UNDER_LOAD: Duration = Duration::from_millis(100);
const SHARE_UNDER_LOAD: u32 = 9;
/// How long it rests when background work met damage, which does not go away by itself.
const DAMAGE_REST: Duration = Duration::from_secs(60);
/// How long it waits before it tries again what could not be done.
const RETRY: Duration = Duration::from_millis(500);
/// How long a stop waits for a store that cannot be written to. What is lost then was never acknowledged.
const STOP_PATIENCE: Duration = Duration::from_secs(5);
/// A day of retention that is not caught up with is worth a word, in microseconds.
const BEHIND_US: u64 = 86_400_000_000;

/// Facts of a group whose effects are let out by the writer itself.
const SMALL_GROUP: usize = 64;

/// What the loop hears of a group that is durable.
pub(crate) enum Done {
    /// Its effects were let out.
    Released(Released),
    /// Its effects are the loop's to let out.
    Committed(Box<Group>),
}

/// The way to the writer thread.
pub(crate) struct Writer {
    groups: SyncSender<Group>,
    thread: thread::JoinHandle<Result<(), Error>>,
}

impl Writer {
    /// Starts the thread.
    pub(crate) fn start(desk: Desk) -> std::io::Result<Self> {
        // One group is on its way at a time; the loop fills the next until it hears that this one is done.
        let (groups, queue) = sync_channel(1);
        let thread =
            thread::Builder::new().name("divvy-writer".into()).spawn(move || desk.run(&queue))?;
        Ok(Self { groups, thread })
    }

    /// Hands a group over. Fails if the writer is gone, which [`Writer::stop`] explains.
    pub(crate) fn submit(&self, group: Group) -> Result<(), Error> {
        self.groups.send(group).map_err(|_| Error::Stopping)
    }

    /// Waits until everything handed over is durable and let out, and ends the thread.
    pub(crate) fn stop(self) -> Result<(), Error> {
        drop(self.groups);
        self.thread.join().unwrap_or_else(|_| Err(Error::Store("the store writer panicked".into())))
    }
}

/// What the thread works with.
pub(crate) struct Desk {
    store: Box<dyn Store>,
    outlet: Arc<Mutex<Outlet>>,
    stats: Arc<Stats>,
    done: mpsc::UnboundedSender<Done>,
    clock: Shared,
    stop: CancellationToken,
    verdicts: Vec<Verdict>,
    /// When the next slice of background work is due while nothing else is to do, and under load.
    idle_slice: Instant,
    busy_slice: Instant,
    /// Whether it was said that retention waits for the clock.
    told_behind: bool,
}

impl Desk {
    /// A desk for this store. What the core has to hear of each group arrives on `done`; `stop` says that the engine is
    /// to end.
    pub(crate) fn new(
        store: Box<dyn Store>,
        outlet: Arc<Mutex<Outlet>>,
        stats: Arc<Stats>,
        done: mpsc::UnboundedSender<Done>,
        clock: Shared,
        stop: CancellationToken,
    ) -> Self {
        let first = Instant::now() + REST;
        Self {
            store,
            outlet,
            stats,
            done,
            clock,
            stop,
            verdicts: Vec::new(),
            idle_slice: first,
            busy_slice: first,
            told_behind: false,
        }
    }

    fn run(mut self, queue: &Receiver<Group>) -> Result<(), Error> {
        loop {
            match queue.recv_timeout(self.idle_slice.saturating_duration_since(Instant::now())) {
                Ok(group) => {
                    self.see_through(group)?;
                    let now = Instant::now();
                    self.idle_slice = now + REST;
                    if now >= self.busy_slice {
                        self.tidy()?;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    self.look_at_place();
                    self.look_at_room();
                    self.tidy()?;
                }
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
        }
    }

    fn see_through(&mut self, mut group: Group) -> Result<(), Error> {
        self.commit(&mut group)?;
        let done = if group.facts.len() <= SMALL_GROUP {
            Done::Released(lock(&self.outlet).release(group)?)
        } else {
            Done::Committed(Box::new(group))
        };
        // If the loop is gone, whatever is still queued gets its turn, then the channel closes.
        let _ = self.done.send(done);
        Ok(())
    }

    fn commit(&mut self, group: &mut Group) -> Result<(), Error> {
        self.wait_for_place(group)?;
        if group.facts.is_empty() {
            return Ok(());
        }
        let started = Instant::now();
        let mut waiting = Waiting::default();
        loop {
            match self.store.commit(&group.facts, &mut self.verdicts) {
                Ok(()) => break,
                Err(StoreError::Full(place)) => {
                    self.stats.set_disk_full(true);
                    if waiting.begins() {
                        tracing::error!(
                            "the disk that holds {place} is full; waiting for space, new tasks are refused"
                        );
                    }
                }
                Err(error @ StoreError::Blocked { .. }) => {
                    if waiting.begins() {
                        tracing::error!("{error}; waiting, new tasks are refused");
                    }
                    self.stats.set_problem(Some(&error.to_string()));
                }
                Err(error) => {
                    tracing::error!("commit failed, stopping: {error}");
                    return Err(error.into());
                }
            }
            waiting.wait(&self.stop)?;
        }
        self.stats.count_commit(group.facts.len(), started.elapsed());
        verdicts::settle(self.store.as_mut(), group, &mut self.verdicts, self.clock.now())?;
        self.wait_for_place(group)?;
        self.look_at_room();
        Ok(())
    }

    /// Waits until the files of the store are where they were opened; whoever waits for this group is told at once.
    fn wait_for_place(&mut self, group: &mut Group) -> Result<(), Error> {
        let mut waiting = Waiting::default();
        while !self.look_at_place() {
            for reply in std::mem::take(&mut group.replies) {
                let problem = self.stats.problem().unwrap_or_default();
                reply(Err(Error::StoreUnavailable(problem)));
            }
            waiting.wait(&self.stop)?;
        }
        Ok(())
    }

    /// Whether the files of the store are where they were opened; if not, everybody who asks is told.
    fn look_at_place(&self) -> bool {
        let found = self.store.in_place();
        let problem = found.as_ref().err().map(ToString::to_string);
        let known = self.stats.problem();
        if problem != known {
            match &problem {
                Some(problem) => tracing::error!("{problem}; nothing is recorded meanwhile"),
                None => tracing::info!("the store can be written to again: new tasks are taken"),
            }
            self.stats.set_problem(problem.as_deref());
        }
        problem.is_none()
    }

    /// Does a slice of background work, if the store can be written to.
    fn tidy(&mut self) -> Result<(), Error> {
        let (now, expiry) = self.clock.now_and_expiry();
        self.look_at_clock(now.0 - expiry.0);
        let started = Instant::now();
        let rest = if self.stats.problem().is_some() {
            REST
        } else {
            match self.store.maintain(now, expiry) {
                Ok(Maintenance::More) => BREATH,
                Ok(Maintenance::Rest) => REST,
                Err(error @ (StoreError::Full(_) | StoreError::Blocked { .. })) => {
                    tracing::debug!(%error, "background work rests");
                    REST
                }
                Err(error @ StoreError::Damaged { .. }) => {
                    tracing::error!(%error, "background work rests");
                    self.stats.count_failed_read(&error.to_string());
                    DAMAGE_REST
                }
                Err(error) => return Err(error.into()),
            }
        };
        let ended = Instant::now();
        self.idle_slice = ended + rest;
        let share = (ended - started).saturating_mul(SHARE_UNDER_LOAD);
        self.busy_slice = ended + rest.max(BREATH_UNDER_LOAD).max(share);
        Ok(())
    }

    fn look_at_clock(&mut self, behind_us: u64) {
        self.stats.set_clock(self.clock.doubt_us().unwrap_or(0), behind_us);
        let behind = behind_us > BEHIND_US;
        if behind && !self.told_behind {
            tracing::warn!(
                "the clock is {:?} ahead of when this store was last used; old tasks are deleted a day an hour at most",
                Duration::from_micros(behind_us)
            );
        }
        self.told_behind = behind;
    }

    fn look_at_room(&self) {
        let full = self.store.room() == Room::Low;
        if full != self.stats.is_disk_full() {
            if full {
                tracing::error!(
                    "the disk is nearly full: new tasks are refused until space is freed"
                );
            } else {
                tracing::info!("there is room on the disk again: new tasks are taken");
            }
            self.stats.set_disk_full(full);
        }
    }
}

/// A wait for something that a person has to do.
#[derive(Default)]
struct Waiting {
    begun: bool,
    stopping: Option<Instant>,
}

impl Waiting {
    /// Whether this is the first time.
    fn begins(&mut self) -> bool {
        !std::mem::replace(&mut self.begun, true)
    }

    /// Waits a moment. Fails if the engine is to end and has waited for long enough.
    fn wait(&mut self, stop: &CancellationToken) -> Result<(), Error> {
        if stop.is_cancelled() {
            let since = *self.stopping.get_or_insert_with(Instant::now);
            if since.elapsed() >= STOP_PATIENCE {
                let text = "the store could not be written to, so what was not acknowledged is not recorded";
                return Err(Error::Store(text.into()));
            }
        }
        thread::sleep(RETRY);
        Ok(())
    }
}

/// The outlet. A panic while it was held ends the process anyway.
pub(crate) fn lock(outlet: &Mutex<Outlet>) -> MutexGuard<'_, Outlet> {
    outlet.lock().unwrap_or_else(PoisonError::into_inner)
}
