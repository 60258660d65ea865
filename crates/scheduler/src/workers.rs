//! Workers, and groups of workers that offer the same.
//!
//! A worker whose kinds have slots of their own is several workers here, one per *tier*: each has its kinds, its slots
//! and its queue, and tasks of one are never in the way of another's. They come and go together, under one key.
//!
//! A worker waits when it has a place free and does not rest. Waiting workers are ordered per group, those with a free
//! slot first, by load, then by how long ago that changed, so the next one is found without looking at the others.
//! Groups are compared with each other by bits, 64 at a time; of more than [`CANDIDATES_MAX`] groups that could take a
//! task, that many are compared. Workers whose queues are long are kept in order of that, and those that have any are
//! listed, for `steal`. Who connects, and over what, is not known here.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use divvy_types::{Name, Seq, Timestamp, Token, WorkerKey};

use crate::bits::Bits;
use crate::profile::{Profile, Rates};
use crate::table::Row;

/// How many groups, and how many workers, are compared for one task.
pub(crate) const CANDIDATES_MAX: usize = 64;
/// Notes of ended attempts are dropped beyond twice the running ones and this.
const NOTES_MIN: usize = 64;

/// Names a tier of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TierKey {
    pub(crate) worker: WorkerKey,
    pub(crate) tier: u32,
}

impl TierKey {
    fn all_of(worker: WorkerKey) -> std::ops::RangeInclusive<Self> {
        Self { worker, tier: 0 }..=Self { worker, tier: u32::MAX }
    }
}

/// A worker, or one tier of it.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) key: TierKey,
    pub(crate) name: Name,
    /// Which process of this name it is; empty if it does not say.
    pub(crate) instance: Name,
    /// The number of its name in what is learnt.
    pub(crate) known: u32,
    pub(crate) group: u32,
    pub(crate) credit: u32,
    pub(crate) slots: u32,
    pub(crate) leased: u32,
    /// How many of these have presumably begun.
    pub(crate) begun: u32,
    /// The others, by priority, in the order of their grants; those that left are skipped when they come up.
    pub(crate) lines: [VecDeque<Note>; 5],
    /// How many of these were asked back.
    pub(crate) recalled: u32,
    /// How many tasks of others were asked back for it and are not decided.
    pub(crate) asking: u32,
    /// Before this it does not try to steal again.
    pub(crate) pull_after: Timestamp,
    /// Before this it does not look at short lines again.
    pub(crate) look_after: Timestamp,
    pub(crate) draining: bool,
    /// Somebody lets it rest; that can be undone.
    pub(crate) paused: bool,
    /// Its connection broke; see `away`.
    pub(crate) away_until: Option<Timestamp>,
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
    /// The queue under which it is listed as crowded.
    crowded: Option<u32>,
    /// Whether it is listed as having a queue.
    lined: bool,
}

/// The place among the waiting workers of a group: load, then the number of the last change, then the worker.
pub(crate) type Order = (u32, u64, u32);

/// What is added to the load of a worker without a free slot, so that it comes after all that have one.
const NO_SLOT: u32 = 1 << 31;

/// An attempt of a worker.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Note {
    pub(crate) at: Timestamp,
    pub(crate) seq: Seq,
    pub(crate) row: Row,
    pub(crate) token: Token,
}

impl Worker {
    pub(crate) fn new(
        key: TierKey,
        (name, instance): (Name, Name),
        group: u32,
        now: Timestamp,
    ) -> Self {
        Self {
            key,
            name,
            instance,
            known: 0,
            group,
            credit: 0,
            slots: 0,
            leased: 0,
            begun: 0,
            lines: Default::default(),
            recalled: 0,
            asking: 0,
            pull_after: Timestamp(0),
            look_after: Timestamp(0),
            draining: false,
            paused: false,
            away_until: None,
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
            crowded: None,
            lined: false,
        }
    }

    /// Whether it is offered nothing, however much it could take.
    pub(crate) fn is_resting(&self) -> bool {
        self.draining || self.paused || self.away_until.is_some()
    }

