//! Decides what is kept of a run: the life of every task, what each worker did, and the figures that follow from both.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use divvy_scheduler::Scheduler;
use divvy_types::view::LoadMetrics;
use divvy_types::{Name, Seq, WaitReason};

use super::crew::Scaled;
use super::draw::Drawn;
use super::member::Bench;
use super::setup::{Cluster, Member};
use super::world::{Micros, START};
use crate::sim::outcome::{Quantiles, Times};

/// Open tasks whose reason is asked for at the end of a run: to know its place in line costs a look at all before it.
const REASONS_MAX: usize = 100;

/// What came out.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Every task, in the order in which they were to come.
    pub lives: Vec<Life>,
    /// Every worker.
    pub members: Vec<Tally>,
    /// What the scheduler says of the load and of tasks that moved.
    pub load: LoadMetrics,
    /// When the run ended.
    pub ended_at: Duration,
    /// Messages from the server to workers that carried or asked for something.
    pub messages: u64,
    /// What became of the workers that the autoscaler started; they follow the others in `members`.
    pub scaled: Scaled,
    /// Whether it ended early, because too many were late already.
    pub gave_up: bool,
}

/// The life of a task. Times are from the start of the run.
#[derive(Clone, Debug, PartialEq)]
pub struct Life {
    /// The load that it belongs to.
    pub load: usize,
    /// Its priority.
    pub priority: u8,
    /// Whose share it used.
    pub fair_key: Option<Name>,
    /// When it was submitted; nothing if the run ended before.
    pub submitted: Option<Duration>,
    /// When it could have run for the first time: it was there, its time had come and its dependencies were done.
    pub ready: Option<Duration>,
    /// When it began to run for the first time.
    pub began: Option<Duration>,
    /// When its end was recorded.
    pub ended: Option<Duration>,
    /// How it ended.
    pub end: Option<End>,
    /// How often an end was recorded. More than once would be a broken promise.
    pub ends: u32,
    /// How often it began to run.
    pub begins: u32,
    /// The worker on which it began last.
    pub worker: Option<usize>,
    /// How often a worker gave it back unrun.
    pub given_back: u32,
    /// By when it should have been done.
    pub due: Option<Duration>,
    /// Why it did not run, if it was among the first hundred that were open at the end of the run.
    pub wait: Option<WaitReason>,
}

/// How a task ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It finished.
    Done,
    /// It is a dead letter.
    Dead,
    /// It was cancelled.
    Cancelled,
}

/// What a worker did.
#[derive(Clone, Debug, PartialEq)]
pub struct Tally {
    /// What people call it.
    pub name: Name,
    /// Tasks that it runs at once.
    pub slots: u32,
    /// The time of all its slots together that went into tasks.
    pub busy: Duration,
    /// Attempts that it began.
    pub began: u64,
    /// Attempts that it finished.
    pub finished: u64,
    /// Attempts that ended because it died.
    pub lost: u64,
}

impl Tally {
    fn new(member: &Member) -> Self {
        let (name, slots) = (member.name.clone(), member.slots);
        Self { name, slots, busy: Duration::ZERO, began: 0, finished: 0, lost: 0 }
    }
}

impl Outcome {
    /// From the start until the last task ended.
    pub fn makespan(&self) -> Duration {
        self.lives.iter().filter_map(|life| life.ended).max().unwrap_or_default()
    }

    /// How long the tasks that this picks waited, from ready to their first begin.
    pub fn waits(&self, picks: impl Fn(&Life) -> bool) -> Quantiles {
        let mut times = Times::new();
        for life in self.lives.iter().filter(|life| picks(life)) {
            if let (Some(ready), Some(began)) = (life.ready, life.began) {
                times.record(began.saturating_sub(ready).as_nanos() as u64);
            }
        }
        times.quantiles()
    }

