//! A pool with a scaler of its own, without an engine: what is told to whom, and what is judged.

use std::collections::BTreeMap;

use divvy_autoscale::{Fleet, KindLoad};
use divvy_types::pools::{Pace, Policy, WorkerType};

use super::pool::GRACE;
use super::sampling::{Member, Offers};
use super::*;

const EVERY: Duration = Duration::from_secs(1);

fn pool(policy: Policy) -> Pool {
    Pool {
        driver: Driver::Exec { command: vec!["scale".into()] },
        min: 1,
        max: 4,
        policy,
        down: Pace::default(),
        ..Pool::default()
    }
}

pub(super) fn member(name: &str, running: u32, keys: u32) -> Member {
    Member {
        name: name.into(),
        worker_type: "worker".into(),
        draining: false,
        paused: false,
        running,
        queued: 0,
        keys,
        since: Timestamp(0),
    }
}

/// What is seen when so many tasks wait and these work.
fn seen(second: u64, waiting: u64, members: &[Member]) -> Seen {
    let fleet = Fleet { running: members.len() as u32, ..Fleet::default() };
    let load = KindLoad {
        arrived: waiting,
        waiting,
        running: members.iter().map(|one| u64::from(one.running)).sum(),
        run_sec: Some(10.0),
        run_p95_sec: Some(12.0),
        ..KindLoad::default()
    };
    let sample = Sample {
        at: Timestamp(second * 1_000_000),
        kinds: [("k".into(), load)].into(),
        fleet: [("worker".into(), fleet)].into(),
        ..Sample::default()
    };
    Seen { sample, members: members.to_vec(), ..Seen::default() }
}

fn total(order: &Order) -> u32 {
    order.wanted.values().sum()
}

#[test]
fn a_fixed_pool_asks_once_and_rests_when_all_are_there() {
    let mut one = Pooled::new(pool(Policy::Fixed), Kept::default());
    one.take(seen(1, 0, &[]), Used::default(), false, EVERY);
    let order = one.order(&"p".into()).expect("nothing is there");
    assert_eq!(total(&order), 4);
    assert!(one.order(&"p".into()).is_none(), "it has not answered");
    one.answered(Ok(order.wanted));
    one.take(seen(2, 0, &[]), Used::default(), false, EVERY);
    assert_eq!(one.sample.fleet["worker"].starting, 4);
    assert!(one.order(&"p".into()).is_none() && !one.is_at_rest(), "they start");
    let four: Vec<Member> = (0..4).map(|number| member(&format!("p-{number}"), 0, 0)).collect();
    one.take(seen(3, 0, &four), Used::default(), false, EVERY);
    assert!(one.is_at_rest() && one.trouble(&"p".into(), Timestamp(3_000_000)).is_none());
    one.take(seen(4, 1, &four), Used::default(), true, EVERY);
    assert!(!one.is_at_rest(), "something waits");
}

#[test]
fn a_driver_that_fails_or_lies_is_told() {
    let name: Name = "p".into();
    let mut one = Pooled::new(pool(Policy::Fixed), Kept::default());
    one.take(seen(0, 0, &[]), Used::default(), false, EVERY);
    let order = one.order(&name).unwrap();
    one.answered(Err("no quota".into()));
    let (text, _) = one.trouble(&name, Timestamp(0)).unwrap();
    assert_eq!(text, "pool `p` cannot be scaled: no quota");
    one.take(seen(5, 0, &[]), Used::default(), false, EVERY);
    assert!(one.order(&name).is_none(), "not so soon again");
    one.take(seen(11, 0, &[]), Used::default(), false, EVERY);
    assert!(one.order(&name).is_some());
    // It says that all are there, and none ever comes.
    one.answered(Ok(order.wanted));
    let late = |one: &Pooled, second| one.trouble(&name, Timestamp(second * 1_000_000));
    assert_eq!(late(&one, GRACE.as_secs()), None);
    let (text, cure) = late(&one, GRACE.as_secs() + 1).unwrap();
    assert_eq!(text, "pool `p` wants 4, its driver says 4, and 0 connected, for 31 s");
    assert!(cure.contains("pool=p"), "{cure}");
}

#[test]
fn boots_are_waited_for() {
    let mut settings = pool(Policy::Fixed);
    settings.types = vec![WorkerType { boot_sec: 100.0, ..WorkerType::default() }];
    let mut one = Pooled::new(settings, Kept::default());
    one.take(seen(0, 0, &[]), Used::default(), false, EVERY);
    assert!(one.trouble(&"p".into(), Timestamp(129_000_000)).is_none());
    assert!(one.trouble(&"p".into(), Timestamp(131_000_000)).is_some());
}

