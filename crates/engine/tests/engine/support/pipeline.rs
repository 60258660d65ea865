//! A core whose groups are committed when the test says so: requests meet facts that are on their way to the disk.

use std::sync::Arc;

use divvy_engine::core::Core;
use divvy_engine::group::{Group, Outlet, Watchers};
use divvy_engine::request::Reply;
use divvy_engine::stats::Stats;
use divvy_engine::{Error, Options, Request};
use divvy_store::Store;
use divvy_store::memory::MemoryStore;
use divvy_types::{TaskId, TaskState, Timestamp, Verdict};
use tokio::sync::oneshot;

pub(crate) struct Pipeline {
    pub(crate) core: Core,
    pub(crate) now: Timestamp,
    disk: MemoryStore,
    store: Box<dyn Store>,
    outlet: Outlet,
    /// At the writer.
    in_flight: Option<Group>,
}

impl Pipeline {
    pub(crate) fn open(disk: &MemoryStore, options: &Options, now: Timestamp) -> Self {
        let mut store: Box<dyn Store> = Box::new(disk.reopen());
        let core = Core::recover(store.as_mut(), options, Arc::new(Stats::default()), now).unwrap();
        let outlet = Outlet::new(store.reader().unwrap(), Watchers::new(16));
        Self { core, now, disk: disk.reopen(), store, outlet, in_flight: None }
    }

    pub(crate) fn new(options: &Options) -> Self {
        Self::open(&MemoryStore::new(), options, Timestamp(1_000_000_000))
    }

    /// Ends as a server does that is killed, and starts anew: nothing that is in flight is on the disk.
    pub(crate) fn crash(self, options: &Options) -> Self {
        Self::open(&self.disk, options, self.now)
    }

    /// Takes a request; nothing is committed. The answer is where it may be found later.
    pub(crate) fn ask<T>(
        &mut self,
        request: impl FnOnce(Reply<T>) -> Request,
    ) -> oneshot::Receiver<Result<T, Error>> {
        let (reply, answer) = oneshot::channel();
        self.core.step(self.now, request(reply)).expect("the store is readable");
        answer
    }

    /// Gives all that gathered to the writer.
    pub(crate) fn hand_over(&mut self) {
        assert!(self.in_flight.is_none(), "one group is on its way at a time");
        self.in_flight = Some(self.core.take_group());
    }

    /// The group at the writer becomes durable, and its effects leave.
    pub(crate) fn commit(&mut self) {
        let group = self.in_flight.take().expect("a group in flight");
        let mut verdicts = Vec::new();
        self.store.commit(&group.facts, &mut verdicts).unwrap();
        assert!(verdicts.iter().all(|verdict| *verdict == Verdict::Applied), "{verdicts:?}");
        let released = self.outlet.release(group).unwrap();
        self.core.released(self.now, released).unwrap();
    }

    /// Commits until nothing is left to do.
    pub(crate) fn settle(&mut self) {
        if self.in_flight.is_some() {
            self.commit();
        }
        loop {
            self.hand_over();
            if self.in_flight.as_ref().is_some_and(Group::is_empty) {
                self.in_flight = None;
                return;
            }
            self.commit();
        }
    }

    /// The state of a task: what the core says, or what is on the disk.
    pub(crate) fn state(&mut self, id: TaskId) -> Option<TaskState> {
        let open = self.core.seq_of(id).and_then(|seq| self.core.scheduler().state(seq));
        open.or_else(|| Some(self.store.reader().ok()?.find(id).unwrap()?.outcome?.state))
    }
}
