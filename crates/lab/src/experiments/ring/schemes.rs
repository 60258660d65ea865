//! Decides how a change of nodes is put to several ways of placing keys: who owned each key before, and who after.
//!
//! The ring, Maglev and jump are the library's. Modulo stands for what people write first. Jump and modulo know only
//! numbers, so a weight becomes a number of slots, and a node that leaves hands its numbers to the last ones: the way
//! that moves the fewest keys.

use std::num::NonZeroU32;

use divvy_placement::hashing::{
    Change, Distribution, Error, Maglev, Node, Ring, hash_of, jump, maglev, ring,
};

use crate::report::number::count;

/// Slots of a node of weight 1, so that every weight here is a whole number of slots.
const SLOTS_PER_WEIGHT: f64 = 2.0;

/// A way of placing keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scheme {
    /// The ring with this many points per weight.
    Ring(u32),
    /// A Maglev table.
    Maglev,
    /// Jump hashing over slots.
    Jump,
    /// The remainder of the hash by the number of slots.
    Modulo,
}

impl Scheme {
    /// Its name.
    pub(super) fn name(self) -> String {
        match self {
            Self::Ring(points) => format!("ring, {} points", count(points.into())),
            Self::Maglev => "Maglev".into(),
            Self::Jump => "jump".into(),
            Self::Modulo => "modulo".into(),
        }
    }
}

/// A node: its name and weight.
pub(super) type Named = (&'static str, f64);

/// What a change did under one way.
pub(super) struct Shift {
    /// Keys that have another owner.
    pub(super) moved: u64,
    /// Those of them that went from a node that stayed to another that was there before.
    pub(super) needless: u64,
    /// The fewest that had to move.
    pub(super) minimum: u64,
    /// How the keys lie after the change.
    pub(super) after: Distribution,
}

/// What a change does to the keys under one way.
pub(super) fn shift(
    scheme: Scheme,
    nodes: &[Named],
    change: &Change,
    keys: &[String],
) -> Result<Shift, Error> {
    let mut places = Places::new(scheme, nodes)?;
    let before = places.owners(keys);
    places.apply(change)?;
    let after = places.owners(keys);
    let changed = match change {
        Change::Add { name, .. } | Change::Remove { name } | Change::Reweigh { name, .. } => name,
    };
    let pairs = || before.iter().zip(&after).filter(|(from, to)| from != to);
    let needless = pairs().filter(|(from, to)| *from != changed && *to != changed).count();
    let had = before.iter().filter(|owner| *owner == changed).count();
    let fair = |nodes: &[(String, f64)]| {
        let total: f64 = nodes.iter().map(|node| node.1).sum();
        nodes.iter().find(|node| node.0 == *changed).map_or(0.0, |node| node.1 / total)
    };
    let minimum = match change {
        Change::Remove { .. } => had as u64,
        Change::Add { .. } | Change::Reweigh { .. } => {
            (fair(&places.nodes) * keys.len() as f64).round() as u64
        }
    };
    let counts = places.nodes.iter().map(|(name, weight)| {
        let held = after.iter().filter(|owner| *owner == name).count();
        (name.clone(), *weight, held as u64)
    });
    Ok(Shift {
        moved: pairs().count() as u64,
        needless: needless as u64,
        minimum,
        after: Distribution::of_counts(counts),
    })
}

/// Nodes as one way places them.
struct Places {
    scheme: Scheme,
    nodes: Vec<(String, f64)>,
    ring: Ring,
    /// The node of each slot.
    slots: Vec<String>,
}

impl Places {
    fn new(scheme: Scheme, nodes: &[Named]) -> Result<Self, Error> {
        let points = if let Scheme::Ring(points) = scheme { points } else { 1 };
        let ring = Ring::new(ring::Settings { points, ..ring::Settings::default() })?;
        let mut places = Self { scheme, nodes: Vec::new(), ring, slots: Vec::new() };
        for (name, weight) in nodes {
            places.apply(&Change::add(*name, *weight))?;
        }
        Ok(places)
    }

    fn apply(&mut self, change: &Change) -> Result<(), Error> {
        self.ring.apply(change)?;
        match change {
            Change::Add { name, weight } => {
                self.nodes.push((name.clone(), *weight));
                let slots = (weight * SLOTS_PER_WEIGHT).round() as usize;
                self.slots.extend(std::iter::repeat_n(name.clone(), slots));
            }
            Change::Remove { name } => {
                self.nodes.retain(|node| node.0 != *name);
                while let Some(slot) = self.slots.iter().position(|slot| slot == name) {
                    self.slots.swap_remove(slot);
                }
            }
            Change::Reweigh { .. } => unreachable!("no weight changes in this experiment"),
        }
        Ok(())
    }

    fn owners(&self, keys: &[String]) -> Vec<String> {
        const LEFT: &str = "a node is always left";
        let slots = NonZeroU32::new(self.slots.len() as u32).expect(LEFT);
        let hashes = keys.iter().map(hash_of);
        let name = |node: Option<&Node>| node.expect(LEFT).name().to_owned();
        match self.scheme {
            Scheme::Ring(_) => hashes.map(|hash| name(self.ring.node_of(hash))).collect(),
            Scheme::Maglev => {
                let nodes = self.nodes.iter().map(|(name, weight)| (name.as_str(), *weight));
                let table = Maglev::new(maglev::Settings::default(), nodes);
                let table = table.expect("a few nodes with sound weights fit the table");
                hashes.map(|hash| name(table.node_of(hash))).collect()
            }
            Scheme::Jump => {
                hashes.map(|hash| self.slots[jump(hash, slots) as usize].clone()).collect()
            }
            Scheme::Modulo => {
                let slot = |hash: u64| (hash % u64::from(slots.get())) as usize;
                hashes.map(|hash| self.slots[slot(hash)].clone()).collect()
            }
        }
    }
}
