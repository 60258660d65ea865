//! The store in memory: the same answers as the files give, for the time of a process.
//!
//! For tests and for the test bench of the SDK. Nothing lasts, and nothing but unique keys is ever dropped. What a
//! restart would be is [`MemoryStore::reopen`].

mod read;
mod state;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use divvy_types::{Fact, Timestamp, Verdict};

use crate::{Error, Maintenance, Reader, Recovered, Room, Store};
use state::State;

/// A store that forgets everything with its last clone of the data.
#[derive(Debug)]
pub struct MemoryStore {
    state: Shared,
    epoch: u64,
}

type Shared = Arc<Mutex<State>>;

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        Self { state: Shared::default(), epoch: 1 }
    }

    /// The same data, opened once more: what a server finds that starts again.
    pub fn reopen(&self) -> Self {
        Self { state: Arc::clone(&self.state), epoch: self.epoch + 1 }
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl Store for MemoryStore {
    fn epoch(&self) -> u64 {
        self.epoch
    }

    fn last_used(&self) -> Option<Timestamp> {
        None
    }

    fn recover(&mut self, visit: &mut dyn FnMut(Recovered)) -> Result<(), Error> {
        lock(&self.state).recover(visit);
        Ok(())
    }

    fn commit(&mut self, facts: &[Fact], verdicts: &mut Vec<Verdict>) -> Result<(), Error> {
        verdicts.clear();
        let mut state = lock(&self.state);
        verdicts.extend(facts.iter().map(|fact| state.apply(fact)));
        Ok(())
    }

    fn room(&self) -> Room {
        Room::Enough
    }

    fn in_place(&self) -> Result<(), Error> {
        Ok(())
    }

    fn reader(&self) -> Result<Box<dyn Reader>, Error> {
        Ok(Box::new(read::MemoryReader(Arc::clone(&self.state))))
    }

    fn maintain(&mut self, now: Timestamp, _: Timestamp) -> Result<Maintenance, Error> {
        lock(&self.state).forget_keys(now);
        Ok(Maintenance::Rest)
    }
}

/// A panic while the lock was held can only have come from a broken invariant that is reported elsewhere.
fn lock(state: &Shared) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
