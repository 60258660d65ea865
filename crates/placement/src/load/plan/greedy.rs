//! Decides by the best single move, again and again, until none helps.
//!
//! Looks at one move at a time, so it finds no gain that only a swap brings: [`super::anneal()`] does.
//!
//! In three phases: what is on closed targets leaves, largest item first (longest processing time first, Graham,
//! SIAM J. Appl. Math. 1969); where targets cost something while they are on, whole targets are emptied if that pays
//! off; then the target where load costs most gives, as long as a move lowers the objective. From two targets' loads
//! the best size of a move follows, so only the items nearest to that size are tried: from a far too full target the
//! largest, at the end the one that fits. Work per move is bounded: [`NEAREST`] items either side of that size times
//! [`CANDIDATES_MAX`] targets. Every move lowers the objective, so the result is never worse than the start.

use std::collections::BTreeSet;

use super::assignment::Assignment;
use super::{Plan, Problem, Weights};
use crate::load::error::Error;

/// Items either side of the ideal size that are tried.
const NEAREST: usize = 4;
/// Targets that are tried for an item, the best first.
const CANDIDATES_MAX: usize = 16;
/// Targets that are passed over in the search for those.
const PASSED_MAX: usize = 1_024;
/// Moves of the last phase, per item: far more than it takes, and an end in any case.
const STEPS_PER_ITEM_MAX: usize = 16;
/// Drops of the objective below this are rounding errors.
const DROP_MIN: f64 = 1e-12;

/// Plans at most `moves_max` moves.
pub fn greedy(problem: &Problem, weights: &Weights, moves_max: usize) -> Result<Plan, Error> {
    weights.check()?;
    Ok(search(problem, weights, moves_max, |_| false).plan())
}

/// As [`greedy`]; pinned items stay where they are, unless that target is closed.
pub(super) fn search<'a>(
    problem: &'a Problem,
    weights: &Weights,
    moves_max: usize,
    is_pinned: impl Fn(usize) -> bool,
) -> Assignment<'a> {
    let assignment = Assignment::new(problem, *weights, moves_max);
    let mut search = Search::new(assignment, is_pinned);
    search.evacuate();
    if weights.cost > 0.0 {
        search.put_to_sleep();
    }
    search.level();
    search.assignment
}

/// What is known during a search, beside who is where.
struct Search<'a> {
    assignment: Assignment<'a>,
    /// The open targets by what a little more load costs there.
    by_marginal: BTreeSet<(u64, u32)>,
    /// Those of them from which a move may still help.
    sources: BTreeSet<(u64, u32)>,
    /// By target: its movable items by load.
    items_on: Vec<BTreeSet<(u64, u32)>>,
}

/// A move that helps.
#[derive(Clone, Copy)]
struct Step {
    item: usize,
    to: usize,
    change: f64,
}

impl<'a> Search<'a> {
    fn new(assignment: Assignment<'a>, is_pinned: impl Fn(usize) -> bool) -> Self {
        let problem = assignment.problem;
        let mut items_on = vec![BTreeSet::new(); problem.targets().len()];
        for (at, item) in problem.items().iter().enumerate() {
            if !is_pinned(at) || !problem.targets()[item.on].open {
                items_on[item.on].insert((ordered(item.load), at as u32));
            }
        }
        let open = (0..items_on.len()).filter(|at| problem.targets()[*at].open);
        let by_marginal = open.map(|at| (ordered(assignment.marginal(at)), at as u32)).collect();
        Self { assignment, by_marginal, sources: BTreeSet::new(), items_on }
    }

    /// Moves what is on closed targets, largest first.
    fn evacuate(&mut self) {
        let problem = self.assignment.problem;
        let closed = (0..problem.targets().len()).filter(|at| !problem.targets()[*at].open);
        let mut leaving: Vec<(u64, u32)> =
            closed.flat_map(|target| self.items_on[target].iter().copied()).collect();
        leaving.sort_unstable_by(|a, b| b.cmp(a));
        for (_, item) in leaving {
            if let Some(step) = self.best_place(item as usize) {
                self.apply(step.item, step.to);
            }
        }
    }

    /// Empties targets if having them off saves more than it costs, those first that cost most for what they do.
    fn put_to_sleep(&mut self) {
        let problem = self.assignment.problem;
        let price = |target: usize| {
            let load: f64 = self.loads_on(target).sum();
            ordered(problem.targets()[target].cost_on / load)
        };
        let awake = self.by_marginal.iter().map(|(_, target)| *target as usize);
        let awake = awake
            .filter(|at| problem.targets()[*at].cost_on > 0.0 && self.assignment.count(*at) > 0);
        let mut dearest_first: Vec<(u64, usize)> = awake.map(|at| (price(at), at)).collect();
        dearest_first.sort_unstable_by(|a, b| b.cmp(a));
        for (_, target) in dearest_first {
            let items = &self.items_on[target];
            let all_movable = items.len() == self.assignment.count(target);
            if all_movable && items.len() <= self.assignment.moves_left() {
                let leaving: Vec<u32> = items.iter().rev().map(|(_, item)| *item).collect();
                self.empty(target, &leaving);
            }
        }
    }

