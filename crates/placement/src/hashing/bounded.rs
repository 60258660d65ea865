//! Decides which node gets a key when no node may get much more than its share: the owner if it is below its cap, else
//! the next owner that is ("Consistent Hashing with Bounded Loads", Mirrokni, Thorup and Zadimoghaddam 2016).
//!
//! Knows what it has assigned and what was released, nothing else of the nodes. Rules: with `total` keys assigned, the
//! new one included, a node of share s may hold at most ⌈(1 + ε) × total × s⌉. The caps add up to more than `total`,
//! so one node always has room.
//!
//! Why: a ring alone lets the fullest of ten nodes have 1.1 to 1.2 times its share and knows nothing of hot keys; the
//! cap holds by construction. The price is that a key beyond the cap lies away from its owner for as long as it is
//! assigned. A small ε is evener and displaces more keys, a large one the reverse; 0.25 is the usual middle.
//!
//! At first start the caps are 1 each: few keys are spread widely, and affinity grows with the load.

use super::error::Error;
use super::node::Node;
use super::ring::Ring;

/// The excess over a fair share that is used when nothing is said.
pub const EPSILON_DEFAULT: f64 = 0.25;
/// The least excess: below it nearly every key would be displaced.
pub const EPSILON_MIN: f64 = 0.01;
/// The largest excess: above it the cap would never be met.
pub const EPSILON_MAX: f64 = 100.0;

/// How many keys a node of this share may hold when `total` are assigned in all.
pub fn capacity(epsilon: f64, total: u64, share: f64) -> u64 {
    ((1.0 + epsilon) * total as f64 * share).ceil() as u64
}

pub(super) fn check_epsilon(field: &'static str, epsilon: f64) -> Result<(), Error> {
    if (EPSILON_MIN..=EPSILON_MAX).contains(&epsilon) {
        return Ok(());
    }
    let cure =
        format!("it must be from {EPSILON_MIN} to {EPSILON_MAX}; {EPSILON_DEFAULT} is usual");
    Err(Error::setting(field, epsilon, cure))
}

/// A ring that counts what it has assigned and keeps every node below its cap.
#[derive(Clone, Debug)]
pub struct BoundedRing {
    ring: Ring,
    epsilon: f64,
    /// Assigned and not released, by id.
    loads: Vec<u64>,
    total: u64,
    weight_total: f64,
}

impl BoundedRing {
    /// Puts caps on a ring that may have nodes already.
    pub fn new(ring: Ring, epsilon: f64) -> Result<Self, Error> {
        check_epsilon("epsilon", epsilon)?;
        let mut bounded = Self { ring, epsilon, loads: Vec::new(), total: 0, weight_total: 0.0 };
        bounded.weigh();
        Ok(bounded)
    }

    /// The ring beneath.
    pub fn ring(&self) -> &Ring {
        &self.ring
    }

    /// Assigns a hash to the first owner below its cap; none if there are no nodes. What is assigned must be
    /// released in the end.
    pub fn assign(&mut self, hash: u64) -> Option<&Node> {
        let total = self.total + 1;
        let has_room = |node: &Node| {
            let share = node.weight() / self.weight_total;
            self.loads[node.id()] < capacity(self.epsilon, total, share)
        };
        // The owner itself is the answer nearly always, and is found without the walk.
        let owner = self.ring.node_of(hash)?;
        let node = if has_room(owner) {
            owner
        } else {
            // Rounding could in theory leave no room anywhere; the owner is then as good as any.
            self.ring.owners(hash).find(|node| has_room(node)).unwrap_or(owner)
        };
        self.loads[node.id()] += 1;
        self.total = total;
        Some(node)
    }

    /// Takes one key off a node. Nothing happens if the node has left or holds none.
    pub fn release(&mut self, name: &str) {
        let Some(node) = self.ring.node(name) else { return };
        let load = &mut self.loads[node.id()];
        if *load > 0 {
            *load -= 1;
            self.total -= 1;
        }
    }

    /// How many keys a node holds.
    pub fn load(&self, name: &str) -> Option<u64> {
        self.ring.node(name).map(|node| self.loads[node.id()])
    }

    /// How many keys a node may hold at the present total.
    pub fn capacity(&self, name: &str) -> Option<u64> {
        let node = self.ring.node(name)?;
        Some(capacity(self.epsilon, self.total, node.weight() / self.weight_total))
    }

