//! Decides which items to move to which targets, so that the load gets more even, or cheaper, by more than the moves
//! cost.
//!
//! Does not move anything and does not measure: loads, capacities and costs are given. An item is anything that stays
//! where it is until it is moved: a shard, a queue, a session, a long task.
//!
//! The objective, to be made small, is a weighted sum ([`Weights`]):
//! - **balance**: the squared coefficient of variation of load per weight, over the open targets, each counted by its
//!   weight: 0 is even, 1 is as uneven as the mean is large;
//! - **moving**: the move costs of the items that are not where they were, as a share of those of all items;
//! - **cost**: what the targets cost that hold anything, and what their load costs (watts or money), as a part of what
//!   it is now;
//! - **evacuation**: the share of all load that is on closed targets.
//!
//! None of them has a unit, so the weights hold for small and large problems alike: with the default weight of moving,
//! 0.05, an average item moves if its two targets differ by more than 2.5 % of the mean load.
//!
//! Three ways to a plan: [`greedy()`] (the default: fast, and good as long as items are many and small), [`anneal()`]
//! (simulated annealing on top of it, for plans where the greedy result is not good enough), and [`Planner`], which
//! decides whether a plan is worth it at all, and not too often.
//!
//! Rules that hold for each: no item goes to a closed target, to one that is not able, or to one that would be over
//! its capacity then; no more items move than allowed; the objective never gets larger.

mod anneal;
mod assignment;
mod greedy;
mod planner;
mod problem;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

pub use anneal::{Annealing, STEPS_MAX, anneal};
pub use greedy::greedy;
pub use planner::{Decision, Method, Planner, Settings, Stay};
pub use problem::Problem;

use super::error::{self, Error};

/// The most items of a problem.
pub const ITEMS_MAX: usize = 1 << 20;
/// The most targets of a problem.
pub const TARGETS_MAX: usize = 1 << 16;
/// The most different sets of targets that items may be bound to.
pub const BINDINGS_MAX: usize = 1_024;

/// Something that can be moved.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    /// Names it; unique in a problem.
    pub id: u64,
    /// What it puts on a target, in the unit of the targets' capacities.
    pub load: f64,
    /// The target where it is, by its place in the problem's list.
    pub on: usize,
    /// What moving it costs, in a unit of the caller's choice; 1 if nothing is said.
    pub move_cost: f64,
    /// The only targets where it may be; none means any.
    pub allowed: Option<Vec<usize>>,
    /// What the target must be able to do, each with the least amount.
    pub needs: BTreeMap<String, f64>,
}

impl Item {
    /// An item that may go anywhere at a move cost of 1.
    pub fn new(id: u64, load: f64, on: usize) -> Self {
        Self { id, load, on, move_cost: 1.0, allowed: None, needs: BTreeMap::new() }
    }

    /// Sets what moving it costs.
    pub fn move_cost(mut self, cost: f64) -> Self {
        self.move_cost = cost;
        self
    }

    /// Binds it to these targets.
    pub fn allowed(mut self, targets: impl IntoIterator<Item = usize>) -> Self {
        self.allowed = Some(targets.into_iter().collect());
        self
    }

    /// Adds something that the target must be able to do.
    pub fn need(mut self, name: impl Into<String>, amount: f64) -> Self {
        self.needs.insert(name.into(), amount);
        self
    }
}

/// Where items can be.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// The most load that it bears; infinite if there is no limit.
    pub capacity: f64,
    /// Its share of the load relative to the others.
    pub weight: f64,
    /// Whether it may get items. Those on a closed target are to leave it.
    pub open: bool,
    /// What it costs while anything is on it.
    pub cost_on: f64,
    /// What each unit of load costs on it.
    pub cost_load: f64,
    /// What it can do, each with an amount.
    pub capabilities: BTreeMap<String, f64>,
}

impl Target {
    /// An open target that bears this much load, and is to get load in proportion to it; costs nothing.
    pub fn new(capacity: f64) -> Self {
        Self {
            capacity,
            weight: if capacity.is_finite() { capacity } else { 1.0 },
            open: true,
            cost_on: 0.0,
            cost_load: 0.0,
            capabilities: BTreeMap::new(),
        }
    }

    /// A target of a table, which bears this much load: its weight and capabilities, open if it is up.
    pub fn of(target: &crate::Target, capacity: f64) -> Self {
        Self {
            weight: target.spec.weight,
            open: target.state == crate::State::Up,
            capabilities: target.spec.capabilities.clone(),
            ..Self::new(capacity)
        }
    }

    /// Sets its share.
    pub fn weight(mut self, weight: f64) -> Self {
        self.weight = weight;
        self
    }

    /// Closes it: what is on it is to leave.
    pub fn closed(mut self) -> Self {
        self.open = false;
        self
    }

    /// Sets what it costs while anything is on it, and for each unit of load; see
    /// [`Profile::plan_watts`](super::energy::Profile::plan_watts).
    pub fn costs(mut self, on: f64, load: f64) -> Self {
        self.cost_on = on;
        self.cost_load = load;
        self
    }

    /// Adds something that it can do.
    pub fn capability(mut self, name: impl Into<String>, amount: f64) -> Self {
        self.capabilities.insert(name.into(), amount);
        self
    }
}

/// How much each part of the objective counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weights {
    /// Per squared coefficient of variation.
    pub balance: f64,
    /// For moving all items.
    pub moving: f64,
    /// For the targets' costs as they are now.
    pub cost: f64,
    /// For all load on closed targets. Far above `balance`, so that leaving comes first.
    pub evacuation: f64,
}

impl Default for Weights {
    fn default() -> Self {
        Self { balance: 1.0, moving: 0.05, cost: 0.0, evacuation: 1_000.0 }
    }
}

impl Weights {
    /// Refuses weights that mean nothing.
    pub fn check(&self) -> Result<(), Error> {
        error::not_negative("balance", self.balance)?;
        error::not_negative("moving", self.moving)?;
        error::not_negative("cost", self.cost)?;
        error::not_negative("evacuation", self.evacuation)
    }
}

/// The parts of the objective, each before its weight.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Terms {
    /// The squared coefficient of variation of load per weight.
    pub balance: f64,
    /// The move costs of the items that are not where they were, as a share of those of all items.
    pub moving: f64,
    /// What the targets cost, as a part of what they cost now.
    pub cost: f64,
    /// The share of all load that is on closed targets.
    pub evacuation: f64,
}

impl Terms {
    /// The weighted sum.
    pub fn objective(&self, weights: &Weights) -> f64 {
        self.balance * weights.balance
            + self.moving * weights.moving
            + self.cost * weights.cost
            + self.evacuation * weights.evacuation
    }
}

/// One item's way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Move {
    /// The id of the item.
    pub item: u64,
    /// Where it is.
    pub from: usize,
    /// Where it goes.
    pub to: usize,
    /// Its load.
    pub load: f64,
}

/// A list of moves, and what it brings.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Each item at most once. Where there is a way, room is made before it is taken.
    pub moves: Vec<Move>,
    /// The parts of the objective as things are.
    pub before: Terms,
    /// The parts of the objective after all moves.
    pub after: Terms,
    /// The drop of the objective, the cost of the moves counted in; never below 0.
    pub gain: f64,
}
