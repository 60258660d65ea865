//! The ring as a policy: keys stay with their target while targets come, go, drain, fill up and change their weight.

use std::collections::BTreeMap;
use std::time::Duration;

use divvy_placement::hashing::policy::Settings;
use divvy_placement::hashing::{RingPolicy, ring};
use divvy_placement::{Balancer, Outcome, Pick, Reason, Request, TargetId, TargetSpec};
use proptest::prelude::*;

const NOW: Duration = Duration::from_secs(1);
const KEYS: u64 = 2_000;

fn balancer(settings: Settings, names: &[&str]) -> (Balancer<RingPolicy>, Vec<TargetId>) {
    let mut balancer = Balancer::new(RingPolicy::new(settings).expect("good settings"));
    let mut add = |name: &&str| balancer.add(TargetSpec::new(*name), NOW).expect("a new name");
    let ids = names.iter().map(&mut add).collect();
    (balancer, ids)
}

fn pick(balancer: &mut Balancer<RingPolicy>, key: u64) -> TargetId {
    balancer.pick(&Request::keyed(key), NOW).first().expect("a target fits")
}

fn owners(balancer: &mut Balancer<RingPolicy>) -> Vec<TargetId> {
    (0..KEYS).map(|key| pick(balancer, key)).collect()
}

#[test]
fn keys_of_a_target_that_is_down_or_drains_go_on_and_come_back() {
    let (mut balancer, ids) = balancer(Settings::default(), &["a", "b", "c", "d"]);
    let before = owners(&mut balancer);
    balancer.mark_down(ids[1], NOW).unwrap();
    balancer.drain(ids[2], NOW).unwrap();
    for (old, new) in before.iter().zip(owners(&mut balancer)) {
        assert!(new == ids[0] || new == ids[3]);
        assert!(*old == new || *old == ids[1] || *old == ids[2], "a key moved without need");
    }
    balancer.mark_up(ids[1], NOW).unwrap();
    balancer.mark_up(ids[2], NOW).unwrap();
    assert_eq!(owners(&mut balancer), before);
}

#[test]
fn only_keys_of_a_removed_target_move_and_its_successor_in_the_slot_gets_its_own() {
    let (mut balancer, ids) = balancer(Settings::default(), &["a", "b", "c"]);
    let before = owners(&mut balancer);
    balancer.remove(ids[0], NOW).unwrap();
    let without = owners(&mut balancer);
    for (old, new) in before.iter().zip(&without) {
        assert!(old == new || (*old == ids[0] && *new != ids[0]));
    }
    let fresh = balancer.add(TargetSpec::new("fresh"), NOW).unwrap();
    assert_eq!(fresh.slot(), ids[0].slot());
    let with = owners(&mut balancer);
    assert!(without.iter().zip(&with).all(|(old, new)| old == new || *new == fresh));
    assert!(with.contains(&fresh));
}

#[test]
fn a_target_that_leaves_before_the_first_pick_was_never_there() {
    let (mut balancer, ids) = balancer(Settings::default(), &["a", "b"]);
    balancer.remove(ids[0], NOW).unwrap();
    assert_eq!(pick(&mut balancer, 1), ids[1]);
    assert_eq!(balancer.policy().ring().len(), 1);
    balancer.remove(ids[1], NOW).unwrap();
    let pick = balancer.pick(&Request::keyed(1), NOW);
    assert_eq!(pick, Pick::Shed(Reason::NoTargetUp));
}

#[test]
fn shares_follow_the_weight_when_it_changes() {
    let (mut balancer, ids) = balancer(Settings::default(), &["a", "b", "c"]);
    let share = |balancer: &mut Balancer<RingPolicy>| {
        owners(balancer).iter().filter(|id| **id == ids[0]).count() as f64 / KEYS as f64
    };
    assert!((0.25..0.42).contains(&share(&mut balancer)));
    balancer.set_weight(ids[0], 6.0, NOW).unwrap();
    assert!((0.68..0.82).contains(&share(&mut balancer)));
    balancer.set_weight(ids[0], 0.1, NOW).unwrap();
    assert!((0.01..0.1).contains(&share(&mut balancer)));
}

#[test]
fn a_full_or_excluded_owner_gives_way_to_the_next_in_order() {
    let (mut balancer, ids) = balancer(Settings::default(), &["a", "b", "c", "d"]);
    let wanted = Request { want: 4, ..Request::keyed(7) };
    let Pick::Ranked(ranked) = balancer.pick(&wanted, NOW) else { panic!("several were wanted") };
    let order = ranked.as_slice().to_vec();
    assert_eq!(order.len(), 4);
    assert_eq!(order[0], pick(&mut balancer, 7));
    for tried in 1..4 {
        let request = Request { exclude: &order[..tried], ..Request::keyed(7) };
        assert_eq!(balancer.pick(&request, NOW), Pick::One(order[tried]));
    }
    let all = Request { exclude: &order, ..Request::keyed(7) };
    assert_eq!(balancer.pick(&all, NOW), Pick::Shed(Reason::AllExcluded));
    for id in &ids {
        balancer.set_limit(*id, Some(1), NOW).unwrap();
    }
    for id in &order {
        assert_eq!(balancer.assign(&Request::keyed(7), NOW), Pick::One(*id));
    }
    assert_eq!(balancer.pick(&Request::keyed(7), NOW), Pick::Wait);
    assert_eq!(balancer.pick(&wanted, NOW), Pick::Wait);
    balancer.finish(order[2], NOW, Outcome::Success, NOW);
    assert_eq!(balancer.pick(&Request::keyed(7), NOW), Pick::One(order[2]));
    let Pick::Ranked(one) = balancer.pick(&wanted, NOW) else { panic!("several were wanted") };
    assert_eq!(one.as_slice(), [order[2]]);
}

