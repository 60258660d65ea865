//! Decides by simulated annealing: random moves and swaps, of which bad ones are taken less and less often.
//!
//! Kirkpatrick, Gelatt and Vecchi, Science 1983. It is sometimes sold as "quantum-inspired"; there is nothing
//! quantum about it. It starts from the greedy result, remembers the best that it has seen and returns that, so it is
//! never worse than greedy and may be stopped after any number of steps. A step costs the same however large the
//! problem is.
//!
//! The temperature starts in proportion to the mean change of random steps, so that it fits any unit, and falls
//! geometrically. It starts low, and lower still if the steps are few for so many items: the greedy result is good,
//! and a hot start would throw it away. Cold: without steps the result is the greedy one.

use super::assignment::Assignment;
use super::{Plan, Problem, Weights, greedy};
use crate::load::error::{self, Error};

/// The most steps of one run.
pub const STEPS_MAX: u64 = 1 << 40;
/// Random steps from which the temperature's unit is taken.
const TRIALS: usize = 128;
/// With fewer steps per item than this, the start is colder in proportion: there is no time to cool down.
const STEPS_PER_ITEM: f64 = 50.0;
/// Drops of the objective below this are rounding errors.
const DROP_MIN: f64 = 1e-12;

/// What can be set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Annealing {
    /// How many moves or swaps are tried; each takes the same time, however large the problem is.
    pub steps: u64,
    /// Where chance starts from.
    pub seed: u64,
    /// The first temperature, in mean changes of a random step.
    pub heat_start: f64,
    /// The last temperature, as a part of the first.
    pub heat_end: f64,
}

impl Default for Annealing {
    fn default() -> Self {
        Self { steps: 200_000, seed: 0, heat_start: 0.2, heat_end: 0.0001 }
    }
}

impl Annealing {
    /// Refuses settings that mean nothing.
    pub fn check(&self) -> Result<(), Error> {
        if self.steps > STEPS_MAX {
            let value = self.steps.to_string();
            return Err(Error::BadValue { field: "steps", value, must: "at most 2 to the 40th" });
        }
        error::positive("heat_start", self.heat_start)?;
        error::share("heat_end", self.heat_end)
    }
}

/// Plans at most `moves_max` moves, in a number of steps that the settings give.
pub fn anneal(
    problem: &Problem,
    weights: &Weights,
    moves_max: usize,
    annealing: &Annealing,
) -> Result<Plan, Error> {
    weights.check()?;
    annealing.check()?;
    let start = greedy::search(problem, weights, moves_max, |_| false);
    Ok(search(start, annealing, |_| false).plan())
}

/// Goes on from an assignment; pinned items stay where they were, unless that target is closed.
pub(super) fn search<'a>(
    start: Assignment<'a>,
    annealing: &Annealing,
    is_pinned: impl Fn(usize) -> bool,
) -> Assignment<'a> {
    let problem = start.problem;
    let open: Vec<u32> = (0..problem.targets().len() as u32)
        .filter(|at| problem.targets()[*at as usize].open)
        .collect();
    let may_move = |at: &u32| {
        let on = problem.items()[*at as usize].on;
        !is_pinned(*at as usize) || !problem.targets()[on].open
    };
    let movable: Vec<u32> = (0..problem.items().len() as u32).filter(may_move).collect();
    if open.is_empty() || movable.is_empty() || annealing.steps == 0 {
        return start;
    }
    let random = fastrand::Rng::with_seed(annealing.seed);
    let mut walk = Walk { best: Best::new(&start), now: start.clone(), random, open, movable };
    walk.run(annealing);
    // Sums that are kept up step by step drift; what counts is the objective computed anew.
    let best = walk.best.restore(walk.now);
    if best.objective() < start.objective() { best } else { start }
}

/// A change that is tried.
#[derive(Clone, Copy)]
enum Step {
    Move { item: usize, to: usize },
    Swap { one: usize, other: usize },
}

