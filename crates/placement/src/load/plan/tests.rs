//! Plans against brute force, and what holds for all of them.

use std::time::Duration;

use proptest::prelude::*;

use super::*;

/// The objective by its definition, for items at these places.
fn objective(problem: &Problem, weights: &Weights, places: &[usize]) -> f64 {
    let homes: Vec<usize> = problem.items().iter().map(|item| item.on).collect();
    let cost_now = cost(problem, &homes);
    let cost = cost(problem, places) / if cost_now > 0.0 { cost_now } else { 1.0 };
    let move_costs: f64 = problem.items().iter().map(|item| item.move_cost).sum();
    let moved = problem.items().iter().zip(places).filter(|(item, place)| item.on != **place);
    let moving = moved.map(|(item, _)| item.move_cost).sum::<f64>()
        / if move_costs > 0.0 { move_costs } else { 1.0 };
    let (balance, evacuation) = balance(problem, places);
    Terms { balance, moving, cost, evacuation }.objective(weights)
}

fn cost(problem: &Problem, places: &[usize]) -> f64 {
    let targets = problem.targets().iter().enumerate();
    let of = |(at, target): (usize, &Target)| {
        let on = problem.items().iter().zip(places).filter(|(_, place)| **place == at);
        let loads: Vec<f64> = on.map(|(item, _)| item.load).collect();
        let is_on = !loads.is_empty();
        target.cost_load * loads.iter().sum::<f64>() + if is_on { target.cost_on } else { 0.0 }
    };
    targets.map(of).sum()
}

fn balance(problem: &Problem, places: &[usize]) -> (f64, f64) {
    let targets = problem.targets();
    let mut loads = vec![0.0; targets.len()];
    problem.items().iter().zip(places).for_each(|(item, place)| loads[*place] += item.load);
    let open: Vec<usize> = (0..targets.len()).filter(|at| targets[*at].open).collect();
    let weight: f64 = open.iter().map(|at| targets[*at].weight).sum();
    let load: f64 = open.iter().map(|at| loads[*at]).sum();
    let total: f64 = loads.iter().sum();
    let (mut balance, mut evacuation) = (0.0, 0.0);
    if total > 0.0 {
        evacuation = (total - load) / total;
        if load > 0.0 {
            let mean = load / weight;
            let spread = |at: &usize| {
                targets[*at].weight / weight * (loads[*at] / targets[*at].weight - mean).powi(2)
            };
            let variation = open.iter().map(spread).sum::<f64>() / (mean * mean);
            balance = variation * (load / total).powi(2);
        }
    }
    (balance, evacuation)
}

/// Where the items are after a plan; checks that the plan is about this problem.
fn places_after(problem: &Problem, plan: &Plan) -> Vec<usize> {
    let mut places: Vec<usize> = problem.items().iter().map(|item| item.on).collect();
    for step in &plan.moves {
        let at = problem.items().iter().position(|item| item.id == step.item).unwrap();
        assert_eq!(places[at], step.from, "an item moves once, from where it is");
        assert_ne!(step.from, step.to);
        places[at] = step.to;
    }
    places
}

/// Checks what holds for every plan and answers its objective.
fn check_plan(problem: &Problem, weights: &Weights, moves_max: usize, plan: &Plan) -> f64 {
    let homes: Vec<usize> = problem.items().iter().map(|item| item.on).collect();
    let places = places_after(problem, plan);
    assert!(plan.moves.len() <= moves_max);
    let (before, after) =
        (objective(problem, weights, &homes), objective(problem, weights, &places));
    assert!(after <= before + 1e-9, "worse: {before} to {after}");
    assert!((plan.gain - (before - after).max(0.0)).abs() < 1e-6 * (1.0 + before), "{plan:?}");
    let load_of = |places: &[usize], target: usize| -> f64 {
        let on = problem.items().iter().zip(places).filter(|(_, place)| **place == target);
        on.map(|(item, _)| item.load).sum()
    };
    for step in &plan.moves {
        let target = &problem.targets()[step.to];
        let (was, is) = (load_of(&homes, step.to), load_of(&places, step.to));
        assert!(target.open);
        assert!(is <= target.capacity * (1.0 + 1e-6) || is <= was + 1e-9, "over its capacity");
        let item = problem.items().iter().find(|item| item.id == step.item).unwrap();
        assert!(item.allowed.as_ref().is_none_or(|allowed| allowed.contains(&step.to)));
    }
    after
}

