//! When the scheduler moves tasks of its own accord: *push*.
//!
//! Every interval, while a queue is long, it looks at all queues. If the longest is severely longer than the shortest,
//! tasks go from busy workers to idle ones, at most so many as the settings allow per look. With *predictive* set it
//! does not wait for that: it weighs queues by how long their tasks are expected to run on their worker, and moves
//! tasks to workers that will have nothing left before the next look, as long as these are then no worse off than who
//! gave. Only questions are asked (see `steal`); what has begun meanwhile stays.
//!
//! No timer runs while no queue is long. At the same looks idle workers may try again to steal. While any task waits in
//! line at a worker, idle ones are told so every [`LONG_US`], because what runs before it may have turned out to be long.

use std::collections::BTreeSet;

use divvy_types::limits::CREDIT_MAX;
use divvy_types::pulse::StolenBy;
use divvy_types::view::Move;
use divvy_types::{Timestamp, Token};

use crate::Scheduler;
use crate::lengths::LONG_US;
use crate::steal::Loot;
use crate::table::{Row, Task};
use crate::timers::Timer;
use crate::workers::Note;

/// What a task counts that nothing is known of, in microseconds.
const UNKNOWN_US: u64 = 1_000_000;
/// How many tasks of one priority in a queue are weighed; more count like these.
const WEIGHED_MAX: usize = 128;
/// How many workers are tried for one task.
const TRIED_MAX: usize = 64;

/// A task that is to move.
struct Planned {
    loot: Loot,
    from: u32,
    to: u32,
}

/// Who has how much, and who may give or take.
#[derive(Default)]
struct Scales {
    /// Amount and worker.
    giving: BTreeSet<(u64, u32)>,
    /// Amount, worker and places left.
    taking: BTreeSet<(u64, u32, u32)>,
    /// What a giver must be above, and a taker below.
    give_above: u64,
    take_below: u64,
    predictive: bool,
}

impl Scheduler {
    /// Evens the load out, as far as the settings allow.
    pub(crate) fn rebalance(&mut self, now: Timestamp) {
        let moves = self.plan(now);
        self.recalls.cycles += u64::from(!moves.is_empty());
        for Planned { loot, from, to } in moves {
            self.recall(now, loot, (from, to), StolenBy::Push);
        }
    }

    /// What a rebalance would do now.
    pub fn plan_rebalance(&self, now: Timestamp) -> Vec<Move> {
        let moves = self.plan(now).into_iter().map(|planned| {
            let spec = &self.tasks[planned.loot.row].spec;
            Move {
                task: spec.id,
                kind: spec.kind.clone(),
                from: self.workers.get(planned.from).name.clone(),
                to: self.workers.get(planned.to).name.clone(),
            }
        });
        moves.collect()
    }

    /// From which queue on there is something to look at.
    pub(crate) fn crowd_limit(&self) -> u32 {
        let settings = &self.settings.load_balancing;
        if settings.work_stealing.predictive { 0 } else { settings.thresholds.busy_threshold }
    }

    /// Sees to it that the load is looked at while a queue is long.
    pub(crate) fn arm_look(&mut self, now: Timestamp) {
        let settings = &self.settings.load_balancing;
        let moves = settings.strategy.pulls() || settings.strategy.pushes();
        if !self.recalls.lines_timer && self.workers.any_lined() && settings.strategy.pulls() {
            self.recalls.lines_timer = true;
            self.timers.add(Timestamp(now.0.saturating_add(LONG_US)), Timer::Lines);
        }
        if self.recalls.look_at.is_some() || !self.workers.is_crowded() || !moves {
            return;
        }
        let at = now.plus_ms((settings.thresholds.rebalance_interval_sec * 1_000.0) as u64);
        self.recalls.look_at = Some(at);
        self.timers.add(at, Timer::Look);
    }

    /// Takes the timer of the next look away, because its interval or its reason may have changed.
    pub(crate) fn disarm_look(&mut self) {
        if let Some(at) = self.recalls.look_at.take() {
            self.timers.remove(at, Timer::Look);
        }
    }

    /// The interval is over. The next look is armed at the end of the step, if there is a reason.
    pub(crate) fn look(&mut self, now: Timestamp) {
        self.recalls.look_at = None;
        let strategy = self.settings.load_balancing.strategy;
        if strategy.pushes() {
            self.rebalance(now);
        }
        if strategy.pulls() && self.workers.is_crowded() {
            self.mark_idle();
        }
    }

    /// Tasks have waited in line for a while. The next such look is armed at the end of the step, if some still do.
    pub(crate) fn look_at_lines(&mut self) {
        self.recalls.lines_timer = false;
        if self.workers.any_lined() {
            self.mark_idle();
        }
    }

    /// Offers tasks to the least loaded workers, which steal if there is nothing for them.
    fn mark_idle(&mut self) {
        let idle: Vec<u32> = self
            .workers
            .waiting_groups()
            .flat_map(|waiting| waiting.iter().take(TRIED_MAX))
            .map(|(_, _, worker)| *worker)
            .filter(|worker| self.workers.get(*worker).has_free_slot())
            .collect();
        for worker in idle {
            self.mark_worker(worker);
        }
    }

