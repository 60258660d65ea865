//! How fast a pool may change: steps, cool-downs and windows, apart for up and down.
//!
//! A window keeps what was wanted lately: it grows to the least of it and shrinks to the most, so one odd sample changes
//! nothing. A cool-down on the way up counts from the last growth, on the way down from any change.

use std::collections::VecDeque;

use divvy_types::Timestamp;
use divvy_types::pools::Pace;
use serde::{Deserialize, Serialize};

use crate::decision::Bound;

/// Answers that are kept; an hour, and no more than this.
const KEPT_MAX: usize = 4_000;
const KEPT_SEC: f64 = 3_600.0;

/// What was wanted lately, and when it last changed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Paced {
    wanted: VecDeque<(Timestamp, u32, u32)>,
    grown: Option<Timestamp>,
    shrunk: Option<Timestamp>,
}

impl Paced {
    /// The number for `held` workers when at least `least` are needed and `keep` are worth keeping; and what held it back.
    pub(crate) fn next(
        &mut self,
        now: Timestamp,
        held: u32,
        (least, keep): (u32, u32),
        (up, down, any_change): (Pace, Pace, bool),
    ) -> (u32, Option<Bound>) {
        self.wanted.push_back((now, least, keep));
        let old = |at: Timestamp| now.since(at).as_secs_f64() > KEPT_SEC;
        while self.wanted.len() > KEPT_MAX || self.wanted.front().is_some_and(|one| old(one.0)) {
            self.wanted.pop_front();
        }
        if least > held {
            let last = if any_change { self.grown.max(self.shrunk) } else { self.grown };
            self.limited(now, held, least, up, last)
        } else if keep < held {
            self.limited(now, held, keep, down, self.grown.max(self.shrunk))
        } else {
            (held, None)
        }
    }

    /// Remembers a change.
    pub(crate) fn changed(&mut self, now: Timestamp, from: u32, to: u32) {
        if to > from {
            self.grown = Some(now);
        } else {
            self.shrunk = Some(now);
        }
    }

    fn limited(
        &self,
        now: Timestamp,
        held: u32,
        to: u32,
        pace: Pace,
        last: Option<Timestamp>,
    ) -> (u32, Option<Bound>) {
        if last.is_some_and(|last| now.since(last).as_secs_f64() < pace.cool_down_sec) {
            return (held, Some(Bound::CoolDown));
        }
        let recent = self
            .wanted
            .iter()
            .rev()
            .take_while(|(at, ..)| now.since(*at).as_secs_f64() < pace.window_sec);
        let careful = if to > held {
            recent.map(|(_, least, _)| *least).fold(to, u32::min).max(held)
        } else {
            recent.map(|(_, _, keep)| *keep).fold(to, u32::max).min(held)
        };
        let step = pace.step.unwrap_or(u32::MAX);
        let next = careful.clamp(held.saturating_sub(step), held.saturating_add(step));
        let bound = if next != careful {
            Some(Bound::Step)
        } else if next != to {
            Some(Bound::Window)
        } else {
            None
        };
        (next, bound)
    }
}
