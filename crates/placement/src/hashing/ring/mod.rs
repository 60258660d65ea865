//! Decides which node owns a key: nodes lie at many points of a circle of hashes, and a key belongs to the node of
//! the first point at or after its own place ("Consistent hashing and random trees", Karger and others 1997).
//!
//! Knows no load and no health: those who do walk on to the next owner ([`Ring::owners`], [`super::BoundedRing`],
//! [`super::RingPolicy`]). Rules:
//!
//! - A node of weight 1 has [`Settings::points`] points, others in proportion, each at least one.
//! - Point number i of a node lies where its name and i say, and nowhere else. So rings with the same nodes are the
//!   same, in whatever order and on whatever machine they were built.
//! - Adding a node moves keys only to it, removing one moves only its own keys, and a new weight moves keys only to or
//!   from the node that has it.
//!
//! Why points: with one per node, shares would differ by a factor of several. With v points a node's share strays by
//! 1/√v of itself: 8 % at the default of 150, 3 % at 1,000. The extremes are wider: among ten nodes with 150 points the
//! fullest has 1.13 times its share and the emptiest 0.88 times on average, and 1.2 and 0.8 are not rare. Light nodes
//! have fewer points and stray further.
//!
//! Cost: a lookup is O(1) through an index (see `points`). A change is one pass over all points, with no other memory
//! than the change itself needs; [`Ring::extend`] adds many nodes in one such pass. A point takes 12 bytes, the index
//! 8 to 16 more.
//!
//! At first start the ring is empty and owns nothing: every lookup gives none.

mod owners;
mod points;

#[cfg(test)]
mod properties;

use std::collections::BTreeMap;

use super::error::Error;
use super::node::{NODES_MAX, Node, check_weight};
use super::redistribution::Change;
use super::{hash_of, mix, stream};

pub use owners::{OWNERS_INLINE, Owners};
use points::{Point, Points};

/// The most points of one ring.
pub const POINTS_MAX: u32 = 1 << 21;

/// How a ring is built. Rings agree on owners only if they agree on these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Points of a node of weight 1: more give evener shares and take more memory.
    pub points: u32,
    /// The most points of the whole ring, at most [`POINTS_MAX`]. One of each node is allowed in any case.
    pub points_max: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self { points: 150, points_max: POINTS_MAX }
    }
}

impl Settings {
    pub(super) fn check(&self) -> Result<(), Error> {
        if self.points_max == 0 || self.points_max > POINTS_MAX {
            let cure = format!("it must be from 1 to {POINTS_MAX}");
            return Err(Error::setting("points_max", self.points_max, cure));
        }
        if self.points == 0 || self.points > self.points_max {
            let cure = format!("it must be from 1 to `points_max`, which is {}", self.points_max);
            return Err(Error::setting("points", self.points, cure));
        }
        Ok(())
    }
}

/// Nodes on a circle of hashes.
///
/// ```
/// # use divvy_placement::hashing::Ring;
/// let mut ring = Ring::default();
/// ring.extend([("server1", 1.0), ("server2", 2.0), ("server3", 0.5)])?;
/// let owner = ring.node_of_key("user_7").map(|node| node.name().to_owned());
/// ring.add("server4", 1.0)?;
/// ring.remove("server4")?;
/// assert_eq!(ring.node_of_key("user_7").map(|node| node.name().to_owned()), owner);
/// # Ok::<(), divvy_placement::hashing::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Ring {
    points: Points,
    /// By id. The place of a node that has left has no points and waits in `free`.
    nodes: Vec<Node>,
    free: Vec<u32>,
    names: BTreeMap<String, u32>,
    points_per_weight: f64,
    points_max: u32,
}

impl Default for Ring {
    fn default() -> Self {
        Self::of_checked(Settings::default())
    }
}

impl Ring {
    /// A ring without nodes.
    pub fn new(settings: Settings) -> Result<Self, Error> {
        settings.check()?;
        Ok(Self::of_checked(settings))
    }

    fn of_checked(settings: Settings) -> Self {
        Self {
            points: Points::new(),
            nodes: Vec::new(),
            free: Vec::new(),
            names: BTreeMap::new(),
            points_per_weight: f64::from(settings.points),
            points_max: settings.points_max,
        }
    }

