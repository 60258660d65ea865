//! Decides how much of a service is left when it depends on several others: one [`Ladder`] for each, by name.
//!
//! Knows nothing of what the dependencies do. A part of an answer asks for the rung of its own dependency; whoever
//! needs all of them asks for the lowest.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Ladder, Move, Settings, Signals};
use crate::setting::Invalid;

/// The most dependencies.
pub const DEPENDENCIES_MAX: usize = 1024;

/// Why a dependency was not taken in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// There are too many.
    #[error("there are {DEPENDENCIES_MAX} dependencies already; remove one first")]
    Full,
    /// Its settings make no sense.
    #[error("{name}: {source}")]
    Setting {
        /// The dependency.
        name: String,
        /// What is wrong.
        source: Invalid,
    },
}

/// The ladders of all dependencies of a service.
#[derive(Clone, Debug, Default)]
pub struct Ladders {
    ladders: BTreeMap<String, Ladder>,
}

impl Ladders {
    /// No dependencies yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a dependency on its top rung, in place of one of the same name.
    ///
    /// # Errors
    /// When there are too many, or a setting makes no sense.
    pub fn add(&mut self, name: impl Into<String>, settings: Settings) -> Result<(), Refused> {
        let name = name.into();
        if self.ladders.len() >= DEPENDENCIES_MAX && !self.ladders.contains_key(&name) {
            return Err(Refused::Full);
        }
        match Ladder::new(settings) {
            Ok(ladder) => self.ladders.insert(name, ladder),
            Err(source) => return Err(Refused::Setting { name, source }),
        };
        Ok(())
    }

    /// Removes a dependency; whether it was there.
    pub fn remove(&mut self, name: &str) -> bool {
        self.ladders.remove(name).is_some()
    }

    /// The ladder of a dependency.
    pub fn get(&mut self, name: &str) -> Option<&mut Ladder> {
        self.ladders.get_mut(name)
    }

    /// Takes in what is known of a dependency; the number of its rung then. None if there is no such dependency.
    pub fn observe(&mut self, name: &str, signals: Signals, now: Duration) -> Option<usize> {
        let ladder = self.ladders.get_mut(name)?;
        ladder.observe(signals, now);
        Some(ladder.at())
    }

    /// The dependency that stands lowest now, with the number of its rung; none if there are no dependencies.
    pub fn lowest(&mut self, now: Duration) -> Option<(&str, usize)> {
        let mut lowest: Option<(&str, usize)> = None;
        for (name, ladder) in &mut self.ladders {
            ladder.rung(now);
            if lowest.is_none_or(|(_, at)| ladder.at() > at) {
                lowest = Some((name, ladder.at()));
            }
        }
        lowest
    }

    /// Takes out all moves since the last time, by dependency and then oldest first.
    pub fn drain_moves(&mut self) -> Vec<(String, Move)> {
        let mut moves = Vec::new();
        for (name, ladder) in &mut self.ladders {
            moves.extend(ladder.drain_moves().0.into_iter().map(|one| (name.clone(), one)));
        }
        moves
    }
}
