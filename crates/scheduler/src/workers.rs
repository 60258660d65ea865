//! Workers, and groups of workers that offer the same.
//!
//! A worker waits when it has a place free and is not draining. Waiting workers are ordered per group by load, then
//! by how long ago that changed, so the next one is found without looking at the others. Groups are compared with
//! each other by bits, 64 at a time; of more than [`CANDIDATES_MAX`] groups that could take a task, that many are
//! compared. Who connects, and over what, is not known here.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use divvy_types::{Name, Seq, Timestamp, Token, WorkerKey};

use crate::bits::Bits;
use crate::classes::Class;
use crate::table::Row;

/// How many groups are compared for one task.
const CANDIDATES_MAX: usize = 64;
/// Notes of ended attempts are dropped beyond twice the running ones and this.
const NOTES_MIN: usize = 64;

#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) key: WorkerKey,
    pub(crate) name: Name,
    pub(crate) group: u32,
    pub(crate) credit: u32,
    pub(crate) slots: u32,
    pub(crate) leased: u32,
    pub(crate) draining: bool,
    pub(crate) connected_at: Timestamp,
    pub(crate) seen_at: Timestamp,
    /// When it got its first lease after it had none: silence before that does not count.
    pub(crate) holding_since: Timestamp,
    pub(crate) finished: u64,
    pub(crate) failed: u64,
    /// Attempts in the order of their grants, not yet recorded as held; ended ones are dropped when they come up.
    pub(crate) young: VecDeque<Note>,
    /// Attempts that are recorded as held.
    pub(crate) old: Vec<Note>,
    pub(crate) held_timer: bool,
    pub(crate) lease_timer: bool,
    /// Whether it is to be offered tasks at the end of this step.
    pub(crate) dirty: bool,
    order: Option<Order>,
}

/// The place among the waiting workers of a group: load, then the number of the last change.
type Order = (u32, u64, u32);

/// An attempt of a worker.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Note {
    pub(crate) at: Timestamp,
    pub(crate) seq: Seq,
    pub(crate) row: Row,
    pub(crate) token: Token,
}

impl Worker {
    pub(crate) fn new(key: WorkerKey, name: Name, group: u32, now: Timestamp) -> Self {
        Self {
            key,
            name,
            group,
            credit: 0,
            slots: 0,
            leased: 0,
            draining: false,
            connected_at: now,
            seen_at: now,
            holding_since: now,
            finished: 0,
            failed: 0,
            young: VecDeque::new(),
            old: Vec::new(),
            held_timer: false,
            lease_timer: false,
            dirty: false,
            order: None,
        }
    }

    pub(crate) fn is_waiting(&self) -> bool {
        !self.draining && self.leased < self.credit
    }

    /// Drops notes of attempts that ended, when there are too many.
    pub(crate) fn tidy_notes(&mut self, runs: impl Fn(&Note) -> bool) {
        while self.young.front().is_some_and(|note| !runs(note)) {
            self.young.pop_front();
        }
        let limit = 2 * self.leased as usize + NOTES_MIN;
        if self.young.len() > limit {
            self.young.retain(&runs);
        }
        if self.old.len() > limit {
            self.old.retain(&runs);
        }
    }
}

/// What a worker offers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Profile {
    pub(crate) queues: Vec<Name>,
    pub(crate) kinds: Vec<Name>,
    pub(crate) capabilities: Vec<Name>,
}

impl Profile {
    pub(crate) fn serves(&self, class: &Class) -> bool {
        self.runs(class.queue_name.as_str(), class.kind.as_str())
            && class.needs.iter().all(|need| self.has(need))
    }

    pub(crate) fn runs(&self, queue: &str, kind: &str) -> bool {
        let lists = |names: &[Name], name: &str| {
            names.binary_search_by(|other| other.as_str().cmp(name)).is_ok()
        };
        lists(&self.kinds, kind) && (self.queues.is_empty() || lists(&self.queues, queue))
    }

    pub(crate) fn has(&self, capability: &Name) -> bool {
        self.capabilities.binary_search(capability).is_ok()
    }
}

/// Workers that offer the same.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) profile: Profile,
    /// Classes that they serve.
    pub(crate) classes: Bits,
    /// Members that are not draining.
    pub(crate) active: BTreeSet<u32>,
    size: u32,
    waiting: BTreeSet<Order>,
}

/// All workers.
#[derive(Debug, Default)]
pub(crate) struct Workers {
    list: Vec<Option<Worker>>,
    free: Vec<u32>,
    by_key: BTreeMap<WorkerKey, u32>,
    groups: Vec<Option<Group>>,
    free_groups: Vec<u32>,
    by_profile: BTreeMap<Profile, u32>,
    /// Groups with waiting workers.
    waiting: Bits,
    changes: u64,
}