    pub(crate) fn is_waiting(&self) -> bool {
        !self.is_resting() && self.leased < self.credit
    }

    /// Whether it could begin a task at once.
    pub(crate) fn has_free_slot(&self) -> bool {
        self.is_waiting() && self.leased < self.slots.max(1)
    }

    /// Tasks that it was given and has presumably not begun.
    pub(crate) fn queue(&self) -> u32 {
        self.leased - self.begun
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

/// Workers that offer the same.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) profile: Profile,
    pub(crate) rates: Rates,
    /// Classes that they serve.
    pub(crate) classes: Bits,
    /// Members that are offered tasks: neither draining nor paused nor away.
    pub(crate) active: BTreeSet<u32>,
    size: u32,
    waiting: BTreeSet<Order>,
}

/// All workers.
#[derive(Debug, Default)]
pub(crate) struct Workers {
    list: Vec<Option<Worker>>,
    free: Vec<u32>,
    by_key: BTreeMap<TierKey, u32>,
    by_name: BTreeSet<(Name, WorkerKey)>,
    count: usize,
    groups: Vec<Option<Group>>,
    free_groups: Vec<u32>,
    by_profile: BTreeMap<Profile, u32>,
    /// Groups with waiting workers.
    waiting: Bits,
    changes: u64,
    /// Workers with longer queues than the limit, by length.
    crowded: BTreeSet<(u32, u32)>,
    /// Workers with any queue at all.
    lined: BTreeSet<u32>,
    crowd_limit: u32,
}

impl Workers {
    /// How many there are; one with several tiers counts once.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// A worker was heard of.
    pub(crate) fn seen(&mut self, worker: WorkerKey, now: Timestamp) {
        for (_, index) in self.by_key.range(TierKey::all_of(worker)) {
            if let Some(tier) = &mut self.list[*index as usize] {
                tier.seen_at = now;
            }
        }
    }

    pub(crate) fn index_of(&self, key: TierKey) -> Option<u32> {
        self.by_key.get(&key).copied()
    }

    /// The tiers of a worker; none if it is not there.
    pub(crate) fn tiers_of(&self, worker: WorkerKey) -> impl Iterator<Item = u32> + use<'_> {
        self.by_key.range(TierKey::all_of(worker)).map(|(_, index)| *index)
    }