    /// Tasks that this picks and that ended well.
    pub fn done(&self, picks: impl Fn(&Life) -> bool) -> usize {
        self.lives.iter().filter(|life| life.end == Some(End::Done) && picks(life)).count()
    }

    /// Tasks with a time by which they should have been done, and those of them that were not done by then.
    pub fn missed(&self, picks: impl Fn(&Life) -> bool) -> (usize, usize) {
        let judged = self.lives.iter().filter(|life| life.due.is_some() && picks(life));
        let late = |life: &&Life| life.ended.is_none_or(|ended| Some(ended) > life.due);
        (judged.clone().count(), judged.filter(late).count())
    }

    /// Jain's index of the time that each slot of the workers was busy: 1 if all were equally busy.
    pub fn evenness(&self) -> f64 {
        jain(self.members.iter().map(|member| member.busy.as_secs_f64() / f64::from(member.slots)))
    }

    /// Tasks that began up to some time, by fair key.
    pub fn begun_by_key(&self, until: Duration) -> BTreeMap<Name, u64> {
        let mut counts = BTreeMap::new();
        for life in &self.lives {
            if let Some(key) = &life.fair_key {
                let begun = life.began.is_some_and(|began| began <= until);
                *counts.entry(key.clone()).or_default() += u64::from(begun);
            }
        }
        counts
    }

    /// Places of the tasks in the order in which they first began.
    pub fn starts(&self) -> Vec<usize> {
        let mut places: Vec<usize> =
            (0..self.lives.len()).filter(|place| self.lives[*place].began.is_some()).collect();
        places.sort_by_key(|place| self.lives[*place].began);
        places
    }

    /// Tasks that a worker gave back unrun at least once.
    pub fn moved(&self) -> usize {
        self.lives.iter().filter(|life| life.given_back > 0).count()
    }

    /// What is wrong, if not every task ended exactly once.
    pub fn check_ended_once(&self) -> Result<(), String> {
        let wrong = |life: &&Life| life.ends != 1;
        let count = self.lives.iter().filter(wrong).count();
        let Some(life) = self.lives.iter().find(wrong) else { return Ok(()) };
        let why = life.wait.as_ref().map_or_else(String::new, |wait| format!(": {wait}"));
        Err(format!(
            "{count} of {} tasks did not end exactly once; one of them ended {} times{why}",
            self.lives.len(),
            life.ends
        ))
    }
}

/// Jain's index of fairness: 1 if all values are equal, 1/n if one has all (Jain, Chiu and Hawe, 1984).
pub fn jain(values: impl IntoIterator<Item = f64>) -> f64 {
    let (mut count, mut sum, mut squares) = (0.0, 0.0, 0.0);
    for value in values {
        count += 1.0;
        sum += value;
        squares += value * value;
    }
    if squares == 0.0 { 1.0 } else { sum * sum / (count * squares) }
}

/// What is written down while a run goes on.
pub(super) struct Record {
    lives: Vec<Life>,
    members: Vec<Tally>,
    drawn: Arc<Drawn>,
    /// How many of its dependencies each task still misses.
    missing: Vec<u32>,
    /// When tasks may run at the earliest that may not run at once.
    not_before: BTreeMap<usize, Duration>,
    open: usize,
    /// Tasks that became ready and were not asked for yet.
    fresh: Vec<usize>,
    pub(super) messages: u64,
}

impl Record {
    pub(super) fn new(cluster: &Cluster, drawn: &Arc<Drawn>) -> Self {
        let life = |place: usize| {
            let (task, sort) = (&drawn.tasks[place], drawn.sort(place));
            Life {
                load: task.load,
                priority: sort.priority,
                fair_key: sort.fair_key.clone(),
                submitted: None,
                ready: None,
                began: None,
                ended: None,
                end: None,
                ends: 0,
                begins: 0,
                worker: None,
                given_back: 0,
                due: task.due.map(Duration::from_micros),
                wait: None,
            }
        };
        let places = 0..drawn.tasks.len();
        let not_before = places.clone().filter_map(|place| {
            drawn.sort(place).run_at.map(|run_at| (place, run_at.since(START)))
        });
        Self {
            not_before: not_before.collect(),
            lives: places.clone().map(life).collect(),
            members: cluster.members.iter().map(Tally::new).collect(),
            missing: places.map(|place| drawn.parents.of(place).len() as u32).collect(),
            open: drawn.tasks.len(),
            drawn: Arc::clone(drawn),
            fresh: Vec::new(),
            messages: 0,
        }
    }