/// The least objective of all assignments that are allowed.
fn brute_force(problem: &Problem, weights: &Weights) -> f64 {
    let targets = problem.targets().len();
    let items = problem.items();
    let mut best = f64::INFINITY;
    for number in 0..targets.pow(items.len() as u32) {
        let places: Vec<usize> =
            (0..items.len()).map(|at| number / targets.pow(at as u32) % targets).collect();
        let allowed =
            |(at, place): (usize, &usize)| *place == items[at].on || problem.may_be_on(at, *place);
        if places.iter().enumerate().all(allowed) && fits(problem, &places) {
            best = best.min(objective(problem, weights, &places));
        }
    }
    best
}

fn fits(problem: &Problem, places: &[usize]) -> bool {
    let mut loads = vec![0.0; problem.targets().len()];
    problem.items().iter().zip(places).for_each(|(item, place)| loads[*place] += item.load);
    loads.iter().zip(problem.targets()).all(|(load, target)| *load <= target.capacity + 1e-9)
}

fn any_problem(items: usize, targets: usize) -> impl Strategy<Value = Problem> {
    let target = (1.0..100.0f64, 0.5..4.0f64, prop::bool::weighted(0.85), 0.0..5.0f64, 0.0..1.0f64);
    let item = (0.0..10.0f64, 0..targets, 0.0..5.0f64, prop::option::weighted(0.2, 0..targets));
    let lists = (prop::collection::vec(item, 1..=items), prop::collection::vec(target, targets));
    lists.prop_map(|(items, targets)| {
        let items = items.into_iter().enumerate().map(|(id, (load, on, cost, bound))| {
            let item = Item::new(id as u64, load, on).move_cost(cost);
            if let Some(bound) = bound { item.allowed([on, bound]) } else { item }
        });
        let targets = targets.into_iter().map(|(capacity, weight, open, on, load)| {
            let target = Target::new(capacity).weight(weight).costs(on, load);
            if open { target } else { target.closed() }
        });
        Problem::new(items.collect(), targets.collect()).unwrap()
    })
}

fn any_weights() -> impl Strategy<Value = Weights> {
    (0.0..2.0f64, 0.0..1.0f64, prop_oneof![Just(0.0), 0.0..0.5f64])
        .prop_map(|(balance, moving, cost)| Weights { balance, moving, cost, ..Weights::default() })
}

proptest! {
    #[test]
    fn no_plan_worsens_breaks_a_rule_or_loses_to_greedy(
        problem in any_problem(40, 6),
        weights in any_weights(),
        moves_max in 0usize..50,
        seed: u64,
    ) {
        let first = greedy(&problem, &weights, moves_max).unwrap();
        let by_greedy = check_plan(&problem, &weights, moves_max, &first);
        let annealing = Annealing { steps: 2_000, seed, ..Annealing::default() };
        let second = anneal(&problem, &weights, moves_max, &annealing).unwrap();
        let by_anneal = check_plan(&problem, &weights, moves_max, &second);
        prop_assert!(by_anneal <= by_greedy + 1e-9, "{by_anneal} after {by_greedy}");
        prop_assert_eq!(anneal(&problem, &weights, moves_max, &annealing).unwrap(), second);
    }
}

/// Ten items of uneven size, all on the first of three targets.
fn small_problem(random: &mut fastrand::Rng) -> Problem {
    let items = (0..9).map(|id| Item::new(id, 1.0 + random.f64() * 9.0, 0));
    let targets = [1.0, 1.0, 2.0].map(|weight| Target::new(1_000.0).weight(weight));
    Problem::new(items.collect(), targets.into()).unwrap()
}

