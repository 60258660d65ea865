//! What comes, waits, runs and ends in each class, counted as tasks move, and what workers offer and carry: what a pool
//! of workers is scaled by.
//!
//! Nothing here walks tasks: a look costs as much as there are classes, streams and workers. Which of them belong to
//! which pool is not known here.
//!
//! A task *arrives* each time it becomes ready to run for the first time, by its submission, its time, its dependencies
//! or a retry; what is given back, and what comes back from the store, arrived before. An attempt *ends* when its task
//! leaves its worker and is not given back.

use std::collections::BTreeMap;

use divvy_types::{Name, TaskState, Timestamp};

use crate::Scheduler;
use crate::places::QUEUED;
use crate::streams::NONE;
use crate::table::{NOBODY, Row};
use crate::workers::Worker;

/// Deadlines are counted in steps of about a second: this many bits of microseconds.
const DUE_BITS: u32 = 20;

/// The figures of one class.
#[derive(Clone, Debug, Default)]
pub(crate) struct Traffic {
    arrived: u64,
    ended: u64,
    ready: u64,
    leased: u64,
    /// Of these, how many wait in the line of their worker.
    lined: u64,
    spilled: u64,
    /// Ready tasks with a deadline, by its step.
    due: BTreeMap<u64, u64>,
}

impl Traffic {
    fn enter(&mut self, state: TaskState, deadline: Option<Timestamp>) {
        match state {
            TaskState::Ready => {
                self.ready += 1;
                if let Some(deadline) = deadline {
                    *self.due.entry(deadline.0 >> DUE_BITS).or_default() += 1;
                }
            }
            TaskState::Leased => self.leased += 1,
            _ => {}
        }
    }

    fn leave(&mut self, state: TaskState, deadline: Option<Timestamp>) {
        match state {
            TaskState::Ready => {
                self.ready -= 1;
                let Some(step) = deadline.map(|deadline| deadline.0 >> DUE_BITS) else { return };
                if let Some(count) = self.due.get_mut(&step) {
                    *count -= 1;
                    if *count == 0 {
                        self.due.remove(&step);
                    }
                }
            }
            TaskState::Leased => self.leased -= 1,
            _ => {}
        }
    }
}

/// How tasks of one queue, kind and needs come and go.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassLoad<'a> {
    /// Their queue.
    pub queue: &'a Name,
    /// Their kind.
    pub kind: &'a Name,
    /// What they need of a worker.
    pub needs: &'a [Name],
    /// How many became ready since the start.
    pub arrived: u64,
    /// How many attempts ended since the start.
    pub ended: u64,
    /// How many wait for a slot, in memory, in the store and at workers.
    pub waiting: u64,
    /// How many of these no worker could have now: a limit keeps them, or their queue is paused.
    pub held: u64,
    /// Whether their queue is paused.
    pub paused: bool,
    /// How many have presumably begun.
    pub running: u64,
    /// Since when the one that has been ready longest has been so.
    pub oldest: Option<Timestamp>,
    /// How long they run; nothing before one has ended.
    pub run: Option<RunTime>,
    due: &'a BTreeMap<u64, u64>,
}

impl ClassLoad<'_> {
    /// Ready tasks with a deadline, by rising deadline: by when, and how many. A deadline is told up to a second early.
    pub fn due(&self) -> impl Iterator<Item = (Timestamp, u64)> {
        self.due.iter().map(|(step, count)| (Timestamp(step << DUE_BITS), *count))
    }
}

/// How long tasks of a kind run, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RunTime {
    /// On average.
    pub mean_sec: f64,
    /// What 95 of 100 stay below.
    pub p95_sec: f64,
}

/// What a connected worker offers and carries.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkerTraffic<'a> {
    /// Its name.
    pub name: &'a Name,
    /// What it has.
    pub capabilities: &'a [Name],
    /// Kinds that it runs, and how many tasks at once of each group of kinds.
    pub tiers: Vec<(&'a [Name], u32)>,
    /// Tasks that it runs.
    pub running: u32,
    /// How much of it these take, from 0 to 1: that of its fullest group of kinds.
    pub busy: f64,
    /// Tasks that wait at it.
    pub queued: u32,
    /// Affinity keys whose last task it had.
    pub keys: u32,
    /// Whether it takes no more tasks.
    pub draining: bool,
    /// Whether somebody lets it rest.
    pub paused: bool,
    /// When it connected.
    pub since: Timestamp,
}

impl Scheduler {
    /// How many tasks became ready since the start; it grows when there is something new to run.
    pub fn arrivals(&self) -> u64 {
        self.arrivals
    }

