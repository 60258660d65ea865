//! The simulated cluster against results that are known without it.

use std::time::Duration;

use divvy_lab::sim::cluster::{
    Arrivals, Cluster, Due, Edges, End, Load, Member, Outcome, RunTime, Turn, scenario,
};
use divvy_types::WaitReason;
use divvy_types::settings::Strategy;

const SECOND: Duration = Duration::from_secs(1);

fn run(cluster: &Cluster) -> Outcome {
    cluster.run().unwrap()
}

#[track_caller]
fn near(measured: f64, expected: f64, share: f64) {
    assert!((measured / expected - 1.0).abs() <= share, "{measured} is not near {expected}");
}

#[test]
fn one_queue_before_several_slots_waits_as_erlang_says() {
    // M/M/10 at 80 %. Messages travel for a hundredth of a per mille of a run time.
    let mut cluster =
        Cluster::new(1).members(5, |number| Member::new(format!("w{number}"), 2)).load(
            Load::new("work", 40_000)
                .arrive(Arrivals::Poisson { from: Duration::ZERO, per_second: 8.0 })
                .run_for(RunTime::Exponential(SECOND)),
        );
    cluster.travel = Duration::from_micros(10);
    let outcome = run(&cluster);
    let (mut term, mut sum) = (1.0, 0.0);
    for k in 0..10 {
        sum += term;
        term *= 8.0 / f64::from(k + 1);
    }
    let all_busy = term / 0.2 / (sum + term / 0.2);
    near(outcome.waits(|_| true).mean.as_secs_f64(), all_busy / (10.0 * 0.2), 0.1);
    let busy: Duration = outcome.members.iter().map(|member| member.busy).sum();
    near(busy.as_secs_f64() / outcome.makespan().as_secs_f64(), 8.0, 0.03);
    outcome.check_ended_once().unwrap();
}

#[test]
fn a_message_each_way_and_the_run_time_make_a_life() {
    let outcome = run(&Cluster::new(1).member(Member::new("only", 1)).load(Load::new("work", 3)));
    let life = &outcome.lives[0];
    // The worker joins with a message of 2 ms, the grant takes another, and so does the report.
    assert_eq!(life.began, Some(Duration::from_millis(4)));
    assert_eq!(life.ended, Some(Duration::from_millis(1_006)));
    assert_eq!(outcome.makespan(), Duration::from_millis(3_014));
    assert_eq!(outcome.members[0].busy, SECOND * 3);
    assert_eq!(outcome.starts(), [0, 1, 2]);
}

#[test]
fn prefetched_tasks_need_no_message_between_them_and_run_by_priority() {
    let cluster = Cluster::new(1)
        .member(Member::new("only", 1).prefetch(8))
        .load(Load::new("low", 2).priority(1))
        .load(Load::new("first", 1).priority(3))
        .load(Load::new("late", 1).priority(5).arrive(Arrivals::Together { at: SECOND / 2 }));
    let outcome = run(&cluster);
    assert_eq!(outcome.makespan(), Duration::from_millis(4_006));
    let order: Vec<usize> =
        outcome.starts().iter().map(|place| outcome.lives[*place].load).collect();
    assert_eq!(order, [1, 2, 0, 0]);
}

#[test]
fn a_task_waits_for_what_it_depends_on_and_not_longer() {
    let cluster = Cluster::new(1)
        .member(Member::new("only", 8))
        .load(Load::new("split", 1))
        .load(Load::new("part", 4).after(Edges::One { load: 0 }))
        .load(Load::new("join", 1).after(Edges::All { load: 1 }));
    let outcome = run(&cluster);
    outcome.check_ended_once().unwrap();
    assert_eq!(outcome.makespan(), Duration::from_millis(2 + 3 * 1_004));
    let join = outcome.lives.last().unwrap();
    assert_eq!(join.ready, outcome.lives[4].ended);
    assert_eq!(join.began.unwrap() - join.ready.unwrap(), Duration::from_millis(2));
    let early = Load::new("early", 1).after(Edges::All { load: 0 });
    let late = Load::new("late", 1).arrive(Arrivals::Together { at: SECOND });
    let error = Cluster::new(1).load(late).load(early).run().unwrap_err().to_string();
    assert!(error.starts_with("load.after") && error.contains("come before"), "{error}");
}

#[test]
fn what_a_dying_worker_held_runs_elsewhere_and_its_time_is_lost() {
    let cluster = Cluster::new(1)
        .member(Member::new("dies", 1).prefetch(3).turn(SECOND / 2, Turn::Dies))
        .member(Member::new("lives", 1).joins(SECOND / 4))
        .load(Load::new("work", 4));
    let outcome = run(&cluster);
    outcome.check_ended_once().unwrap();
    assert_eq!((outcome.members[0].lost, outcome.members[1].finished), (1, 4));
    assert_eq!(outcome.members[0].busy, SECOND / 2 - Duration::from_millis(4));
    assert_eq!(outcome.lives[0].begins, 2);
}

