//! Properties: whatever is seen, the number is within its bounds, nothing is not a number, the same samples give the same
//! decisions, and more load never wants fewer workers of the queue.

use divvy_autoscale::{Due, Fleet, KindLoad, Sample, Scaler};
use divvy_types::pools::{Budget, Goal, Pace, Policy, Pool, WorkerType};
use proptest::prelude::*;

use crate::play::{Play, at, pool};

fn any_policy() -> impl Strategy<Value = Policy> {
    prop::sample::select(vec![
        Policy::Objective,
        Policy::Queue,
        Policy::Predictive,
        Policy::Target,
        Policy::Reactive,
        Policy::Hpa,
        Policy::Fixed,
    ])
}

fn any_number() -> impl Strategy<Value = f64> {
    prop_oneof![
        4 => 0.0..100.0,
        1 => prop::sample::select(vec![0.0, -1.0, 1e300, f64::NAN, f64::INFINITY, f64::NEG_INFINITY]),
    ]
}

fn any_type() -> impl Strategy<Value = WorkerType> {
    (1u32..9, 0.1..4.0f64, 0.0..3.0f64, 0.0..700.0f64, 0.0..700.0f64, any::<bool>()).prop_map(
        |(slots, speed, price_hour, boot_sec, billing_sec, spot)| WorkerType {
            slots,
            speed,
            price_hour,
            boot_sec,
            billing_sec,
            spot,
            watts_idle: spot.then_some(30.0),
            ..WorkerType::default()
        },
    )
}

prop_compose! {
    fn any_pool()(
        policy in any_policy(),
        min in 0u32..5,
        more in 1u32..60,
        types in prop::collection::vec(any_type(), 0..4),
        misses in any::<bool>(),
        step in prop::option::of(1u32..5),
        waits in (0.0..200.0f64, 0.0..200.0f64),
        month in prop::option::of(0.0..1e5f64),
        late_task in prop::option::of(0.0..10.0f64),
        on_demand in 0.0..=1.0f64,
    ) -> Pool {
        let mut types = types;
        types.iter_mut().enumerate().for_each(|(number, one)| one.name = format!("t{number}").into());
        Pool {
            policy,
            min,
            max: min + more,
            types,
            goal: if misses { Goal::Misses { under: 0.01 } } else { Goal::default() },
            up: Pace { step, ..Pace::default() },
            down: Pace { step, cool_down_sec: waits.0, window_sec: waits.1 },
            budget: Budget { hour: None, month, late_task },
            on_demand,
            ..Pool::default()
        }
    }
}

prop_compose! {
    fn any_kind()(
        counts in (0u64..5_000, 0u64..5_000, 0u64..50_000, 0u64..100),
        oldest_sec in any_number(),
        run_sec in prop::option::of(any_number()),
        due in prop::collection::vec((0u64..200_000, 0u64..1_000), 0..3),
    ) -> KindLoad {
        let (arrived, ended, waiting, running) = counts;
        let due = due.into_iter().map(|(second, tasks)| Due { at: at(second), tasks }).collect();
        KindLoad { arrived, ended, waiting, running, oldest_sec, run_sec, run_p95_sec: run_sec, due }
    }
}

prop_compose! {
    fn any_sample()(
        step in prop::sample::select(vec![0u64, 1, 15, 60, 400, 100_000]),
        kinds in prop::collection::vec(any_kind(), 0..3),
        fleet in prop::collection::vec((0u32..50, 0u32..50, 0u32..50, 0u32..60), 0..3),
        known in (prop::option::of(any_number()), prop::option::of(any_number())),
        requests in (prop::option::of(any_number()), prop::option::of(any_number())),
        busy_slots in 0u32..100,
    ) -> (u64, Sample) {
        let kinds = kinds.into_iter().enumerate().map(|(number, kind)| (format!("k{number}").into(), kind));
        let fleet = fleet.into_iter().enumerate().map(|(number, (running, starting, draining, leaving))| {
            (format!("t{number}").into(), Fleet { running, starting, draining, leaving })
        });
        (step, Sample {
            at: at(0),
            kinds: kinds.collect(),
            fleet: fleet.collect(),
            busy_slots,
            cpu: known.0,
            memory: known.1,
            requests_per_second: requests.0,
            p95_sec: requests.1,
        })
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_decision_is_within_bounds_finite_and_repeatable(
        pool in any_pool(),
        samples in prop::collection::vec(any_sample(), 1..40),
        set in prop::option::of(0u32..100),
    ) {
        let mut first = Scaler::new(pool.clone());
        let mut second = Scaler::new(pool.clone());
        let mut now = 100_000;
        for (number, (step, mut sample)) in samples.into_iter().enumerate() {
            now += step;
            sample.at = at(now);
            if number == 20 {
                first.set(at(now), set);
                second.set(at(now), set);
            }
            let decision = first.decide(&sample).clone();
            prop_assert_eq!(&decision, second.decide(&sample));
            prop_assert!((pool.min..=pool.max).contains(&decision.total()), "{:?}", decision);
            for (name, recall) in &decision.recall {
                prop_assert!(*recall <= decision.wanted[name]);
                prop_assert!(*recall <= sample.fleet[name].draining);
            }
        }
        let costs = first.costs();
        for amount in [costs.per_hour, costs.total, costs.month, costs.fixed_total, costs.hpa_total] {
            prop_assert!(amount.is_finite() && amount >= 0.0, "{:?}", costs);
        }
        let why = first.explain().expect("a sample was seen");
        prop_assert!(!why.words.join(" ").contains("NaN") && !why.words.join(" ").contains("inf"), "{:?}", why.words);
        // What cannot be written as JSON is no memory.
        let kept = serde_json::to_string(first.memory()).unwrap();
        prop_assert!(serde_json::from_str::<divvy_autoscale::Memory>(&kept).is_ok());
    }

    #[test]
    fn more_load_never_wants_fewer_workers_of_the_queue(
        arrived in 0u64..2_000,
        waiting in 0u64..5_000,
        more in (0u64..2_000, 0u64..5_000),
        run_sec in 0.01..100.0f64,
        boot_sec in 0.0..300.0f64,
        running in 0u32..100,
    ) {
        let wanted = |arrived: u64, waiting: u64| {
            let mut pool = Pool { max: 10_000, ..pool(Policy::Queue) };
            pool.types[0].boot_sec = boot_sec;
            let mut play = Play::new(pool).with(running);
            play.run_sec = run_sec;
            play.tick(0, 0);
            play.with(running).tick(arrived, waiting).total()
        };
        let (few, many) = (wanted(arrived, waiting), wanted(arrived + more.0, waiting + more.1));
        prop_assert!(few <= many, "{} {}", few, many);
    }
}
