//! Decides what a change of a ring would do to keys: how many move, from where to where, against the least that could.
//!
//! Changes nothing: it works on a copy. It knows no sizes, so it counts keys, not bytes. One pass over the keys, two
//! lookups each.

use std::collections::BTreeMap;

use super::distribution::Distribution;
use super::error::Error;
use super::hash_of;
use super::node::Node;
use super::ring::Ring;

/// One change of a ring.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// A node comes.
    Add {
        /// Its name.
        name: String,
        /// Its weight.
        weight: f64,
    },
    /// A node leaves.
    Remove {
        /// Its name.
        name: String,
    },
    /// A node gets another weight.
    Reweigh {
        /// Its name.
        name: String,
        /// The new weight.
        weight: f64,
    },
}

impl Change {
    /// A node comes.
    pub fn add(name: impl Into<String>, weight: f64) -> Self {
        Self::Add { name: name.into(), weight }
    }

    /// A node leaves.
    pub fn remove(name: impl Into<String>) -> Self {
        Self::Remove { name: name.into() }
    }

    /// A node gets another weight.
    pub fn reweigh(name: impl Into<String>, weight: f64) -> Self {
        Self::Reweigh { name: name.into(), weight }
    }
}

/// Keys that go from one node to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    /// Where they were; none if there was no node.
    pub from: Option<String>,
    /// Where they go; none if no node is left.
    pub to: Option<String>,
    /// How many.
    pub keys: u64,
}

/// What a change would do.
#[derive(Clone, Debug, PartialEq)]
pub struct Redistribution {
    /// How many keys were looked at.
    pub keys: u64,
    /// How many of them would have another owner.
    pub moved: u64,
    /// The fewest keys that any placement would have to move. A node that leaves must give all the keys that it has.
    /// A node that comes, grows or shrinks must get or give the difference between its fair shares by weight; the
    /// ring may lie somewhat below or above that, by as much as its shares stray from fair.
    pub minimum: u64,
    /// Every pair of nodes between which keys move, in order of names.
    pub moves: Vec<Move>,
    /// How the keys lie now.
    pub before: Distribution,
    /// How they would lie.
    pub after: Distribution,
}

impl Redistribution {
    /// The part of all keys that would move, from 0 to 1.
    pub fn share_moved(&self) -> f64 {
        if self.keys == 0 { 0.0 } else { self.moved as f64 / self.keys as f64 }
    }
}

/// Says what a change would do to these keys. The ring stays as it is.
pub fn simulate_redistribution<K: AsRef<[u8]>>(
    ring: &Ring,
    change: &Change,
    keys: impl IntoIterator<Item = K>,
) -> Result<Redistribution, Error> {
    let mut changed = ring.clone();
    changed.apply(change)?;
    let mut pairs: BTreeMap<(Option<usize>, Option<usize>), u64> = BTreeMap::new();
    for key in keys {
        let hash = hash_of(key);
        let from = ring.node_of(hash).map(Node::id);
        let to = changed.node_of(hash).map(Node::id);
        *pairs.entry((from, to)).or_default() += 1;
    }
    let keys = pairs.values().sum();
    let before = counted(ring, pairs.iter().map(|((from, _), keys)| (*from, *keys)));
    let after = counted(&changed, pairs.iter().map(|((_, to), keys)| (*to, *keys)));
    let moves = moves_of(ring, &changed, &pairs);
    let minimum = match change {
        Change::Remove { name } => before.share(name).map_or(0, |share| share.keys),
        Change::Add { name, .. } | Change::Reweigh { name, .. } => {
            let gap = fair_share(&changed, name) - fair_share(ring, name);
            (keys as f64 * gap.abs()).round() as u64
        }
    };
    let moved = moves.iter().map(|each| each.keys).sum();
    Ok(Redistribution { keys, moved, minimum, moves, before, after })
}

/// The distribution over the nodes of a ring of keys that were counted by id.
fn counted(ring: &Ring, counts: impl Iterator<Item = (Option<usize>, u64)>) -> Distribution {
    let mut by_id: BTreeMap<usize, u64> = BTreeMap::new();
    for (id, keys) in counts {
        if let Some(id) = id {
            *by_id.entry(id).or_default() += keys;
        }
    }
    Distribution::of_counts(ring.nodes().map(|node| {
        (node.name().into(), node.weight(), by_id.get(&node.id()).copied().unwrap_or(0))
    }))
}

