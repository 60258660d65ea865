//! Shows that loads are even, that keys keep to their branch, and that a branch without a fitting target is left.

use super::*;
use crate::hashing::hash_of;
use crate::{Balancer, Outcome, TargetId, TargetSpec};

const NOW: Duration = Duration::ZERO;

fn balancer(settings: Settings, specs: Vec<TargetSpec>) -> (Balancer<Hierarchical>, Vec<TargetId>) {
    let mut balancer = Balancer::new(Hierarchical::new(settings, 6).unwrap());
    let ids = specs.into_iter().map(|spec| balancer.add(spec, NOW).unwrap()).collect();
    (balancer, ids)
}

fn plain(count: usize) -> Vec<TargetSpec> {
    (0..count).map(|index| TargetSpec::new(index.to_string())).collect()
}

fn regions() -> Vec<TargetSpec> {
    let sizes = [("eu", 6), ("us", 3), ("asia", 1)];
    let racks = sizes.into_iter().flat_map(|(region, size)| (0..size).map(move |at| (region, at)));
    racks
        .map(|(region, at)| {
            TargetSpec::new(format!("{region}-{at}")).path([region, &format!("rack-{}", at % 2)])
        })
        .collect()
}

fn loads(balancer: &Balancer<Hierarchical>) -> Vec<u32> {
    balancer.targets().iter().map(|target| target.in_flight).collect()
}

#[test]
fn load_is_even_to_within_one_whatever_the_shape() {
    for specs in [plain(7), plain(16), plain(100), plain(1_000), regions()] {
        let count = specs.len() as u32;
        let (mut balancer, _) = balancer(Settings { fanout: 4, ..Settings::default() }, specs);
        for _ in 0..count * 5 {
            balancer.assign(&Request::default(), NOW);
        }
        // Branches of unequal weight are compared as a whole: whole requests cannot always split evenly below.
        let loads = loads(&balancer);
        assert!(loads.iter().all(|load| (4..=6).contains(load)), "{loads:?}");
    }
}

#[test]
fn finished_requests_make_room_in_their_branch() {
    let (mut balancer, ids) = balancer(Settings::default(), regions());
    for _ in 0..100 {
        balancer.assign(&Request::default(), NOW);
    }
    (0..5).for_each(|_| balancer.finish(ids[9], NOW, Outcome::Success, NOW));
    let next: Vec<_> = (0..3).map(|_| balancer.assign(&Request::default(), NOW).first()).collect();
    assert_eq!(next, [Some(ids[9]); 3]);
}

#[test]
fn keys_follow_weights_and_only_keys_of_a_target_that_left_move_far() {
    let settings = Settings { by: By::Key, fanout: 4 };
    let (mut balancer, ids) = balancer(settings, regions());
    let keys: Vec<u64> = (0..20_000u32).map(|key| hash_of(key.to_le_bytes())).collect();
    let home = |balancer: &mut Balancer<Hierarchical>, key: &u64| {
        balancer.pick(&Request::keyed(*key), NOW).first().unwrap()
    };
    let before: Vec<TargetId> = keys.iter().map(|key| home(&mut balancer, key)).collect();
    for id in &ids {
        let share = before.iter().filter(|home| *home == id).count();
        assert!((1_700..2_300).contains(&share), "{share} of 2000");
    }
    balancer.remove(ids[0], NOW).unwrap();
    let after: Vec<TargetId> = keys.iter().map(|key| home(&mut balancer, key)).collect();
    let moved = before.iter().zip(&after).filter(|(before, after)| before != after).count();
    // A tenth has to move; the branches above have become lighter, which moves as much again and no more.
    assert!((1_700..4_500).contains(&moved), "{moved} of 20000");
}

#[test]
fn a_branch_without_a_target_that_fits_is_left_for_the_next_best() {
    let mut specs = regions();
    specs[9].capabilities.insert("gpu".into(), 1.0);
    let (mut balancer, ids) = balancer(Settings::default(), specs);
    (0..50).for_each(|_| balancer.start(ids[9], NOW));
    let request = Request { needs: &[("gpu", 1.0)], ..Request::default() };
    assert_eq!(balancer.pick(&request, NOW), Pick::One(ids[9]));
    let request = Request { exclude: &[ids[9]], ..request };
    assert_eq!(balancer.pick(&request, NOW).first(), None);
    let request = Request { exclude: &ids[1..], ..Request::default() };
    assert_eq!(balancer.pick(&request, NOW), Pick::One(ids[0]));
}

#[test]
fn a_long_path_is_cut_and_a_fanout_of_one_is_refused() {
    let deep = (0..100).map(|level| level.to_string());
    let specs = vec![TargetSpec::new("deep").path(deep), TargetSpec::new("flat")];
    let (mut balancer, _) = balancer(Settings::default(), specs);
    (0..10).for_each(|_| assert!(balancer.assign(&Request::default(), NOW).first().is_some()));
    assert_eq!(loads(&balancer), [5, 5]);
    for fanout in [0, 1, FANOUT_MAX + 1] {
        let error = Hierarchical::new(Settings { fanout, by: By::Load }, 0).unwrap_err();
        assert!(error.to_string().contains("`fanout`"), "{error}");
    }
}
