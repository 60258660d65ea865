//! What is learnt of workers and kinds: how often attempts work, and how long they take.
//!
//! Kept by the *name* of a worker, so that a reconnection keeps it: per kind a moving success rate, the last results
//! (which `quarantine` judges by) and how much slower or faster than others it is; over all kinds a moving success rate.
//! Bounded: of names that are not connected the ones that were idle longest go first.
//!
//! **Run time** is from the moment at which the attempt presumably began: at its grant if the worker had a slot free,
//! else when an earlier attempt there ended and it was next in line (see `places`). Only attempts that worked count,
//! because failures are often quick; attempts that were taken over from an earlier connection do not.

use std::collections::BTreeMap;

use divvy_types::view::SkillView;
use divvy_types::{ErrorClass, FailureVerdict, Name, TaskError, TaskSpec, Timestamp};

use crate::Scheduler;
use crate::lengths::LONG_US;
use crate::places::{QUEUED, UNMEASURED};
use crate::quarantine::{Quarantine, Results};
use crate::runtimes::{RunTimes, log_us, us_of};
use crate::table::{NOBODY, Row};
use crate::traffic::RunTime;

/// Pairs of a worker and a kind.
const PAIRS_MAX: usize = 10_000;
/// Names of workers.
const NAMES_MAX: usize = 10_000;
/// Kinds.
const KINDS_MAX: usize = 10_000;
/// What the newest result counts in a success rate.
const ALPHA: f64 = 0.1;
/// The greatest factor between a worker and the others, as a logarithm: a thousand.
const PACE_MAX: f64 = 6.9;

/// How an attempt ended, as far as it says something about its worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    Worked,
    Failed,
}

/// Whether a failure says something about the worker; a snooze and a stop on request do not.
pub(crate) fn is_fault(verdict: FailureVerdict, error: &TaskError) -> bool {
    let asked = matches!(verdict, FailureVerdict::SnoozeMs(_) | FailureVerdict::Cancelled);
    !asked && matches!(error.class, ErrorClass::Failed | ErrorClass::Crashed | ErrorClass::Timeout)
}

/// Everything that is learnt.
#[derive(Debug, Default)]
pub(crate) struct Learning {
    kinds: Vec<Kind>,
    free_kinds: Vec<u32>,
    by_kind: BTreeMap<Name, u32>,
    /// How many kinds have no class.
    idle_kinds: usize,
    names: Vec<Known>,
    free_names: Vec<u32>,
    by_name: BTreeMap<Name, u32>,
    /// How many names are not connected.
    idle_names: usize,
    pairs: usize,
    forgettings: u64,
    /// Counts uses, to know what was idle longest.
    clock: u64,
    /// How many skills are quarantined.
    quarantines: u32,
    /// How many kinds take long.
    long_kinds: u32,
}

#[derive(Debug, Default)]
struct Kind {
    name: Name,
    /// Classes of it.
    classes: u32,
    used: u64,
    times: RunTimes,
    /// Whether its tasks are expected to take long.
    long: bool,
}

/// A worker by its name.
#[derive(Debug, Default)]
struct Known {
    name: Name,
    connections: u32,
    used: u64,
    attempts: u64,
    success_rate: f64,
    /// By the number of the kind.
    skills: Vec<Skill>,
}

/// How a worker does with one kind.
#[derive(Debug)]
pub(crate) struct Skill {
    kind: u32,
    pub(crate) attempts: u64,
    pub(crate) success_rate: f64,
    /// The logarithm of how much longer it takes than expected of the kind, and the results behind that.
    pace: f64,
    measured: u32,
    pub(crate) results: Results,
    pub(crate) quarantine: Option<Quarantine>,
}

