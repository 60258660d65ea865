//! What is wanted, and why.

use std::collections::BTreeMap;

use divvy_types::{Name, Timestamp};
use serde::{Deserialize, Serialize};

/// How many workers of each type.
pub type Wanted = BTreeMap<Name, u32>;

/// What is wanted of a pool at one time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Decision {
    /// When it was decided.
    pub at: Timestamp,
    /// Workers by type. Starting ones count, and so do those that will be taken away; draining ones do not.
    pub wanted: Wanted,
    /// Of these: draining workers to call back, before any new one is started.
    pub recall: Wanted,
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

    /// Why, with what kept it from more or fewer. What was set by hand or paused says so already.
    pub fn why(&self) -> String {
        match self.bound.filter(|bound| !matches!(bound, Bound::Set | Bound::Paused)) {
            Some(bound) => format!("{}; {}", self.reason, bound.words()),
            None => self.reason.clone(),
        }
    }
}

/// What kept a decision from more or fewer workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    /// Workers that are paid for already.
    Billing,
    /// The budget of the hour or the month.
    Budget,
    /// Somebody set the number by hand.
    Set,
    /// Somebody paused the scaling.
    Paused,
}

impl Bound {
    /// What it says, as the end of a sentence about the decision.
    pub fn words(self) -> &'static str {
        match self {
            Self::Minimum => "the minimum of the pool holds",
            Self::Maximum => "the maximum of the pool holds",
            Self::Step => "only so many may change at once",
            Self::CoolDown => "the last change was too short ago",
            Self::Window => "a change has to be right for longer",
            Self::Billing => "the others are paid for already",
            Self::Budget => "the budget allows no more",
            Self::Set => "the number was set by hand",
            Self::Paused => "the scaling is paused",
        }
    }
}

/// A change of the number of workers, for the history.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
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

/// A fleet that goes up and down again and again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Flapping {
    /// When the first of the turns was.
    pub since: Timestamp,
    /// How often it turned from up to down or back.
    pub turns: u32,
    /// The fewest workers meanwhile.
    pub low: u32,
    /// The most.
    pub high: u32,
    /// The same in words, with the cure.
    pub words: String,
}
