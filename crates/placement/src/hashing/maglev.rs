//! Decides which node owns a key by one read of a table that nodes have filled in turn ("Maglev: A Fast and Reliable
//! Software Network Load Balancer", Eisenbud and others 2016).
//!
//! Knows names and weights, no load and no health. Rules: each node has its own order of all slots, which follows from
//! its name. The nodes take turns; whoever's turn it is takes the first slot of its order that is still free. A node
//! of half the largest weight gets half the turns.
//!
//! Why and when: shares are exact to one slot, where a ring strays by several percent, and a lookup is one read. The
//! price is that a change rebuilds the whole table and moves a few keys between nodes that did not change: when one of
//! ten or a hundred nodes leaves, 2 % of all keys at 100 slots per node, 0.5 % at 1,000. So it suits routing with a
//! set of nodes that changes rarely and keys that are cheap to move: connections, caches. Where a moved key means
//! moved data, take [`super::Ring`].
//!
//! The number of slots must be prime, so that every order visits every slot, and must not change: another number
//! moves nearly all keys. At least 100 slots per node keep shares and movement small.
//!
//! A table without nodes owns nothing: every lookup gives none.

use super::distribution::Distribution;
use super::error::Error;
use super::node::{NODES_MAX, Node, check_weight};
use super::{hash_of, mix, stream};

/// The most slots of a table.
pub const SLOTS_MAX: u32 = 5_000_011;

const VACANT: u32 = u32::MAX;

/// How a table is built. Tables agree on owners only if they agree on these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How many slots there are: a prime, at least 100 for each node that there may ever be.
    pub slots: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self { slots: 65_537 }
    }
}

impl Settings {
    fn check(self) -> Result<(), Error> {
        if self.slots >= 3 && self.slots <= SLOTS_MAX && is_prime(self.slots) {
            return Ok(());
        }
        let cure = format!(
            "it must be a prime from 3 to {SLOTS_MAX}, such as 1009, 10007, 65537 or 655373"
        );
        Err(Error::setting("slots", self.slots, cure))
    }
}

/// A table from slots to nodes.
#[derive(Clone, Debug)]
pub struct Maglev {
    /// In order of name.
    nodes: Vec<Node>,
    /// The place in `nodes` of each slot's owner; empty without nodes.
    table: Vec<u32>,
}

impl Maglev {
    /// Builds the table of these nodes, in whatever order they come. Takes a time of about `slots` × log `slots` for
    /// equal weights, and at most `slots` × `nodes` more for unequal ones.
    pub fn new<'a>(
        settings: Settings,
        nodes: impl IntoIterator<Item = (&'a str, f64)>,
    ) -> Result<Self, Error> {
        settings.check()?;
        let mut nodes: Vec<(&str, f64)> = nodes.into_iter().take(NODES_MAX + 1).collect();
        if nodes.len() > NODES_MAX {
            return Err(Error::TooManyNodes);
        }
        if nodes.len() > settings.slots as usize {
            return Err(Error::TooFewSlots { nodes: nodes.len(), slots: settings.slots });
        }
        nodes.sort_unstable_by(|a, b| a.0.cmp(b.0));
        for pair in nodes.windows(2) {
            if pair[0].0 == pair[1].0 {
                return Err(Error::NameTaken(pair[0].0.into()));
            }
        }
        let mut own = Vec::with_capacity(nodes.len());
        for (id, (name, weight)) in nodes.into_iter().enumerate() {
            check_weight(name, weight)?;
            own.push(Node { id: id as u32, name: name.into(), weight, points: 0 });
        }
        let table = fill(&mut own, settings.slots);
        Ok(Self { nodes: own, table })
    }

    /// The nodes, in order of name.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The owner of a hash; none if there are no nodes. Any number will do, it need not be well mixed.
    pub fn node_of(&self, hash: u64) -> Option<&Node> {
        // The high half of the product is a number below the length: a division that costs a multiplication.
        let slot = (u128::from(mix(hash)) * self.table.len() as u128) >> 64;
        let owner = self.table.get(slot as usize)?;
        Some(&self.nodes[*owner as usize])
    }

    /// The owner of a key; none if there are no nodes.
    pub fn node_of_key(&self, key: impl AsRef<[u8]>) -> Option<&Node> {
        self.node_of(hash_of(key))
    }

    /// How these keys fall on the nodes.
    pub fn distribution<K: AsRef<[u8]>>(&self, keys: impl IntoIterator<Item = K>) -> Distribution {
        let owners = keys.into_iter().filter_map(|key| self.node_of_key(key)).map(Node::id);
        Distribution::of_owners(self.nodes.iter(), owners)
    }
}

/// A node's order of all slots, and how far it has come.
struct Turn {
    next: u32,
    skip: u32,
    /// Weight that it has used up; it has a turn when its rounds times its weight have caught up.
    used: f64,
}