    /// How many nodes there are.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// How many points there are.
    pub fn points(&self) -> usize {
        self.points.len()
    }

    /// The nodes, in order of name.
    pub fn nodes(&self) -> impl ExactSizeIterator<Item = &Node> {
        self.names.values().map(|id| &self.nodes[*id as usize])
    }

    /// The node of this name.
    pub fn node(&self, name: &str) -> Option<&Node> {
        self.names.get(name).map(|id| &self.nodes[*id as usize])
    }

    /// The owner of a hash; none if there are no nodes. Any number will do, it need not be well mixed.
    pub fn node_of(&self, hash: u64) -> Option<&Node> {
        if self.is_empty() {
            return None;
        }
        let owner = self.points.owner(self.points.find(mix(hash)));
        Some(&self.nodes[owner as usize])
    }

    /// The owner of a key; none if there are no nodes.
    pub fn node_of_key(&self, key: impl AsRef<[u8]>) -> Option<&Node> {
        self.node_of(hash_of(key))
    }

    /// All nodes in the order in which they own the hash, each once: the owner, then who would be the owner without
    /// it, and so on.
    pub fn owners(&self, hash: u64) -> Owners<'_> {
        Owners::new(self, hash)
    }

    /// The first `count` owners of a hash, or all nodes if there are fewer.
    pub fn replicas(&self, hash: u64, count: usize) -> impl Iterator<Item = &Node> {
        self.owners(hash).take(count)
    }

    /// How much of all hashes each node owns, exactly: by node in order of name, adding up to 1. One pass over all
    /// points.
    pub fn shares(&self) -> Vec<(&Node, f64)> {
        let mut arcs = vec![0_u128; self.nodes.len()];
        for (owner, arc) in self.points.arcs() {
            arcs[owner as usize] += u128::from(arc);
        }
        if self.points() == 1 {
            // The arc of a point alone runs once around, which 64 bits show as none.
            arcs[self.points.owner(0) as usize] = 1 << 64;
        }
        self.nodes().map(|node| (node, arcs[node.id()] as f64 / 2_f64.powi(64))).collect()
    }

    /// Adds a node.
    pub fn add(&mut self, name: &str, weight: f64) -> Result<(), Error> {
        self.extend([(name, weight)])
    }

    /// Adds many nodes, all or none: one pass over the points however many there are.
    pub fn extend<'a>(
        &mut self,
        nodes: impl IntoIterator<Item = (&'a str, f64)>,
    ) -> Result<(), Error> {
        let mut added = Vec::new();
        let mut points = self.points() as u64;
        for (name, weight) in nodes {
            match self.admit(name, weight, &mut points) {
                Ok(id) => added.push(id),
                Err(error) => {
                    // The last first, so that the places are free in the order in which they were.
                    added.iter().rev().for_each(|id| self.forget(*id));
                    return Err(error);
                }
            }
        }
        let fresh = added.iter().flat_map(|id| points_of(&self.nodes[*id as usize], 0)).collect();
        self.insert(fresh);
        Ok(())
    }

    /// Removes a node: its keys go to the next owners, no others move.
    pub fn remove(&mut self, name: &str) -> Result<(), Error> {
        let id = self.id_of(name)?;
        self.forget(id);
        self.points.retain(|(_, owner)| owner != id);
        Ok(())
    }

    /// Changes the weight of a node: keys move to it or away from it, never between others.
    pub fn set_weight(&mut self, name: &str, weight: f64) -> Result<(), Error> {
        let id = self.id_of(name)?;
        check_weight(name, weight)?;
        let node = &self.nodes[id as usize];
        let (before, after) = (node.points, self.points_for(weight));
        self.check_points(self.points() as u64 - u64::from(before) + after, self.len())?;
        let node = &mut self.nodes[id as usize];
        node.weight = weight;
        node.points = after as u32;
        let after = node.points;
        if after > before {
            let fresh = points_of(node, before).collect();
            self.insert(fresh);
        } else if after < before {
            let base = hash_of(name);
            let surplus = after..before;
            let mut gone: Vec<u64> = surplus.map(|at| stream(base, u64::from(at))).collect();
            gone.sort_unstable();
            self.points.retain(|(at, owner)| owner != id || gone.binary_search(&at).is_err());
        }
        Ok(())
    }

    /// Makes a change that was perhaps simulated before.
    pub fn apply(&mut self, change: &Change) -> Result<(), Error> {
        match change {
            Change::Add { name, weight } => self.add(name, *weight),
            Change::Remove { name } => self.remove(name),
            Change::Reweigh { name, weight } => self.set_weight(name, *weight),
        }
    }

    /// The owner of every point from the hash on and once around, with repeats: what a search for the first owner
    /// that fits walks over, for it need not remember whom it has asked.
    pub(super) fn walk(&self, hash: u64) -> impl Iterator<Item = u32> + Clone + '_ {
        let first = if self.is_empty() { 0 } else { self.points.find(mix(hash)) };
        self.points.owners_from(first)
    }

    /// How many points a node of weight 1 has now.
    pub(super) fn points_per_weight(&self) -> f64 {
        self.points_per_weight
    }

    /// Whether the ring may have the points that its nodes would have at another density.
    pub(super) fn allows(&self, points_per_weight: f64) -> bool {
        let points = self.nodes().map(|node| points_for(node.weight, points_per_weight)).sum();
        self.check_points(points, self.len()).is_ok()
    }

    /// Gives every node as many points as the new density says. Ids stay.
    pub(super) fn rescale(&mut self, points_per_weight: f64) {
        self.points_per_weight = points_per_weight;
        let ids: Vec<u32> = self.names.values().copied().collect();
        for id in &ids {
            let node = &mut self.nodes[*id as usize];
            node.points = points_for(node.weight, points_per_weight) as u32;
        }
        let all = ids.iter().flat_map(|id| points_of(&self.nodes[*id as usize], 0)).collect();
        self.points = Points::new();
        self.insert(all);
    }

    /// Gives a node its id, without its points on the circle. `points` counts them for the whole ring.
    fn admit(&mut self, name: &str, weight: f64, points: &mut u64) -> Result<u32, Error> {
        check_weight(name, weight)?;
        if self.names.contains_key(name) {
            return Err(Error::NameTaken(name.into()));
        }
        if self.len() >= NODES_MAX {
            return Err(Error::TooManyNodes);
        }
        let own = self.points_for(weight);
        self.check_points(*points + own, self.len() + 1)?;
        *points += own;
        let id = self.free.pop().unwrap_or(self.nodes.len() as u32);
        let node = Node { id, name: name.into(), weight, points: own as u32 };
        match self.nodes.get_mut(id as usize) {
            Some(place) => *place = node,
            None => self.nodes.push(node),
        }
        self.names.insert(name.into(), id);
        Ok(id)
    }

    /// Takes a node's id back, without touching the circle.
    fn forget(&mut self, id: u32) {
        let node = &mut self.nodes[id as usize];
        self.names.remove(&node.name);
        node.points = 0;
        self.free.push(id);
    }

    fn insert(&mut self, fresh: Vec<Point>) {
        let nodes = &self.nodes;
        let name_of = |id: u32| &nodes[id as usize].name;
        self.points.insert(fresh, |a, b| name_of(a).cmp(name_of(b)));
    }

    fn id_of(&self, name: &str) -> Result<u32, Error> {
        self.names.get(name).copied().ok_or_else(|| Error::UnknownNode(name.into()))
    }

    fn points_for(&self, weight: f64) -> u64 {
        points_for(weight, self.points_per_weight)
    }

    fn check_points(&self, points: u64, nodes: usize) -> Result<(), Error> {
        if points <= u64::from(self.points_max).max(nodes as u64) {
            return Ok(());
        }
        Err(Error::TooManyPoints { points, points_max: self.points_max })
    }
}

/// How many points a weight gives: whole, and never none.
fn points_for(weight: f64, points_per_weight: f64) -> u64 {
    ((weight * points_per_weight).round() as u64).max(1)
}

/// Where a node's points lie, from number `first` on.
fn points_of(node: &Node, first: u32) -> impl Iterator<Item = Point> + use<> {
    let (base, id) = (hash_of(&node.name), node.id);
    (first..node.points).map(move |at| (stream(base, u64::from(at)), id))
}
