//! Each rule fires when it should, alone, and says what to do.

use divvy_autoscale::status::PoolStatus;
use divvy_types::alerts::Severity;
use divvy_types::overview::{Stranded, WorkerLoad};
use divvy_types::view::{LimitView, LoadMetrics, QueueView};
use divvy_types::{Timestamp, WaitReason};

use super::options::AlertOptions;
use super::rules::{RULES, Scene};

pub(super) fn worker(name: &str, queue_length: u32) -> WorkerLoad {
    let (slots, leased) = (1, queue_length + 1);
    WorkerLoad {
        name: name.into(),
        key: 1,
        slots,
        leased,
        queue_length,
        draining: false,
        paused: false,
    }
}

/// One worker that does its work.
fn calm() -> Scene {
    let load =
        LoadMetrics { agent_count: 1, idle_agents: 1, success_rate: 1.0, ..LoadMetrics::default() };
    Scene { workers: vec![worker("w1", 0)], load, ..Scene::default() }
}

fn stranded(wait: WaitReason) -> Vec<Stranded> {
    vec![Stranded { queue: "video".into(), kind: "encode".into(), ready: 4, wait }]
}

fn nobody() -> WaitReason {
    WaitReason::NoWorker { kind: "encode".into(), queue: "video".into(), workers: 1 }
}

fn no_gpu() -> WaitReason {
    WaitReason::MissingCapability { missing: vec!["gpu>=2".into()], nearest: "w1".into() }
}

/// A rule that is broken, and what it says.
#[derive(Debug, PartialEq)]
struct Broken {
    name: &'static str,
    severity: Severity,
    text: String,
    cure: Option<String>,
}

fn broken(scene: &Scene) -> Vec<Broken> {
    let options = AlertOptions::default();
    let broken = RULES.iter().filter(|rule| options.bounds(rule).is_broken((rule.measure)(scene)));
    broken
        .map(|rule| {
            let (text, cure) = (rule.say)(scene, true);
            Broken { name: rule.name, severity: rule.severity, text, cure }
        })
        .collect()
}

#[test]
fn a_calm_server_breaks_no_rule() {
    assert_eq!(broken(&calm()), []);
    assert_eq!(broken(&Scene::default()), [], "an empty one neither");
}

fn busy(scene: &mut Scene, waiting: u64) {
    scene.load.idle_agents = 0;
    scene.load.total_queued = waiting;
}

type Spoil = fn(&mut Scene);

/// What is spoilt, and the one rule that it breaks, with words of its text and of its cure.
const FAULTS: &[(Spoil, &str, &str, &str)] = &[
    (
        |scene| {
            scene.workers[0].draining = true;
            scene.stranded = stranded(nobody());
        },
        "no_worker",
        "4 tasks ready and no worker",
        "divvy work",
    ),
    (
        |scene| scene.stranded = stranded(no_gpu()),
        "no_capable_worker",
        "4 tasks of `encode` in queue `video` cannot run: no worker has gpu>=2; nearest is `w1`",
        "--caps gpu=2",
    ),
    (
        |scene| scene.stranded = stranded(nobody()),
        "no_capable_worker",
        "no connected worker serves it",
        "--exec encode=PROGRAM",
    ),
    (|scene| scene.stats.disk_full = 1, "disk_full", "nearly full", "free"),
    (
        |scene| scene.stats.store_problem = Some("data folder d is gone".into()),
        "store_unavailable",
        "nothing is recorded: data folder d is gone",
        "goes on by itself",
    ),
    (
        |scene| {
            scene.stats.failed_reads = 2;
            scene.stats.failed_read = Some("row 7 is damaged".into());
        },
        "store_unreadable",
        "2 reads of the store failed since the start, the last: row 7 is damaged",
        "divvy store check",
    ),
    (
        |scene| scene.reload_error = Some("divvy.yaml:3:1: no".into()),
        "settings_reload",
        "divvy.yaml:3:1",
        "correct",
    ),
    (
        |scene| scene.refused_ticks = vec![("nightly".into(), "limits names `ghost`".into())],
        "ticks_refused",
        "schedule `nightly`: limits names `ghost`",
        "divvy schedule show nightly",
    ),
];

fn queue(name: &str, oldest_sec: u64, paused: bool) -> QueueView {
    QueueView {
        name: name.into(),
        paused,
        blocked: 0,
        scheduled: 0,
        ready: 1,
        leased: 0,
        queued: 0,
        oldest_ready_ms: Some(oldest_sec * 1_000),
        ready_by_priority: Vec::new(),
    }
}

