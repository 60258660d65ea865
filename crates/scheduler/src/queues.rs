//! Queues: their names, whether they are paused, and how many tasks are where. Counts are kept up to date with each
//! change, never recounted.

use std::collections::BTreeMap;

use divvy_types::{Name, TaskState};

use crate::view::Counts;

#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) name: Name,
    pub(crate) paused: bool,
    pub(crate) counts: Counts,
    /// Classes that belong to it.
    pub(crate) classes: u32,
}

#[derive(Debug, Default)]
pub(crate) struct Queues {
    list: Vec<Option<Queue>>,
    free: Vec<u32>,
    by_name: BTreeMap<Name, u32>,
    pub(crate) total: Counts,
}

impl Queues {
    pub(crate) fn intern(&mut self, name: &Name) -> u32 {
        if let Some(index) = self.by_name.get(name) {
            return *index;
        }
        let queue =
            Queue { name: name.clone(), paused: false, counts: Counts::default(), classes: 0 };
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
    pub(crate) fn drop_if_unused(&mut self, index: u32) {
        let queue = self.get(index);
        if queue.classes == 0 && !queue.paused {
            let name = queue.name.clone();
            self.by_name.remove(&name);
            self.list[index as usize] = None;
            self.free.push(index);
        }
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
