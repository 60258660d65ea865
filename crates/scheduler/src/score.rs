//! Which of several free workers gets a task.
//!
//! A worker that can begin the task at once goes before one where it would wait for a slot. Among those the highest
//! score wins:
//!
//! > score = skill match − queue length / 10 + success rate × history weight + affinity − run time − cost − energy
//!
//! - *Skill match* is the mean of needed over offered amounts, so that rare abilities stay free; see `profile`.
//! - *Queue length* is what the worker holds, over its slots: how many rounds of work are before the task.
//! - *Success rate* is the worker's with this kind, or over all kinds before it has tried this one.
//! - *Affinity* counts if the worker was the last to get a task with the same key and can begin at once.
//! - *Run time* is how much longer it takes there than at the fastest of those that are compared, from 0 to 1.
//! - *Cost* is `price_hour / speed`, *energy* is `(watts_busy − watts_idle) / speed`.
//!
//! The last three weigh nothing unless the settings say so. Equal scores go to the least loaded, then to who has
//! waited longest. At most [`CANDIDATES_MAX`] workers are compared: the least loaded of each group. Under `exact`
//! matching nothing is scored and the least loaded worker gets the task.

use divvy_types::view::{Candidate, ScoreTerm};
use divvy_types::{Matching, Name, Seq, TaskSpec, Timestamp};

use crate::Scheduler;
use crate::table::Row;
use crate::workers::{CANDIDATES_MAX, Order, Worker};

/// A queue of this many rounds costs as much as a perfect match is worth.
const QUEUE_SCALE: f64 = 10.0;
/// How many members of one group are compared.
const MEMBERS_MAX: usize = 8;
/// How many workers an explanation lists.
const EXPLAINED_MAX: usize = 50;
/// How many of those that were compared are remembered.
pub(crate) const RANKED_MAX: usize = 4;

/// The best of those that were compared for a task, best first.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ranking {
    row: Row,
    list: [(f64, u32); RANKED_MAX],
    len: usize,
}

impl Ranking {
    fn add(&mut self, score: f64, worker: u32) {
        let above = |(other, _): &&(f64, u32)| *other >= score;
        let place = self.list[..self.len].iter().take_while(above).count();
        if place < RANKED_MAX {
            self.len = (self.len + 1).min(RANKED_MAX);
            self.list[place..self.len].rotate_right(1);
            self.list[place] = (score, worker);
        }
    }

    /// Scores and workers, if it was made for this task.
    pub(crate) fn for_task(&self, row: Row) -> &[(f64, u32)] {
        if self.row == row { &self.list[..self.len] } else { &[] }
    }
}

/// What a score is made of.
struct Terms {
    skill_match: f64,
    queue_length: f64,
    success_rate: f64,
    affinity: f64,
    run_time: f64,
    cost: f64,
    energy: f64,
}

impl Terms {
    fn named(&self) -> [(&'static str, f64); 7] {
        [
            ("skill_match", self.skill_match),
            ("queue_length", self.queue_length),
            ("success_rate", self.success_rate),
            ("affinity", self.affinity),
            ("run_time", self.run_time),
            ("cost", self.cost),
            ("energy", self.energy),
        ]
    }

    fn sum(&self) -> f64 {
        self.skill_match
            + self.queue_length
            + self.success_rate
            + self.affinity
            + self.run_time
            + self.cost
            + self.energy
    }
}

impl Scheduler {
    /// The waiting worker for the next task of a class, if there is one. A task that nobody may take now does not
    /// keep those of lower priority from being looked at.
    pub(crate) fn worker_for_class(&mut self, now: Timestamp, class: u32) -> Option<u32> {
        self.workers.waiting_in(&self.classes.get(class).groups).next()?;
        for band in (0..self.bands_that_fall(class)).rev() {
            let Some(row) = self.head_of(class, band, now) else { continue };
            if let Some(worker) = self.choose_worker(now, row) {
                return Some(worker);
            }
        }
        None
    }

    /// The waiting worker that suits a ready task best, if any may run it.
    pub(crate) fn choose_worker(&mut self, now: Timestamp, row: Row) -> Option<u32> {
        self.ranking = Ranking { row, ..Ranking::default() };
        let task = &self.tasks[row];
        let (index, band) = (task.class, task.band());
        if let Some(thief) = self.reserved_for(now, task)
            && self.workers.get(thief).is_waiting()
            && self.classes.get(index).groups.contains(self.workers.get(thief).group)
            && self.may_run(thief, index, band)
        {
            return Some(thief);
        }
        // The list is kept, so that a choice allocates nothing.
        let mut list = std::mem::take(&mut self.compared);
        list.clear();
        self.compare(index, band, &mut list);
        let best = self.best_of(row, &list);
        self.compared = list;
        best
    }

    fn best_of(&mut self, row: Row, candidates: &[Order]) -> Option<u32> {
        let index = self.tasks[row].class;
        let exact = self.matching_of(self.classes.get(index)) == Matching::Exact;
        if exact || candidates.len() < 2 {
            return candidates.iter().min().map(|(_, _, worker)| *worker);
        }
        let fastest = self.fastest(index, candidates.iter().map(|(_, _, worker)| *worker));
        let spec = &*self.tasks[row].spec;
        let mut ranking = self.ranking;
        let mut best: Option<(bool, f64, Order)> = None;
        for order in candidates {
            let (_, _, worker) = order;
            let score = self.terms(*worker, index, spec, fastest).sum();
            let free = self.workers.get(*worker).has_free_slot();
            ranking.add(score, *worker);
            let better = best.is_none_or(|(best_free, best_score, best_order)| {
                let same = free == best_free;
                (free && !best_free)
                    || (same && score > best_score)
                    || (same && score == best_score && *order < best_order)
            });
            if better {
                best = Some((free, score, *order));
            }
        }
        self.ranking = ranking;
        best.map(|(_, _, (_, _, worker))| worker)
    }