    /// Moves all these items from a target to others that are awake, or none if that does not pay off.
    fn empty(&mut self, target: usize, leaving: &[u32]) {
        let mut change = 0.0;
        let mut moved = 0;
        for item in leaving {
            let awake = |to: usize| self.assignment.count(to) > 0;
            let Some(step) = self.least_bad_place(*item as usize, awake) else { break };
            change += step.change;
            self.apply(step.item, step.to);
            moved += 1;
        }
        if moved < leaving.len() || change > -DROP_MIN {
            leaving[..moved].iter().rev().for_each(|item| self.apply(*item as usize, target));
        }
    }

    /// Moves items from where load costs most, until no move helps.
    fn level(&mut self) {
        let mut steps_left = self.assignment.problem.items().len() * STEPS_PER_ITEM_MAX;
        let mut has_moved = true;
        while has_moved {
            has_moved = false;
            self.sources = self.by_marginal.clone();
            while let Some((_, source)) = self.sources.last().copied() {
                match self.best_from(source as usize) {
                    Some(_) if steps_left == 0 => return,
                    Some(step) => {
                        steps_left -= 1;
                        self.apply(step.item, step.to);
                        self.sources.insert(self.key(step.to));
                        has_moved = true;
                    }
                    None => {
                        self.sources.pop_last();
                    }
                }
            }
        }
    }

    /// The best move away from a target.
    fn best_from(&self, source: usize) -> Option<Step> {
        let cheapest = self.by_marginal.first()?.1 as usize;
        let ideal = ordered(self.assignment.ideal_transfer(source, cheapest).max(0.0));
        let items = &self.items_on[source];
        let smaller = items.range(..(ideal, u32::MAX)).rev().take(NEAREST);
        let larger = items.range((ideal, u32::MAX)..).take(NEAREST);
        smaller
            .chain(larger)
            .filter_map(|(_, item)| self.best_place(*item as usize))
            .min_by(|a, b| a.change.total_cmp(&b.change))
    }

    /// The best other place for an item, if one lowers the objective.
    fn best_place(&self, item: usize) -> Option<Step> {
        self.least_bad_place(item, |_| true).filter(|step| step.change < -DROP_MIN)
    }

    /// The best other place for an item among those asked for, even if it raises the objective.
    fn least_bad_place(&self, item: usize, is_wanted: impl Fn(usize) -> bool) -> Option<Step> {
        let step = |to: &u32| {
            let to = *to as usize;
            let change = is_wanted(to).then(|| self.assignment.change_of_move(item, to))??;
            Some(Step { item, to, change })
        };
        let better = |a: &Step, b: &Step| a.change.total_cmp(&b.change);
        match self.assignment.problem.bound_to(item) {
            Some(bound) if bound.len() <= PASSED_MAX => {
                bound.iter().filter_map(step).min_by(better)
            }
            _ => {
                let cheapest_first = self.by_marginal.iter().map(|(_, to)| to).take(PASSED_MAX);
                cheapest_first.filter_map(step).take(CANDIDATES_MAX).min_by(better)
            }
        }
    }

    fn apply(&mut self, item: usize, to: usize) {
        let from = self.assignment.place(item);
        let of_item = (ordered(self.assignment.problem.items()[item].load), item as u32);
        self.items_on[from].remove(&of_item);
        self.items_on[to].insert(of_item);
        let old = [self.key(from), self.key(to)];
        self.assignment.put(item, to);
        for key in old {
            let new = self.key(key.1 as usize);
            for set in [&mut self.by_marginal, &mut self.sources] {
                // A closed target is in neither set, an exhausted one only in the first.
                if set.remove(&key) {
                    set.insert(new);
                }
            }
        }
    }

    fn key(&self, target: usize) -> (u64, u32) {
        (ordered(self.assignment.marginal(target)), target as u32)
    }

    fn loads_on(&self, target: usize) -> impl Iterator<Item = f64> {
        let items = self.assignment.problem.items();
        self.items_on[target].iter().map(|(_, item)| items[*item as usize].load)
    }
}

/// The bits of a float that is not negative have its order.
fn ordered(value: f64) -> u64 {
    value.max(0.0).to_bits()
}
