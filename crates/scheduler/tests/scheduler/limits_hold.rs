//! Limits on starts and on what runs at once: never exceeded, in nobody's way, changed while tasks wait.

use crate::support::spec;
use crate::timeline::Timeline;
use divvy_types::settings::{Limit, Rate};
use divvy_types::{Name, Seq, TaskSpec, WaitReason};
use proptest::prelude::*;

const SECOND: u64 = 1_000_000;

fn at_once(_: u64) -> u64 {
    1
}

fn for_long(_: u64) -> u64 {
    1_000 * SECOND
}

fn under(number: u64, limits: &[&str]) -> TaskSpec {
    let mut spec = spec(number);
    spec.limits = limits.iter().map(|name| Name::from(*name)).collect();
    spec
}

fn per_minute(count: u32) -> Limit {
    Limit { rate: Some(Rate { count, per_ms: 60_000 }), burst: Some(1), ..Limit::default() }
}

fn at_most(concurrency: u32) -> Limit {
    Limit { concurrency: Some(concurrency), ..Limit::default() }
}

fn wait_of(timeline: &Timeline, seq: u64) -> Option<WaitReason> {
    timeline.world.scheduler.status(Seq(seq)).and_then(|status| status.wait)
}

#[test]
fn a_bucket_is_full_when_it_is_defined_and_then_gives_its_rate() {
    let mut timeline = Timeline::new(at_once);
    timeline.set(|settings| {
        let rate = Some(Rate { count: 2, per_ms: 60_000 });
        settings.limits.insert("api".into(), Limit { rate, burst: Some(2), ..Limit::default() });
    });
    timeline.join(1, 10, |_| {});
    timeline.submit((1..=4).map(|number| under(number, &["api"])).collect());
    timeline.run_until(200 * SECOND);
    assert_eq!(timeline.seconds(), [(0, 1), (0, 2), (30, 3), (60, 4)]);
    // So is a key that is seen for the first time.
    timeline.submit((5..=7).map(|number| under(number, &["api/acme"])).collect());
    timeline.run_until(300 * SECOND);
    assert_eq!(timeline.seconds()[4..], [(200, 5), (200, 6), (230, 7)]);
}

