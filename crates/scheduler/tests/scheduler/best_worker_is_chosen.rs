//! Which of several free workers gets a task, and how that is explained afterwards.

use crate::support::*;
use divvy_types::view::{Candidate, PlacedBy};
use divvy_types::{FailureVerdict, Matching, Name, Seq, TaskSpec};

fn needing(number: u64, need: &str) -> TaskSpec {
    let mut spec = spec(number);
    spec.needs = vec![need.into()];
    spec
}

fn join(world: &mut World, key: u64, credit: u32, capabilities: &[&str]) {
    world.join_with(key, credit, |worker| {
        worker.capabilities = capabilities.iter().map(|text| Name::from(*text)).collect();
    });
}

fn candidates(world: &World, seq: u64) -> Vec<Candidate> {
    world.scheduler.explain(world.now, Seq(seq)).expect("an open task").candidates
}

fn term(candidate: &Candidate, name: &str) -> f64 {
    candidate.terms.iter().find(|term| term.name == name).expect("a term").value
}

/// Lets a worker work on tasks of its own, so that it has a history.
fn history(world: &mut World, key: u64, first: u64, count: u64, ms: u64, works: bool) {
    for number in first..first + count {
        let mut task = spec(number);
        task.queue = Name::from(format!("only-{key}"));
        task.retry.limit = 0;
        world.submit(vec![task]);
        assert_eq!(world.grants(), [(key, number)]);
        world.now = world.now.plus_ms(ms);
        let end = if works { finished() } else { failure(FailureVerdict::Retry) };
        world.end(key, number, end);
    }
}

fn join_with_own_queue(world: &mut World, key: u64, credit: u32) {
    world.join_with(key, credit, |worker| {
        worker.queues = vec!["default".into(), Name::from(format!("only-{key}"))];
    });
}

#[test]
fn rare_abilities_stay_free_while_a_lesser_worker_could_begin_too() {
    let mut world = World::new();
    join(&mut world, 1, 2, &["gpu=4"]);
    join(&mut world, 2, 2, &["gpu=1"]);
    for (number, worker) in [(1, 2), (2, 2), (3, 1)] {
        world.submit(vec![needing(number, "gpu>=1")]);
        assert_eq!(world.grants(), [(worker, number)], "a free slot goes before a close match");
    }
    let found = candidates(&world, 3);
    assert_eq!([term(&found[0], "skill_match"), term(&found[1], "skill_match")], [0.25, 1.0]);
}

#[test]
fn exact_matching_asks_for_load_only() {
    let mut world = World::new();
    join(&mut world, 1, 4, &["gpu=4"]);
    join(&mut world, 2, 4, &["gpu=1"]);
    let picks: Vec<u64> = (1..=4)
        .map(|number| {
            let mut task = needing(number, "gpu");
            task.matching = Some(Matching::Exact);
            world.submit(vec![task]);
            world.grants()[0].0
        })
        .collect();
    assert_eq!(picks, [1, 2, 1, 2]);
}

#[test]
fn who_did_well_with_a_kind_goes_before_who_did_not() {
    let mut world = World::new();
    join_with_own_queue(&mut world, 1, 9);
    join_with_own_queue(&mut world, 2, 9);
    history(&mut world, 1, 100, 4, 10, false);
    history(&mut world, 2, 200, 4, 10, true);
    let rate = world.worker(1).success_rate;
    assert!((rate - 0.9_f64.powi(4)).abs() < 1e-9, "{rate}");
    assert_eq!(world.worker(2).skills[0].attempts, 4);
    world.submit(vec![spec(1)]);
    assert_eq!(world.grants(), [(2, 1)]);
    let found = candidates(&world, 1);
    assert!((term(&found[0], "success_rate") - 0.3 * rate).abs() < 1e-9);
    // A name is remembered over connections; without a look at history load decides again.
    world.leave(1);
    join_with_own_queue(&mut world, 1, 9);
    assert_eq!(world.worker(1).success_rate, rate);
    world.end(2, 1, finished());
    world.set(|settings| settings.load_balancing.capabilities.consider_history = false);
    world.submit(vec![spec(2), spec(3)]);
    let mut both: Vec<u64> = world.grants().iter().map(|(worker, _)| *worker).collect();
    both.sort_unstable();
    assert_eq!(both, [1, 2]);
}

#[test]
fn an_affinity_key_goes_where_it_went_before_if_that_costs_no_waiting() {
    let mut world = World::new();
    for key in 1..=3 {
        world.join_with(key, 2, |worker| worker.slots = 1);
    }
    let with = |number| {
        let mut task = spec(number);
        task.affinity = Some("movie-7".into());
        task
    };
    world.submit(vec![with(1)]);
    let (first, _) = world.grants()[0];
    world.end(first, 1, finished());
    for number in 2..6 {
        world.submit(vec![with(number)]);
        assert_eq!(world.grants(), [(first, number)]);
        world.end(first, number, finished());
    }
    world.submit(vec![with(6)]);
    world.submit(vec![with(7)]);
    let (other, _) = world.grants()[0];
    assert_ne!(other, first, "its slot is taken, and others have one free");
}

