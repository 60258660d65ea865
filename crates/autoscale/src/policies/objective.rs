//! Money against lateness: for each number of workers the next minutes are played through, and the cheapest number wins.
//!
//! Three futures are played: the forecast and one above and one below it by its usual error (the points of Gauss and
//! Hermite). In each, work arrives, workers that start join when they are there, and what cannot be done waits. A second
//! of a worker costs its price; a task that starts later than the goal allows costs `budget.late_task`; work that is left
//! over costs what doing it later costs, the more the longer it has waited. So a worker is added when the lateness that
//! it saves is worth more than it costs, and a few seconds of waiting are rather used than paid for.
//!
//! Whoever is needed again before a new worker would have paid for its start is kept. Without a trusted forecaster
//! everything stays as it is, and this is the queue with prices.

use super::{View, Want};
use crate::forecast::SLOT_SEC;

/// The futures: how many standard deviations from the forecast, and how likely.
const FUTURES: [(f64, f64); 3] = [(0.0, 4.0 / 6.0), (1.732, 1.0 / 6.0), (-1.732, 1.0 / 6.0)];
/// What a late task costs where nobody says: so many times what its run costs, for a goal of 95 %.
const LATE: f64 = 100.0;
/// How long a new number is played after it is there, in seconds.
const HOLD_SEC: f64 = 60.0;
/// How much dearer work gets that has used all of the time that it may wait.
const URGENCY: f64 = 12.0;
/// How much of its start a worker has to earn in the time that is played; it will stay for longer.
const BOOT_SHARE: f64 = 0.3;
/// Steps that are played at most.
const STEPS_MAX: f64 = 40.0;
/// Numbers that are tried at most with one stride.
const TRIES_MAX: u32 = 400;
/// How long a worker is kept that will be needed again: as long as its start takes, and this.
const KEEP_SEC: f64 = 600.0;
/// Workers more than needed that are kept against going up and down: so many, and one for each so many seconds that a start
/// takes; but no more than this share of those that are needed.
const KEEP: f64 = 1.3;
const KEEP_BOOT_SEC: f64 = 450.0;
const KEEP_SHARE: f64 = 0.15;
/// Workers more than needed that are asked for when it grows anyway, likewise.
const GROW: f64 = 0.4;
const GROW_SHARE: f64 = 0.05;

pub(super) fn want(view: &View<'_>) -> Want {
    let play = Play::new(view);
    let load = view.load;
    let floor = load.taken.max(view.for_deadlines());
    let first = view.workers(play.most(view.boot + load.step).max(floor));
    let (workers, cost) = play.cheapest(first, view.workers(floor));
    let least = (f64::from(workers) * view.unit).max(floor);
    // Between the whole numbers the need is known better than to one worker: margins are counted from that.
    let exact = view.staffed(play.most(KEEP_SEC + view.boot)).max(floor);
    let margin = |workers: f64, share: f64| (workers * view.unit).min(exact * share);
    let kept = exact + margin(KEEP + view.boot / KEEP_BOOT_SEC, KEEP_SHARE);
    let grown = if least > view.held { exact + margin(GROW, GROW_SHARE) } else { 0.0 };
    let least = least.max(grown);
    let keep = kept.max(least);
    Want { least, keep, why: play.why(workers, cost) }
}

/// The next minutes, ready to be played.
struct Play<'a> {
    view: &'a View<'a>,
    /// The length of a step, and of each step the forecast with its error.
    step: f64,
    path: Vec<(f64, f64)>,
    late: f64,
}

/// What a number of workers would lead to.
#[derive(Clone, Copy, Debug, Default)]
struct Cost {
    money: f64,
    late: f64,
    waiting: f64,
}

impl<'a> Play<'a> {
    fn new(view: &'a View<'a>) -> Self {
        let load = view.load;
        let length = view.boot + load.step + HOLD_SEC;
        let step = load.step.clamp(1.0, 60.0).max(length / STEPS_MAX);
        let steps = (length / step).ceil().min(STEPS_MAX) as u32;
        let path = (0..steps)
            .map(|number| {
                let ahead = (f64::from(number) + 0.5) * step;
                let expected = view.forecast.at(load.at, ahead, load.rate);
                (view.staffed(expected.rate), expected.spread)
            })
            .collect();
        let share = crate::load::share(&view.pool.goal);
        // The stricter the goal, the dearer a late task.
        let usual = LATE * (0.05 / (1.0 - share)).max(0.1) * view.price / view.unit * load.run;
        let late = view.pool.budget.late_task.filter(|_| view.price > 0.0).unwrap_or(usual);
        Self { view, step, path, late }
    }

