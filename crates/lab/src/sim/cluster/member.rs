//! Decides what a simulated worker does with what it is told, as a real one would: it keeps a waiting list by priority,
//! runs as many tasks as it has slots, and gives back what it has not begun. Light tasks take no slot and begin at once:
//! the scheduler grants no more of them than there are places.
//!
//! Knows nothing of the server and of time beyond what it is told.

use std::collections::{BTreeMap, VecDeque};

use divvy_types::spec::PRIORITY_MAX;
use divvy_types::{Token, WorkerKey};

use super::setup::Member;
use super::world::Micros;

/// A worker as it is now.
#[derive(Debug)]
pub(super) struct Bench {
    /// Names the connection; nothing while there is none.
    pub(super) key: Option<WorkerKey>,
    pub(super) speed: f64,
    /// Whether a sign of life is planned.
    pub(super) beating: bool,
    slots: usize,
    /// Slots that are taken.
    taken: usize,
    /// One line per priority, highest first.
    lines: [VecDeque<Attempt>; PRIORITY_MAX as usize],
    /// Light tasks that have not begun.
    light: VecDeque<Attempt>,
    running: BTreeMap<usize, Running>,
    /// The time of all its slots together that went into tasks.
    busy: Micros,
}

/// A task in its hands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Attempt {
    /// The place of the task.
    pub(super) place: usize,
    pub(super) token: Token,
}

#[derive(Clone, Copy, Debug)]
struct Running {
    token: Token,
    since: Micros,
    is_light: bool,
}

impl Bench {
    pub(super) fn new(member: &Member) -> Self {
        Self {
            key: None,
            speed: member.speed,
            beating: false,
            slots: member.slots as usize,
            taken: 0,
            lines: Default::default(),
            light: VecDeque::new(),
            running: BTreeMap::new(),
            busy: 0,
        }
    }

    pub(super) fn holds_any(&self) -> bool {
        !self.running.is_empty() || self.waiting().any(|line| !line.is_empty())
    }

    /// How many tasks it runs in slots.
    pub(super) fn runs(&self) -> usize {
        self.taken
    }

    /// Puts a task on the waiting list.
    pub(super) fn take(&mut self, attempt: Attempt, priority: u8) {
        let line = PRIORITY_MAX - priority.clamp(1, PRIORITY_MAX);
        self.lines[usize::from(line)].push_back(attempt);
    }

    /// Puts a task that takes no slot on the waiting list.
    pub(super) fn take_light(&mut self, attempt: Attempt) {
        self.light.push_back(attempt);
    }

    /// Begins the next task, if there is one and a slot for it.
    pub(super) fn begin(&mut self, now: Micros) -> Option<Attempt> {
        let light = self.light.pop_front();
        let is_light = light.is_some();
        let has_room = self.taken < self.slots;
        let in_line = || self.lines.iter_mut().find_map(VecDeque::pop_front);
        let attempt = light.or_else(|| has_room.then(in_line).flatten())?;
        self.taken += usize::from(!is_light);
        let running = Running { token: attempt.token, since: now, is_light };
        self.running.insert(attempt.place, running);
        Some(attempt)
    }

    /// Ends a task that runs; says whether it did.
    pub(super) fn end(&mut self, now: Micros, attempt: Attempt) -> bool {
        let Some(running) = self.running.get(&attempt.place) else { return false };
        if running.token != attempt.token {
            return false;
        }
        if !running.is_light {
            self.busy += now - running.since;
            self.taken -= 1;
        }
        self.running.remove(&attempt.place);
        true
    }

    /// Takes a task off the waiting list; says whether it was there.
    pub(super) fn give_back(&mut self, attempt: Attempt) -> bool {
        self.lines.iter_mut().chain([&mut self.light]).any(|line| {
            let place = line.iter().position(|waiting| *waiting == attempt);
            place.is_some_and(|place| line.remove(place).is_some())
        })
    }

    /// The time that its slots went into tasks up to now, those included that still run.
    pub(super) fn busy_until(&self, now: Micros) -> Micros {
        let in_slots = self.running.values().filter(|running| !running.is_light);
        self.busy + in_slots.map(|running| now - running.since).sum::<Micros>()
    }

    /// Loses everything; gives the places of the tasks that were running.
    pub(super) fn die(&mut self, now: Micros) -> Vec<usize> {
        self.key = None;
        self.beating = false;
        self.lines.iter_mut().for_each(VecDeque::clear);
        self.light.clear();
        self.taken = 0;
        self.busy = self.busy_until(now);
        std::mem::take(&mut self.running).into_keys().collect()
    }

    fn waiting(&self) -> impl Iterator<Item = &VecDeque<Attempt>> {
        self.lines.iter().chain([&self.light])
    }
}