/// Likewise, where work only could go better.
const WARNINGS: &[(Spoil, &str, &str, &str)] = &[
    (
        |scene| scene.queues = vec![queue("bulk", 20, false), queue("mail", 300, false)],
        "oldest_wait",
        "in queue `mail`, has waited 300s",
        "divvy task list --state ready --queue mail",
    ),
    (|scene| scene.disk_free = Some(2_000.4), "disk_low", "2000 MiB are free", "retention_days"),
    (
        |scene| (scene.commits.commits, scene.commits.commit_us) = (5, 1_500_000),
        "store_slow",
        "a commit took 300.0 ms",
        "faster disk",
    ),
    (
        |scene| scene.arrivals = vec![("w7".into(), 6), ("w8".into(), 1)],
        "workers_flap",
        "worker `w7` connected 6 times",
        "log",
    ),
    (
        |scene| scene.missed_ticks = vec!["nightly".into()],
        "ticks_missed",
        "schedule `nightly`",
        "divvy schedule trigger nightly",
    ),
    (|scene| busy(scene, 101), "all_workers_busy", "101 tasks wait", "more workers"),
    (
        |scene| {
            (scene.steals.steals, scene.steals.stolen) = (20, 9);
        },
        "steal_efficiency",
        "only 45 % of 20 steals",
        "busy_threshold",
    ),
    (
        |scene| scene.workers.push(worker("w2", 8)),
        "queue_variance",
        "variance 16.0",
        "divvy queue rebalance",
    ),
    (|scene| scene.stats.clock_away_ms = -7_200_000, "clock", "set back by 7200s", "set it right"),
    (|scene| scene.stats.retention_behind_ms = 9 * 86_400_000, "clock", "9 days ahead", "an hour"),
    (|scene| scene.late = 1, "deadlines_at_risk", "1 task will", "priority"),
    (
        |scene| scene.newly_dead = 10,
        "dead_letters_growing",
        "10 dead letters in the last 10 minutes",
        "divvy dead list",
    ),
    (
        |scene| scene.quarantined = vec![("w1".into(), "encode".into(), Timestamp(1))],
        "workers_quarantined",
        "breaker open for workers that keep failing a kind: `w1` gets no `encode`",
        "divvy worker status w1",
    ),
    (
        |scene| {
            let key = Some("acme".into());
            scene.limits =
                vec![LimitView { name: "api".into(), key, waiting: 100, ..Default::default() }];
        },
        "limits_saturated",
        "100 ready tasks are kept by `api/acme`",
        "divvy limit list",
    ),
    (
        |scene| scene.pools.flapping = vec!["pool `p`: it went up and down 8 times".into()],
        "pools_flap",
        "pool `p`: it went up",
        "divvy scale history",
    ),
];

#[test]
fn each_fault_breaks_its_own_rule_and_names_the_cure() {
    for (cases, severity) in [(FAULTS, Severity::Fault), (WARNINGS, Severity::Warning)] {
        for (spoil, name, text, cure) in cases {
            let mut scene = calm();
            spoil(&mut scene);
            let found = broken(&scene);
            assert_eq!(found.len(), 1, "{name}: {found:?}");
            assert_eq!((found[0].name, found[0].severity), (*name, severity));
            assert!(found[0].text.contains(text), "{name}: {}", found[0].text);
            assert!(found[0].cure.as_ref().unwrap().contains(cure), "{name}: {found:?}");
        }
    }
}

#[test]
fn a_pool_whose_driver_fails_is_a_fault_and_workers_that_start_are_waited_for() {
    let mut scene = calm();
    scene.pools.drivers = vec![("pool `p` cannot be scaled: no quota".into(), "see to it".into())];
    let found = broken(&scene);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((found[0].name, found[0].severity), ("pools_differ", Severity::Fault));
    assert!(found[0].text.contains("no quota"), "{found:?}");
    let starting = PoolStatus { starting: 1, ..PoolStatus::default() };
    let mut scene =
        Scene { stranded: stranded(nobody()), pool_list: vec![starting], ..Scene::default() };
    assert_eq!(broken(&scene), []);
    scene.pool_list[0].problem = Some("no quota".into());
    assert_eq!(broken(&scene).len(), 1, "nobody comes");
}

#[test]
fn what_is_just_within_the_bounds_breaks_nothing() {
    let mut edge = calm();
    busy(&mut edge, 99);
    edge.steals.steals = 19;
    (edge.commits.commits, edge.commits.commit_us) = (4, 4_000_000);
    edge.newly_dead = 9;
    edge.disk_free = Some(2_049.0);
    edge.queues = vec![queue("mail", 299, false), queue("rests", 9_999, true)];
    edge.arrivals = vec![("w1".into(), 5)];
    assert_eq!(broken(&edge), []);
}

#[test]
fn the_guide_lists_every_rule_with_its_defaults() {
    let guide = include_str!("../../../../docs/guides/monitoring.md");
    for rule in RULES {
        let severity = if rule.severity == Severity::Fault { "fault" } else { "warning" };
        let row = format!(
            "| `{}` | {severity} | {} | {} | {} | {} s | {} s |",
            rule.name, rule.measures, rule.fires_at, rule.resolves_at, rule.for_sec, rule.calm_sec
        );
        assert!(guide.contains(&row), "docs/guides/monitoring.md lacks: {row}");
    }
}
