//! Decides how much of a service is given up when something that it depends on is in trouble: which *rung* of a
//! ladder it stands on, from the full answer down to a refusal, and why.
//!
//! Deliberately knows neither what a rung does nor a clock. Signals of a dependency come in ([`Signals`]); the rung
//! to serve from goes out ([`Ladder::rung`]).
//!
//! Rules:
//!
//! | from | to | when |
//! |---|---|---|
//! | any rung | the next lower one that none of its own conditions forbids | a condition of the present rung holds for [`Settings::hold_down`]; an open breaker counts at once |
//! | any rung | the next higher one, one at a time | none of that rung's conditions held, at thresholds eased by [`Settings::relief`], for [`Settings::hold_up`] |
//! | any rung | a forced one | an operator says so; it stays until it is released |
//!
//! Why this way: down fast, because callers are waiting; up slowly and one rung at a time, because a part that has
//! just recovered does not bear the full load at once. Thresholds that are eased on the way up and the two hold times
//! keep the ladder from swinging.
//!
//! Trap: on a low rung the dependency is not called any more, so its latency and error rate are not measured either.
//! Signals are therefore forgotten after [`Settings::fresh_for`]; what is not known forbids nothing, and the ladder
//! climbs to try.
//!
//! First start: the top rung.

mod condition;
mod many;

use std::collections::VecDeque;
use std::time::Duration;

pub use condition::{Condition, Signals};
pub use many::{DEPENDENCIES_MAX, Ladders, Refused};

use crate::setting::{Invalid, require};

/// The most rungs of a ladder, and the most conditions of a rung.
pub const RUNGS_MAX: usize = 32;

/// The most moves that are kept until somebody drains them; then the oldest is dropped.
pub const MOVES_MAX: usize = 256;

/// One way to serve.
#[derive(Clone, Debug, PartialEq)]
pub struct Rung {
    /// Its name, such as `cached`.
    pub name: String,
    /// It is left downwards when any of these holds.
    pub leave_when: Vec<Condition>,
}

impl Rung {
    /// A rung that is left when any of the conditions holds.
    pub fn new(name: impl Into<String>, leave_when: impl IntoIterator<Item = Condition>) -> Self {
        Self { name: name.into(), leave_when: leave_when.into_iter().collect() }
    }
}

/// The rungs, and how fast they are climbed.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// From the full answer down. The last one has no conditions.
    pub rungs: Vec<Rung>,
    /// How long a condition holds before the ladder goes down: 1 s.
    pub hold_down: Duration,
    /// How long a higher rung would have been possible before the ladder goes up: 10 s.
    pub hold_up: Duration,
    /// What thresholds are multiplied with on the way up: 0.8.
    pub relief: f64,
    /// How long a signal counts: 30 s.
    pub fresh_for: Duration,
}

impl Default for Settings {
    /// Full, cached, partial, static, refuse; for a dependency that should answer within a quarter of a second.
    fn default() -> Self {
        use Condition::{BreakerOpen, ErrorRateAbove, LatencyAbove, LoadAbove};
        let millis = Duration::from_millis;
        Self {
            rungs: vec![
                Rung::new(
                    "full",
                    [BreakerOpen, LatencyAbove(millis(250)), ErrorRateAbove(0.05), LoadAbove(0.9)],
                ),
                Rung::new(
                    "cached",
                    [BreakerOpen, LatencyAbove(millis(1000)), ErrorRateAbove(0.25), LoadAbove(1.1)],
                ),
                Rung::new("partial", [BreakerOpen, ErrorRateAbove(0.5), LoadAbove(1.5)]),
                Rung::new("static", [LoadAbove(3.0)]),
                Rung::new("refuse", []),
            ],
            hold_down: Duration::from_secs(1),
            hold_up: Duration::from_secs(10),
            relief: 0.8,
            fresh_for: Duration::from_secs(30),
        }
    }
}

impl Settings {
    fn check(&self) -> Result<(), Invalid> {
        let count = self.rungs.len();
        require((1..=RUNGS_MAX).contains(&count), "rungs", count, "from 1 to 32 rungs")?;
        for rung in &self.rungs {
            require(
                rung.leave_when.len() <= RUNGS_MAX,
                "leave_when",
                rung.leave_when.len(),
                "at most 32 conditions",
            )?;
            rung.leave_when.iter().try_for_each(Condition::check)?;
        }
        let last = &self.rungs[count - 1];
        require(
            last.leave_when.is_empty(),
            "leave_when",
            &last.leave_when,
            "no conditions on the last rung, since there is nothing below it",
        )?;
        require(
            self.relief > 0.0 && self.relief <= 1.0,
            "relief",
            self.relief,
            "above 0, at most 1; 0.8 is usual",
        )?;
        require(!self.fresh_for.is_zero(), "fresh_for", self.fresh_for, "above 0")
    }
}

/// Why the ladder stands where it stands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Why {
    /// Nothing has happened yet.
    Start,
    /// This condition held.
    Trouble(Condition),
    /// The rung has been possible again for long enough.
    Recovered,
    /// An operator said so.
    Forced,
}