#[test]
fn who_has_least_to_do_and_the_fewest_keys_goes_first_and_that_is_told() {
    let mut one = Pooled::new(pool(Policy::Fixed), Kept::default());
    let members = [member("busy", 2, 0), member("keys", 0, 7), member("free", 0, 1)];
    one.take(seen(1, 0, &members), Used::default(), false, EVERY);
    let order = one.order(&"p".into()).unwrap();
    assert_eq!(order.leave_first["worker"], ["free", "keys", "busy"]);
    assert_eq!(one.leaving(), None, "more are wanted, not fewer");
    let mut settings = pool(Policy::Fixed);
    settings.max = 1;
    one.reload(settings);
    one.take(seen(2, 0, &members), Used::default(), false, EVERY);
    let told = one.leaving().unwrap();
    assert_eq!(told, "free, keys can go; tasks with 8 affinity keys lose their worker");
}

#[test]
fn work_that_another_pool_leaves_to_this_one_has_not_arrived_just_now() {
    let mut one = Pooled::new(pool(Policy::Queue), Kept::default());
    let mut arrived = |second, total, share: Option<f64>| {
        let mut now = seen(second, 0, &[]);
        now.sample.kinds.get_mut("k").unwrap().arrived = total;
        now.shared =
            share.map(|share| ("k".into(), (share, vec!["b".into()]))).into_iter().collect();
        one.take(now, Used::default(), false, EVERY);
        one.sample.kinds["k"].arrived
    };
    assert_eq!(arrived(1, 500, Some(0.5)), 0, "they came before the first look");
    assert_eq!(arrived(2, 502, Some(0.5)), 2);
    // The driver of the other fails: from now on all of it counts here.
    assert_eq!(arrived(3, 1_006, None), 0);
    assert_eq!(arrived(4, 1_010, None), 4);
}

#[test]
fn what_a_pool_begins_to_take_has_not_arrived_just_now() {
    let settings = |kinds: &[&str]| Pool {
        kinds: kinds.iter().map(|kind| Name::from(*kind)).collect(),
        ..pool(Policy::Queue)
    };
    let mut one = Pooled::new(settings(&["k"]), Kept::default());
    let look = |one: &mut Pooled, second, totals: &[(&str, u64)], offers: &[&str]| {
        let mut now = seen(second, 0, &[]);
        let load = |arrived: &u64| KindLoad { arrived: *arrived, ..KindLoad::default() };
        now.sample.kinds =
            totals.iter().map(|(kind, total)| (Name::from(*kind), load(total))).collect();
        now.offers = Offers::of_kinds(offers);
        one.take(now, Used::default(), false, EVERY);
        let kinds = one.sample.kinds.iter();
        kinds.map(|(kind, load)| (kind.to_string(), load.arrived)).collect::<Vec<_>>()
    };
    let came = |kinds: &[(&str, u64)]| -> Vec<(String, u64)> {
        kinds.iter().map(|(kind, count)| ((*kind).to_owned(), *count)).collect()
    };
    assert_eq!(look(&mut one, 1, &[("k", 9)], &["k"]), came(&[("k", 0)]));
    // Its settings list another kind, of which a thousand came since the start of the server.
    one.reload(settings(&["k", "l"]));
    assert_eq!(look(&mut one, 2, &[("k", 10), ("l", 1_000)], &["k"]), came(&[("k", 0), ("l", 0)]));
    assert_eq!(look(&mut one, 3, &[("k", 11), ("l", 1_002)], &["k"]), came(&[("k", 1), ("l", 2)]));
    // Its workers offer another kind.
    let all = [("k", 12), ("l", 1_003), ("m", 500)];
    assert_eq!(look(&mut one, 4, &all, &["k", "m"]), came(&[("k", 0), ("l", 0), ("m", 0)]));
    // A kind that nobody has sent before has arrived.
    let all = [("k", 12), ("l", 1_003), ("m", 501), ("n", 3)];
    let last = look(&mut one, 5, &all, &["k", "m"]);
    assert_eq!(last, came(&[("k", 0), ("l", 0), ("m", 1), ("n", 3)]));
}

#[test]
fn samples_are_thinned_without_losing_arrivals() {
    let mut one = Pooled::new(pool(Policy::Queue), Kept::default());
    let workers = [member("p-1", 1, 0)];
    let mut total = 0;
    for second in 0..100 {
        // Totals since the start, as the engine counts.
        total += 3;
        let mut now = seen(second, 0, &workers);
        now.sample.kinds.get_mut("k").unwrap().arrived = total;
        one.take(now, Used::default(), false, EVERY);
    }
    assert!(one.kept.len() < 30, "{}", one.kept.len());
    let kept: u64 = one.kept.iter().map(|sample| sample.kinds["k"].arrived).sum();
    assert_eq!(kept, 99 * 3, "what came before the first look is not an arrival");
}

