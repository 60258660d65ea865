//! A hot partition: 90 % of the requests for 1 % of the keys, of which one alone has half.

use std::collections::BTreeMap;
use std::time::Duration;

use divvy_placement::hashing::hot::{self, HotKeys, Splits, part_name};
use divvy_placement::hashing::policy::Settings;
use divvy_placement::hashing::{Ring, RingPolicy, hash_of};
use divvy_placement::{Balancer, Outcome, Pick, Request, TargetId, TargetSpec};

const CELEBRITY: u64 = 7;

fn now(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn balancer(hot: Option<hot::Settings>) -> Balancer<RingPolicy> {
    let settings = Settings { hot, seed: 1, ..Settings::default() };
    let mut balancer = Balancer::new(RingPolicy::new(settings).expect("good settings"));
    for at in 0..10 {
        balancer.add(TargetSpec::new(format!("node{at}")), now(0)).expect("a new name");
    }
    balancer
}

/// Of 1,000 keys, ten get 90 % of the requests, and the first of these half of all.
fn draw(random: &mut fastrand::Rng) -> u64 {
    match random.u32(..100) {
        0..50 => CELEBRITY,
        50..90 => CELEBRITY + random.u64(1..10),
        _ => 1_000 + random.u64(..990),
    }
}

/// Sends requests of which each stays in flight for the next fifty, and counts them by target.
fn run(balancer: &mut Balancer<RingPolicy>, requests: u64) -> BTreeMap<TargetId, u64> {
    let mut random = fastrand::Rng::with_seed(2);
    let mut in_flight = std::collections::VecDeque::new();
    let mut counts = BTreeMap::new();
    for at in 0..requests {
        let pick = balancer.assign(&Request::keyed(draw(&mut random)), now(at));
        let id = pick.first().expect("a target fits");
        *counts.entry(id).or_default() += 1;
        in_flight.push_back(id);
        if in_flight.len() > 50
            && let Some(id) = in_flight.pop_front()
        {
            balancer.finish(id, now(50), Outcome::Success, now(at));
        }
    }
    counts
}

#[test]
fn the_fullest_target_is_far_less_loaded_than_without() {
    let peak = |counts: BTreeMap<TargetId, u64>| counts.into_values().max().unwrap();
    let without = peak(run(&mut balancer(None), 20_000));
    let with = peak(run(&mut balancer(Some(hot::Settings::default())), 20_000));
    assert!(without >= 10_000, "{without}");
    assert!(with <= 4_000, "{with} of 20,000 on one of ten targets");
}

#[test]
fn cold_keys_stay_with_their_owner_and_the_hot_key_with_its_first_owners() {
    let mut spread = balancer(Some(hot::Settings::default()));
    run(&mut spread, 20_000);
    let mut plain = balancer(None);
    for key in 100..200 {
        let first = plain.pick(&Request::keyed(key), now(20_000)).first();
        assert_eq!(spread.pick(&Request::keyed(key), now(20_000)).first(), first);
    }
    let hottest = spread.policy().hot_keys().unwrap().hot().next().unwrap();
    assert_eq!((hottest.counter.key, hottest.spread), (CELEBRITY, 8));
    let ring = spread.policy().ring().clone();
    let owners: Vec<&str> = ring.replicas(CELEBRITY, 8).map(|node| node.name()).collect();
    for _ in 0..100 {
        let id = spread.pick(&Request::keyed(CELEBRITY), now(20_000)).first().unwrap();
        assert!(owners.contains(&spread.targets().get(id).unwrap().spec.name.as_str()));
    }
}

#[test]
fn a_ranked_answer_for_a_hot_key_names_different_targets() {
    let mut balancer = balancer(Some(hot::Settings::default()));
    run(&mut balancer, 20_000);
    let request = Request { want: 3, ..Request::keyed(CELEBRITY) };
    let mut firsts = std::collections::BTreeSet::new();
    for _ in 0..100 {
        let Pick::Ranked(ranked) = balancer.pick(&request, now(20_000)) else {
            panic!("several were wanted")
        };
        assert_eq!(ranked.as_slice().len(), 3);
        firsts.insert(ranked.as_slice()[0]);
    }
    assert!(firsts.len() > 2);
}

#[test]
fn a_key_that_cools_goes_back_to_its_owner_alone() {
    let mut spread = balancer(Some(hot::Settings::default()));
    run(&mut spread, 20_000);
    let owner = balancer(None).pick(&Request::keyed(CELEBRITY), now(0)).first();
    for at in 0..200_u64 {
        let request = Request::keyed(50_000 + at);
        for _ in 0..10 {
            spread.pick(&request, now(20_000 + at * 500));
        }
    }
    for _ in 0..50 {
        assert_eq!(spread.pick(&Request::keyed(CELEBRITY), now(120_000)).first(), owner);
    }
}

#[test]
fn a_counter_split_over_owners_adds_up_while_it_is_hot_and_after() {
    let mut ring = Ring::default();
    for at in 0..10 {
        ring.add(&format!("node{at}"), 1.0).unwrap();
    }
    let mut keys = HotKeys::new(hot::Settings::default()).unwrap();
    let mut splits = Splits::new();
    let mut random = fastrand::Rng::with_seed(3);
    let mut stored: BTreeMap<(String, String), u64> = BTreeMap::new();
    let key = hash_of("likes");
    for at in 0..5_000 {
        let parts = splits.write(key, keys.record(key, now(at)));
        let name = part_name("likes", random.usize(..parts));
        let node = ring.node_of_key(&name).unwrap().name().to_owned();
        *stored.entry((node, name)).or_default() += 1;
    }
    assert!(stored.len() > 4, "{stored:?}");
    let read = |splits: &Splits| -> u64 {
        let names = (0..splits.read(key)).map(|part| part_name("likes", part));
        names
            .map(|name| (ring.node_of_key(&name).unwrap().name().to_owned(), name))
            .filter_map(|place| stored.get(&place))
            .sum()
    };
    assert_eq!(read(&splits), 5_000);
    keys.fade_until(now(1_000_000));
    assert_eq!(splits.write(key, keys.record(key, now(1_000_000))), 1);
    assert_eq!(read(&splits), 5_000);
}
