//! Decides the shape of the tree and finds the way down; keeps load, weight and room of every branch.
//!
//! Knows nothing of requests: what a level prefers and whether a target fits are asked of the caller. Nodes lie in
//! one vector, the children of a node side by side. A target is a node too.

use std::collections::{BTreeMap, VecDeque};

use crate::hashing::hash_of;
use crate::policy::View;
use crate::target::{Target, TargetId};

/// The most levels of a path that are looked at; what is below counts as one branch.
pub const LEVELS_MAX: usize = 16;

const NONE: u32 = u32::MAX;

#[derive(Clone, Debug, Default)]
pub(super) struct Tree {
    nodes: Vec<Node>,
    /// The node of the target in each slot, or `NONE`.
    leaves: Vec<u32>,
}

/// A branch or a target.
#[derive(Clone, Debug)]
pub(super) struct Node {
    parent: u32,
    /// The slot of the target; `NONE` for a branch.
    slot: u32,
    name: u64,
    first_child: u32,
    children: u32,
    /// In flight and queued, of all targets below.
    load: u64,
    /// Of all targets below.
    weight: f64,
    /// How many targets below may get a request, as far as state and limit go.
    room: u32,
}

impl Node {
    /// The load with one more request, for the weight.
    pub(super) fn load_with_one_more(&self) -> f64 {
        (self.load as f64 + 1.0) / self.weight
    }

    /// How far a key is from this node: the nearest gets it, the heavier the more likely.
    pub(super) fn distance(&self, key: u64) -> f64 {
        let hash = mix(key ^ self.name);
        // The upper 53 bits make an even number between 0 and 1 that is never 0.
        let even = ((hash >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
        -even.ln() / self.weight
    }
}

/// What a node is made of before it has its place.
enum Part<'a> {
    /// A branch that paths name: where its members are.
    Branch(usize),
    /// Targets that are grouped by neighbouring slots.
    Group(&'a [u32]),
    /// A target, by its slot.
    Leaf(u32),
}

/// What hangs on a branch that paths name.
#[derive(Default)]
struct Members {
    /// Branches below: the hash of the name, and where their members are.
    branches: Vec<(u64, usize)>,
    /// The slots of targets, in order.
    targets: Vec<u32>,
}

impl Tree {
    /// The tree of the targets that are up.
    pub(super) fn build(view: &View<'_>, fanout: usize) -> Self {
        let members = members(view);
        let mut tree = Self { nodes: Vec::new(), leaves: vec![NONE; view.targets.len()] };
        tree.push(NONE, 0);
        // Level by level, so that the children of a node get neighbouring places.
        let mut parts = VecDeque::from([(0, Part::Branch(0))]);
        while let Some((node, part)) = parts.pop_front() {
            let below: Vec<(u64, Part<'_>)> = match part {
                Part::Leaf(slot) => {
                    tree.plant(node, &view.targets[slot as usize]);
                    continue;
                }
                Part::Branch(at) => {
                    let Members { branches, targets } = &members[at];
                    let named = branches.iter().map(|(name, at)| (*name, Part::Branch(*at)));
                    named.chain(groups(targets, fanout, view)).collect()
                }
                Part::Group(targets) => groups(targets, fanout, view),
            };
            tree.nodes[node as usize].first_child = tree.nodes.len() as u32;
            tree.nodes[node as usize].children = below.len() as u32;
            for (name, part) in below {
                parts.push_back((tree.push(node, name), part));
            }
        }
        tree.sum_up();
        tree
    }

    fn push(&mut self, parent: u32, name: u64) -> u32 {
        let empty = Node {
            parent,
            slot: NONE,
            name,
            first_child: 0,
            children: 0,
            load: 0,
            weight: 0.0,
            room: 0,
        };
        self.nodes.push(empty);
        self.nodes.len() as u32 - 1
    }

    fn plant(&mut self, node: u32, target: &Target) {
        self.leaves[target.id.slot()] = node;
        let node = &mut self.nodes[node as usize];
        node.slot = target.id.slot() as u32;
        node.weight = target.spec.weight;
        node.load = load(target);
        node.room = u32::from(target.has_room());
    }

    fn sum_up(&mut self) {
        // Parents lie before their children: from the end on, every node is complete when it is added.
        for index in (1..self.nodes.len()).rev() {
            let Node { parent, load, weight, room, .. } = self.nodes[index];
            let parent = &mut self.nodes[parent as usize];
            parent.load += load;
            parent.weight += weight;
            parent.room += room;
        }
    }

    /// Takes over the load and room of a target as they are now.
    pub(super) fn refresh(&mut self, target: &Target) {
        let mut index = self.leaves.get(target.id.slot()).copied().unwrap_or(NONE);
        if index == NONE {
            return;
        }
        let leaf = &self.nodes[index as usize];
        let (load, room) = (load(target), u32::from(target.has_room()));
        let (old_load, old_room) = (leaf.load, leaf.room);
        if (load, room) == (old_load, old_room) {
            return;
        }
        while index != NONE {
            let node = &mut self.nodes[index as usize];
            node.load = node.load - old_load + load;
            node.room = node.room - old_room + room;
            index = node.parent;
        }
    }

    /// The target that is found by taking at each level the branch with the lowest `score`; chance, from `turn`,
    /// between equal ones.
    pub(super) fn descend(
        &self,
        turn: u64,
        score: &impl Fn(&Node) -> f64,
        fits: &impl Fn(u32) -> Option<TargetId>,
    ) -> Option<TargetId> {
        if self.nodes.is_empty() {
            return None;
        }
        self.descend_from(0, turn, score, fits)
    }

    fn descend_from(
        &self,
        index: u32,
        turn: u64,
        score: &impl Fn(&Node) -> f64,
        fits: &impl Fn(u32) -> Option<TargetId>,
    ) -> Option<TargetId> {
        let node = &self.nodes[index as usize];
        if node.slot != NONE {
            return fits(node.slot);
        }
        let count = node.children;
        let start = mix(turn ^ u64::from(index)).checked_rem(u64::from(count))? as u32;
        // What was tried is told from what was not by its place in the order of preference, which needs no memory.
        let mut tried = None;
        loop {
            let mut best: Option<((f64, u32), u32)> = None;
            for order in 0..count {
                let position = start + order;
                let position = if position < count { position } else { position - count };
                let child = node.first_child + position;
                let candidate = &self.nodes[child as usize];
                if candidate.room == 0 {
                    continue;
                }
                let rank = (score(candidate), order);
                if tried.is_some_and(|tried| rank <= tried) {
                    continue;
                }
                if best.is_none_or(|(best, _)| rank < best) {
                    best = Some((rank, child));
                }
            }
            let (rank, child) = best?;
            if let Some(id) = self.descend_from(child, turn, score, fits) {
                return Some(id);
            }
            tried = Some(rank);
        }
    }
}

/// The branches that the paths of the targets name, the root first.
fn members(view: &View<'_>) -> Vec<Members> {
    let mut members = vec![Members::default()];
    let mut places: BTreeMap<(usize, &str), usize> = BTreeMap::new();
    for target in view.up() {
        let mut at = 0;
        for name in target.spec.path.iter().take(LEVELS_MAX) {
            at = *places.entry((at, name)).or_insert_with(|| {
                members.push(Members::default());
                let new = members.len() - 1;
                members[at].branches.push((hash_of(name), new));
                new
            });
        }
        members[at].targets.push(target.id.slot() as u32);
    }
    members
}

/// The targets themselves if they are at most `fanout`; else groups of those whose slots are near each other, at
/// most `fanout` of them. A slot's group depends on its number, so the groups of others stay when a target leaves.
fn groups<'a>(slots: &'a [u32], fanout: usize, view: &View<'_>) -> Vec<(u64, Part<'a>)> {
    let leaf = |slot: u32| {
        let name = hash_of(&view.targets[slot as usize].spec.name);
        (name, Part::Leaf(slot))
    };
    if slots.len() <= fanout {
        return slots.iter().map(|slot| leaf(*slot)).collect();
    }
    let mut width = fanout as u64;
    let group_of = |slot: u32, width: u64| u64::from(slot) / width;
    let grouped = |width| slots.chunk_by(move |a, b| group_of(*a, width) == group_of(*b, width));
    while grouped(width).count() > fanout {
        width *= fanout as u64;
    }
    let parts = grouped(width).map(|group| match group {
        [slot] => leaf(*slot),
        group => (mix(mix(width) ^ group_of(group[0], width)), Part::Group(group)),
    });
    parts.collect()
}

fn load(target: &Target) -> u64 {
    u64::from(target.in_flight) + u64::from(target.queued)
}

/// Spreads every bit over the whole number (the finisher of SplitMix64; Steele and others, 2014).
fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{TargetSpec, Targets};