#[test]
fn a_trial_tells_what_would_have_been_wanted_and_changes_nothing() {
    let scale = Scale::new(Scaling::default());
    let take = |second, waiting, members: &[Member]| {
        let pools: BTreeMap<Name, Pool> = [("p".into(), pool(Policy::Queue))].into();
        scale.take(pools, [("p".into(), seen(second, waiting, members))].into(), 0, false, EVERY)
    };
    assert!(matches!(
        scale.simulate("x", Trial::default()),
        Err(Error::NoSuchSetting { what: "pool", .. })
    ));
    let pools: BTreeMap<Name, Pool> = [("p".into(), pool(Policy::Queue))].into();
    scale.take(pools, BTreeMap::new(), 0, false, EVERY);
    assert_eq!(scale.simulate("p", Trial::default()).unwrap(), None, "nothing was seen");
    for second in 0..60 {
        take(second * 10, 100 + second, &[member("p-1", 1, 0)]);
    }
    let before = scale.to_keep();
    let trial = Trial { policy: Some(Policy::Fixed), max: Some(9), ..Trial::default() };
    let tried = scale.simulate("p", trial).unwrap().unwrap();
    assert!(tried.steps.iter().all(|step| step.wanted == 9), "{tried:?}");
    let last = tried.steps.last().unwrap();
    assert_eq!((last.workers, last.capacity), (1, 1.0), "one worker of one slot was there");
    assert!(last.would_work == 9 && last.would_wait < last.waiting, "nine would do more: {last:?}");
    assert!(last.work_rate > 0.0, "{last:?}");
    assert_eq!(
        serde_json::to_value(scale.to_keep()).unwrap(),
        serde_json::to_value(before).unwrap()
    );
    let error = scale.simulate("p", Trial { min: Some(10), ..Trial::default() }).unwrap_err();
    assert!(error.to_string().contains("pools.p.min is 10, more than max (4)"), "{error}");
}

#[test]
fn a_number_set_by_hand_holds_and_must_be_within_the_bounds() {
    let scale = Scale::new(Scaling::default());
    let take = |second| {
        let pools: BTreeMap<Name, Pool> = [("p".into(), pool(Policy::Queue))].into();
        scale.take(pools, [("p".into(), seen(second, 0, &[]))].into(), 0, false, EVERY)
    };
    take(1);
    assert!(scale.set("p", Timestamp(1), Some(5)).unwrap_err().to_string().contains("has 1 to 4"));
    assert!(scale.set("x", Timestamp(1), Some(1)).is_err());
    scale.set("p", Timestamp(1), Some(3)).unwrap();
    let taken = take(2);
    assert_eq!((taken.events[0].from, taken.events[0].decision.total()), (1, 3), "it is told");
    assert_eq!(scale.show("p", Timestamp(2_000_000)).unwrap().wanted["worker"], 3);
    scale.pause("p", Timestamp(2), true).unwrap();
    assert!(scale.show("p", Timestamp(2)).unwrap().paused);
}

#[test]
fn what_a_pool_knows_survives_a_restart() {
    let scale = Scale::new(Scaling::default());
    let pools: BTreeMap<Name, Pool> = [("p".into(), pool(Policy::Fixed))].into();
    let look: BTreeMap<Name, Seen> = [("p".into(), seen(1, 5, &[]))].into();
    let taken = scale.take(pools.clone(), look.clone(), 0, false, EVERY);
    assert_eq!(taken.events.len(), 1);
    scale.pause("p", Timestamp(1), true).unwrap();
    let text = serde_json::to_string(&scale.to_keep()).unwrap();
    let next = Scale::new(Scaling::default());
    next.remember(serde_json::from_str(&text).unwrap());
    next.take(pools, look, 0, false, EVERY);
    let (before, after) = (scale.history("p").unwrap(), next.history("p").unwrap());
    assert!(!before.is_empty() && after.len() >= before.len(), "{before:?} {after:?}");
    assert!(next.show("p", Timestamp(2)).unwrap().paused);
}

#[test]
fn a_pool_that_is_taken_out_of_the_settings_is_remembered() {
    let scale = Scale::new(Scaling::default());
    let pools: BTreeMap<Name, Pool> = [("p".into(), pool(Policy::Fixed))].into();
    scale.take(pools, [("p".into(), seen(1, 0, &[]))].into(), 0, false, EVERY);
    scale.take(BTreeMap::new(), BTreeMap::new(), 0, false, EVERY);
    assert!(scale.list(Timestamp(2)).is_empty() && !scale.has_pools());
    assert!(scale.to_keep().contains_key("p"));
}

#[test]
fn a_worker_of_a_program_rests_before_it_goes_and_is_called_back() {
    let mut one = Pooled::new(pool(Policy::Fixed), Kept::default());
    let two = [member("a", 2, 0), member("b", 1, 0)];
    one.take(seen(1, 0, &two), Used::default(), false, EVERY);
    one.scaler.set(Timestamp(1_000_000), Some(1));
    assert_eq!(one.rests(), [("b".into(), true)]);
    assert_eq!(one.order(&"p".into()).map(|order| total(&order)), Some(2), "it still runs one");
    one.scaler.set(Timestamp(2_000_000), Some(2));
    assert_eq!(one.rests(), [("b".into(), false)]);
}

#[test]
fn requests_are_told_as_a_rate_since_the_last_look() {
    let mut state = State::default();
    let mut look =
        |second: u64, total| state.requests_per_second(Timestamp(second * 1_000_000), total);
    assert_eq!(look(10, 500), None, "what came before the first look has no time");
    assert_eq!(look(12, 530), Some(15.0));
    assert_eq!(look(12, 540), None, "no time has passed");
    assert_eq!(look(22, 540), Some(0.0));
}
