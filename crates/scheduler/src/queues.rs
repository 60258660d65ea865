//! Queues: their names, whether they are paused, and how many tasks are where. Counts are kept up to date with each
//! change, never recounted.

use std::collections::BTreeMap;

use divvy_types::settings::{FairBy, QueueSettings};
use divvy_types::{Name, TaskState};

use crate::tally::Tally;
use crate::view::Counts;

/// What one start costs its queue, before it is divided by the weight.
const QUEUE_COST: u64 = 1 << 20;

#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) name: Name,
    pub(crate) paused: bool,
    pub(crate) counts: Counts,
    /// What was done in it.
    pub(crate) tally: Box<Tally>,
    /// Classes that belong to it.
    pub(crate) classes: u32,
    /// How far it has got with its share.
    pub(crate) tag: u64,
    pub(crate) weight: u32,
    pub(crate) fair_by: FairBy,
}

/// What a task does about the line for a slot at its worker.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Line {
    Joined,
    Left,
}

#[derive(Debug, Default)]
pub(crate) struct Queues {
    list: Vec<Option<Queue>>,
    free: Vec<u32>,
    by_name: BTreeMap<Name, u32>,
    pub(crate) total: Counts,
    settings: BTreeMap<Name, QueueSettings>,
    /// Whether any queue has a weight; without, queues are served by age.
    pub(crate) weighted: bool,
    virtual_time: u64,
}

impl Queues {
    pub(crate) fn intern(&mut self, name: &Name) -> u32 {
        if let Some(index) = self.by_name.get(name) {
            return *index;
        }
        let own = self.settings.get(name);
        let queue = Queue {
            name: name.clone(),
            paused: false,
            counts: Counts::default(),
            tally: Box::default(),
            classes: 0,
            tag: self.virtual_time,
            weight: own.and_then(|own| own.weight).unwrap_or(1),
            fair_by: own.map(|own| own.fair_by).unwrap_or_default(),
        };
        let index = self.free.pop().unwrap_or_else(|| {
            self.list.push(None);
            self.list.len() as u32 - 1
        });
        self.list[index as usize] = Some(queue);
        self.by_name.insert(name.clone(), index);
        index
    }

    pub(crate) fn find(&self, name: &str) -> Option<&Queue> {
        self.by_name.get(name).map(|index| self.get(*index))
    }

    pub(crate) fn get(&self, index: u32) -> &Queue {
        self.list[index as usize].as_ref().expect("a queue in use")
    }

    pub(crate) fn get_mut(&mut self, index: u32) -> &mut Queue {
        self.list[index as usize].as_mut().expect("a queue in use")
    }

    /// Forgets a queue that has neither classes nor a pause.
    pub(crate) fn drop_if_unused(&mut self, index: u32) -> bool {
        let queue = self.get(index);
        if queue.classes == 0 && !queue.paused {
            let name = queue.name.clone();
            self.by_name.remove(&name);
            self.list[index as usize] = None;
            self.free.push(index);
            return true;
        }
        false
    }

    /// Uses these settings from now on.
    pub(crate) fn redefine(&mut self, settings: &BTreeMap<Name, QueueSettings>) {
        self.settings.clone_from(settings);
        self.weighted = settings.values().any(|own| own.weight.is_some());
        for queue in self.list.iter_mut().flatten() {
            let own = self.settings.get(&queue.name);
            queue.weight = own.and_then(|own| own.weight).unwrap_or(1);
            queue.fair_by = own.map(|own| own.fair_by).unwrap_or_default();
        }
    }

    /// The weight of a fair key.
    pub(crate) fn key_weight(&self, queue: u32, key: &Name) -> u32 {
        let own = self.settings.get(&self.get(queue).name);
        own.and_then(|own| own.fair_weights.get(key)).copied().unwrap_or(1)
    }

    /// A queue that had nothing ready has something: it starts level with the others.
    pub(crate) fn activate(&mut self, index: u32) {
        let time = self.virtual_time;
        let queue = self.get_mut(index);
        queue.tag = queue.tag.max(time);
    }

    /// A task of a queue starts.
    pub(crate) fn charge(&mut self, index: u32) {
        if !self.weighted {
            return;
        }
        let queue = self.get_mut(index);
        let tag = queue.tag;
        queue.tag = tag.saturating_add(QUEUE_COST / u64::from(queue.weight.max(1)));
        self.virtual_time = self.virtual_time.max(tag);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Queue)> {
        self.by_name.values().map(|index| (*index, self.get(*index)))
    }

    pub(crate) fn add(&mut self, queue: u32, state: TaskState) {
        for counts in [
            &mut self.total,
            &mut self.list[queue as usize].as_mut().expect("a queue in use").counts,
        ] {
            *counts.of(state) += 1;
        }
    }

    pub(crate) fn subtract(&mut self, queue: u32, state: TaskState) {
        for counts in [
            &mut self.total,
            &mut self.list[queue as usize].as_mut().expect("a queue in use").counts,
        ] {
            *counts.of(state) -= 1;
        }
    }

    /// A task of a queue went from one state to another.
    pub(crate) fn moved(&mut self, queue: u32, from: TaskState, to: TaskState) {
        for counts in [
            &mut self.total,
            &mut self.list[queue as usize].as_mut().expect("a queue in use").counts,
        ] {
            *counts.of(from) -= 1;
            *counts.of(to) += 1;
        }
    }

    /// A task of a queue that a worker has joined the line for a slot there, or left it.
    pub(crate) fn queued(&mut self, queue: u32, line: Line) {
        for counts in [
            &mut self.total,
            &mut self.list[queue as usize].as_mut().expect("a queue in use").counts,
        ] {
            match line {
                Line::Joined => counts.queued += 1,
                Line::Left => counts.queued -= 1,
            }
        }
    }

    /// Sets how many tasks of a queue wait in the store, given how many of a lane did and do.
    pub(crate) fn spilled(&mut self, queue: u32, before: u64, after: u64) {
        for counts in [
            &mut self.total,
            &mut self.list[queue as usize].as_mut().expect("a queue in use").counts,
        ] {
            counts.spilled = counts.spilled + after - before;
        }
    }
}