/// Lets the nodes take slots in turn until none is free, and notes how many each has got.
fn fill(nodes: &mut [Node], slots: u32) -> Vec<u32> {
    if nodes.is_empty() {
        return Vec::new();
    }
    let heaviest = nodes.iter().map(Node::weight).fold(0.0, f64::max);
    let mut turns: Vec<Turn> = nodes.iter().map(|node| turn_of(node, slots)).collect();
    let mut table = vec![VACANT; slots as usize];
    let mut free = slots;
    let mut round = 0.0;
    // The heaviest node takes a slot in every round, so there are at most as many rounds as slots.
    while free > 0 {
        round += 1.0;
        for (node, turn) in nodes.iter_mut().zip(&mut turns) {
            if free == 0 {
                break;
            }
            if round * node.weight < turn.used {
                continue;
            }
            turn.used += heaviest;
            while table[turn.next as usize] != VACANT {
                turn.step(slots);
            }
            table[turn.next as usize] = node.id;
            node.points += 1;
            free -= 1;
        }
    }
    table
}

fn turn_of(node: &Node, slots: u32) -> Turn {
    let base = hash_of(&node.name);
    let below =
        |at: u64, limit: u32| ((u128::from(stream(base, at)) * u128::from(limit)) >> 64) as u32;
    Turn { next: below(0, slots), skip: below(1, slots - 1) + 1, used: 0.0 }
}

impl Turn {
    fn step(&mut self, slots: u32) {
        self.next += self.skip;
        if self.next >= slots {
            self.next -= slots;
        }
    }
}

fn is_prime(number: u32) -> bool {
    number >= 2 && (2..).take_while(|by| by * by <= number).all(|by| !number.is_multiple_of(by))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SMALL: Settings = Settings { slots: 1009 };

    fn table_of(settings: Settings, weights: &[(String, f64)]) -> Maglev {
        Maglev::new(settings, weights.iter().map(|(name, weight)| (name.as_str(), *weight)))
            .unwrap()
    }

    fn equal(count: usize) -> Vec<(String, f64)> {
        (0..count).map(|at| (format!("node{at}"), 1.0)).collect()
    }

    #[test]
    fn removal_moves_few_keys_of_others() {
        let before = table_of(Settings::default(), &equal(10));
        let after = table_of(Settings::default(), &equal(9));
        let (mut own, mut others) = (0, 0);
        for hash in 0..50_000 {
            let (from, to) = (before.node_of(hash).unwrap(), after.node_of(hash).unwrap());
            if from.name() == "node9" {
                own += 1;
            } else if from.name() != to.name() {
                others += 1;
            }
        }
        assert!((4_500..5_500).contains(&own), "{own}");
        assert!(others < 50_000 / 50, "{others} keys moved between nodes that stayed");
    }

    #[test]
    fn without_nodes_there_is_no_owner() {
        assert_eq!(table_of(SMALL, &[]).node_of(1), None);
    }

    #[test]
    fn nonsense_is_refused_with_its_name() {
        for slots in [0, 1, 2, 1000, 65_535, u32::MAX] {
            let error = Maglev::new(Settings { slots }, [("a", 1.0)]).unwrap_err();
            assert!(error.to_string().contains("`slots`"), "{error}");
        }
        let error = Maglev::new(SMALL, [("a", 1.0), ("b", 1.0), ("a", 2.0)]).unwrap_err();
        assert_eq!(error, Error::NameTaken("a".into()));
        let error = Maglev::new(SMALL, [("a", f64::NAN)]).unwrap_err();
        assert!(error.to_string().contains("node `a`"), "{error}");
        let four = ["a", "b", "c", "d"].map(|name| (name, 1.0));
        let error = Maglev::new(Settings { slots: 3 }, four).unwrap_err();
        assert_eq!(error, Error::TooFewSlots { nodes: 4, slots: 3 });
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn every_slot_is_filled_and_shares_follow_weights(
            weights in proptest::collection::btree_map("[a-z]{1,8}", 0.05_f64..8.0, 1..12),
        ) {
            let nodes: Vec<(String, f64)> = weights.into_iter().collect();
            let table = table_of(SMALL, &nodes);
            let backwards: Vec<(String, f64)> = nodes.iter().rev().cloned().collect();
            prop_assert_eq!(&table.table, &table_of(SMALL, &backwards).table);
            prop_assert!(table.table.iter().all(|owner| (*owner as usize) < nodes.len()));
            let total: f64 = nodes.iter().map(|node| node.1).sum();
            for node in table.nodes() {
                let slots = table.table.iter().filter(|owner| **owner == node.id).count();
                prop_assert_eq!(slots, node.points() as usize);
                let fair = 1009.0 * node.weight() / total;
                // Everyone has a turn in the first round, so light nodes are up to one slot ahead each.
                let slack = 1.0 + nodes.len() as f64;
                prop_assert!((slots as f64 - fair).abs() <= slack, "{slots} for {fair}");
            }
        }

        #[test]
        fn equal_nodes_differ_by_one_slot_at_most(count in 1_usize..200) {
            let table = table_of(SMALL, &equal(count));
            let slots = table.nodes().iter().map(Node::points);
            prop_assert!(slots.clone().max().unwrap() - slots.min().unwrap() <= 1);
        }
    }
}