impl Learning {
    /// The number of a kind, for one more class.
    pub(crate) fn use_kind(&mut self, name: &Name) -> u32 {
        self.clock += 1;
        let index = match self.by_kind.get(name) {
            Some(index) => {
                self.idle_kinds -= usize::from(self.kinds[*index as usize].classes == 0);
                *index
            }
            None => {
                if self.is_time_to_forget_kinds() {
                    self.forget_kinds();
                }
                let index = self.free_kinds.pop().unwrap_or_else(|| {
                    self.kinds.push(Kind::default());
                    self.kinds.len() as u32 - 1
                });
                self.by_kind.insert(name.clone(), index);
                self.kinds[index as usize] = Kind { name: name.clone(), ..Kind::default() };
                index
            }
        };
        let kind = &mut self.kinds[index as usize];
        kind.classes += 1;
        kind.used = self.clock;
        index
    }

    pub(crate) fn leave_kind(&mut self, index: u32) {
        let kind = &mut self.kinds[index as usize];
        kind.classes -= 1;
        self.idle_kinds += usize::from(kind.classes == 0);
    }

    /// Whether there are too many kinds. To forget goes through all of them, so it must be worth it: where most have
    /// classes, and so cannot be forgotten, every new one would go through all in vain.
    fn is_time_to_forget_kinds(&self) -> bool {
        let kinds = self.by_kind.len();
        kinds >= KINDS_MAX && self.idle_kinds > kinds / 4
    }

    /// Makes room for kinds: the half of those without a class that was idle longer goes.
    fn forget_kinds(&mut self) {
        let mut idle: Vec<(u64, u32)> = self
            .by_kind
            .values()
            .map(|index| (self.kinds[*index as usize].used, *index))
            .filter(|(_, index)| self.kinds[*index as usize].classes == 0)
            .collect();
        idle.sort_unstable();
        idle.truncate(idle.len().div_ceil(2));
        self.idle_kinds -= idle.len();
        let mut gone: Vec<u32> = idle.into_iter().map(|(_, index)| index).collect();
        gone.sort_unstable();
        for known in &mut self.names {
            let is_gone = |skill: &Skill| gone.binary_search(&skill.kind).is_ok();
            self.quarantines -= known
                .skills
                .iter()
                .filter(|skill| is_gone(skill) && skill.quarantine.is_some())
                .count() as u32;
            let before = known.skills.len();
            known.skills.retain(|skill| !is_gone(skill));
            self.pairs -= before - known.skills.len();
        }
        for index in gone {
            let kind = std::mem::take(&mut self.kinds[index as usize]);
            self.long_kinds -= u32::from(kind.long);
            self.by_kind.remove(&kind.name);
            self.free_kinds.push(index);
        }
    }

    /// The number of a worker's name, for one more connection.
    pub(crate) fn meet(&mut self, name: &Name) -> u32 {
        self.clock += 1;
        let index = match self.by_name.get(name) {
            Some(index) => {
                self.idle_names -= usize::from(self.names[*index as usize].connections == 0);
                *index
            }
            None => {
                if self.by_name.len() >= NAMES_MAX {
                    self.forget_names();
                }
                let index = self.free_names.pop().unwrap_or_else(|| {
                    self.names.push(Known::default());
                    self.names.len() as u32 - 1
                });
                self.by_name.insert(name.clone(), index);
                self.names[index as usize] =
                    Known { name: name.clone(), success_rate: 1.0, ..Known::default() };
                index
            }
        };
        let known = &mut self.names[index as usize];
        known.connections += 1;
        known.used = self.clock;
        index
    }

    pub(crate) fn part(&mut self, index: u32) {
        self.clock += 1;
        let known = &mut self.names[index as usize];
        known.connections -= 1;
        known.used = self.clock;
        self.idle_names += usize::from(known.connections == 0);
    }

    /// Forgets an eighth of the names that are not connected, those that were idle longest; at least one.
    fn forget_names(&mut self) {
        if self.idle_names == 0 {
            return;
        }
        let mut idle: Vec<(u64, u32)> = self
            .by_name
            .values()
            .map(|index| (self.names[*index as usize].used, *index))
            .filter(|(_, index)| self.names[*index as usize].connections == 0)
            .collect();
        idle.sort_unstable();
        idle.truncate(idle.len().div_ceil(8));
        self.idle_names -= idle.len();
        self.forgettings += u64::from(!idle.is_empty());
        for (_, index) in idle {
            let known = std::mem::take(&mut self.names[index as usize]);
            self.by_name.remove(&known.name);
            self.pairs -= known.skills.len();
            self.quarantines -=
                known.skills.iter().filter(|skill| skill.quarantine.is_some()).count() as u32;
            self.free_names.push(index);
        }
    }