#[test]
fn each_key_and_the_total_have_their_own_caps() {
    let mut timeline = Timeline::new(for_long);
    timeline.set(|settings| {
        let limit = Limit { concurrency: Some(2), total_concurrency: Some(3), ..Limit::default() };
        settings.limits.insert("api".into(), limit);
    });
    timeline.join(1, 10, |_| {});
    let keys = ["api/a", "api/a", "api/a", "api/b", "api/b", "api/c"];
    let tasks = keys.iter().zip(1..).map(|(key, number)| under(number, &[key]));
    timeline.submit(tasks.collect());
    assert_eq!(timeline.started(), [1, 2, 4]);
    let limit = |seq| match wait_of(&timeline, seq) {
        Some(WaitReason::Limit { limit, running, concurrency, .. }) => {
            (limit.to_string(), running, concurrency)
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(limit(3), ("api/a".to_owned(), 2, Some(2)));
    assert_eq!(limit(5), ("api/*".to_owned(), 3, Some(3)));
    timeline.run_until(1_000 * SECOND);
    assert_eq!(timeline.started()[3..], [3, 5, 6], "all of what is left fits after the first end");
}

#[test]
fn a_key_called_star_is_not_the_total() {
    let mut timeline = Timeline::new(for_long);
    timeline.set(|settings| {
        let limit = Limit { concurrency: Some(9), total_concurrency: Some(2), ..Limit::default() };
        settings.limits.insert("api".into(), limit);
    });
    timeline.join(1, 10, |_| {});
    timeline.submit((1..=4).map(|number| under(number, &["api/*"])).collect());
    assert_eq!(timeline.started(), [1, 2]);
}

#[test]
fn a_limited_task_does_not_keep_lower_ones_of_its_class_from_idle_workers() {
    let mut timeline = Timeline::new(for_long);
    timeline.set(|settings| {
        settings.limits.insert("db".into(), at_most(1));
    });
    timeline.join(1, 5, |worker| worker.kinds = vec!["noop".into(), "send".into()]);
    let sends = |mut task: TaskSpec| {
        task.kind = "send".into();
        task
    };
    // Its kind was seen first, so that it is the first to take from the limit in what follows.
    timeline.submit(vec![sends(spec(1))]);
    let (mut high, mut low, mut other) = (under(2, &["db"]), spec(3), sends(under(4, &["db"])));
    (high.priority, low.priority, other.priority) = (5, 1, 5);
    timeline.submit(vec![high, low, other]);
    let started = timeline.started();
    assert_eq!(started.len(), 3, "{started:?}");
    assert!(started.contains(&3), "the plain one waits behind a limited one: {started:?}");
}

#[test]
fn a_limited_task_lends_its_age_to_nobody_else_in_its_queue() {
    let mut timeline = Timeline::new(for_long);
    timeline.set(|settings| {
        settings.limits.insert("db".into(), at_most(1));
    });
    let task = |number, queue: &str, key: Option<&str>, limits: &[&str]| {
        let mut task = under(number, limits);
        task.queue = queue.into();
        task.fair_key = key.map(Name::from);
        task
    };
    // One of `x` runs, so that `y`, which waits, is behind it.
    timeline.submit(vec![task(1, "shared", Some("x"), &[])]);
    timeline.run_until(1);
    timeline.submit(vec![task(2, "shared", Some("y"), &[])]);
    timeline.join(1, 1, |_| {});
    timeline.run_until(2);
    timeline.submit(vec![task(3, "shared", Some("x"), &["db"])]);
    timeline.run_until(3);
    timeline.submit(vec![task(4, "other", None, &[])]);
    timeline.run_until(4);
    timeline.submit(vec![task(5, "shared", Some("y"), &[])]);
    timeline.cancel(2);
    let mut holder = task(6, "default", None, &["db"]);
    holder.priority = 5;
    timeline.submit(vec![holder]);
    timeline.join(2, 1, |_| {});
    assert_eq!(timeline.started(), [1, 6], "the limit is taken");
    timeline.join(3, 2, |_| {});
    assert_eq!(timeline.started()[2..], [4, 5], "the oldest that can run goes first");
}

#[test]
fn a_limit_is_shared_by_queues_and_kinds() {
    let mut timeline = Timeline::new(for_long);
    timeline.set(|settings| {
        settings.limits.insert("db".into(), at_most(2));
    });
    timeline.join(1, 10, |worker| worker.kinds = vec!["noop".into(), "send".into()]);
    let tasks = (1..=6).map(|number| {
        let mut spec = under(number, &["db"]);
        spec.queue = ["default", "mail", "video"][number as usize % 3].into();
        spec.kind = ["noop", "send"][number as usize % 2].into();
        spec
    });
    timeline.submit(tasks.collect());
    assert_eq!(timeline.starts.len(), 2);
    timeline.run_until(1_000 * SECOND);
    assert_eq!(timeline.starts.len(), 4);
}

#[test]
fn a_task_under_several_limits_takes_from_none_until_all_let_it_start() {
    let mut timeline = Timeline::new(at_once);
    timeline.set(|settings| {
        settings.limits.insert("api".into(), per_minute(1));
        settings.limits.insert("db".into(), at_most(1));
    });
    timeline.run_us = |seq| if seq == 1 { 100 * SECOND } else { 1 };
    timeline.join(1, 10, |_| {});
    timeline.submit(vec![under(1, &["db"]), under(2, &["db", "api"]), under(3, &["db", "api"])]);
    timeline.run_until(90 * SECOND);
    assert_eq!(timeline.seconds(), [(0, 1)]);
    // The token of `api` is still there for someone who needs no more than that.
    timeline.submit(vec![under(4, &["api"])]);
    timeline.run_until(500 * SECOND);
    let seconds = timeline.seconds();
    assert_eq!(seconds[1..], [(90, 4), (150, 2), (210, 3)], "{seconds:?}");
}

#[test]
fn the_wait_reason_names_the_limit_and_when_it_lets_go() {
    let mut timeline = Timeline::new(at_once);
    timeline.set(|settings| {
        settings.limits.insert("api".into(), per_minute(1));
    });
    timeline.join(1, 10, |_| {});
    let begin = timeline.world.now;
    timeline.submit(vec![under(1, &["api/acme"])]);
    timeline.run_until(SECOND);
    timeline.submit(vec![under(2, &["api/acme"])]);
    let expected = WaitReason::Limit {
        limit: "api/acme".into(),
        running: 0,
        concurrency: None,
        until: Some(begin.plus_ms(60_000)),
    };
    assert_eq!(wait_of(&timeline, 2), Some(expected));
    let views = timeline.world.scheduler.limit_views(timeline.world.now);
    assert_eq!((views[0].name.as_str(), views[0].key.as_deref()), ("api", Some("acme")));
    assert_eq!((views[0].waiting, views[0].tokens), (1, Some(0)));
    assert_eq!(views[0].next_at, Some(begin.plus_ms(60_000)));
}

#[test]
fn cancelled_at_the_limit_a_task_never_starts_and_the_next_takes_its_place() {
    let mut timeline = Timeline::new(at_once);
    timeline.set(|settings| {
        settings.limits.insert("api".into(), per_minute(1));
    });
    timeline.join(1, 10, |_| {});
    timeline.submit((1..=3).map(|number| under(number, &["api"])).collect());
    timeline.run_until(30 * SECOND);
    timeline.cancel(2);
    timeline.run_until(70 * SECOND);
    assert_eq!(timeline.seconds(), [(0, 1), (60, 3)]);
    timeline.submit(vec![under(4, &["api"])]);
    timeline.cancel(4);
    timeline.run_until(200 * SECOND);
    assert_eq!(timeline.starts.len(), 2);
    assert!(timeline.world.scheduler.is_idle());
}

#[test]
fn settings_that_change_while_tasks_wait_hold_at_once() {
    // What holds first, what holds then, and who starts at the change, while one runs.
    let cases: [(&str, Limit, Option<Limit>, &[u64]); 5] = [
        ("raised", at_most(1), Some(at_most(3)), &[2, 3]),
        ("lowered", at_most(2), Some(at_most(1)), &[]),
        ("removed", at_most(1), None, &[2, 3, 4]),
        ("the same", at_most(1), Some(at_most(1)), &[]),
        ("a rate instead, which starts full", at_most(1), Some(per_minute(1)), &[2]),
    ];
    for (name, before, after, expected) in cases {
        let mut timeline = Timeline::new(for_long);
        timeline.set(|settings| {
            settings.limits.insert("api".into(), before);
        });
        timeline.join(1, 10, |_| {});
        timeline.submit((1..=4).map(|number| under(number, &["api"])).collect());
        let first = timeline.starts.len();
        timeline.set(|settings| {
            settings.limits = after.into_iter().map(|limit| ("api".into(), limit)).collect();
        });
        assert_eq!(timeline.started()[first..], *expected, "{name}");
    }
}

#[test]
fn a_limit_that_is_defined_later_counts_what_runs_already() {
    let mut timeline = Timeline::new(for_long);
    timeline.join(1, 10, |_| {});
    timeline.submit(vec![under(1, &["api"]), under(2, &["api"])]);
    assert_eq!(timeline.starts.len(), 2, "a name without a definition limits nothing");
    timeline.set(|settings| {
        settings.limits.insert("api".into(), at_most(2));
    });
    timeline.submit(vec![under(3, &["api"])]);
    assert_eq!(timeline.starts.len(), 2);
    timeline.run_until(1_000 * SECOND);
    assert_eq!(timeline.starts.len(), 3);
}

#[test]
fn changes_of_other_settings_neither_add_tokens_nor_lose_them() {
    let mut timeline = Timeline::new(at_once);
    timeline.set(|settings| {
        settings.limits.insert("api".into(), per_minute(1));
    });
    timeline.join(1, 10, |_| {});
    let mut number = 0;
    for tick in 1..=60u64 {
        // One waits now and then, so that between them nothing refers to the limit.
        if tick % 20 == 1 {
            timeline.submit((1..=2).map(|n| under(number + n, &["api"])).collect());
            number += 2;
        }
        timeline.run_until(tick * 7 * SECOND);
        timeline.set(|settings| settings.ordering.patience_sec = 10.0 + tick as f64);
    }
    assert_eq!(timeline.seconds(), [(0, 1), (60, 2), (140, 3), (200, 4), (280, 5), (340, 6)]);
}

#[test]
fn a_rate_outlives_the_time_in_which_nobody_uses_its_key() {
    let mut timeline = Timeline::new(at_once);
    timeline.set(|settings| {
        let rate = Some(Rate { count: 1, per_ms: 3_600_000 });
        settings.limits.insert("api".into(), Limit { rate, ..Limit::default() });
    });
    timeline.join(1, 10, |_| {});
    timeline.run_until(3_600 * SECOND);
    // Many others come and go, so that what can be forgotten is.
    timeline.submit(vec![under(1, &["api/acme"])]);
    for number in 2..=5_000 {
        timeline.submit(vec![under(number, &[&format!("api/{number}")])]);
    }
    timeline.run_until(3_601 * SECOND);
    assert_eq!(timeline.starts.len(), 5_000);
    timeline.set(|settings| settings.ordering.patience_sec = 5.0);
    timeline.submit(vec![under(5_001, &["api/acme"])]);
    timeline.run_until(7_199 * SECOND);
    assert_eq!(timeline.starts.len(), 5_000, "the second of an hour started too early");
    timeline.run_until(7_200 * SECOND);
    assert_eq!(timeline.starts.len(), 5_001);
}

/// How much the scheduler holds, by the length of what it prints of itself.
fn size(timeline: &Timeline) -> usize {
    format!("{:?}", timeline.world.scheduler).len()
}

#[test]
fn keys_that_come_and_go_do_not_pile_up() {
    let mut timeline = Timeline::new(at_once);
    timeline.set(|settings| {
        settings.limits.insert("slots".into(), at_most(1));
        let limit = Limit { total_concurrency: Some(1), ..Limit::default() };
        settings.limits.insert("full".into(), limit);
    });
    timeline.run_us = |seq| if seq == 1 { 1_000_000 * SECOND } else { 1 };
    timeline.join(1, 10, |_| {});
    timeline.submit(vec![under(1, &["full/0"])]);
    let mut sizes = Vec::new();
    for round in 0..3u64 {
        for number in 0..3_000 {
            let count = round * 3_000 + number;
            let number = 2 + 2 * count;
            let mut runs = under(number, &[&format!("slots/{number}")]);
            runs.fair_key = Some(format!("tenant-{number}").into());
            let waits = under(number + 1, &[&format!("full/{number}")]);
            timeline.submit(vec![runs, waits]);
            timeline.cancel(number + 1);
            timeline.run_until(count * 10);
        }
        sizes.push(size(&timeline));
    }
    assert_eq!(timeline.starts.len(), 9_001);
    assert!(sizes[2] < sizes[0] + sizes[0] / 4, "grows with what has passed: {sizes:?}");
    assert!(timeline.world.scheduler.limit_views(timeline.world.now).len() < 2_500);
}

#[test]
fn tasks_that_are_cancelled_at_a_limit_leave_nothing_behind() {
    let mut timeline = Timeline::new(for_long);
    timeline.set(|settings| {
        settings.limits.insert("db".into(), at_most(1));
    });
    timeline.join(1, 10, |_| {});
    timeline.submit(vec![under(1, &["db"])]);
    let mut before = 0;
    for number in 2..5_000 {
        timeline.submit(vec![under(number, &["db"])]);
        timeline.cancel(number);
        if number == 100 {
            before = size(&timeline);
        }
    }
    assert!(size(&timeline) < before + before / 4, "{before} has grown to {}", size(&timeline));
}

#[derive(Clone, Debug)]
struct Arrival {
    after_ms: u64,
    key: usize,
    count: u64,
    /// Whether some setting that has nothing to do with limits changes.
    change: bool,
}

fn arrivals() -> impl Strategy<Value = Vec<Arrival>> {
    let arrival = (0u64..5_000, 0..3usize, 0u64..6, prop::bool::weighted(0.2));
    let arrival =
        arrival.prop_map(|(after_ms, key, count, change)| Arrival { after_ms, key, count, change });
    prop::collection::vec(arrival, 1..30)
}

/// In no window more starts than a burst and what the rate gives in it.
fn check_windows(starts: &[u64], interval_us: u64, burst: u64) -> Result<(), TestCaseError> {
    for (first, from) in starts.iter().enumerate() {
        for (count, to) in starts[first..].iter().zip(1u64..).map(|(to, count)| (count, to)) {
            let most = burst + (to - from) / interval_us;
            prop_assert!(count <= most, "{count} of {most} between {from} and {to}");
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_rate_is_never_exceeded_in_any_window(
        rate in prop_oneof![Just((1u32, 1_000u64)), Just((4, 1_000)), Just((6, 60_000))],
        total in prop_oneof![Just((2u32, 1_000u64)), Just((8, 1_000)), Just((30, 60_000))],
        burst in 1u32..5,
        arrivals in arrivals(),
    ) {
        let mut timeline = Timeline::new(|seq| seq % 7 * 100_000 + 1);
        let as_rate = |(count, per_ms)| Some(Rate { count, per_ms });
        timeline.set(|settings| {
            settings.limits.insert("api".into(), Limit {
                rate: as_rate(rate),
                burst: Some(burst),
                total_rate: as_rate(total),
                ..Limit::default()
            });
        });
        timeline.join(1, 3, |_| {});
        timeline.join(2, 2, |_| {});
        let (mut now_ms, mut number, mut keys) = (0, 0, Vec::new());
        for arrival in &arrivals {
            now_ms += arrival.after_ms;
            timeline.run_until(now_ms * 1_000);
            if arrival.change {
                timeline.set(|settings| settings.ordering.patience_sec = 1.0 + number as f64);
            }
            let key = ["api/a", "api/b", "api/c"][arrival.key];
            timeline.submit((1..=arrival.count).map(|n| under(number + n, &[key])).collect());
            number += arrival.count;
            keys.resize(number as usize, arrival.key);
        }
        timeline.run_until((now_ms + 3_600_000) * 1_000);
        prop_assert_eq!(timeline.starts.len() as u64, number, "something never starts");
        let of = |which: Option<usize>| -> Vec<u64> {
            let own = timeline.starts.iter().filter(|start| {
                which.is_none_or(|key| keys[start.seq as usize - 1] == key)
            });
            own.map(|start| start.at).collect()
        };
        let interval = |(count, per_ms): (u32, u64)| per_ms * 1_000 / u64::from(count);
        check_windows(&of(None), interval(total), burst.into())?;
        for key in 0..3 {
            check_windows(&of(Some(key)), interval(rate), burst.into())?;
        }
    }

    #[test]
    fn tasks_at_a_limit_change_neither_order_nor_time_of_the_others(
        tasks in prop::collection::vec((1u8..=5, prop::option::of(0..3usize), prop::option::of(1u64..100_000), any::<bool>(), 0u64..2_000), 1..60),
    ) {
        let play = |with_limited: bool| {
            let mut timeline = Timeline::new(|seq| seq % 5 * 150_000 + 1);
            // Nothing comes through in the time of this test: what it had was used before.
            timeline.world.scheduler.recover_limit("limit-level/never", "now");
            timeline.set(|settings| {
                let rate = Some(Rate { count: 1, per_ms: 86_400_000 });
                settings.limits.insert("never".into(), Limit { rate, ..Limit::default() });
                settings.ordering.ageing_sec = 1.0;
                settings.ordering.patience_sec = 3.0;
            });
            timeline.join(1, 2, |_| {});
            // A queue in which nobody waits lets all keys start level again. One that waits at a limit keeps a queue from
            // that, so here one does from the beginning to the end, whether others join it or not.
            let mut first = under(1, &["never"]);
            first.fair_key = Some("waits".into());
            timeline.submit(vec![first]);
            let mut now_ms = 0;
            for ((priority, tenant, deadline_ms, limited, after_ms), number) in tasks.iter().zip(2..) {
                now_ms += after_ms;
                timeline.run_until(now_ms * 1_000);
                if *limited && !with_limited {
                    continue;
                }
                let mut task = under(number, if *limited { &["never"] } else { &[] });
                task.priority = *priority;
                // A key of its own, because keys that wait make a queue a shared one.
                task.fair_key = Some(format!("{}-{limited}", tenant.unwrap_or(9)).into());
                task.deadline = deadline_ms.map(|ms| timeline.world.now.plus_ms(ms));
                timeline.submit(vec![task]);
            }
            timeline.run_until((now_ms + 60_000) * 1_000);
            timeline.starts.iter().map(|start| (start.at, start.seq)).collect::<Vec<_>>()
        };
        prop_assert_eq!(play(true), play(false));
    }
}
