//! What holds for every ring, whatever its nodes: movement, balance, order, replicas.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::super::error::Error;
use super::{Ring, Settings};

type Nodes = Vec<(String, f64)>;

fn any_nodes(most: usize) -> impl Strategy<Value = Nodes> {
    proptest::collection::btree_map("[a-z]{1,10}", 0.1_f64..4.0, 1..most)
        .prop_map(|nodes| nodes.into_iter().collect())
}

fn ring_of(settings: Settings, nodes: &[(String, f64)]) -> Ring {
    let mut ring = Ring::new(settings).unwrap();
    ring.extend(nodes.iter().map(|(name, weight)| (name.as_str(), *weight))).unwrap();
    ring
}

fn owner(ring: &Ring, hash: u64) -> &str {
    ring.node_of(hash).unwrap().name()
}

/// Who owns what, point by point: equal for equal rings whatever their ids.
fn layout(ring: &Ring) -> Vec<&str> {
    ring.points.owners_from(0).map(|id| ring.nodes[id as usize].name()).collect()
}

#[test]
fn shares_lie_within_fifteen_percent_at_a_thousand_points() {
    let settings = Settings { points: 1_000, ..Settings::default() };
    let weights = [1.0, 2.0, 0.5, 1.0, 4.0, 1.0, 1.0, 2.0, 1.0, 0.5];
    let nodes: Nodes = weights.iter().enumerate().map(|(at, w)| (format!("n{at}"), *w)).collect();
    let total: f64 = weights.iter().sum();
    for (node, share) in ring_of(settings, &nodes).shares() {
        let ratio = share * total / node.weight();
        assert!((0.85..1.15).contains(&ratio), "{} is at {ratio}", node.name());
    }
}

#[test]
fn a_point_lies_where_it_always_lay() {
    // Clients of other versions and machines rely on these: a change here moves everybody's keys.
    let ring = ring_of(Settings::default(), &[("a".into(), 1.0), ("b".into(), 1.0)]);
    let owners: String = (0..16).map(|hash| owner(&ring, hash)).collect();
    assert_eq!(owners, "bababaabbbbaabba");
}

#[test]
fn refused_changes_leave_the_ring_as_it_was() {
    let settings = Settings { points: 100, points_max: 350 };
    let mut ring = ring_of(settings, &[("a".into(), 1.0), ("b".into(), 1.0)]);
    let before: Vec<String> = layout(&ring).into_iter().map(str::to_owned).collect();
    let full = Error::TooManyPoints { points: 400, points_max: 350 };
    assert_eq!(ring.extend([("c", 1.0), ("d", 1.0)]), Err(full.clone()));
    assert_eq!(ring.extend([("c", 1.0), ("c", 0.1)]), Err(Error::NameTaken("c".into())));
    assert_eq!(ring.add("a", 1.0), Err(Error::NameTaken("a".into())));
    assert_eq!(ring.set_weight("a", 3.0), Err(full));
    assert_eq!(ring.set_weight("z", 1.0), Err(Error::UnknownNode("z".into())));
    assert_eq!(ring.remove("z"), Err(Error::UnknownNode("z".into())));
    for weight in [0.0, -1.0, f64::NAN, f64::INFINITY, 2e6] {
        assert!(matches!(ring.add("c", weight), Err(Error::BadWeight { .. })), "{weight}");
        assert!(matches!(ring.set_weight("a", weight), Err(Error::BadWeight { .. })), "{weight}");
    }
    assert_eq!(layout(&ring), before);
    assert_eq!(ring.nodes().map(|node| node.name()).collect::<Vec<_>>(), ["a", "b"]);
    ring.add("c", 1.0).unwrap();
    assert_eq!(ring.points(), 300);
}

#[test]
fn settings_that_make_no_ring_are_refused_with_the_field() {
    for (points, points_max, field) in [
        (0, 10, "`points`"),
        (11, 10, "`points`"),
        (1, 0, "`points_max`"),
        (1, u32::MAX, "`points_max`"),
    ] {
        let error = Ring::new(Settings { points, points_max }).unwrap_err();
        assert!(error.to_string().starts_with(field), "{error}");
    }
}

