//! Decides what a move or a swap changes in the objective, in constant time, and keeps who is where.
//!
//! Searches nothing: [`super::greedy()`] and [`super::anneal()`] do.
//!
//! The balance term needs no mean that changes: with `L` a target's load and `w` its weight, the weighted variance of
//! `L/w` over its squared mean is `W/total² · Σ L²/w − 1`, so that a change touches only the two targets of the move.

use super::problem::Problem;
use super::{Move, Plan, Terms, Weights};

/// Loads may exceed a capacity by this part of it: sums of floats are not exact.
const SLACK: f64 = 1e-9;
/// Passes in which moves are brought into an order that makes room first.
const ORDER_PASSES_MAX: usize = 16;

/// Who is where, with the sums that make changes cheap.
#[derive(Clone, Debug)]
pub(super) struct Assignment<'a> {
    pub(super) problem: &'a Problem,
    weights: Weights,
    /// By item.
    place: Vec<u32>,
    /// By target.
    sides: Vec<Side>,
    units: Units,
    away: usize,
    away_max: usize,
}

/// What makes the terms free of units: 1 per unit of move cost and of the targets' costs.
#[derive(Clone, Copy, Debug)]
struct Units {
    moving: f64,
    cost: f64,
}

impl Units {
    fn of(problem: &Problem) -> Self {
        let moving: f64 = problem.items().iter().map(|item| item.move_cost).sum();
        let mut is_on = vec![false; problem.targets().len()];
        problem.items().iter().for_each(|item| is_on[item.on] = true);
        let on = problem.targets().iter().zip(is_on).filter(|(_, is_on)| *is_on);
        let on: f64 = on.map(|(target, _)| target.cost_on).sum();
        let loads =
            problem.items().iter().map(|item| item.load * problem.targets()[item.on].cost_load);
        let per = |whole: f64| if whole > 0.0 { 1.0 / whole } else { 1.0 };
        Self { moving: per(moving), cost: per(on + loads.sum::<f64>()) }
    }
}

/// One target, as the objective sees it.
#[derive(Clone, Copy, Debug)]
struct Side {
    load: f64,
    count: u32,
    /// What the square of the load costs.
    square: f64,
    /// What a unit of load costs.
    unit: f64,
    /// What having anything costs.
    on: f64,
    capacity: f64,
}

impl Side {
    /// The change of the objective if the load changes by this much.
    fn change(&self, by: f64) -> f64 {
        self.square * (2.0 * self.load + by) * by + self.unit * by
    }

    fn has_room(&self, by: f64) -> bool {
        by <= 0.0 || self.load + by <= self.capacity * (1.0 + SLACK)
    }
}

impl<'a> Assignment<'a> {
    /// Every item where it is; at most `moves_max` of them may leave.
    pub(super) fn new(problem: &'a Problem, weights: Weights, moves_max: usize) -> Self {
        let total = problem.total_load();
        let open = problem.targets().iter().filter(|target| target.open);
        let open_weight: f64 = open.map(|target| target.weight).sum();
        let per_total = |part: f64| if total > 0.0 { part / total } else { 0.0 };
        let scale = weights.balance * per_total(per_total(open_weight));
        let units = Units::of(problem);
        let side = |target: &super::Target| Side {
            load: 0.0,
            count: 0,
            square: if target.open { scale / target.weight } else { 0.0 },
            unit: weights.cost * units.cost * target.cost_load
                + if target.open { 0.0 } else { per_total(weights.evacuation) },
            on: weights.cost * units.cost * target.cost_on,
            capacity: target.capacity,
        };
        let mut sides: Vec<Side> = problem.targets().iter().map(side).collect();
        for item in problem.items() {
            sides[item.on].load += item.load;
            sides[item.on].count += 1;
        }
        let place = problem.items().iter().map(|item| item.on as u32).collect();
        let away_max = moves_max.min(problem.items().len());
        Self { problem, weights, place, sides, units, away: 0, away_max }
    }

    /// Where an item is.
    pub(super) fn place(&self, item: usize) -> usize {
        self.place[item] as usize
    }

    /// How many items are on a target.
    pub(super) fn count(&self, target: usize) -> usize {
        self.sides[target].count as usize
    }

    /// How many items may still leave the place where they were.
    pub(super) fn moves_left(&self) -> usize {
        self.away_max - self.away
    }

    /// What a little more load on a target adds to the objective, per unit.
    pub(super) fn marginal(&self, target: usize) -> f64 {
        let side = &self.sides[target];
        2.0 * side.square * side.load + side.unit
    }

    /// The load whose move from one target to the other lowers the objective most, if there were such an item.
    pub(super) fn ideal_transfer(&self, from: usize, to: usize) -> f64 {
        let bend = 2.0 * (self.sides[from].square + self.sides[to].square);
        let slope = self.marginal(from) - self.marginal(to);
        if bend > 0.0 { slope / bend } else { slope * f64::INFINITY }
    }

    /// What the objective changes by if the item goes there; none if it may not.
    pub(super) fn change_of_move(&self, item: usize, to: usize) -> Option<f64> {
        let from = self.place(item);
        let load = self.problem.items()[item].load;
        let (giver, taker) = (&self.sides[from], &self.sides[to]);
        if from == to || !self.problem.may_be_on(item, to) || !taker.has_room(load) {
            return None;
        }
        if self.away as isize + self.leaves_home(item, to) > self.away_max as isize {
            return None;
        }
        let wakes = if taker.count == 0 { taker.on } else { 0.0 };
        let sleeps = if giver.count == 1 { giver.on } else { 0.0 };
        Some(giver.change(-load) + taker.change(load) + wakes - sleeps + self.moving(item, to))
    }