#[test]
fn speed_price_and_energy_count_when_they_are_given_a_weight() {
    type Set = fn(&mut divvy_types::settings::Scores);
    let weights: [(&str, Set); 3] = [
        ("run_time", |scores| scores.run_time = 1.0),
        ("cost", |scores| scores.cost = 1.0),
        ("energy", |scores| scores.energy = 1.0),
    ];
    for (name, set) in weights {
        let mut world = World::new();
        world.join_with(1, 9, |worker| {
            worker.queues = vec!["default".into(), "only-1".into()];
            worker.capabilities =
                ["price_hour=2", "watts_busy=200", "watts_idle=50"].map(Name::from).into();
        });
        world.join_with(2, 9, |worker| {
            worker.queues = vec!["default".into(), "only-2".into()];
            worker.capabilities = ["price_hour=2", "watts_busy=200", "watts_idle=50", "speed=4"]
                .map(Name::from)
                .into();
        });
        history(&mut world, 1, 100, 8, 400, true);
        history(&mut world, 2, 200, 8, 100, true);
        let expected: Vec<f64> =
            [1, 2].map(|key| world.worker(key).skills[0].run_ms.unwrap()).into();
        assert!(expected[0] > 2.0 * expected[1], "{expected:?}");
        world.set(|settings| set(&mut settings.load_balancing.scores));
        for number in 1..=3 {
            world.submit(vec![spec(number)]);
            assert_eq!(world.grants(), [(2, number)], "{name}");
        }
        let found = candidates(&world, 1);
        assert!(term(&found[0], name) < term(&found[1], name), "{name}: {found:?}");
        assert!(term(&found[0], name) < 0.0);
    }
}

#[test]
fn estimates_follow_the_cost_hint() {
    let mut world = World::new();
    world.join(1, 1);
    let sized = |number: u64, hint: u64| {
        let mut task = spec(number);
        task.cost_hint = Some(hint);
        task
    };
    for number in 1..=60 {
        let hint = 100 * (1 + number % 6);
        world.submit(vec![sized(number, hint)]);
        world.now = world.now.plus_ms(hint);
        world.end(1, number, finished());
    }
    world.submit(vec![sized(61, 300), sized(62, 1_200)]);
    for (seq, ms) in [(61, 300), (62, 1_200)] {
        let explanation = world.scheduler.explain(world.now, Seq(seq)).unwrap();
        let found = explanation.estimated_run_ms.unwrap();
        assert!((ms * 9 / 10..=ms * 11 / 10).contains(&found), "{found} for {ms}");
    }
}

#[test]
fn a_task_that_waited_behind_others_on_its_worker_is_measured_from_its_turn() {
    let mut world = World::new();
    world.join_with(1, 4, |worker| worker.slots = 1);
    world.submit((1..=4).map(spec).collect());
    for number in 1..=4 {
        world.now = world.now.plus_ms(100);
        world.end(1, number, finished());
    }
    let run_ms = world.worker(1).skills[0].run_ms.unwrap();
    assert!((95.0..105.0).contains(&run_ms), "{run_ms}");
}

#[test]
fn a_placement_says_whose_turn_it_was_and_who_was_compared() {
    let mut world = World::new();
    for key in 1..=6 {
        world.join(key, 1);
    }
    world.submit(vec![spec(1)]);
    let placement = world.scheduler.explain(world.now, Seq(1)).unwrap().placement.unwrap();
    assert_eq!((placement.by, placement.at), (PlacedBy::Score, world.now));
    assert_eq!(placement.worker, world.holder(1).unwrap());
    assert_eq!(placement.compared.len(), 4);
    assert!((placement.compared[0].score - 1.3).abs() < 1e-9, "{placement:?}");
    world.submit((2..=7).map(spec).collect());
    let (worker, _) = world.grants()[0];
    world.end(worker, 2, finished());
    assert_eq!(world.grants(), [(worker, 7)]);
    let placement = world.scheduler.explain(world.now, Seq(7)).unwrap().placement.unwrap();
    assert_eq!((placement.by, placement.compared.len()), (PlacedBy::Turn, 0));
}

#[test]
fn candidates_say_what_each_worker_lacks() {
    let mut world = World::new();
    join(&mut world, 1, 1, &["ffmpeg"]);
    world.join_with(2, 1, |worker| worker.kinds = vec!["other".into()]);
    world.submit(vec![needing(1, "gpu>=2")]);
    let found = candidates(&world, 1);
    assert_eq!(found[0].lacks, ["gpu>=2"]);
    assert!(found[0].serves && found[0].free && found[0].score.is_none());
    assert!(!found[1].serves && found[1].terms.is_empty());
    (3..100).for_each(|key| join(&mut world, key, 1, &[]));
    assert_eq!(candidates(&world, 1).len(), 50, "a list for people ends somewhere");
}

#[test]
fn a_bad_worker_at_the_head_of_its_group_does_not_hide_the_others() {
    let mut world = World::new();
    for key in 1..=40 {
        world.join(key, 4);
    }
    for number in 1..=40 {
        world.submit(vec![spec(number)]);
        assert_eq!(world.grants().len(), 1);
    }
    let mut holders: Vec<String> = (1..=40).map(|seq| world.holder(seq).unwrap()).collect();
    holders.sort_unstable();
    holders.dedup();
    assert_eq!(holders.len(), 40, "equal workers get one each");
}