    fn plan(&self, now: Timestamp) -> Vec<Planned> {
        let Some(mut scales) = self.scales(now) else { return Vec::new() };
        let most = self.settings.load_balancing.work_stealing.max_steal_per_cycle as usize;
        let mut moves: Vec<Planned> = Vec::new();
        let mut taken: BTreeSet<Token> = BTreeSet::new();
        while moves.len() < most
            && let Some((amount, giver)) = scales.giving.pop_last()
        {
            if amount <= scales.give_above {
                break;
            }
            let loot = self.loot(now, giver);
            let next =
                loot.into_iter().filter(|loot| !taken.contains(&loot.token)).find_map(|loot| {
                    self.taker(&scales, (amount, giver), loot.row).map(|taker| (loot, taker))
                });
            let Some((loot, taker)) = next else { continue };
            let task = &self.tasks[loot.row];
            scales.giving.insert((amount.saturating_sub(self.weigh(&scales, giver, task)), giver));
            scales.taking.remove(&taker);
            let (held, to, room) = taker;
            if room > 1 {
                scales.taking.insert((held + self.weigh(&scales, to, task), to, room - 1));
            }
            taken.insert(loot.token);
            moves.push(Planned { loot, from: giver, to });
        }
        moves
    }

    /// What each worker has, if there is a reason to act.
    fn scales(&self, now: Timestamp) -> Option<Scales> {
        let settings = &self.settings.load_balancing;
        let thresholds = &settings.thresholds;
        let mut scales = Scales {
            give_above: level(thresholds.busy_threshold, 0),
            take_below: level(thresholds.idle_threshold, 0),
            predictive: settings.work_stealing.predictive,
            ..Scales::default()
        };
        if scales.predictive {
            scales.give_above = 0;
            scales.take_below = (thresholds.rebalance_interval_sec * 1e6) as u64;
        }
        let (mut longest, mut shortest) = (0, u32::MAX);
        for index in self.workers.indices() {
            let worker = self.workers.get(index);
            if worker.away_until.is_some() {
                continue;
            }
            let queue = worker.queue().saturating_sub(worker.recalled);
            let amount = if scales.predictive {
                self.work_us(now, index)
            } else {
                level(worker.leased.saturating_sub(worker.recalled), worker.slots)
            };
            longest = longest.max(queue);
            if queue > 0 {
                scales.giving.insert((amount, index));
            }
            if worker.is_resting() {
                continue;
            }
            shortest = shortest.min(queue);
            if worker.is_waiting() && amount < scales.take_below {
                scales.taking.insert((amount, index, worker.credit - worker.leased));
            }
        }
        let ratio = f64::from(longest) / f64::from(shortest.max(1));
        let severe = scales.predictive || ratio > thresholds.severe_imbalance_ratio;
        severe.then_some(scales)
    }

    /// The worker with the least that may take a task and is below the mark.
    fn taker(&self, scales: &Scales, giver: (u64, u32), row: Row) -> Option<(u64, u32, u32)> {
        let task = &self.tasks[row];
        let (amount, from) = giver;
        let left = amount.saturating_sub(self.weigh(scales, from, task));
        scales.taking.iter().take(TRIED_MAX).copied().find(|(held, to, _)| {
            *to != from
                && *held < scales.take_below
                && (!scales.predictive || held + self.weigh(scales, *to, task) <= left)
                && self.may_take(*to, task)
        })
    }

    /// What a task adds to a worker.
    fn weigh(&self, scales: &Scales, worker: u32, task: &Task) -> u64 {
        if !scales.predictive {
            return 1;
        }
        self.run_us(worker, task) / u64::from(self.workers.get(worker).slots.max(1))
    }

    fn run_us(&self, worker: u32, task: &Task) -> u64 {
        self.estimate_on_us(worker, task.class, task.spec.cost_hint).unwrap_or(UNKNOWN_US)
    }

    /// How long a worker is expected to be busy with what it holds, in microseconds.
    fn work_us(&self, now: Timestamp, index: u32) -> u64 {
        let worker = self.workers.get(index);
        let mut total: u64 = 0;
        for line in &worker.lines {
            let weighed = line.iter().filter(|note| self.is_queued(note, index)).take(WEIGHED_MAX);
            let sum: u64 = weighed.map(|note| self.run_us(index, &self.tasks[note.row])).sum();
            let more = (line.len().max(1) as u64).div_ceil(WEIGHED_MAX as u64);
            total = total.saturating_add(sum.saturating_mul(more));
        }
        let running = worker
            .young
            .iter()
            .chain(&worker.old)
            .filter(|note| self.runs(note, index) && !self.is_queued(note, index));
        let rest = |note: &Note| {
            let task = &self.tasks[note.row];
            let ran = now.0.saturating_sub(task.begun.0);
            self.run_us(index, task).saturating_sub(ran)
        };
        let rest: u64 = running.take(WEIGHED_MAX).map(rest).sum();
        total.saturating_add(rest) / u64::from(worker.slots.max(1))
    }
}

/// How much a worker holds beyond its slots, lifted so that free slots do not go below nothing: a worker with free
/// slots takes more before its queue begins.
fn level(leased: u32, slots: u32) -> u64 {
    u64::from(CREDIT_MAX) + u64::from(leased) - u64::from(slots.min(CREDIT_MAX))
}