/// The pairs whose nodes differ, by name. One change frees an id or takes one, never both, so an id that is on both
/// sides names the same node.
fn moves_of(
    ring: &Ring,
    changed: &Ring,
    pairs: &BTreeMap<(Option<usize>, Option<usize>), u64>,
) -> Vec<Move> {
    let names_before = names_of(ring);
    let names_after = names_of(changed);
    let name = |names: &BTreeMap<usize, String>, id: Option<usize>| {
        id.and_then(|id| names.get(&id).cloned())
    };
    let mut moves: Vec<Move> = pairs
        .iter()
        .filter(|((from, to), _)| from != to)
        .map(|((from, to), keys)| Move {
            from: name(&names_before, *from),
            to: name(&names_after, *to),
            keys: *keys,
        })
        .collect();
    moves.sort_by(|a, b| (&a.from, &a.to).cmp(&(&b.from, &b.to)));
    moves
}

fn names_of(ring: &Ring) -> BTreeMap<usize, String> {
    ring.nodes().map(|node| (node.id(), node.name().to_owned())).collect()
}

/// A node's part of all weight; none if it is not there.
fn fair_share(ring: &Ring, name: &str) -> f64 {
    let total: f64 = ring.nodes().map(Node::weight).sum();
    ring.node(name).map_or(0.0, |node| node.weight() / total)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn keys() -> impl Iterator<Item = String> {
        (0..2_000).map(|user| format!("user_{user}"))
    }

    fn ring() -> Ring {
        let mut ring = Ring::default();
        ring.extend([("server1", 1.0), ("server2", 2.0), ("server3", 0.5)]).unwrap();
        ring
    }

    #[test]
    fn a_node_that_leaves_gives_all_its_keys_and_no_others() {
        let ring = ring();
        let report = simulate_redistribution(&ring, &Change::remove("server1"), keys()).unwrap();
        assert_eq!(report.keys, 2_000);
        assert_eq!(report.moved, report.before.share("server1").unwrap().keys);
        assert_eq!(report.moved, report.minimum);
        assert!(report.moves.iter().all(|each| each.from.as_deref() == Some("server1")));
        assert_eq!(report.moves.len(), 2);
        assert_eq!(report.after.shares().len(), 2);
        assert_eq!(ring.len(), 3);
    }

    #[test]
    fn the_first_node_gets_everything_and_the_last_one_loses_it() {
        let empty = Ring::default();
        let report = simulate_redistribution(&empty, &Change::add("a", 1.0), keys()).unwrap();
        let all = Move { from: None, to: Some("a".into()), keys: 2_000 };
        assert_eq!((report.moves, report.minimum), (vec![all], 2_000));
        let mut one = Ring::default();
        one.add("a", 1.0).unwrap();
        let report = simulate_redistribution(&one, &Change::remove("a"), keys()).unwrap();
        assert_eq!(report.share_moved(), 1.0);
        assert_eq!(report.moves[0].to, None);
    }

    #[test]
    fn a_change_that_the_ring_refuses_is_refused() {
        let refused = simulate_redistribution(&ring(), &Change::remove("server9"), keys());
        assert_eq!(refused, Err(Error::UnknownNode("server9".into())));
        let refused = simulate_redistribution(&ring(), &Change::add("server1", 1.0), keys());
        assert_eq!(refused, Err(Error::NameTaken("server1".into())));
    }

    fn any_change() -> impl Strategy<Value = Change> {
        let name = (1_u32..4).prop_map(|at| format!("server{at}"));
        prop_oneof![
            ("[a-d]{1,3}", 0.1_f64..4.0).prop_map(|(name, weight)| Change::add(name, weight)),
            name.clone().prop_map(Change::remove),
            (name, 0.1_f64..4.0).prop_map(|(name, weight)| Change::reweigh(name, weight)),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn the_report_says_what_the_change_then_does(change in any_change()) {
            let before = ring();
            let report = simulate_redistribution(&before, &change, keys()).unwrap();
            let mut after = before.clone();
            after.apply(&change).unwrap();
            let mut moves: BTreeMap<(String, String), u64> = BTreeMap::new();
            for key in keys() {
                let (from, to) = (before.node_of_key(&key).unwrap(), after.node_of_key(&key).unwrap());
                if from.name() != to.name() {
                    *moves.entry((from.name().into(), to.name().into())).or_default() += 1;
                }
            }
            let said: BTreeMap<(String, String), u64> = report
                .moves
                .iter()
                .map(|each| ((each.from.clone().unwrap(), each.to.clone().unwrap()), each.keys))
                .collect();
            prop_assert_eq!(said, moves);
            prop_assert_eq!(report.moved, report.moves.iter().map(|each| each.keys).sum::<u64>());
            prop_assert_eq!(&report.before, &Distribution::of_ring(&before, keys()));
            prop_assert_eq!(&report.after, &Distribution::of_ring(&after, keys()));
        }
    }
}