    /// The workers of a name, in the order in which they connected.
    pub(crate) fn named(
        &self,
        name: &Name,
    ) -> impl DoubleEndedIterator<Item = WorkerKey> + use<'_> {
        let range = (name.clone(), WorkerKey(0))..=(name.clone(), WorkerKey(u64::MAX));
        self.by_name.range(range).map(|(_, worker)| *worker)
    }

    /// The same worker speaks over another connection from now on.
    pub(crate) fn rename_key(&mut self, index: u32, key: TierKey) {
        let worker = self.list[index as usize].as_mut().expect("a worker in use");
        let before = std::mem::replace(&mut worker.key, key);
        if key.tier == 0 {
            self.by_name.remove(&(worker.name.clone(), before.worker));
            self.by_name.insert((worker.name.clone(), key.worker));
        }
        self.by_key.remove(&before);
        self.by_key.insert(key, index);
    }

    /// The tier of a worker that runs a kind; the first if none does.
    pub(crate) fn tier_for(&self, worker: WorkerKey, kind: &Name) -> Option<u32> {
        let runs = |index: &u32| self.group(self.get(*index).group).profile.has_kind(kind);
        self.tiers_of(worker).find(runs).or_else(|| self.tiers_of(worker).next())
    }

    /// All workers, each with its tiers.
    pub(crate) fn whole(&self) -> impl Iterator<Item = (&Worker, Vec<&Worker>)> {
        let first = self.by_key.iter().filter(|(key, _)| key.tier == 0);
        first.map(|(key, index)| {
            let tiers = self.tiers_of(key.worker).map(|index| self.get(index)).collect();
            (self.get(*index), tiers)
        })
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
            rates: profile.rates(),
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
        if worker.key.tier == 0 {
            self.count += 1;
            self.by_name.insert((worker.name.clone(), worker.key.worker));
        }
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
        if worker.key.tier == 0 {
            self.count -= 1;
            self.by_name.remove(&(worker.name.clone(), worker.key.worker));
        }
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

    /// Takes a worker that rests from those that are offered tasks.
    pub(crate) fn deactivate(&mut self, index: u32) {
        let group = self.get(index).group;
        self.group_mut(group).active.remove(&index);
        self.load_changed(index);
    }

    /// Puts a worker that does not rest any more among those that are offered tasks.
    pub(crate) fn activate(&mut self, index: u32) {
        let group = self.get(index).group;
        self.group_mut(group).active.insert(index);
        self.load_changed(index);
    }

    /// Puts a worker in its right place among the waiting ones, or takes it from there.
    ///
    /// A worker that is to be offered tasks at the end of this step finds its place then: mostly it is as busy as before.
    pub(crate) fn load_changed(&mut self, index: u32) {
        self.changes += 1;
        let changes = self.changes;
        let worker = self.list[index as usize].as_mut().expect("a worker in use");
        if worker.dirty && worker.order.is_none() && !worker.is_resting() {
            return;
        }
        let load = (u64::from(worker.leased) << 16) / u64::from(worker.credit.max(1));
        let behind = if worker.has_free_slot() { 0 } else { NO_SLOT };
        let order = worker.is_waiting().then_some((load as u32 | behind, changes, index));
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
        self.queue_changed(index);
    }

    fn queue_changed(&mut self, index: u32) {
        let worker = self.list[index as usize].as_mut().expect("a worker in use");
        let queue = worker.queue();
        if (queue > 0) != worker.lined {
            worker.lined = queue > 0;
            if queue > 0 {
                self.lined.insert(index);
            } else {
                self.lined.remove(&index);
            }
        }
        let listed = (queue > self.crowd_limit).then_some(queue);
        let before = std::mem::replace(&mut worker.crowded, listed);
        if before == listed {
            return;
        }
        if let Some(before) = before {
            self.crowded.remove(&(before, index));
        }
        if let Some(queue) = listed {
            self.crowded.insert((queue, index));
        }
    }

    /// From which queue on workers are listed as crowded.
    pub(crate) fn set_crowd_limit(&mut self, limit: u32) {
        self.crowd_limit = limit;
        for index in self.indices() {
            self.queue_changed(index);
        }
    }

    /// Whether a queue is longer than the limit.
    pub(crate) fn is_crowded(&self) -> bool {
        !self.crowded.is_empty()
    }

    /// Crowded workers and their queues, the longest first.
    pub(crate) fn crowded(&self) -> impl Iterator<Item = (u32, u32)> {
        self.crowded.iter().rev().map(|(queue, index)| (*index, *queue))
    }

    /// Whether any worker has a queue.
    pub(crate) fn any_lined(&self) -> bool {
        !self.lined.is_empty()
    }

    /// Workers with a queue, beginning behind this one, so that not all who look see the same first.
    pub(crate) fn lined_after(&self, index: u32) -> impl Iterator<Item = u32> {
        self.lined.range(index..).chain(self.lined.range(..index)).copied()
    }

    /// The waiting workers of these groups, group by group, those with the least load first in each; of many groups
    /// the first ones.
    pub(crate) fn waiting_in<'a>(
        &'a self,
        groups: &'a Bits,
    ) -> impl Iterator<Item = (u32, &'a BTreeSet<Order>)> {
        let waiting = groups.common(&self.waiting).take(CANDIDATES_MAX);
        waiting.map(|index| (index, &self.group(index).waiting))
    }

    /// All groups with waiting workers.
    pub(crate) fn waiting_groups(&self) -> impl Iterator<Item = &BTreeSet<Order>> {
        self.waiting.iter().map(|index| &self.group(index).waiting)
    }
}