    /// What the objective changes by if two items change places; none if they may not.
    pub(super) fn change_of_swap(&self, one: usize, other: usize) -> Option<f64> {
        let (here, there) = (self.place(one), self.place(other));
        if here == there
            || !self.problem.may_be_on(one, there)
            || !self.problem.may_be_on(other, here)
        {
            return None;
        }
        let items = self.problem.items();
        let more_here = items[other].load - items[one].load;
        if !self.sides[here].has_room(more_here) || !self.sides[there].has_room(-more_here) {
            return None;
        }
        let leave = self.leaves_home(one, there) + self.leaves_home(other, here);
        if self.away as isize + leave > self.away_max as isize {
            return None;
        }
        let loads = self.sides[here].change(more_here) + self.sides[there].change(-more_here);
        Some(loads + self.moving(one, there) + self.moving(other, here))
    }

    /// Puts an item somewhere, without asking whether it may be there.
    pub(super) fn put(&mut self, item: usize, to: usize) {
        let from = self.place(item);
        self.away = self.away.wrapping_add_signed(self.leaves_home(item, to));
        let load = self.problem.items()[item].load;
        self.sides[from].load -= load;
        self.sides[from].count -= 1;
        self.sides[to].load += load;
        self.sides[to].count += 1;
        if self.sides[from].count == 0 {
            // What is left is a rounding error.
            self.sides[from].load = 0.0;
        }
        self.place[item] = to as u32;
    }

    /// The parts of the objective, computed anew.
    pub(super) fn terms(&self) -> Terms {
        let mut loads = vec![0.0; self.sides.len()];
        let mut counts = vec![0u32; self.sides.len()];
        let mut terms = Terms::default();
        for (item, place) in self.problem.items().iter().zip(&self.place) {
            loads[*place as usize] += item.load;
            counts[*place as usize] += 1;
            terms.moving += if *place as usize == item.on { 0.0 } else { item.move_cost };
        }
        let (mut squares, mut open_weight, mut open_load, mut closed_load) = (0.0, 0.0, 0.0, 0.0);
        for (at, target) in self.problem.targets().iter().enumerate() {
            terms.cost += target.cost_load * loads[at];
            terms.cost += if counts[at] > 0 { target.cost_on } else { 0.0 };
            if target.open {
                squares += loads[at] * loads[at] / target.weight;
                open_weight += target.weight;
                open_load += loads[at];
            } else {
                closed_load += loads[at];
            }
        }
        terms.moving *= self.units.moving;
        terms.cost *= self.units.cost;
        let total = self.problem.total_load();
        if total > 0.0 {
            // Of the open load alone. While load leaves closed targets this falls by more than the changes say, and
            // load never goes back there: so what lowers the objective by its changes lowers it here too.
            let share = open_load / total;
            terms.balance = (squares * open_weight / (total * total) - share * share).max(0.0);
            terms.evacuation = closed_load / total;
        }
        terms
    }

    /// The way from where items were to where they are now.
    pub(super) fn plan(&self) -> Plan {
        let before = Assignment::new(self.problem, self.weights, 0).terms();
        let after = self.terms();
        let drop = before.objective(&self.weights) - after.objective(&self.weights);
        Plan { moves: self.ordered_moves(), before, after, gain: drop.max(0.0) }
    }

    /// The objective, computed anew.
    pub(super) fn objective(&self) -> f64 {
        self.terms().objective(&self.weights)
    }

    fn moving(&self, item: usize, to: usize) -> f64 {
        let cost = self.weights.moving * self.units.moving * self.problem.items()[item].move_cost;
        cost * self.leaves_home(item, to) as f64
    }

    /// 1 if the item leaves the place where it was, −1 if it comes back, else 0.
    fn leaves_home(&self, item: usize, to: usize) -> isize {
        let home = self.problem.items()[item].on;
        isize::from(to != home) - isize::from(self.place(item) != home)
    }

    /// The moves, largest first, but those that need room after those that make it. Moves that only fit as a swap
    /// come at the end.
    fn ordered_moves(&self) -> Vec<Move> {
        let items = self.problem.items();
        let moved =
            items.iter().zip(&self.place).filter(|(item, place)| item.on != **place as usize);
        let mut waiting: Vec<Move> = moved
            .map(|(item, to)| Move {
                item: item.id,
                from: item.on,
                to: *to as usize,
                load: item.load,
            })
            .collect();
        waiting.sort_by(|a, b| b.load.total_cmp(&a.load).then(a.item.cmp(&b.item)));
        let mut sides = Assignment::new(self.problem, self.weights, 0).sides;
        let mut moves = Vec::with_capacity(waiting.len());
        for _ in 0..ORDER_PASSES_MAX {
            let before = moves.len();
            waiting.retain(|step| {
                let fits = sides[step.to].has_room(step.load);
                if fits {
                    sides[step.to].load += step.load;
                    sides[step.from].load -= step.load;
                    moves.push(*step);
                }
                !fits
            });
            if waiting.is_empty() || moves.len() == before {
                break;
            }
        }
        moves.append(&mut waiting);
        moves
    }
}
