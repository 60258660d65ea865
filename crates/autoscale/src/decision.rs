//! What is wanted, and why.

use std::collections::BTreeMap;

use divvy_types::{Name, Timestamp};
use serde::{Deserialize, Serialize};

/// How many workers of each type are wanted.
pub type Wanted = BTreeMap<Name, u32>;

/// What is wanted of a pool at one time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// When it was decided.
    pub at: Timestamp,
    /// Workers by type. Starting ones count; draining ones do not.
    pub wanted: Wanted,
    /// Why, in words.
    pub reason: String,
    /// What kept it from more or fewer, if anything did.
    pub bound: Option<Bound>,
}

impl Decision {
    /// Workers of all types.
    pub fn total(&self) -> u32 {
        self.wanted.values().sum()
    }
}

/// What kept a decision from more or fewer workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// The minimum of the pool.
    Minimum,
    /// The maximum of the pool.
    Maximum,
    /// The most that may change at once.
    Step,
    /// The time after the last change.
    CoolDown,
    /// A change that has not been right for long enough.
    Window,
    /// The budget of the hour or the month.
    Budget,
    /// Somebody set the number by hand.
    Set,
    /// Somebody paused the scaling.
    Paused,
}

/// A change of the number of workers, for the history.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// When.
    pub at: Timestamp,
    /// Workers before.
    pub from: u32,
    /// Workers after.
    pub to: u32,
    /// Why, in words.
    pub reason: String,
}