    /// How many keys are assigned in all.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Adds a node.
    pub fn add(&mut self, name: &str, weight: f64) -> Result<(), Error> {
        self.ring.add(name, weight)?;
        self.weigh();
        Ok(())
    }

    /// Removes a node and forgets what it held: assign those keys again.
    pub fn remove(&mut self, name: &str) -> Result<(), Error> {
        if let Some(node) = self.ring.node(name) {
            self.total -= std::mem::take(&mut self.loads[node.id()]);
        }
        self.ring.remove(name)?;
        self.weigh();
        Ok(())
    }

    /// Changes the weight of a node, and with it its cap.
    pub fn set_weight(&mut self, name: &str, weight: f64) -> Result<(), Error> {
        self.ring.set_weight(name, weight)?;
        self.weigh();
        Ok(())
    }

    /// Adds the weights up anew, so that no rounding gathers, and makes place for the loads of new nodes.
    fn weigh(&mut self) {
        self.weight_total = self.ring.nodes().map(Node::weight).sum();
        let ids = self.ring.nodes().map(|node| node.id() + 1).max().unwrap_or(0);
        self.loads.resize(ids.max(self.loads.len()), 0);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ring_of(weights: &[f64]) -> Ring {
        let mut ring = Ring::default();
        let names: Vec<String> = (0..weights.len()).map(|at| format!("node{at}")).collect();
        ring.extend(names.iter().map(String::as_str).zip(weights.iter().copied())).unwrap();
        ring
    }

    #[test]
    fn one_key_alone_fills_all_nodes_evenly_and_comes_home_when_there_is_room() {
        let mut bounded = BoundedRing::new(ring_of(&[1.0; 4]), 0.25).unwrap();
        let home = bounded.ring().node_of(7).unwrap().name().to_owned();
        for _ in 0..100 {
            bounded.assign(7).unwrap();
        }
        for node in 0..4 {
            assert!(bounded.load(&format!("node{node}")).unwrap() <= 32);
        }
        assert_eq!(bounded.load(&home), Some(32));
        bounded.release(&home);
        assert_eq!(bounded.assign(7).unwrap().name(), home);
    }

    #[test]
    fn what_a_removed_node_held_is_forgotten_and_its_place_starts_empty() {
        let mut bounded = BoundedRing::new(ring_of(&[1.0, 1.0]), 0.25).unwrap();
        (0..100).for_each(|hash| {
            bounded.assign(hash);
        });
        let left = bounded.load("node1").unwrap();
        bounded.remove("node0").unwrap();
        assert_eq!(bounded.total(), left);
        bounded.add("fresh", 1.0).unwrap();
        assert_eq!(bounded.load("fresh"), Some(0));
        bounded.release("node0");
        assert_eq!(bounded.total(), left);
    }

    #[test]
    fn an_empty_ring_assigns_nothing() {
        let mut bounded = BoundedRing::new(Ring::default(), 0.25).unwrap();
        assert_eq!(bounded.assign(1), None);
        assert_eq!(bounded.total(), 0);
    }

    #[test]
    fn nonsense_is_refused_with_the_field() {
        for epsilon in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let error = BoundedRing::new(Ring::default(), epsilon).unwrap_err();
            assert!(error.to_string().contains("`epsilon`"), "{error}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn no_node_is_given_a_key_beyond_its_cap(
            weights in proptest::collection::vec(0.1_f64..4.0, 1..8),
            epsilon in 0.01_f64..2.0,
            steps in proptest::collection::vec((0_u64..50, 0_u8..4), 1..300),
        ) {
            let mut bounded = BoundedRing::new(ring_of(&weights), epsilon).unwrap();
            let mut held: Vec<String> = Vec::new();
            for (hash, step) in steps {
                if step == 0 && !held.is_empty() {
                    let name = held.swap_remove(hash as usize % held.len());
                    bounded.release(&name);
                    continue;
                }
                let name = bounded.assign(hash).unwrap().name().to_owned();
                let (load, cap) = (bounded.load(&name).unwrap(), bounded.capacity(&name).unwrap());
                prop_assert!(load <= cap, "{name} has {load} of {cap}");
                held.push(name);
                prop_assert_eq!(bounded.total(), held.len() as u64);
            }
        }
    }
}