impl Workers {
    pub(crate) fn len(&self) -> usize {
        self.by_key.len()
    }

    pub(crate) fn index_of(&self, key: WorkerKey) -> Option<u32> {
        self.by_key.get(&key).copied()
    }

    pub(crate) fn get(&self, index: u32) -> &Worker {
        self.list[index as usize].as_ref().expect("a worker in use")
    }

    pub(crate) fn get_mut(&mut self, index: u32) -> &mut Worker {
        self.list[index as usize].as_mut().expect("a worker in use")
    }

    /// The worker with an index that was noted earlier, if there is one now.
    pub(crate) fn at_mut(&mut self, index: u32) -> Option<&mut Worker> {
        self.list.get_mut(index as usize)?.as_mut()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Worker> {
        self.by_key.values().map(|index| self.get(*index))
    }

    pub(crate) fn indices(&self) -> Vec<u32> {
        self.by_key.values().copied().collect()
    }

    pub(crate) fn group(&self, index: u32) -> &Group {
        self.groups[index as usize].as_ref().expect("a group in use")
    }

    pub(crate) fn group_mut(&mut self, index: u32) -> &mut Group {
        self.groups[index as usize].as_mut().expect("a group in use")
    }

    pub(crate) fn groups(&self) -> impl Iterator<Item = (u32, &Group)> {
        self.groups
            .iter()
            .enumerate()
            .filter_map(|(index, group)| Some((index as u32, group.as_ref()?)))
    }

    /// The group with this profile, and whether it is new.
    pub(crate) fn intern_group(&mut self, profile: Profile) -> (u32, bool) {
        if let Some(index) = self.by_profile.get(&profile) {
            return (*index, false);
        }
        let index = self.free_groups.pop().unwrap_or_else(|| {
            self.groups.push(None);
            self.groups.len() as u32 - 1
        });
        self.by_profile.insert(profile.clone(), index);
        self.groups[index as usize] = Some(Group {
            profile,
            classes: Bits::default(),
            active: BTreeSet::new(),
            size: 0,
            waiting: BTreeSet::new(),
        });
        (index, true)
    }

    pub(crate) fn add(&mut self, worker: Worker) -> u32 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.list.push(None);
            self.list.len() as u32 - 1
        });
        self.by_key.insert(worker.key, index);
        let group = worker.group;
        self.list[index as usize] = Some(worker);
        let group = self.group_mut(group);
        group.size += 1;
        group.active.insert(index);
        self.load_changed(index);
        index
    }

    /// Takes a worker out; returns it, and its group if that was its last member.
    pub(crate) fn remove(&mut self, index: u32) -> (Worker, Option<Group>) {
        self.get_mut(index).draining = true;
        self.load_changed(index);
        let worker = self.list[index as usize].take().expect("a worker in use");
        self.by_key.remove(&worker.key);
        self.free.push(index);
        let group = self.group_mut(worker.group);
        group.active.remove(&index);
        group.size -= 1;
        if group.size > 0 {
            return (worker, None);
        }
        let group = self.groups[worker.group as usize].take();
        self.free_groups.push(worker.group);
        if let Some(group) = &group {
            self.by_profile.remove(&group.profile);
        }
        (worker, group)
    }

    pub(crate) fn drain(&mut self, index: u32) {
        let worker = self.get_mut(index);
        worker.draining = true;
        let group = worker.group;
        self.group_mut(group).active.remove(&index);
        self.load_changed(index);
    }

    /// Puts a worker in its right place among the waiting ones, or takes it from there.
    pub(crate) fn load_changed(&mut self, index: u32) {
        self.changes += 1;
        let changes = self.changes;
        let worker = self.list[index as usize].as_mut().expect("a worker in use");
        let load = (u64::from(worker.leased) << 16) / u64::from(worker.credit.max(1));
        let order = worker.is_waiting().then_some((load as u32, changes, index));
        let before = std::mem::replace(&mut worker.order, order);
        let group_index = worker.group;
        let group = self.groups[group_index as usize].as_mut().expect("a group in use");
        if let Some(before) = before {
            group.waiting.remove(&before);
        }
        if let Some(order) = order {
            group.waiting.insert(order);
        }
        if before.is_some() != order.is_some() {
            let any = !group.waiting.is_empty();
            self.waiting.set(group_index, any);
        }
    }

    /// The waiting worker with the least load among these groups.
    pub(crate) fn least_loaded(&self, groups: &Bits) -> Option<u32> {
        let candidates = groups.common(&self.waiting).take(CANDIDATES_MAX);
        candidates
            .filter_map(|group| self.group(group).waiting.first())
            .min()
            .map(|(_, _, worker)| *worker)
    }
}