#[test]
fn annealing_comes_near_the_optimum_of_small_problems() {
    let mut random = fastrand::Rng::with_seed(11);
    let weights = Weights::default();
    let mut greedy_gap = 0.0;
    for round in 0..5 {
        let problem = small_problem(&mut random);
        let best = brute_force(&problem, &weights);
        let annealing = Annealing { steps: 50_000, seed: round, ..Annealing::default() };
        let plan = anneal(&problem, &weights, 9, &annealing).unwrap();
        let found = plan.after.objective(&weights);
        let start = plan.before.objective(&weights);
        assert!(found >= best - 1e-9, "better than the optimum: {found}, {best}");
        assert!(found - best <= 0.001 * (start - best), "{found} of {best} from {start}");
        let by_greedy = greedy(&problem, &weights, 9).unwrap().after.objective(&weights);
        greedy_gap += (by_greedy - best) / (start - best);
    }
    assert!(greedy_gap / 5.0 < 0.05, "greedy is {greedy_gap} off");
}

#[test]
fn annealing_finds_the_swap_that_no_single_move_brings() {
    let items = [(6.0, 0), (5.0, 0), (4.0, 1), (3.0, 1)].into_iter().enumerate();
    let items = items.map(|(id, (load, on))| Item::new(id as u64, load, on));
    let problem = Problem::new(items.collect(), vec![Target::new(20.0); 2]).unwrap();
    let weights = Weights { moving: 0.01, ..Weights::default() };
    assert!(greedy(&problem, &weights, 4).unwrap().moves.is_empty());
    let plan = anneal(&problem, &weights, 4, &Annealing::default()).unwrap();
    assert_eq!(plan.moves.len(), 2, "two items change places: {plan:?}");
    assert!(plan.after.balance < 1e-9);
}

#[test]
fn a_large_plan_gets_even() {
    let mut random = fastrand::Rng::with_seed(3);
    let items = (0..20_000).map(|id| Item::new(id, random.f64(), random.usize(..20)));
    let problem = Problem::new(items.collect(), vec![Target::new(1e6); 100]).unwrap();
    let plan = greedy(&problem, &Weights::default(), usize::MAX).unwrap();
    assert!(plan.before.balance > 3.0, "{:?}", plan.before);
    assert!(plan.after.balance.sqrt() < 0.02, "{:?}", plan.after);
}

#[test]
fn nothing_moves_if_a_move_costs_more_than_it_gains() {
    let items = (0..10).map(|id| Item::new(id, 1.0, 0).move_cost(1.0));
    let problem = Problem::new(items.collect(), vec![Target::new(20.0); 2]).unwrap();
    let dear = Weights { moving: 10.0, ..Weights::default() };
    assert!(greedy(&problem, &dear, 10).unwrap().moves.is_empty());
    let cheap = greedy(&problem, &Weights::default(), 10).unwrap();
    assert_eq!(cheap.moves.len(), 5);
    assert!(cheap.after.balance < 1e-12);
}

#[test]
fn what_is_on_a_closed_target_leaves_for_one_that_is_able() {
    let items = vec![
        Item::new(1, 5.0, 0).need("gpu", 1.0),
        Item::new(2, 4.0, 0),
        Item::new(3, 3.0, 0).allowed([0]),
    ];
    let targets = vec![
        Target::new(10.0).closed(),
        Target::new(10.0),
        Target::new(10.0).capability("gpu", 1.0),
    ];
    let problem = Problem::new(items, targets).unwrap();
    let plan = greedy(&problem, &Weights::default(), 10).unwrap();
    let ways: Vec<(u64, usize)> = plan.moves.iter().map(|step| (step.item, step.to)).collect();
    assert_eq!(ways, [(1, 2), (2, 1)]);
    assert!((plan.after.evacuation - 0.25).abs() < 1e-9);
}

