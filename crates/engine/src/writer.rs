//! The writer: commits one group after another on a thread of its own.
//!
//! The effects of a small group are let out here, at once: a lone task should not wait for another thread. Those of a
//! large group are left to the loop, so that the disk has the next group while they leave. Either way no group
//! overtakes another: whoever lets effects out holds the outlet, and the loop takes it before it hands the next over.
//!
//! Everything that queued up while one group was being synced is the next group, so a lone task pays one sync and a
//! flood shares it. A failed sync is fatal: the thread ends with the error and the process must stop, because what
//! is in memory is ahead of what is on disk. A full disk is not: nothing of the group was kept, so it is tried again
//! until there is room, and new tasks are refused meanwhile.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use divvy_store::{Error as StoreError, Maintenance, Room, Store};
use divvy_types::Verdict;
use tokio::sync::mpsc;

use crate::group::{Group, Outlet, Released};
use crate::request::Error;
use crate::runner::wall_clock;
use crate::stats::Stats;
use crate::worker_requests::may_be_refused;

/// How long the writer is idle before it does a slice of background work.
const REST: Duration = Duration::from_secs(1);
/// How long it waits before it tries a group again for which there was no room.
const FULL_RETRY: Duration = Duration::from_millis(500);

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
    /// Starts the thread. What the core has to hear of each group arrives on `done`.
    pub(crate) fn start(
        store: Box<dyn Store>,
        outlet: Arc<Mutex<Outlet>>,
        stats: Arc<Stats>,
        done: mpsc::UnboundedSender<Done>,
    ) -> std::io::Result<Self> {
        // One group is on its way at a time; the loop fills the next until it hears that this one is done.
        let (groups, queue) = sync_channel(1);
        let desk = Desk { store, outlet, stats, done, verdicts: Vec::new() };
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

struct Desk {
    store: Box<dyn Store>,
    outlet: Arc<Mutex<Outlet>>,
    stats: Arc<Stats>,
    done: mpsc::UnboundedSender<Done>,
    verdicts: Vec<Verdict>,
}

impl Desk {
    fn run(mut self, queue: &Receiver<Group>) -> Result<(), Error> {
        let mut rest = REST;
        loop {
            match queue.recv_timeout(rest) {
                Ok(group) => {
                    self.commit(&group)?;
                    let done = if group.facts.len() <= SMALL_GROUP {
                        Done::Released(lock(&self.outlet).release(group)?)
                    } else {
                        Done::Committed(Box::new(group))
                    };
                    rest = REST;
                    if self.done.send(done).is_err() {
                        // The loop is gone; whatever is still queued gets its turn, then the channel closes.
                        continue;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    rest = match self.store.maintain(wall_clock())? {
                        Maintenance::More => Duration::from_millis(5),
                        Maintenance::Rest => REST,
                    };
                    self.look_at_room();
                }
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
        }
    }

    fn commit(&mut self, group: &Group) -> Result<(), Error> {
        if group.facts.is_empty() {
            return Ok(());
        }
        let started = Instant::now();
        loop {
            match self.store.commit(&group.facts, &mut self.verdicts) {
                Ok(()) => break,
                Err(StoreError::Full(place)) => {
                    self.stats.set_disk_full(true);
                    tracing::error!(
                        "the disk that holds {place} is full; waiting for space, new tasks are refused"
                    );
                    thread::sleep(FULL_RETRY);
                }
                Err(error) => {
                    tracing::error!("commit failed, stopping: {error}");
                    return Err(error.into());
                }
            }
        }
        self.stats.count_commit(group.facts.len(), started.elapsed());
        self.look_at_room();
        for (fact, verdict) in group.facts.iter().zip(&self.verdicts) {
            // The core decided each fact on its own state, which mirrors the store: a refusal means that they differ.
            if *verdict != Verdict::Applied && !may_be_refused(fact, *verdict) {
                return Err(Error::Store(format!(
                    "the store refused a fact as {verdict:?}: {fact:?}"
                )));
            }
        }
        Ok(())
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

/// The outlet. A panic while it was held ends the process anyway.
pub(crate) fn lock(outlet: &Mutex<Outlet>) -> MutexGuard<'_, Outlet> {
    outlet.lock().unwrap_or_else(PoisonError::into_inner)
}