    pub(crate) fn skill(&self, known: u32, kind: u32) -> Option<&Skill> {
        let skills = &self.names.get(known as usize)?.skills;
        let place = skills.binary_search_by_key(&kind, |skill| skill.kind).ok()?;
        Some(&skills[place])
    }

    pub(crate) fn skill_mut(&mut self, known: u32, kind: u32) -> Option<&mut Skill> {
        let skills = &mut self.names.get_mut(known as usize)?.skills;
        let place = skills.binary_search_by_key(&kind, |skill| skill.kind).ok()?;
        Some(&mut skills[place])
    }

    /// The same, made if there is room.
    fn skill_or_new(&mut self, known: u32, kind: u32) -> Option<&mut Skill> {
        let search = |known: &Known| known.skills.binary_search_by_key(&kind, |skill| skill.kind);
        let place = match search(&self.names[known as usize]) {
            Ok(place) => place,
            Err(place) => {
                if self.pairs >= PAIRS_MAX {
                    self.forget_names();
                }
                if self.pairs >= PAIRS_MAX {
                    return None;
                }
                self.pairs += 1;
                self.names[known as usize].skills.insert(place, Skill::new(kind));
                place
            }
        };
        Some(&mut self.names[known as usize].skills[place])
    }

    /// Adds a result, and how long it took where that is known.
    fn add(&mut self, known: u32, kind: u32, seen: Seen, run: Option<(Option<u64>, u64)>) {
        self.clock += 1;
        let worked = f64::from(u8::from(seen == Seen::Worked));
        let whole = &mut self.names[known as usize];
        whole.used = self.clock;
        whole.attempts += 1;
        whole.success_rate += ALPHA * (worked - whole.success_rate);
        let expected = run.and_then(|(hint, run_us)| {
            let kind = &mut self.kinds[kind as usize];
            let expected = kind.times.expect(hint);
            kind.times.add(hint, run_us);
            let long = kind.times.expect(None).is_some_and(|log| us_of(log) > LONG_US);
            let was = std::mem::replace(&mut kind.long, long);
            self.long_kinds = self.long_kinds + u32::from(long) - u32::from(was);
            expected.map(|expected| log_us(run_us) - expected)
        });
        let Some(skill) = self.skill_or_new(known, kind) else { return };
        skill.attempts += 1;
        skill.success_rate += ALPHA * (worked - skill.success_rate);
        skill.results.add(seen);
        if let Some(off) = expected {
            skill.measured = skill.measured.saturating_add(1);
            let alpha = (1.0 / f64::from(skill.measured)).max(ALPHA);
            skill.pace = (skill.pace + alpha * (off - skill.pace)).clamp(-PACE_MAX, PACE_MAX);
        }
    }

    /// How often names were forgotten: their numbers may stand for others since.
    pub(crate) fn forgettings(&self) -> u64 {
        self.forgettings
    }

    pub(crate) fn name(&self, known: u32) -> &Name {
        &self.names[known as usize].name
    }

    /// The success rate of a worker with a kind; over all kinds if it has not tried this one; 1 before the first.
    pub(crate) fn success_rate(&self, known: u32, kind: u32) -> f64 {
        match self.skill(known, kind) {
            Some(skill) => skill.success_rate,
            None => self.overall(known),
        }
    }

    /// The success rate of a worker over all kinds.
    pub(crate) fn overall(&self, known: u32) -> f64 {
        self.names[known as usize].success_rate
    }

    /// The logarithm of how much longer a worker takes for a kind than is expected.
    pub(crate) fn pace(&self, known: u32, kind: u32) -> f64 {
        self.skill(known, kind).map_or(0.0, |skill| skill.pace)
    }

