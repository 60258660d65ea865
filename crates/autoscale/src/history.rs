//! The changes so far, and whether they are a fleet that flaps.

use std::collections::VecDeque;

use divvy_types::Timestamp;
use serde::{Deserialize, Serialize};

use crate::decision::{Change, Flapping};

/// Changes that are remembered.
const CHANGES_MAX: usize = 1_000;
/// A turn counts when it comes so soon after the change before it.
const TURN_SEC: f64 = 600.0;
/// Over how long turns are counted.
const FLAPPING_SEC: f64 = 3_600.0;
/// So many turns are a fleet that flaps.
const TURNS_MIN: u32 = 6;

/// The changes, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct History(pub(crate) VecDeque<Change>);

impl History {
    pub(crate) fn add(&mut self, at: Timestamp, from: u32, to: u32, reason: &str) {
        if self.0.len() >= CHANGES_MAX {
            self.0.pop_front();
        }
        self.0.push_back(Change { at, from, to, reason: reason.into() });
    }

    /// Whether the changes of the last hour went up and down again and again.
    pub(crate) fn flapping(&self, now: Timestamp) -> Option<Flapping> {
        let recent: Vec<&Change> = self
            .0
            .iter()
            .rev()
            .take_while(|change| now.since(change.at).as_secs_f64() <= FLAPPING_SEC)
            .collect();
        let up = |change: &Change| change.to > change.from;
        let turn = |pair: &&[&Change]| {
            up(pair[0]) != up(pair[1]) && pair[0].at.since(pair[1].at).as_secs_f64() <= TURN_SEC
        };
        let turns = recent.windows(2).filter(turn).count() as u32;
        let since = recent.windows(2).rev().find(turn).map(|pair| pair[1].at)?;
        if turns < TURNS_MIN {
            return None;
        }
        let numbers = || recent.iter().flat_map(|change| [change.from, change.to]);
        let (low, high) = (numbers().min().unwrap_or(0), numbers().max().unwrap_or(0));
        let words = format!(
            "the fleet flaps: it turned {turns} times between {low} and {high} workers within an hour; raise \
             down.window_sec or down.cool_down_sec"
        );
        Some(Flapping { since, turns, low, high, words })
    }
}
