//! Classes: tasks with equal queue, kind and needs. They share five lanes, one per priority, each first in, first out.
//!
//! A class knows which groups of workers can serve it, as a set of bits, and the list knows which classes have
//! something to run. It does not know tasks beyond their rows. Classes that have been empty for a while are swept
//! when new ones come, so that names made up on the fly do not pile up.

use std::collections::{BTreeMap, VecDeque};

use divvy_types::{Lane, Matching, Name, Seq, TaskSpec, TaskState, Timestamp};

use crate::bits::Bits;
use crate::table::{Row, Tasks};

/// Below this many classes nothing is swept.
const SWEEP_MIN: usize = 1_024;
/// A lane is not worth tidying below this length.
const TIDY_MIN: usize = 64;

#[derive(Debug)]
pub(crate) struct Class {
    hash: u64,
    pub(crate) queue: u32,
    pub(crate) queue_name: Name,
    pub(crate) kind: Name,
    /// Sorted, each once.
    pub(crate) needs: Vec<Name>,
    /// What to do when no worker meets them; as the settings say unless given.
    pub(crate) matching: Option<Matching>,
    /// Lowest priority first.
    pub(crate) bands: [Band; 5],
    /// Groups of workers that serve it.
    pub(crate) groups: Bits,
    /// Tasks in memory and lanes in the store that refer to it.
    pub(crate) uses: u64,
    /// Whether it waits to be looked at for waiting workers.
    pub(crate) dirty: bool,
}

impl Class {
    pub(crate) fn ready(&self) -> usize {
        self.bands.iter().map(|band| band.live).sum()
    }

    fn is_of(&self, spec: &TaskSpec) -> bool {
        let same_needs = if spec.needs.is_empty() {
            self.needs.is_empty()
        } else {
            self.needs == sorted(&spec.needs)
        };
        same_needs
            && self.kind == spec.kind
            && self.queue_name == spec.queue
            && self.matching == spec.matching
    }
}

/// The ready tasks of one class and priority. Entries of tasks that left are skipped when they come up.
#[derive(Debug, Default)]
pub(crate) struct Band {
    entries: VecDeque<Entry>,
    /// Tasks in it, without entries that are void.
    pub(crate) live: usize,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) ready_at: Timestamp,
    pub(crate) seq: Seq,
    pub(crate) row: Row,
}

impl Entry {
    fn holds(&self, tasks: &Tasks) -> bool {
        tasks.at(self.row).is_some_and(|task| {
            task.seq == self.seq && task.state == TaskState::Ready && task.ready_at == self.ready_at
        })
    }
}

impl Band {
    pub(crate) fn push_back(&mut self, entry: Entry) {
        self.entries.push_back(entry);
        self.live += 1;
    }

    pub(crate) fn push_front(&mut self, entry: Entry) {
        self.entries.push_front(entry);
        self.live += 1;
    }

    /// The first task, after void entries before it were dropped.
    pub(crate) fn head(&mut self, tasks: &Tasks) -> Option<Entry> {
        while let Some(entry) = self.entries.front() {
            if entry.holds(tasks) {
                return Some(*entry);
            }
            self.entries.pop_front();
        }
        None
    }

    /// Takes the first entry off; the caller has seen it as [`Band::head`].
    pub(crate) fn pop_head(&mut self) {
        self.entries.pop_front();
        self.live -= 1;
        if self.entries.is_empty() && self.entries.capacity() > TIDY_MIN {
            self.entries = VecDeque::new();
        }
    }

    /// Notes that a task somewhere in the lane left it; its entry is void from now on.
    pub(crate) fn left(&mut self, tasks: &Tasks) {
        self.live -= 1;
        if self.entries.len() > TIDY_MIN && self.entries.len() > 2 * self.live {
            self.entries.retain(|entry| entry.holds(tasks));
            self.entries.shrink_to(2 * self.live);
        }
    }

    /// Entries in order, void ones left out.
    pub(crate) fn iter<'a>(&'a self, tasks: &'a Tasks) -> impl Iterator<Item = &'a Entry> {
        self.entries.iter().filter(|entry| entry.holds(tasks))
    }
}

/// All classes.
#[derive(Debug, Default)]
pub(crate) struct Classes {
    list: Vec<Option<Class>>,
    free: Vec<u32>,
    /// More than one only if two classes have the same hash.
    by_hash: BTreeMap<u64, Vec<u32>>,
    /// Classes with ready tasks in queues that are not paused.
    pub(crate) runnable: Bits,
    last: u32,
    sweep_at: usize,
}

impl Classes {
    /// The class of a spec, if there is one.
    pub(crate) fn find(&mut self, spec: &TaskSpec) -> Option<u32> {
        if let Some(Some(class)) = self.list.get(self.last as usize)
            && class.is_of(spec)
        {
            return Some(self.last);
        }
        let found = self.peek(spec)?;
        self.last = found;
        Some(found)
    }

    /// The same without a note of it.
    pub(crate) fn peek(&self, spec: &TaskSpec) -> Option<u32> {
        let list = self.by_hash.get(&Lane::of(spec).class)?;
        list.iter().copied().find(|index| self.get(*index).is_of(spec))
    }

    /// A new class for a spec that has none.
    pub(crate) fn add(&mut self, spec: &TaskSpec, queue: u32) -> u32 {
        let class = Class {
            hash: Lane::of(spec).class,
            queue,
            queue_name: spec.queue.clone(),
            kind: spec.kind.clone(),
            needs: sorted(&spec.needs),
            matching: spec.matching,
            bands: Default::default(),
            groups: Bits::default(),
            uses: 0,
            dirty: false,
        };
        let hash = class.hash;
        let index = self.free.pop().unwrap_or_else(|| {
            self.list.push(None);
            self.list.len() as u32 - 1
        });
        self.list[index as usize] = Some(class);
        self.by_hash.entry(hash).or_default().push(index);
        index
    }

    pub(crate) fn get(&self, index: u32) -> &Class {
        self.list[index as usize].as_ref().expect("a class in use")
    }

    pub(crate) fn get_mut(&mut self, index: u32) -> &mut Class {
        self.list[index as usize].as_mut().expect("a class in use")
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Class)> {
        self.list
            .iter()
            .enumerate()
            .filter_map(|(index, class)| Some((index as u32, class.as_ref()?)))
    }

    /// Classes that may go, if it is time to sweep.
    pub(crate) fn unused(&mut self) -> Vec<u32> {
        let count = self.list.len() - self.free.len();
        if count < self.sweep_at.max(SWEEP_MIN) {
            return Vec::new();
        }
        let unused: Vec<u32> = self
            .iter()
            .filter(|(_, class)| class.uses == 0 && !class.dirty)
            .map(|(index, _)| index)
            .collect();
        self.sweep_at = 2 * (count - unused.len());
        unused
    }

    pub(crate) fn remove(&mut self, index: u32) -> Class {
        let class = self.list[index as usize].take().expect("a class in use");
        self.runnable.set(index, false);
        self.free.push(index);
        if let Some(list) = self.by_hash.get_mut(&class.hash) {
            list.retain(|other| *other != index);
            if list.is_empty() {
                self.by_hash.remove(&class.hash);
            }
        }
        class
    }
}

/// Needs in a fixed order, each once.
pub(crate) fn sorted(names: &[Name]) -> Vec<Name> {
    let mut names = names.to_vec();
    names.sort_unstable();
    names.dedup();
    names
}