#[test]
fn requests_without_a_key_are_drawn_by_weight() {
    let (mut balancer, ids) = balancer(Settings::default(), &["a", "b"]);
    balancer.set_weight(ids[1], 3.0, NOW).unwrap();
    let mut counts: BTreeMap<TargetId, u32> = BTreeMap::new();
    for _ in 0..4_000 {
        let id = balancer.pick(&Request::default(), NOW).first().unwrap();
        *counts.entry(id).or_default() += 1;
    }
    assert!((700..1_300).contains(&counts[&ids[0]]), "{counts:?}");
}

#[test]
fn a_bound_keeps_one_key_from_filling_one_target() {
    let settings = Settings { bound: Some(0.25), ..Settings::default() };
    let (mut balancer, ids) = balancer(settings, &["a", "b", "c", "d"]);
    for _ in 0..400 {
        balancer.assign(&Request::keyed(7), NOW).first().unwrap();
    }
    let loads: Vec<u32> = balancer.targets().iter().map(|target| target.in_flight).collect();
    assert!(loads.iter().all(|load| *load <= 125), "{loads:?}");
    assert_eq!(*loads.iter().max().unwrap(), 125);
    // With one target left the bound gives way to the need.
    for id in &ids[1..] {
        balancer.mark_down(*id, NOW).unwrap();
    }
    assert_eq!(pick(&mut balancer, 7), ids[0]);
}

#[test]
fn what_a_draining_target_still_does_does_not_lift_the_bound_of_others() {
    let settings = Settings { bound: Some(0.25), ..Settings::default() };
    let (mut balancer, ids) = balancer(settings, &["a", "b", "c", "d"]);
    balancer.drain(ids[3], NOW).unwrap();
    let owner = pick(&mut balancer, 7);
    (0..400).for_each(|_| balancer.start(ids[3], NOW));
    balancer.start(owner, NOW);
    assert_ne!(pick(&mut balancer, 7), owner);
}

#[test]
fn a_bound_gives_way_when_only_targets_beyond_it_are_able() {
    let settings = Settings { bound: Some(0.25), ..Settings::default() };
    let (mut balancer, _) = balancer(settings, &["a", "b", "c"]);
    let able = balancer.add(TargetSpec::new("gpu").capability("gpu", 1.0), NOW).unwrap();
    let request = Request { needs: &[("gpu", 1.0)], ..Request::keyed(7) };
    for _ in 0..50 {
        assert_eq!(balancer.assign(&request, NOW), Pick::One(able));
    }
}

#[test]
fn weights_that_ask_for_too_many_points_make_the_ring_coarser_the_same_by_any_way() {
    let ring = ring::Settings { points: 100, points_max: 1_000 };
    let settings = Settings { ring, ..Settings::default() };
    let (mut all_at_once, _) = balancer(settings, &["a", "b", "c"]);
    let heavy = all_at_once.add(TargetSpec::new("heavy").weight(40.0), NOW).unwrap();
    let coarse = owners(&mut all_at_once);
    assert!(all_at_once.policy().ring().points() <= 1_000);
    assert!(coarse.iter().filter(|id| **id == heavy).count() > 1_700);

    let (mut one_by_one, ids) = balancer(settings, &["a", "b", "c"]);
    let fine = owners(&mut one_by_one);
    let heavy = one_by_one.add(TargetSpec::new("heavy").weight(900.0), NOW).unwrap();
    owners(&mut one_by_one);
    one_by_one.set_weight(heavy, 40.0, NOW).unwrap();
    assert_eq!(owners(&mut one_by_one), coarse);
    one_by_one.remove(heavy, NOW).unwrap();
    assert_eq!(owners(&mut one_by_one), fine);
    assert_eq!(one_by_one.policy().ring().points(), 300);
    one_by_one.set_weight(ids[0], 1_000_000.0, NOW).unwrap();
    assert_eq!(pick(&mut one_by_one, 1), ids[0]);
}