#[test]
fn costs_that_count_empty_the_targets_that_are_not_needed() {
    let items = (0..8).map(|id| Item::new(id, 1.0, id as usize % 4));
    let target = |watts: f64| Target::new(5.0).costs(watts, 1.0);
    let targets = [100.0, 100.0, 300.0, 200.0].map(target);
    let problem = Problem::new(items.collect(), targets.into()).unwrap();
    let by_cost = Weights { balance: 0.0, cost: 1.0, ..Weights::default() };
    let plan = greedy(&problem, &by_cost, 8).unwrap();
    assert!((plan.after.cost - 208.0 / 708.0).abs() < 1e-9, "{:?}", plan.after);
    let left: Vec<usize> = plan.moves.iter().map(|step| step.from).collect();
    assert!(left.iter().all(|from| *from >= 2), "{left:?}");
}

#[test]
fn moves_are_listed_so_that_room_is_made_first() {
    // The large item can only come when the small ones have gone.
    let items = vec![
        Item::new(1, 6.0, 0),
        Item::new(2, 5.0, 0),
        Item::new(3, 3.0, 1),
        Item::new(4, 3.0, 1),
    ];
    let targets = vec![Target::new(11.0), Target::new(8.0), Target::new(8.0)];
    let problem = Problem::new(items, targets).unwrap();
    let mut assignment = assignment::Assignment::new(&problem, Weights::default(), 4);
    assignment.put(0, 1);
    assignment.put(2, 2);
    assignment.put(3, 2);
    let order: Vec<u64> = assignment.plan().moves.iter().map(|step| step.item).collect();
    assert_eq!(order, [3, 4, 1]);
}

fn uneven(count: u64) -> Problem {
    let items = (0..count).map(|id| Item::new(id, 1.0, 0)).collect();
    Problem::new(items, vec![Target::new(1e6); 4]).unwrap()
}

/// The problem after a plan was carried out.
fn carried_out(problem: &Problem, plan: &Plan) -> Problem {
    let places = places_after(problem, plan);
    let items = problem.items().iter().zip(places).map(|(item, on)| Item { on, ..item.clone() });
    Problem::new(items.collect(), problem.targets().to_vec()).unwrap()
}

#[test]
fn a_planner_spreads_over_cycles_and_then_stays() {
    let settings = Settings { moves_max: 10, ..Settings::default() };
    let mut planner = Planner::new(settings.clone()).unwrap();
    let mut problem = uneven(40);
    let mut now = Duration::ZERO;
    let mut moves = 0;
    for _ in 0..3 {
        let Decision::Move(plan) = planner.cycle(&problem, now) else { panic!("uneven") };
        assert!(plan.moves.len() <= 10);
        moves += plan.moves.len();
        problem = carried_out(&problem, &plan);
        let early = planner.cycle(&problem, now + settings.period / 2);
        assert_eq!(early, Decision::Stay(Stay::NotDue { at: now + settings.period }));
        now += settings.period;
    }
    assert_eq!(moves, 30, "each item moves once");
    for _ in 0..20 {
        assert!(matches!(planner.cycle(&problem, now), Decision::Stay(Stay::Even { .. })));
        now += settings.period;
    }
}

#[test]
fn moving_starts_high_and_stops_low() {
    let weights = Weights { moving: 0.0, ..Weights::default() };
    let settings = Settings { rest: Duration::ZERO, gain_min: 0.0, weights, ..Settings::default() };
    let mut planner = Planner::new(settings.clone()).unwrap();
    // Loads of 1 + x and 1 − x have a coefficient of variation of x.
    let at = |x: f64| {
        let sizes = [1.0 + x - 0.03, 0.03, 1.0 - x];
        let items = sizes.iter().enumerate().map(|(id, load)| Item::new(id as u64, *load, id / 2));
        Problem::new(items.collect(), vec![Target::new(10.0); 2]).unwrap()
    };
    let mut now = Duration::ZERO;
    let mut moves = |x: f64| {
        now += settings.period;
        matches!(planner.cycle(&at(x), now), Decision::Move(_))
    };
    let steps =
        [(0.15, false), (0.25, true), (0.15, true), (0.05, false), (0.15, false), (0.3, true)];
    for (x, expected) in steps {
        assert_eq!(moves(x), expected, "at {x}");
    }
}