    fn view(targets: &Targets) -> View<'_> {
        View { epoch: targets.epoch(), targets: targets.slots(), up: targets.up() }
    }

    /// Sums that are kept by events must be those of a tree that is built now.
    fn sums(tree: &Tree) -> Vec<(u64, u32)> {
        tree.nodes.iter().map(|node| (node.load, node.room)).collect()
    }

    #[test]
    fn no_level_of_groups_is_wider_than_the_fanout() {
        for (count, fanout) in [(1, 2), (3, 2), (16, 16), (17, 16), (257, 16), (1_000, 3)] {
            let mut targets = Targets::new();
            (0..count).for_each(|index| {
                targets.add(TargetSpec::new(index.to_string())).unwrap();
            });
            let tree = Tree::build(&view(&targets), fanout);
            assert!(tree.nodes.iter().all(|node| node.children as usize <= fanout));
            let leaves = tree.nodes.iter().filter(|node| node.slot != NONE).count();
            assert_eq!((leaves, tree.nodes[0].room), (count, count as u32));
            assert!(tree.nodes.len() < 2 * count + 2, "{} nodes", tree.nodes.len());
        }
    }

    proptest! {
        #[test]
        fn events_keep_the_sums_that_building_anew_would_give(
            paths in prop::collection::vec(prop::collection::vec(0u8..3, 0..4), 1..30),
            steps in prop::collection::vec((0usize..30, 0u8..4), 0..100),
        ) {
            let mut targets = Targets::new();
            let ids: Vec<TargetId> = paths.iter().enumerate().map(|(index, path)| {
                let path = path.iter().map(u8::to_string);
                let spec = TargetSpec::new(index.to_string()).limit(2).path(path);
                targets.add(spec).unwrap()
            }).collect();
            let mut tree = Tree::build(&view(&targets), 2);
            for (index, step) in steps {
                let id = ids[index % ids.len()];
                match step {
                    0 | 1 => targets.started(id),
                    2 => { targets.finished(id); }
                    _ => targets.set_queued(id, index as u32).unwrap(),
                }
                tree.refresh(targets.get(id).unwrap());
            }
            prop_assert_eq!(sums(&tree), sums(&Tree::build(&view(&targets), 2)));
        }
    }
}