    /// Each class with its figures, in no particular order. Where retries avoid a worker, one sort of tasks may come
    /// several times.
    pub fn class_loads(&self) -> Vec<ClassLoad<'_>> {
        let mut oldest: BTreeMap<u32, Timestamp> = BTreeMap::new();
        let mut limited: BTreeMap<u32, u64> = BTreeMap::new();
        for (_, stream) in self.streams.iter() {
            if stream.waits_on != NONE {
                *limited.entry(stream.id.class).or_default() += stream.live as u64;
            }
            if let Some(ready_at) = stream.oldest(&self.tasks) {
                let least = oldest.entry(stream.id.class).or_insert(ready_at);
                *least = ready_at.min(*least);
            }
        }
        self.classes
            .iter()
            .map(|(index, class)| {
                let traffic = &class.traffic;
                let paused = self.queues.get(class.queue).paused;
                let limited = limited.get(&index).copied().unwrap_or_default();
                ClassLoad {
                    queue: &class.queue_name,
                    kind: &class.kind,
                    needs: &class.needs,
                    arrived: traffic.arrived,
                    ended: traffic.ended,
                    waiting: traffic.ready + traffic.spilled + traffic.lined,
                    held: if paused { traffic.ready + traffic.spilled } else { limited },
                    paused,
                    running: traffic.leased - traffic.lined,
                    oldest: oldest.get(&index).copied(),
                    run: self.learning.run_time(self.fits.get(index).kind),
                    due: &traffic.due,
                }
            })
            .collect()
    }

    /// Each connected worker, with what it offers and carries.
    pub fn worker_traffic(&self) -> Vec<WorkerTraffic<'_>> {
        let keys = self.placed.keys_by_worker();
        let whole = self.workers.whole();
        whole
            .map(|(worker, tiers)| {
                let profile = |tier: &Worker| &self.workers.group(tier.group).profile;
                let busy =
                    tiers.iter().map(|tier| f64::from(tier.begun) / f64::from(tier.slots.max(1)));
                WorkerTraffic {
                    name: &worker.name,
                    capabilities: &profile(worker).capabilities,
                    tiers: tiers
                        .iter()
                        .map(|tier| (profile(tier).kinds.as_slice(), tier.slots.max(1)))
                        .collect(),
                    running: tiers.iter().map(|tier| tier.begun).sum(),
                    busy: busy.fold(0.0, f64::max).min(1.0),
                    queued: tiers.iter().map(|tier| tier.queue()).sum(),
                    keys: keys.get(&worker.known).copied().unwrap_or_default(),
                    draining: tiers.iter().any(|tier| tier.draining),
                    paused: worker.paused,
                    since: worker.connected_at,
                }
            })
            .collect()
    }

    /// A task came into memory in this state.
    pub(crate) fn traffic_added(
        &mut self,
        class: u32,
        state: TaskState,
        deadline: Option<Timestamp>,
        is_new: bool,
    ) {
        let traffic = &mut self.classes.get_mut(class).traffic;
        traffic.enter(state, deadline);
        if is_new && state == TaskState::Ready {
            traffic.arrived += 1;
            self.arrivals += 1;
        }
    }

    /// A task left memory out of this state.
    pub(crate) fn traffic_removed(
        &mut self,
        class: u32,
        state: TaskState,
        deadline: Option<Timestamp>,
    ) {
        let traffic = &mut self.classes.get_mut(class).traffic;
        traffic.leave(state, deadline);
        traffic.ended += u64::from(state == TaskState::Leased);
    }

    /// A task went from one state to another.
    pub(crate) fn traffic_moved(&mut self, row: Row, from: TaskState, to: TaskState) {
        let task = &self.tasks[row];
        let (class, deadline) = (task.class, task.spec.deadline);
        let traffic = &mut self.classes.get_mut(class).traffic;
        traffic.leave(from, deadline);
        traffic.enter(to, deadline);
        match (from, to) {
            (TaskState::Leased, TaskState::Ready | TaskState::Leased) => {}
            (TaskState::Leased, _) => traffic.ended += 1,
            (_, TaskState::Ready) => {
                traffic.arrived += 1;
                self.arrivals += 1;
            }
            _ => {}
        }
    }

    /// A task that became ready had been so before.
    pub(crate) fn traffic_not_new(&mut self, class: u32) {
        self.classes.get_mut(class).traffic.arrived -= 1;
        self.arrivals -= 1;
    }

    /// A task counts for another class from now on.
    pub(crate) fn traffic_changed_class(&mut self, row: Row, before: u32, after: u32) {
        let task = &self.tasks[row];
        let (state, deadline) = (task.state, task.spec.deadline);
        let lined =
            task.state == TaskState::Leased && task.worker != NOBODY && task.begun == QUEUED;
        for (class, enters) in [(before, false), (after, true)] {
            let traffic = &mut self.classes.get_mut(class).traffic;
            if enters {
                traffic.enter(state, deadline);
                traffic.lined += u64::from(lined);
            } else {
                traffic.leave(state, deadline);
                traffic.lined -= u64::from(lined);
            }
        }
    }

    /// A task joined the line of its worker, or left it.
    pub(crate) fn traffic_lined(&mut self, class: u32, joins: bool) {
        let lined = &mut self.classes.get_mut(class).traffic.lined;
        *lined = if joins { *lined + 1 } else { *lined - 1 };
    }

    /// So many more or fewer tasks of a class wait in the store.
    pub(crate) fn traffic_spilled(&mut self, class: u32, before: u64, after: u64) {
        let traffic = &mut self.classes.get_mut(class).traffic;
        traffic.spilled = traffic.spilled + after - before;
    }

    /// A new task of a class went to the store.
    pub(crate) fn traffic_arrived(&mut self, class: u32) {
        self.classes.get_mut(class).traffic.arrived += 1;
        self.arrivals += 1;
    }
}