struct Walk<'a> {
    now: Assignment<'a>,
    best: Best,
    random: fastrand::Rng,
    open: Vec<u32>,
    movable: Vec<u32>,
}

impl Walk<'_> {
    fn run(&mut self, annealing: &Annealing) {
        let unit = self.mean_change();
        if unit <= 0.0 {
            return;
        }
        let visits = annealing.steps as f64 / self.movable.len() as f64;
        let mut heat = unit * annealing.heat_start * (visits / STEPS_PER_ITEM).min(1.0);
        let cooling = annealing.heat_end.powf(1.0 / annealing.steps as f64);
        // How far the objective is above the best one seen.
        let mut above = 0.0;
        for _ in 0..annealing.steps {
            heat *= cooling;
            let Some((step, change)) = self.try_step() else { continue };
            let is_taken = change <= 0.0 || self.random.f64() < (-change / heat).exp();
            if !is_taken {
                continue;
            }
            self.take(step);
            above += change;
            if above < -DROP_MIN {
                self.best.is_now();
                above = 0.0;
            } else {
                self.best.trim(&self.now);
            }
        }
    }

    /// A random step and what it changes; none if it is not allowed.
    fn try_step(&mut self) -> Option<(Step, f64)> {
        let item = self.random_item();
        if self.random.bool() {
            let targets = self.now.problem.bound_to(item).unwrap_or(&self.open);
            let to = *targets.get(self.random.usize(..targets.len().max(1)))? as usize;
            return Some((Step::Move { item, to }, self.now.change_of_move(item, to)?));
        }
        let other = self.random_item();
        let step = Step::Swap { one: item, other };
        Some((step, self.now.change_of_swap(item, other)?))
    }

    fn random_item(&mut self) -> usize {
        self.movable[self.random.usize(..self.movable.len())] as usize
    }

    fn mean_change(&mut self) -> f64 {
        let changes: Vec<f64> =
            (0..TRIALS).filter_map(|_| self.try_step().map(|(_, change)| change.abs())).collect();
        changes.iter().sum::<f64>() / changes.len().max(1) as f64
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Move { item, to } => self.put(item, to),
            Step::Swap { one, other } => {
                let (here, there) = (self.now.place(one), self.now.place(other));
                self.put(one, there);
                self.put(other, here);
            }
        }
    }

    fn put(&mut self, item: usize, to: usize) {
        self.best.undo.push((item as u32, self.now.place(item) as u32));
        self.now.put(item, to);
    }
}

/// The best assignment seen: a full list of places, or the way back to it from the present one.
struct Best {
    /// Items and where they were before each change since the best, or since the list was written.
    undo: Vec<(u32, u32)>,
    list: Option<Vec<u32>>,
    items: usize,
}

impl Best {
    fn new(start: &Assignment<'_>) -> Self {
        Self { undo: Vec::new(), list: None, items: start.problem.items().len() }
    }

    /// The present assignment is the best.
    fn is_now(&mut self) {
        self.undo.clear();
        self.list = None;
    }

    /// Keeps the way back from growing without end: once it is as long as the list of items, the list is written.
    fn trim(&mut self, now: &Assignment<'_>) {
        if self.undo.len() <= self.items {
            return;
        }
        if self.list.is_none() {
            let mut list: Vec<u32> = (0..self.items).map(|item| now.place(item) as u32).collect();
            self.undo.iter().rev().for_each(|(item, place)| list[*item as usize] = *place);
            self.list = Some(list);
        }
        self.undo.clear();
    }

    fn restore(self, mut now: Assignment<'_>) -> Assignment<'_> {
        match self.list {
            Some(list) => {
                let places = list.into_iter().enumerate();
                places.for_each(|(item, place)| now.put(item, place as usize));
            }
            None => {
                let back = self.undo.iter().rev();
                back.for_each(|(item, place)| now.put(*item as usize, *place as usize));
            }
        }
        now
    }
}