    /// How many kinds take long.
    pub(crate) fn long_kinds(&self) -> u32 {
        self.long_kinds
    }

    /// Whether tasks of a kind are expected to take long; not before there is a result.
    pub(crate) fn takes_long(&self, kind: u32) -> bool {
        self.kinds[kind as usize].long
    }

    pub(crate) fn quarantines(&self) -> u32 {
        self.quarantines
    }

    /// Quarantines a skill, or lets it take tasks again.
    pub(crate) fn set_quarantine(&mut self, known: u32, kind: u32, quarantine: Option<Quarantine>) {
        let Some(skill) = self.skill_mut(known, kind) else { return };
        let is = quarantine.is_some();
        let was = std::mem::replace(&mut skill.quarantine, quarantine).is_some();
        if was && !is {
            skill.results = Results::default();
        }
        self.quarantines = self.quarantines + u32::from(is) - u32::from(was);
    }

    /// Names that are quarantined for a kind.
    pub(crate) fn quarantined_at(&self, kind: u32) -> Vec<u32> {
        let quarantined = self.by_name.values().copied().filter(|known| {
            self.skill(*known, kind).is_some_and(|skill| skill.quarantine.is_some())
        });
        quarantined.collect()
    }

    /// How long tasks of a kind run; nothing before one has ended.
    pub(crate) fn run_time(&self, kind: u32) -> Option<RunTime> {
        let (mean_us, p95_us) = self.kinds[kind as usize].times.spread()?;
        Some(RunTime { mean_sec: mean_us / 1e6, p95_sec: p95_us / 1e6 })
    }

    fn expected_us(&self, kind: u32, hint: Option<u64>, pace: f64) -> Option<u64> {
        self.kinds[kind as usize].times.expect(hint).map(|log| us_of(log + pace))
    }
}

impl Skill {
    fn new(kind: u32) -> Self {
        Self {
            kind,
            attempts: 0,
            success_rate: 1.0,
            pace: 0.0,
            measured: 0,
            results: Results::default(),
            quarantine: None,
        }
    }
}

impl Scheduler {
    /// An attempt ended on the worker that still holds it. Tells how long it ran, in microseconds, if it worked and that
    /// is known.
    pub(crate) fn learn(&mut self, now: Timestamp, row: Row, seen: Seen) -> Option<u64> {
        let task = &self.tasks[row];
        if task.worker == NOBODY {
            return None;
        }
        let known = self.workers.get(task.worker).known;
        let kind = self.fits.get(task.class).kind;
        // What ended while no server ran is told late.
        let seen_whole = task.token.epoch() == self.options.epoch;
        let measured =
            seen == Seen::Worked && seen_whole && task.begun != QUEUED && task.begun != UNMEASURED;
        let ran_us = measured.then(|| now.since(task.begun).as_micros() as u64);
        let run = ran_us.map(|ran_us| (task.spec.cost_hint, ran_us));
        let was_long = self.learning.takes_long(kind);
        self.learning.add(known, kind, seen, run);
        if was_long && !self.learning.takes_long(kind) {
            self.became_short(kind);
        }
        self.judge(now, row, seen);
        ran_us
    }

    /// How long a task is expected to run, in microseconds, on no worker in particular.
    pub(crate) fn estimate_us(&self, spec: &TaskSpec) -> Option<u64> {
        let kind = *self.learning.by_kind.get(&spec.kind)?;
        self.learning.expected_us(kind, spec.cost_hint, 0.0)
    }

    /// How long tasks of this class are expected to run, in microseconds.
    pub(crate) fn run_us_of(&self, class: u32) -> Option<u64> {
        self.learning.expected_us(self.fits.get(class).kind, None, 0.0)
    }

    /// How long a task of this class is expected to run on this worker, in microseconds.
    pub(crate) fn estimate_on_us(
        &self,
        worker: u32,
        class: u32,
        cost_hint: Option<u64>,
    ) -> Option<u64> {
        let kind = self.fits.get(class).kind;
        let pace = self.learning.pace(self.workers.get(worker).known, kind);
        self.learning.expected_us(kind, cost_hint, pace)
    }

