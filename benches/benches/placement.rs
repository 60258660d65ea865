//! Picks per second of every policy, and lookups on the ring beside ring crates.

use std::net::SocketAddr;
use std::time::Duration;

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use divvy_placement::hashing::{Maglev, Ring, hash_of, maglev, ring};
use divvy_placement::policies::Kind;
use divvy_placement::{Balancer, Policy as _, Request, TargetSpec};

/// Picks or lookups per round.
const ROUND: usize = 1_000;
/// Targets of a balancer.
const TARGETS: usize = 16;
/// Nodes and points per node of a ring.
const NODES: usize = 10;
const POINTS: usize = 150;

fn main() {
    divan::main();
}

/// One pick, without counting the request: the cost of the decision.
#[divan::bench(args = Kind::ALL)]
fn pick(bencher: Bencher<'_, '_>, kind: Kind) {
    let now = Duration::from_secs(1);
    let mut balancer = Balancer::new(kind.build(7));
    for number in 0..TARGETS {
        let spec = TargetSpec::new(format!("target-{number}"));
        balancer.add(spec, now).expect("names are unlike");
    }
    let name = balancer.policy().name();
    assert_eq!(name, kind.to_string(), "the table names what it measures");
    bencher.counter(ItemsCount::new(ROUND)).bench_local(|| {
        for key in 0..ROUND as u64 {
            black_box(balancer.pick(&Request::keyed(key), now));
        }
    });
}

fn keys() -> Vec<String> {
    (0..ROUND).map(|number| format!("user_{number}")).collect()
}

fn names() -> Vec<String> {
    (0..NODES).map(|number| format!("10.0.0.{number}:8080")).collect()
}

fn bench_lookup<T>(bencher: Bencher<'_, '_>, mut lookup: impl FnMut(&str) -> T) {
    let keys = keys();
    bencher.counter(ItemsCount::new(ROUND)).bench_local(|| {
        for key in &keys {
            black_box(lookup(key));
        }
    });
}

#[divan::bench]
fn lookup_divvy_ring(bencher: Bencher<'_, '_>) {
    let mut ring = Ring::new(ring::Settings::default()).expect("the defaults are right");
    for name in names() {
        ring.add(&name, 1.0).expect("names are unlike");
    }
    assert_eq!(ring.points(), NODES * POINTS, "all rings have as many points");
    bench_lookup(bencher, |key| ring.node_of(hash_of(key)).map(|node| node.weight()));
}

#[divan::bench]
fn lookup_divvy_maglev(bencher: Bencher<'_, '_>) {
    let names = names();
    let nodes = names.iter().map(|name| (name.as_str(), 1.0));
    let table = Maglev::new(maglev::Settings::default(), nodes).expect("names are unlike");
    bench_lookup(bencher, |key| table.node_of(hash_of(key)).map(|node| node.weight()));
}

#[divan::bench]
fn lookup_consistent_hash_ring(bencher: Bencher<'_, '_>) {
    let ring =
        consistent_hash_ring::RingBuilder::default().vnodes(POINTS).nodes_iter(names()).build();
    bench_lookup(bencher, |key| ring.get(key).len());
}

#[divan::bench]
fn lookup_hashring(bencher: Bencher<'_, '_>) {
    let mut ring = hashring::HashRing::new();
    // This crate has no virtual nodes: each point is a node.
    for name in names() {
        ring.batch_add((0..POINTS).map(|point| (name.clone(), point)).collect());
    }
    bench_lookup(bencher, |key| ring.get(&key).map(|(name, _)| name.len()));
}

#[divan::bench]
fn lookup_pingora_ketama(bencher: Bencher<'_, '_>) {
    let address = |name: String| name.parse::<SocketAddr>().expect("the names are addresses");
    let buckets: Vec<pingora_ketama::Bucket> =
        names().into_iter().map(|name| pingora_ketama::Bucket::new(address(name), 1)).collect();
    let ring = pingora_ketama::Continuum::new(&buckets);
    bench_lookup(bencher, |key| ring.node(key.as_bytes()).map(|node| node.port()));
}