#[test]
fn a_ring_is_made_no_coarser_than_it_must_be() {
    let ring = ring::Settings { points: 1, points_max: 3 };
    let (mut balancer, _) = balancer(Settings { ring, ..Settings::default() }, &[]);
    let id = balancer.add(TargetSpec::new("a").weight(6.8), NOW).unwrap();
    assert_eq!(pick(&mut balancer, 1), id);
    // Seven points are too many, and half as many round to three.
    assert_eq!(balancer.policy().ring().points(), 3);
    // More targets than points allowed get one point each.
    for at in 0..4 {
        balancer.add(TargetSpec::new(format!("t{at}")), NOW).unwrap();
    }
    pick(&mut balancer, 1);
    assert_eq!(balancer.policy().ring().points(), 5);
}

#[test]
fn settings_that_make_no_sense_are_refused_with_the_field() {
    for bound in [0.0, -0.25, f64::NAN] {
        let settings = Settings { bound: Some(bound), ..Settings::default() };
        let error = RingPolicy::new(settings).unwrap_err();
        assert!(error.to_string().starts_with("`bound`"), "{error}");
    }
    let ring = ring::Settings { points: 0, ..ring::Settings::default() };
    let error = RingPolicy::new(Settings { ring, ..Settings::default() }).unwrap_err();
    assert!(error.to_string().starts_with("`points`"), "{error}");
}

/// A stray end must not make the others look as if they had more than their share.
#[test]
fn a_finish_that_nobody_started_changes_no_bound() {
    let settings = Settings { bound: Some(0.25), ..Settings::default() };
    let (mut balancer, ids) = balancer(settings, &["a", "b"]);
    balancer.start(ids[0], NOW);
    let before = owners(&mut balancer);
    balancer.finish(ids[1], NOW, Outcome::Success, NOW);
    assert_eq!(owners(&mut balancer), before);
}

#[derive(Clone, Debug)]
enum Step {
    Add(u8),
    Remove(u8),
    Down(u8),
    Up(u8),
    Weigh(u8, f64),
    Ask(u64),
    Start(u8),
    Finish(u8),
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..6_u8).prop_map(Step::Add),
        (0..6_u8).prop_map(Step::Remove),
        (0..6_u8).prop_map(Step::Down),
        (0..6_u8).prop_map(Step::Up),
        (0..6_u8, 0.1_f64..20.0).prop_map(|(at, weight)| Step::Weigh(at, weight)),
        (0..100_u64).prop_map(Step::Ask),
        (0..6_u8).prop_map(Step::Start),
        (0..6_u8).prop_map(Step::Finish),
    ]
}

/// Takes a step; one about a target that is not there does nothing.
fn take(balancer: &mut Balancer<RingPolicy>, step: Step) {
    let id = |at: u8| balancer.targets().by_name(&format!("t{at}")).map(|target| target.id);
    let (id, step) = match step {
        Step::Ask(key) => {
            balancer.assign(&Request::keyed(key), NOW);
            return;
        }
        Step::Add(at) if id(at).is_none() => {
            balancer.add(TargetSpec::new(format!("t{at}")), NOW).expect("a new name");
            return;
        }
        Step::Add(at)
        | Step::Remove(at)
        | Step::Down(at)
        | Step::Up(at)
        | Step::Weigh(at, _)
        | Step::Start(at)
        | Step::Finish(at) => (id(at), step),
    };
    let Some(id) = id else { return };
    let changed = match step {
        Step::Remove(_) => balancer.remove(id, NOW),
        Step::Down(_) => balancer.mark_down(id, NOW),
        Step::Up(_) => balancer.mark_up(id, NOW),
        Step::Weigh(_, weight) => balancer.set_weight(id, weight, NOW),
        Step::Start(_) => {
            balancer.start(id, NOW);
            Ok(())
        }
        Step::Finish(_) => {
            balancer.finish(id, NOW, Outcome::Success, NOW);
            Ok(())
        }
        Step::Add(_) | Step::Ask(_) => Ok(()),
    };
    changed.expect("the target is there");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn whatever_happened_before_owners_are_those_of_a_fresh_ring(steps in prop::collection::vec(any_step(), 0..60)) {
        let ring = ring::Settings { points: 20, points_max: 200 };
        let settings = Settings { ring, bound: Some(0.25), ..Settings::default() };
        let mut worn = Balancer::new(RingPolicy::new(settings).unwrap());
        steps.into_iter().for_each(|step| take(&mut worn, step));
        let mut fresh = Balancer::new(RingPolicy::new(settings).unwrap());
        for target in worn.targets().iter() {
            let copy = fresh.add(target.spec.clone(), NOW).unwrap();
            if target.state != divvy_placement::State::Up {
                fresh.mark_down(copy, NOW).unwrap();
            }
            (0..target.in_flight).for_each(|_| fresh.start(copy, NOW));
        }
        let name = |balancer: &mut Balancer<RingPolicy>, key: u64| {
            let first = balancer.pick(&Request::keyed(key), NOW).first()?;
            Some(balancer.targets().get(first).unwrap().spec.name.clone())
        };
        for key in 0..100 {
            prop_assert_eq!(name(&mut worn, key), name(&mut fresh, key));
        }
    }
}
