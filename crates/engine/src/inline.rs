//! The engine without threads, for tests: each call steps the core, commits and lets everything out before it
//! returns. Time is whatever the caller says.

use std::sync::Arc;

use divvy_store::Store;
use divvy_types::{Timestamp, Verdict};

use crate::core::Core;
use crate::group::{Outlet, Watchers};
use crate::request::{Error, Request};
use crate::runner::Options;
use crate::stats::Stats;
use crate::verdicts;

/// A core, its store and its outlet, driven by hand.
pub struct InlineEngine {
    core: Core,
    store: Box<dyn Store>,
    outlet: Outlet,
    verdicts: Vec<Verdict>,
}

impl InlineEngine {
    /// Recovers what is open in the store.
    pub fn start(
        mut store: Box<dyn Store>,
        options: &Options,
        now: Timestamp,
    ) -> Result<Self, Error> {
        let core = Core::recover(store.as_mut(), options, Arc::new(Stats::default()), now)?;
        let outlet = Outlet::new(store.reader()?, Watchers::new(options.changes));
        let mut engine = Self { core, store, outlet, verdicts: Vec::new() };
        engine.settle(now)?;
        Ok(engine)
    }

    /// Takes a request and sees it through.
    pub fn step(&mut self, now: Timestamp, request: Request) -> Result<(), Error> {
        self.core.step(now, request)?;
        self.settle(now)
    }

    /// Tells the machines that time passed, and sees through what follows.
    pub fn pass_time(&mut self, now: Timestamp) -> Result<(), Error> {
        self.core.pass_time(now)?;
        self.settle(now)
    }

    /// Tells the machines that the clock was set forward, and sees through what follows.
    pub fn clock_stepped(&mut self, now: Timestamp, by_us: u64) -> Result<(), Error> {
        self.core.clock_stepped(now, by_us);
        self.settle(now)
    }

    /// When the machines want to be told that time passed.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        self.core.next_deadline()
    }

    /// The core, to look at.
    pub fn core(&self) -> &Core {
        &self.core
    }

    /// Records what is held, as a server does that stops, and gives the store back.
    pub fn stop(mut self, now: Timestamp) -> Result<Box<dyn Store>, Error> {
        self.core.stop(now)?;
        self.settle(now)?;
        Ok(self.store)
    }

    fn settle(&mut self, now: Timestamp) -> Result<(), Error> {
        loop {
            let group = self.core.take_group();
            if group.is_empty() {
                return Ok(());
            }
            if !group.facts.is_empty() {
                self.store.commit(&group.facts, &mut self.verdicts)?;
                verdicts::settle(self.store.as_mut(), &group, &mut self.verdicts, now)?;
            }
            let released = self.outlet.release(group)?;
            self.core.released(now, released)?;
        }
    }
}