    /// The workers that are compared for a task of this class and band.
    fn compare(&self, class: u32, band: usize, found: &mut Vec<Order>) {
        if band >= self.bands_that_fall(class) {
            return;
        }
        let groups = &self.classes.get(class).groups;
        let count = self.workers.waiting_in(groups).count().max(1);
        let members = (CANDIDATES_MAX / count).clamp(1, MEMBERS_MAX);
        for (_, waiting) in self.workers.waiting_in(groups) {
            // Those with a free slot come first. Who is kept out is passed over, and does not hide a good one behind it.
            let able = waiting
                .iter()
                .take_while(|(_, _, worker)| self.has_place_for(*worker, class))
                .filter(|(_, _, worker)| !self.is_kept_from(*worker, class));
            found.extend(able.take(members));
        }
    }

    /// The best pace among these workers, if run times weigh anything.
    fn fastest(&self, class: u32, workers: impl Iterator<Item = u32>) -> f64 {
        if self.settings.load_balancing.scores.run_time == 0.0 {
            return 0.0;
        }
        let kind = self.fits.get(class).kind;
        let paces = workers.map(|worker| self.learning.pace(self.workers.get(worker).known, kind));
        paces.fold(f64::INFINITY, f64::min)
    }

    fn terms(&self, index: u32, class: u32, spec: &TaskSpec, fastest: f64) -> Terms {
        let settings = &self.settings.load_balancing;
        let worker = self.workers.get(index);
        let group = self.workers.group(worker.group);
        let fit = self.fits.get(class);
        let history = &settings.capabilities;
        let success_rate = if history.consider_history && history.history_weight > 0.0 {
            self.learning.success_rate(worker.known, fit.kind) * history.history_weight
        } else {
            0.0
        };
        let close = worker.has_free_slot() && self.placed.is_close(spec, worker.known);
        let run_time = if settings.scores.run_time > 0.0 {
            let pace = self.learning.pace(worker.known, fit.kind);
            settings.scores.run_time * (1.0 - (fastest - pace).exp()).max(0.0)
        } else {
            0.0
        };
        // Zero is subtracted from, so that a term that counts nothing is not shown as −0.
        Terms {
            skill_match: fit.skill_match(worker.group),
            queue_length: 0.0
                - f64::from(worker.leased) / f64::from(worker.slots.max(1)) / QUEUE_SCALE,
            success_rate,
            affinity: if close { settings.scores.affinity } else { 0.0 },
            run_time: 0.0 - run_time,
            cost: 0.0 - settings.scores.cost * group.rates.price,
            energy: 0.0 - settings.scores.energy * group.rates.energy,
        }
    }

    /// What it would mean to give a task to each worker now; of many workers the first ones.
    pub(crate) fn candidates(&self, seq: Seq) -> Vec<Candidate> {
        let Some(task) = self.tasks.find(seq) else { return Vec::new() };
        let (class, spec) = (task.class, &*task.spec);
        let open = &self.classes.get(class).groups;
        let workers = self.workers.whole();
        let tier = |worker: &Worker| self.workers.tier_for(worker.key.worker, &spec.kind);
        let indices: Vec<u32> = workers.filter_map(|(worker, _)| tier(worker)).collect();
        let able = indices.iter().copied();
        let able = able.filter(|index| open.contains(self.workers.get(*index).group));
        let fastest = self.fastest(class, able);
        let views = indices.iter().take(EXPLAINED_MAX).map(|index| {
            let worker = self.workers.get(*index);
            let profile = &self.workers.group(worker.group).profile;
            let kind = self.fits.get(class).kind;
            let quarantine =
                self.learning.skill(worker.known, kind).and_then(|skill| skill.quarantine);
            let takes = open.contains(worker.group) && task.band() < self.bands_that_fall(class);
            let terms = takes.then(|| self.terms(*index, class, spec, fastest));
            Candidate {
                worker: worker.name.clone(),
                lacks: spec.needs.iter().filter(|need| !profile.has(need)).cloned().collect(),
                serves: profile.runs(&spec.queue, &spec.kind),
                free: worker.is_waiting() && self.has_place_for(*index, class),
                quarantined_until: quarantine
                    .filter(|_| self.is_quarantined(*index, class))
                    .map(|quarantine| quarantine.until),
                score: terms.as_ref().map(Terms::sum),
                terms: terms.iter().flat_map(Terms::named).map(term).collect(),
            }
        });
        views.collect()
    }
}

fn term((name, value): (&'static str, f64)) -> ScoreTerm {
    ScoreTerm { name: Name::const_new(name), value }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ranking_keeps_the_best_in_order_and_the_first_of_equals() {
        let mut ranking = Ranking::default();
        for (worker, score) in [1.0, 3.0, 2.0, 3.0, 0.5, 2.5].into_iter().enumerate() {
            ranking.add(score, worker as u32);
        }
        assert_eq!(ranking.for_task(0), [(3.0, 1), (3.0, 3), (2.5, 5), (2.0, 2)]);
        assert!(ranking.for_task(1).is_empty(), "it is of another task");
    }
}