    pub(super) fn all_ended(&self) -> bool {
        self.open == 0
    }

    pub(super) fn end_of(&self, place: usize) -> Option<End> {
        self.lives[place].end
    }

    pub(super) fn submitted(&mut self, places: Range<usize>, now: Micros) {
        for place in places {
            self.lives[place].submitted = Some(Duration::from_micros(now));
            if self.missing[place] == 0 {
                self.ready(place, now);
            }
        }
    }

    fn ready(&mut self, place: usize, now: Micros) {
        let not_before = self.not_before.get(&place).copied().unwrap_or_default();
        let ready = Duration::from_micros(now).max(not_before);
        self.lives[place].ready.get_or_insert(ready);
        self.fresh.push(place);
    }

    /// Tasks that became ready since the last call.
    pub(super) fn take_ready(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.fresh)
    }

    /// A worker was started.
    pub(super) fn hired(&mut self, member: &Member) {
        self.members.push(Tally::new(member));
    }

    pub(super) fn began(&mut self, place: usize, member: usize, now: Micros) {
        let (life, now) = (&mut self.lives[place], Duration::from_micros(now));
        life.begins += 1;
        life.worker = Some(member);
        life.began.get_or_insert(now);
        self.members[member].began += 1;
    }

    pub(super) fn finished(&mut self, member: usize) {
        self.members[member].finished += 1;
    }

    pub(super) fn lost(&mut self, member: usize, attempts: usize) {
        self.members[member].lost += attempts as u64;
    }

    pub(super) fn gave_back(&mut self, place: usize) {
        self.lives[place].given_back += 1;
    }

    pub(super) fn ended(&mut self, place: usize, end: End, now: Micros) {
        let life = &mut self.lives[place];
        life.ends += 1;
        if life.ends > 1 {
            return;
        }
        life.end = Some(end);
        life.ended = Some(Duration::from_micros(now));
        self.open -= 1;
        let drawn = Arc::clone(&self.drawn);
        for dependent in drawn.dependents.of(place) {
            self.missing[dependent] -= 1;
            if self.missing[dependent] == 0 && self.lives[dependent].submitted.is_some() {
                self.ready(dependent, now);
            }
        }
    }

    pub(super) fn outcome(
        mut self,
        scheduler: &Scheduler,
        benches: &[Bench],
        scaled: Scaled,
        (now, gave_up): (Micros, bool),
    ) -> Outcome {
        let open = self.lives.iter_mut().enumerate().filter(|(_, life)| life.ends == 0);
        for (place, life) in open.take(REASONS_MAX) {
            life.wait = scheduler.status(Seq(place as u64 + 1)).and_then(|status| status.wait);
        }
        for (tally, bench) in self.members.iter_mut().zip(benches) {
            tally.busy = Duration::from_micros(bench.busy_until(now));
        }
        Outcome {
            lives: self.lives,
            members: self.members,
            load: scheduler.load_metrics(),
            ended_at: Duration::from_micros(now),
            messages: self.messages,
            scaled,
            gave_up,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evenness_goes_from_one_of_all_to_all_alike() {
        assert_eq!(jain([3.0, 3.0, 3.0]), 1.0);
        assert_eq!(jain([0.0, 0.0, 0.0, 9.0]), 0.25);
        assert_eq!(jain([0.0, 0.0]), 1.0);
    }
}
