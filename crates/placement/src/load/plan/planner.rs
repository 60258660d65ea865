//! Decides whether it is time to move anything, and whether a plan is worth its moves.
//!
//! Searches with [`greedy`](super::greedy()) or [`anneal`](super::anneal()); does not carry the moves out, and does
//! not know whether they were.
//!
//! Rules: nothing before `period` has passed since the last cycle. Unevenness starts the moving at `variation_start`
//! and ends it at `variation_stop`, which is lower, so that loads that swing about one threshold do not start and
//! stop it (hysteresis). A plan is carried out only if its gain, the cost of the moves counted in, is at least
//! `gain_min`. An item that moved rests for `rest` before it may move again, so that two cycles cannot send it to and
//! fro. Where items are on closed targets, or targets have costs that count, a plan is looked for however even the load
//! is, and what is on a closed target may leave although it rests. Cold: the first cycle is due at once.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Annealing, ITEMS_MAX, Plan, Problem, Weights, anneal, greedy};
use crate::load::error::{self, Error};

/// How a plan is searched for.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Method {
    /// The best single moves.
    #[default]
    Greedy,
    /// Simulated annealing on top of it.
    Anneal(Annealing),
}

/// What can be set.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The least time between two cycles.
    pub period: Duration,
    /// The most moves of one cycle; 1 to [`ITEMS_MAX`].
    pub moves_max: usize,
    /// From this coefficient of variation of load per weight on, moving starts.
    pub variation_start: f64,
    /// Under this one it stops.
    pub variation_stop: f64,
    /// The least drop of the objective that is worth a plan.
    pub gain_min: f64,
    /// How long an item that moved stays.
    pub rest: Duration,
    /// What counts how much.
    pub weights: Weights,
    /// How a plan is searched for.
    pub method: Method,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            period: Duration::from_secs(30),
            moves_max: 64,
            variation_start: 0.2,
            variation_stop: 0.1,
            gain_min: 0.001,
            rest: Duration::from_secs(120),
            weights: Weights::default(),
            method: Method::Greedy,
        }
    }
}

/// What to do now.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// Carry out these moves.
    Move(Plan),
    /// Leave all where it is.
    Stay(Stay),
}

/// Why nothing is to move.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Stay {
    /// The period has not passed: ask again then.
    NotDue {
        /// When the next cycle is due.
        at: Duration,
    },
    /// The load is even enough.
    Even {
        /// The coefficient of variation.
        variation: f64,
    },
    /// No plan brings more than it costs.
    NotWorthIt {
        /// What the best plan that was found would have gained.
        gain: f64,
    },
}

/// Rebalances again and again.
#[derive(Clone, Debug)]
pub struct Planner {
    settings: Settings,
    due_at: Duration,
    is_moving: bool,
    /// By item id: until when it stays.
    resting: BTreeMap<u64, Duration>,
}

impl Planner {
    /// Refuses settings that mean nothing.
    pub fn new(settings: Settings) -> Result<Self, Error> {
        error::some_time("period", settings.period)?;
        error::count("moves_max", settings.moves_max, 1..=ITEMS_MAX, "1 to 1,048,576")?;
        error::positive("variation_start", settings.variation_start)?;
        error::not_negative("variation_stop", settings.variation_stop)?;
        error::not_negative("gain_min", settings.gain_min)?;
        settings.weights.check()?;
        if settings.variation_stop > settings.variation_start {
            let value = settings.variation_stop.to_string();
            let must = "at most variation_start";
            return Err(Error::BadValue { field: "variation_stop", value, must });
        }
        if let Method::Anneal(annealing) = &settings.method {
            annealing.check()?;
        }
        Ok(Self { settings, due_at: Duration::ZERO, is_moving: false, resting: BTreeMap::new() })
    }

    /// Looks at the problem as it is now.
    pub fn cycle(&mut self, problem: &Problem, now: Duration) -> Decision {
        if now < self.due_at {
            return Decision::Stay(Stay::NotDue { at: self.due_at });
        }
        self.due_at = now.saturating_add(self.settings.period);
        self.resting.retain(|_, until| *until > now);
        let plan = match self.plan(problem) {
            Ok(plan) => plan,
            Err(stay) => return Decision::Stay(stay),
        };
        let until = now.saturating_add(self.settings.rest);
        for step in &plan.moves {
            // Past the limit an item may move again early, which costs a move at worst.
            if self.resting.len() < ITEMS_MAX {
                self.resting.insert(step.item, until);
            }
        }
        Decision::Move(plan)
    }

    fn plan(&mut self, problem: &Problem) -> Result<Plan, Stay> {
        let settings = &self.settings;
        let resting = &self.resting;
        let is_pinned = |item: usize| resting.contains_key(&problem.items()[item].id);
        let start = super::assignment::Assignment::new(problem, settings.weights, 0).terms();
        let variation = start.balance.sqrt();
        let threshold =
            if self.is_moving { settings.variation_stop } else { settings.variation_start };
        self.is_moving = variation >= threshold;
        let must_leave = start.evacuation > 0.0;
        if !self.is_moving && !must_leave && settings.weights.cost == 0.0 {
            return Err(Stay::Even { variation });
        }
        let found = greedy::search(problem, &settings.weights, settings.moves_max, is_pinned);
        let found = match &settings.method {
            Method::Greedy => found,
            Method::Anneal(annealing) => anneal::search(found, annealing, is_pinned),
        };
        let plan = found.plan();
        if plan.moves.is_empty() || plan.gain < settings.gain_min {
            return Err(Stay::NotWorthIt { gain: plan.gain });
        }
        Ok(plan)
    }
}