    /// The most that is forecast for the next so many seconds.
    fn most(&self, until: f64) -> f64 {
        let (view, load) = (self.view, self.view.load);
        let looks = (until / SLOT_SEC).ceil().clamp(1.0, STEPS_MAX);
        (0..=looks as u32)
            .map(|look| view.forecast.at(load.at, until * f64::from(look) / looks, load.rate).rate)
            .fold(load.rate, f64::max)
    }

    /// The number of workers that costs least, from `floor` on; `first` is where the search begins.
    fn cheapest(&self, first: u32, floor: u32) -> (u32, Cost) {
        let most = self.view.pool.max.max(1).max(floor);
        let first = first.clamp(floor, most);
        let mut best = (first, self.cost(first));
        // Long strides first: a few workers more may change nothing where many would.
        for way in [32, -32, 8, -8, 2, -2, 1, -1] {
            for _ in 0..TRIES_MAX {
                let next = best.0.saturating_add_signed(way).clamp(floor, most);
                let cost = self.cost(next);
                if next == best.0 || cost.sum() >= best.1.sum() {
                    break;
                }
                best = (next, cost);
            }
        }
        best
    }

    fn cost(&self, workers: u32) -> Cost {
        let mut sum = Cost::default();
        for (deviations, weight) in FUTURES {
            let cost = self.run(workers, deviations);
            sum.money += weight * cost.money;
            sum.late += weight * cost.late;
            sum.waiting += weight * cost.waiting;
        }
        sum
    }

    /// Plays one future.
    fn run(&self, workers: u32, deviations: f64) -> Cost {
        let (view, load) = (self.view, self.view.load);
        let wanted = f64::from(workers) * view.unit;
        let there: f64 =
            view.running + view.coming.iter().map(|(_, capacity)| capacity).sum::<f64>();
        let mut backlog = load.backlog;
        let mut cost = Cost::default();
        let (mut wait, mut used) = (0.0, 0.0);
        for (number, (expected, spread)) in self.path.iter().enumerate() {
            let at = (number as f64 + 0.5) * self.step;
            let rate = (expected + deviations * spread).max(0.0);
            let new = if at >= view.boot { (wanted - there).max(0.0) } else { 0.0 };
            let joined: f64 =
                view.coming.iter().filter(|(after, _)| *after <= at).map(|(_, each)| each).sum();
            let decided = (view.running + joined + new).min(wanted.max(0.0));
            // From when the next decision can have been carried out, it is taken to follow what comes.
            let capacity = if at > view.boot + load.step { decided.max(rate) } else { decided };
            // What is paid before a new worker could be there is the same for all.
            if at >= view.boot {
                used += wanted.max(capacity) * self.step;
            }
            backlog = (backlog + (rate - capacity) * self.step).max(0.0);
            wait = if capacity > 0.0 { backlog / capacity } else { backlog * 1e3 };
            if wait > load.within && load.run > 0.0 {
                cost.late += rate * self.step / load.run * self.late;
            }
        }
        // A new worker costs a share of its start too, so nobody is given up and asked for again over a trifle.
        let new = (wanted - there).max(0.0) * view.boot * BOOT_SHARE;
        cost.money = (used + new) / view.unit * view.price;
        let urgency = 1.0 + URGENCY * (wait / load.within).min(10.0);
        cost.waiting = backlog / view.unit * view.price * urgency;
        cost
    }

    fn why(&self, workers: u32, cost: Cost) -> String {
        let (view, load) = (self.view, self.view.load);
        let most = self.most(view.boot + load.step);
        let forecast = match view.forecast.trusted() {
            Some(by) if most > load.rate * 1.02 => {
                format!(
                    "{most:.2} s of work per second are forecast by {by}, after {:.2} now",
                    load.rate
                )
            }
            _ => format!("{:.2} s of work arrive per second", load.rate),
        };
        let waits = if load.backlog > view.unit {
            format!(", {:.0} s of work waits", load.backlog)
        } else {
            String::new()
        };
        let late = if cost.late > 0.0 { "; some will be late, more would cost more" } else { "" };
        format!(
            "{forecast}{waits}; {workers} is the cheapest number for workers and lateness{late}"
        )
    }
}

impl Cost {
    fn sum(&self) -> f64 {
        self.money + self.late + self.waiting
    }
}