#[test]
fn a_worker_that_vanishes_is_found_out_by_its_silence() {
    let cluster = Cluster::new(1)
        .member(Member::new("vanishes", 2).turn(SECOND / 2, Turn::Vanishes))
        .member(Member::new("lives", 2).joins(SECOND / 4))
        .load(Load::new("work", 2));
    let outcome = run(&cluster);
    outcome.check_ended_once().unwrap();
    let ended = outcome.makespan();
    assert!(ended > SECOND * 29 && ended < SECOND * 33, "{ended:?}");
}

#[test]
fn a_worker_that_fails_a_kind_leaves_its_tasks_to_the_next_attempt() {
    let mut load = Load::new("hard", 50);
    load.task.retry.limit = 100;
    let cluster = Cluster::new(3).member(Member::new("half", 4).fails("hard", 0.5)).load(load);
    let outcome = run(&cluster);
    outcome.check_ended_once().unwrap();
    let begins: u32 = outcome.lives.iter().map(|life| life.begins).sum();
    assert!((70..150).contains(&begins), "{begins}");
    let mut hopeless = Load::new("hard", 1);
    hopeless.task.retry.limit = 2;
    let outcome =
        run(&Cluster::new(3).member(Member::new("never", 1).fails("hard", 1.0)).load(hopeless));
    assert_eq!((outcome.lives[0].end, outcome.lives[0].begins), (Some(End::Dead), 3));
}

#[test]
fn deadlines_are_judged_whether_the_scheduler_knows_them_or_not() {
    let due = Due { least: SECOND * 3 / 2, most: SECOND * 3 / 2, told: false };
    let cluster =
        Cluster::new(1).member(Member::new("only", 1)).load(Load::new("work", 3).due(due));
    assert_eq!(run(&cluster).missed(|_| true), (3, 2));
}

#[test]
fn a_run_ends_at_its_horizon_and_says_why_tasks_are_open() {
    let cluster = Cluster::new(1).load(Load::new("work", 5)).until(SECOND * 10);
    let outcome = run(&cluster);
    assert_eq!(outcome.done(|_| true), 0);
    assert!(
        outcome.lives.iter().all(|life| matches!(life.wait, Some(WaitReason::NoWorker { .. })))
    );
    let error = outcome.check_ended_once().unwrap_err();
    assert!(error.starts_with("5 of 5 tasks"), "{error}");
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_one_does_not() {
    let cluster = |seed| scenario::bursty(Strategy::Hybrid, 400, seed);
    let (first, again, other) = (run(&cluster(1)), run(&cluster(1)), run(&cluster(2)));
    assert_eq!(first, again);
    assert_ne!(first.lives, other.lives);
    // Whatever moves tasks, the tasks are the same.
    let planned = |strategy| {
        let outcome = run(&scenario::uniform(strategy, 200, 5));
        outcome.lives.iter().map(|life| life.submitted).collect::<Vec<_>>()
    };
    assert_eq!(planned(Strategy::None), planned(Strategy::Pull));
}

#[test]
fn nonsense_is_refused_by_the_name_of_its_field() {
    let good = || Cluster::new(1).member(Member::new("w", 1)).load(Load::new("work", 1));
    assert!(good().run().is_ok());
    let mut unsound = good();
    unsound.settings.load_balancing.thresholds.idle_threshold = 100;
    let endless = Arrivals::Poisson { from: Duration::ZERO, per_second: 0.0 };
    let cases = [
        ("settings", unsound),
        ("load.arrivals", good().load(Load::new("work", 1).arrive(endless))),
        ("member.slots", good().member(Member::new("w", 0))),
        ("member.prefetch", good().member(Member::new("w", 1).prefetch(u32::MAX))),
        ("member.speed", good().member(Member::new("w", 1).speed(0.0))),
        ("member.speed", good().member(Member::new("w", 1).turn(SECOND, Turn::Speed(f64::NAN)))),
        ("member.fails", good().member(Member::new("w", 1).fails("work", 2.0))),
        (
            "member.turns",
            good().member(Member::new("w", 1).joins(SECOND * 2).turn(SECOND, Turn::Dies)),
        ),
        ("load.task", good().load(Load::new("", 1))),
        ("load.after", good().load(Load::new("work", 1).after(Edges::One { load: 1 }))),
        (
            "load.run_time",
            good().load(Load::new("work", 1).run_for(RunTime::Between(SECOND, SECOND / 2))),
        ),
        (
            "load.due",
            good().load(Load::new("work", 1).due(Due {
                least: SECOND,
                most: SECOND / 2,
                told: true,
            })),
        ),
    ];
    for (field, cluster) in cases {
        let text = cluster.run().unwrap_err().to_string();
        assert!(text.starts_with(field), "{field}: {text}");
    }
}