    /// How a worker does, kind by kind.
    pub(crate) fn skills_of(&self, known: u32) -> Vec<SkillView> {
        let views = self.learning.names[known as usize].skills.iter().map(|skill| SkillView {
            kind: self.learning.kinds[skill.kind as usize].name.clone(),
            attempts: skill.attempts,
            success_rate: skill.success_rate,
            run_ms: self
                .learning
                .expected_us(skill.kind, None, skill.pace)
                .map(|us| us as f64 / 1_000.0),
            quarantined_until: skill.quarantine.map(|quarantine| quarantine.until),
        });
        views.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_learnt_of_a_name_is_kept_until_it_is_idle_longest_and_room_is_needed() {
        let mut learning = Learning::default();
        let kind = learning.use_kind(&"k".into());
        for number in 0..2 * NAMES_MAX {
            let known = learning.meet(&Name::from(format!("w{number}")));
            learning.add(known, kind, Seen::Failed, None);
            learning.part(known);
        }
        assert!(learning.by_name.len() <= NAMES_MAX && learning.pairs <= PAIRS_MAX);
        assert_eq!(learning.by_name.len(), learning.pairs);
        let last = learning.meet(&Name::from(format!("w{}", 2 * NAMES_MAX - 1)));
        assert_eq!(learning.success_rate(last, kind), 0.9);
        let first = learning.meet(&"w0".into());
        assert_eq!(learning.success_rate(first, kind), 1.0, "it was forgotten");
    }

    #[test]
    fn kinds_without_a_class_make_room_for_new_ones() {
        let mut learning = Learning::default();
        let known = learning.meet(&"w".into());
        let kept = learning.use_kind(&"kept".into());
        for number in 0..2 * KINDS_MAX {
            let kind = learning.use_kind(&Name::from(format!("k{number}")));
            learning.add(known, kind, Seen::Worked, Some((None, 5)));
            learning.leave_kind(kind);
        }
        assert!(learning.by_kind.len() <= KINDS_MAX && learning.pairs <= PAIRS_MAX);
        assert_eq!(learning.by_kind["kept"], kept);
    }

    #[test]
    fn kinds_in_use_are_not_searched_in_vain() {
        let mut learning = Learning::default();
        let mut kinds = Vec::new();
        for number in 0..3 * KINDS_MAX {
            assert!(!learning.is_time_to_forget_kinds(), "none of {number} kinds is idle");
            kinds.push(learning.use_kind(&Name::from(format!("k{number}"))));
        }
        for kind in kinds {
            learning.leave_kind(kind);
        }
        assert!(learning.is_time_to_forget_kinds());
        // Each time half of what is idle goes, so that searches are rare.
        let mut searches = 0;
        for number in 0..4 * KINDS_MAX {
            searches += usize::from(learning.is_time_to_forget_kinds());
            let kind = learning.use_kind(&Name::from(format!("n{number}")));
            learning.leave_kind(kind);
        }
        assert!(searches < 20, "{searches}");
        assert!(learning.by_kind.len() <= KINDS_MAX);
        let idle = learning.kinds.iter().filter(|kind| !kind.name.is_empty() && kind.classes == 0);
        assert_eq!(learning.idle_kinds, idle.count());
    }

    #[test]
    fn a_slow_worker_is_told_from_a_fast_one() {
        let mut learning = Learning::default();
        let kind = learning.use_kind(&"k".into());
        let (fast, slow) = (learning.meet(&"fast".into()), learning.meet(&"slow".into()));
        for _ in 0..200 {
            learning.add(fast, kind, Seen::Worked, Some((None, 1_000)));
            learning.add(slow, kind, Seen::Worked, Some((None, 4_000)));
        }
        let ratio = (learning.pace(slow, kind) - learning.pace(fast, kind)).exp();
        assert!((3.5..4.5).contains(&ratio), "{ratio}");
        let on_slow = learning.expected_us(kind, None, learning.pace(slow, kind)).unwrap();
        assert!((3_200..4_800).contains(&on_slow), "{on_slow}");
    }
}
