//! Decides what the autoscaler sees of a simulated cluster: what came, what waits, what runs, kind by kind.
//!
//! The same figures that a server has of its tasks. Blocked tasks are not seen before they are ready.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use divvy_autoscale::{Due, KindLoad};
use divvy_types::Name;

use super::draw::Drawn;
use super::world::{Micros, START};

/// Run times of the latest tasks that are kept for the 95th percentile.
const RUNS_MAX: usize = 64;
/// How much the latest run time counts in the mean.
const NEWEST: f64 = 0.02;
/// Steps of waiting tasks by deadline.
const DUE_STEPS_MAX: usize = 32;

/// What is seen.
pub(super) struct Watch {
    kinds: Vec<Kind>,
    /// The kind of each task.
    kind_of: Vec<u32>,
    /// The deadline of each task; the largest number for those that have none.
    due_of: Vec<Micros>,
    states: Vec<State>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Absent,
    Waiting,
    Running,
    Ended,
}

#[derive(Default)]
struct Kind {
    name: Name,
    arrived: u64,
    ended: u64,
    waiting: u64,
    running: u64,
    /// Tasks by when they became ready; those that wait no more are removed late.
    line: VecDeque<(Micros, usize)>,
    /// Waiting tasks by deadline.
    due: BTreeMap<Micros, u64>,
    seen: u64,
    mean_sec: f64,
    runs: VecDeque<f64>,
}

impl Watch {
    pub(super) fn new(kinds: &[Name], drawn: &Drawn) -> Self {
        let place = |kind: &Name| kinds.iter().position(|known| known == kind);
        let kind_of: Vec<u32> =
            drawn.sorts.iter().map(|sort| place(&sort.kind).unwrap_or_default() as u32).collect();
        Self {
            kinds: kinds
                .iter()
                .map(|name| Kind { name: name.clone(), ..Kind::default() })
                .collect(),
            kind_of: drawn.tasks.iter().map(|task| kind_of[task.load]).collect(),
            due_of: (0..drawn.tasks.len())
                .map(|place| drawn.deadline(place).unwrap_or(Micros::MAX))
                .collect(),
            states: vec![State::Absent; drawn.tasks.len()],
        }
    }

    /// A task can run now, or again.
    pub(super) fn waits(&mut self, place: usize, now: Micros) {
        let first = self.states[place] == State::Absent;
        self.leave(place);
        self.states[place] = State::Waiting;
        let due = self.due_of[place];
        let kind = self.kind(place);
        kind.arrived += u64::from(first);
        kind.waiting += 1;
        kind.line.push_back((now, place));
        if due != Micros::MAX {
            *kind.due.entry(due).or_default() += 1;
        }
    }

    pub(super) fn runs(&mut self, place: usize) {
        self.leave(place);
        self.states[place] = State::Running;
        self.kind(place).running += 1;
    }

    /// A task ended; `took` is its run time on a worker of speed 1, if it did its work.
    pub(super) fn ended(&mut self, place: usize, took: Option<Duration>) {
        self.leave(place);
        self.states[place] = State::Ended;
        let kind = self.kind(place);
        kind.ended += 1;
        let Some(took) = took.map(|took| took.as_secs_f64()) else { return };
        kind.seen += 1;
        let weight = NEWEST.max(1.0 / kind.seen as f64);
        kind.mean_sec += (took - kind.mean_sec) * weight;
        if kind.runs.len() == RUNS_MAX {
            kind.runs.pop_front();
        }
        kind.runs.push_back(took);
    }

    /// What there is of each kind now; what came and went is counted anew from here.
    pub(super) fn look(&mut self, now: Micros) -> BTreeMap<Name, KindLoad> {
        let states = &self.states;
        self.kinds.iter_mut().map(|kind| (kind.name.clone(), kind.look(states, now))).collect()
    }

    fn leave(&mut self, place: usize) {
        let (state, due) = (self.states[place], self.due_of[place]);
        let kind = self.kind(place);
        match state {
            State::Waiting => {
                kind.waiting -= 1;
                if let Some(count) = kind.due.get_mut(&due) {
                    *count -= 1;
                    if *count == 0 {
                        kind.due.remove(&due);
                    }
                }
            }
            State::Running => kind.running -= 1,
            State::Absent | State::Ended => {}
        }
    }

    fn kind(&mut self, place: usize) -> &mut Kind {
        &mut self.kinds[self.kind_of[place] as usize]
    }
}

impl Kind {
    fn look(&mut self, states: &[State], now: Micros) -> KindLoad {
        while self.line.front().is_some_and(|(_, place)| states[*place] != State::Waiting) {
            self.line.pop_front();
        }
        let oldest = self.line.front().map_or(0, |(since, _)| now - since);
        let known = self.seen > 0;
        KindLoad {
            arrived: std::mem::take(&mut self.arrived),
            ended: std::mem::take(&mut self.ended),
            waiting: self.waiting,
            running: self.running,
            oldest_sec: oldest as f64 / 1e6,
            run_sec: known.then_some(self.mean_sec),
            run_p95_sec: known.then(|| self.p95()),
            due: self.due_steps(),
        }
    }

    fn p95(&self) -> f64 {
        let mut runs: Vec<f64> = self.runs.iter().copied().collect();
        runs.sort_unstable_by(f64::total_cmp);
        runs[(runs.len() * 95).div_ceil(100).saturating_sub(1)]
    }

    /// Waiting tasks by deadline, each step due at its earliest.
    fn due_steps(&self) -> Vec<Due> {
        let each = self.due.len().div_ceil(DUE_STEPS_MAX).max(1);
        let mut steps: Vec<Due> = Vec::with_capacity(self.due.len().div_ceil(each));
        for (number, (at, tasks)) in self.due.iter().enumerate() {
            match steps.last_mut() {
                Some(step) if number % each != 0 => step.tasks += tasks,
                _ => steps.push(Due { at: START + Duration::from_micros(*at), tasks: *tasks }),
            }
        }
        steps
    }
}