#[test]
fn an_empty_ring_owns_nothing() {
    let mut ring = Ring::default();
    assert!(ring.node_of(1).is_none());
    assert_eq!(ring.owners(1).count(), 0);
    assert_eq!(ring.walk(1).count(), 0);
    assert!(ring.shares().is_empty());
    ring.add("a", 1e-6).unwrap();
    assert_eq!((ring.points(), ring.shares()[0].1), (1, 1.0));
    ring.remove("a").unwrap();
    assert!(ring.is_empty() && ring.node_of(1).is_none());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn removal_moves_only_the_keys_of_the_removed_node(nodes in any_nodes(12), which: prop::sample::Index) {
        let before = ring_of(Settings::default(), &nodes);
        let gone = &nodes[which.index(nodes.len())].0;
        let mut after = before.clone();
        after.remove(gone).unwrap();
        if after.is_empty() {
            return Ok(());
        }
        for hash in 0..2_000 {
            if owner(&before, hash) == gone {
                // They go to whoever owned them next.
                prop_assert_eq!(owner(&after, hash), before.owners(hash).nth(1).unwrap().name());
            } else {
                prop_assert_eq!(owner(&before, hash), owner(&after, hash));
            }
        }
    }

    #[test]
    fn addition_takes_keys_only_to_the_new_node(nodes in any_nodes(12), weight in 0.1_f64..4.0) {
        let before = ring_of(Settings::default(), &nodes);
        let mut after = before.clone();
        after.add("NEW", weight).unwrap();
        let mut taken = 0;
        for hash in 0..2_000 {
            let (from, to) = (owner(&before, hash), owner(&after, hash));
            prop_assert!(from == to || to == "NEW", "{from} to {to}");
            taken += usize::from(to == "NEW");
        }
        prop_assert!(taken > 0);
    }

    #[test]
    fn a_new_weight_moves_keys_only_to_or_from_its_node(
        nodes in any_nodes(12),
        which: prop::sample::Index,
        weight in 0.1_f64..4.0,
    ) {
        let before = ring_of(Settings::default(), &nodes);
        let (name, old) = &nodes[which.index(nodes.len())];
        let mut after = before.clone();
        after.set_weight(name, weight).unwrap();
        for hash in 0..2_000 {
            let (from, to) = (owner(&before, hash), owner(&after, hash));
            let gains = weight >= *old;
            prop_assert!(from == to || (gains && to == name) || (!gains && from == name));
        }
    }

    #[test]
    fn the_same_nodes_give_the_same_ring_by_whatever_way(
        nodes in any_nodes(10),
        order in Just((0..10).collect::<Vec<usize>>()).prop_shuffle(),
        detour in 0.1_f64..4.0,
    ) {
        let straight = ring_of(Settings::default(), &nodes);
        let mut winding = Ring::default();
        winding.add("PASSING", detour).unwrap();
        for (name, weight) in order.iter().filter_map(|at| nodes.get(*at)) {
            winding.add(name, detour).unwrap();
            winding.set_weight(name, *weight).unwrap();
        }
        winding.remove("PASSING").unwrap();
        prop_assert_eq!(layout(&straight), layout(&winding));
        prop_assert_eq!(&straight.points.positions(), &winding.points.positions());
        for hash in 0..200 {
            prop_assert_eq!(owner(&straight, hash), owner(&winding, hash));
        }
    }

    #[test]
    fn shares_follow_weights_as_closely_as_the_points_allow(nodes in any_nodes(10)) {
        let ring = ring_of(Settings::default(), &nodes);
        let total: u64 = ring.nodes().map(|node| u64::from(node.points())).sum();
        let mut sum = 0.0;
        for (node, share) in ring.shares() {
            let points = f64::from(node.points());
            let fair = points / total as f64;
            // Six times the deviation that chance gives to a sum of this many arcs.
            let bound = 6.0 * fair / points.sqrt();
            prop_assert!((share - fair).abs() <= bound, "{} has {share}, not {fair}", node.name());
            sum += share;
        }
        prop_assert!((sum - 1.0).abs() < 1e-9);
    }

    #[test]
    fn owners_are_distinct_complete_and_begin_with_the_owner(nodes in any_nodes(40), hash: u64) {
        let ring = ring_of(Settings::default(), &nodes);
        let owners: Vec<&str> = ring.owners(hash).map(|node| node.name()).collect();
        prop_assert_eq!(owners[0], owner(&ring, hash));
        prop_assert_eq!(owners.len(), nodes.len());
        prop_assert_eq!(owners.iter().collect::<BTreeSet<_>>().len(), nodes.len());
        let three: Vec<&str> = ring.replicas(hash, 3).map(|node| node.name()).collect();
        prop_assert_eq!(&three[..], &owners[..nodes.len().min(3)]);
        // The walk with repeats names them in the same order.
        let mut walked: Vec<&str> = Vec::new();
        for id in ring.walk(hash) {
            let name = ring.nodes[id as usize].name();
            if !walked.contains(&name) {
                walked.push(name);
            }
        }
        prop_assert_eq!(walked, owners);
    }

    #[test]
    fn another_density_keeps_ids_and_gives_the_ring_of_that_density(nodes in any_nodes(10)) {
        let mut ring = ring_of(Settings::default(), &nodes);
        let ids: Vec<usize> = ring.nodes().map(|node| node.id()).collect();
        prop_assert!(ring.allows(150.0) && !ring.allows(1e9));
        ring.rescale(75.0);
        let coarse = ring_of(Settings { points: 75, ..Settings::default() }, &nodes);
        prop_assert_eq!(layout(&ring), layout(&coarse));
        prop_assert_eq!(ring.nodes().map(|node| node.id()).collect::<Vec<_>>(), ids);
    }
}