#[test]
fn an_item_is_not_sent_to_and_fro_while_loads_swing() {
    let settings =
        Settings { rest: Duration::from_secs(3_600), gain_min: 0.0, ..Settings::default() };
    let mut planner = Planner::new(settings.clone()).unwrap();
    let mut places = [0usize; 8];
    let mut moved = [0; 8];
    for cycle in 0..100u32 {
        // Whatever target has more items gets the heavy ones: without a rest every cycle would move.
        let items = places.iter().enumerate().map(|(id, on)| {
            let load = if (cycle as usize + on).is_multiple_of(2) { 3.0 } else { 1.0 };
            Item::new(id as u64, load, *on)
        });
        let problem = Problem::new(items.collect(), vec![Target::new(1e3); 2]).unwrap();
        if let Decision::Move(plan) = planner.cycle(&problem, settings.period * cycle) {
            for step in plan.moves {
                places[step.item as usize] = step.to;
                moved[step.item as usize] += 1;
            }
        }
    }
    assert!(moved.iter().sum::<i32>() > 0);
    assert!(moved.iter().all(|count| *count <= 1), "within one rest: {moved:?}");
}

#[test]
fn a_planner_refuses_a_plan_that_gains_too_little() {
    let dear = Weights { moving: 20.0, ..Weights::default() };
    let settings = Settings { weights: dear, ..Settings::default() };
    let decision = Planner::new(settings).unwrap().cycle(&uneven(40), Duration::ZERO);
    assert!(matches!(decision, Decision::Stay(Stay::NotWorthIt { .. })), "{decision:?}");
    let settings = Settings { gain_min: 100.0, ..Settings::default() };
    let decision = Planner::new(settings).unwrap().cycle(&uneven(40), Duration::ZERO);
    assert!(matches!(decision, Decision::Stay(Stay::NotWorthIt { gain }) if gain > 1.0));
}

#[test]
fn a_closed_target_is_emptied_although_the_load_is_even() {
    let items = vec![Item::new(1, 1.0, 0), Item::new(2, 1.0, 1), Item::new(3, 0.1, 2)];
    let targets = vec![Target::new(9.0), Target::new(9.0), Target::new(9.0).closed()];
    let problem = Problem::new(items, targets).unwrap();
    let mut planner = Planner::new(Settings::default()).unwrap();
    let Decision::Move(plan) = planner.cycle(&problem, Duration::ZERO) else { panic!("stayed") };
    assert_eq!(plan.moves.iter().map(|step| step.item).collect::<Vec<_>>(), [3]);
}

#[test]
fn annealing_in_a_planner_is_at_least_as_good() {
    let mut random = fastrand::Rng::with_seed(5);
    let problem = small_problem(&mut random);
    let gain = |method: Method| {
        let settings = Settings { method, ..Settings::default() };
        match Planner::new(settings).unwrap().cycle(&problem, Duration::ZERO) {
            Decision::Move(plan) => plan.gain,
            Decision::Stay(why) => panic!("{why:?}"),
        }
    };
    assert!(gain(Method::Anneal(Annealing::default())) >= gain(Method::Greedy));
}

#[test]
fn settings_that_mean_nothing_are_refused() {
    let default = Settings::default;
    let cases = [
        (Settings { period: Duration::ZERO, ..default() }, "`period`"),
        (Settings { moves_max: 0, ..default() }, "`moves_max`"),
        (Settings { variation_start: f64::NAN, ..default() }, "`variation_start`"),
        (Settings { variation_stop: 0.5, ..default() }, "`variation_stop`"),
        (Settings { gain_min: -1.0, ..default() }, "`gain_min`"),
        (Settings { weights: Weights { cost: -1.0, ..Weights::default() }, ..default() }, "`cost`"),
    ];
    for (settings, field) in cases {
        let error = Planner::new(settings).unwrap_err();
        assert!(error.to_string().contains(field), "{error}");
    }
    for annealing in [
        Annealing { steps: STEPS_MAX + 1, ..Annealing::default() },
        Annealing { heat_start: 0.0, ..Annealing::default() },
        Annealing { heat_end: 2.0, ..Annealing::default() },
    ] {
        assert!(anneal(&uneven(4), &Weights::default(), 4, &annealing).is_err());
    }
}