/// One move from rung to rung.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Move {
    /// From which rung; 0 is the top.
    pub from: usize,
    /// To which rung.
    pub to: usize,
    /// When.
    pub at: Duration,
    /// Why.
    pub why: Why,
}

/// The ladder of one dependency.
#[derive(Clone, Debug)]
pub struct Ladder {
    settings: Settings,
    signals: Signals,
    observed: Duration,
    at: usize,
    why: Why,
    since: Duration,
    forced: bool,
    /// Since when the present rung is forbidden.
    bad_since: Option<Duration>,
    /// Since when the next higher rung is possible.
    good_since: Option<Duration>,
    moves: VecDeque<Move>,
    moves_dropped: u64,
}

impl Ladder {
    /// A ladder on its top rung.
    ///
    /// # Errors
    /// When a setting makes no sense.
    pub fn new(settings: Settings) -> Result<Self, Invalid> {
        settings.check()?;
        Ok(Self {
            settings,
            signals: Signals::default(),
            observed: Duration::ZERO,
            at: 0,
            why: Why::Start,
            since: Duration::ZERO,
            forced: false,
            bad_since: None,
            good_since: None,
            moves: VecDeque::new(),
            moves_dropped: 0,
        })
    }

    /// Takes in what is known of the dependency now, in place of what was known before, and moves if that is due.
    pub fn observe(&mut self, signals: Signals, now: Duration) -> &Rung {
        self.signals = signals;
        self.observed = now;
        self.rung(now)
    }

    /// The rung to serve from now.
    pub fn rung(&mut self, now: Duration) -> &Rung {
        self.advance(now);
        &self.settings.rungs[self.at]
    }

    /// The number of the rung, as of the last question: 0 is the top.
    pub fn at(&self) -> usize {
        self.at
    }

    /// Why it stands there.
    pub fn why(&self) -> Why {
        self.why
    }

    /// Since when it stands there.
    pub fn since(&self) -> Duration {
        self.since
    }

    /// Puts it on a rung until it is released.
    ///
    /// # Errors
    /// When there is no such rung.
    pub fn force(&mut self, rung: usize, now: Duration) -> Result<(), Invalid> {
        let is_there = rung < self.settings.rungs.len();
        require(is_there, "rung", rung, "the number of a rung, where 0 is the top")?;
        self.forced = true;
        self.go(rung, Why::Forced, now);
        Ok(())
    }

    /// Lets it move by its rules again, from where it stands.
    pub fn release(&mut self, now: Duration) {
        self.forced = false;
        (self.bad_since, self.good_since) = (None, None);
        self.advance(now);
    }

    /// Takes out the moves since the last time, oldest first, and how many more had to be dropped.
    pub fn drain_moves(&mut self) -> (Vec<Move>, u64) {
        (self.moves.drain(..).collect(), std::mem::take(&mut self.moves_dropped))
    }

    /// Moves as far as is due.
    fn advance(&mut self, now: Duration) {
        if self.forced {
            return;
        }
        let is_stale = now.saturating_sub(self.observed) > self.settings.fresh_for;
        let signals = if is_stale { Signals::default() } else { self.signals };
        if let Some(condition) = self.trouble(self.at, &signals, 1.0) {
            self.good_since = None;
            let bad_since = *self.bad_since.get_or_insert(now);
            let is_held = now.saturating_sub(bad_since) >= self.settings.hold_down;
            if is_held || condition == Condition::BreakerOpen {
                self.go(self.first_possible_below(&signals), Why::Trouble(condition), now);
            }
            return;
        }
        self.bad_since = None;
        if self.at == 0 || self.trouble(self.at - 1, &signals, self.settings.relief).is_some() {
            self.good_since = None;
            return;
        }
        let good_since = *self.good_since.get_or_insert(now);
        if now.saturating_sub(good_since) >= self.settings.hold_up {
            self.go(self.at - 1, Why::Recovered, now);
            // The clock of the next rung starts now. This ends at the top rung at the latest.
            self.advance(now);
        }
    }

    /// The first condition of a rung that holds; an open breaker before all others, because it does not wait.
    fn trouble(&self, rung: usize, signals: &Signals, relief: f64) -> Option<Condition> {
        let held =
            || self.settings.rungs[rung].leave_when.iter().filter(|one| one.holds(signals, relief));
        held().find(|one| **one == Condition::BreakerOpen).or_else(|| held().next()).copied()
    }

    fn first_possible_below(&self, signals: &Signals) -> usize {
        let below = self.at + 1..self.settings.rungs.len();
        below
            .into_iter()
            .find(|rung| self.trouble(*rung, signals, 1.0).is_none())
            .expect("the last rung has no conditions, and it is below every rung that has some")
    }

    fn go(&mut self, to: usize, why: Why, now: Duration) {
        (self.bad_since, self.good_since) = (None, None);
        self.why = why;
        if to == self.at {
            return;
        }
        if self.moves.len() == MOVES_MAX {
            self.moves.pop_front();
            self.moves_dropped += 1;
        }
        self.moves.push_back(Move { from: self.at, to, at: now, why });
        self.at = to;
        self.since = now;
    }
}

#[cfg(test)]
mod tests;
