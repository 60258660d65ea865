//! Each rule fires when it should, alone, and says what to do.

use super::*;

fn worker(name: &str, queue_length: u32) -> WorkerLoad {
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

fn firing(scene: &Scene) -> Vec<Alert> {
    judge(scene).into_iter().filter(|alert| alert.firing).collect()
}

#[test]
fn a_calm_server_breaks_no_rule() {
    assert_eq!(firing(&calm()), []);
    assert_eq!(firing(&Scene::default()), [], "an empty one neither");
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

/// Likewise, where work only could go better.
const WARNINGS: &[(Spoil, &str, &str, &str)] = &[
    (|scene| busy(scene, 101), "all_workers_busy", "101 tasks wait", "more workers"),
    (
        |scene| {
            scene.load.total_steals = 20;
            scene.load.success_rate = 0.45;
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
        |scene| scene.benched = vec![("w1".into(), "encode".into(), Timestamp(1))],
        "workers_benched",
        "`w1` from `encode`",
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
            let broken = firing(&scene);
            assert_eq!(broken.len(), 1, "{name}: {broken:?}");
            assert_eq!((broken[0].name.as_str(), broken[0].severity), (*name, severity));
            assert!(broken[0].text.contains(text), "{name}: {}", broken[0].text);
            assert!(broken[0].cure.as_ref().unwrap().contains(cure), "{name}: {broken:?}");
        }
    }
}

#[test]
fn a_pool_whose_driver_fails_is_a_fault_and_workers_that_start_are_waited_for() {
    let mut scene = calm();
    scene.pools.drivers = vec![("pool `p` cannot be scaled: no quota".into(), "see to it".into())];
    let broken = firing(&scene);
    assert_eq!(broken.len(), 1, "{broken:?}");
    assert_eq!((broken[0].name.as_str(), broken[0].severity), ("pools_differ", Severity::Fault));
    assert!(broken[0].text.contains("no quota"), "{broken:?}");
    let starting = PoolStatus { starting: 1, ..PoolStatus::default() };
    let mut scene =
        Scene { stranded: stranded(nobody()), pool_list: vec![starting], ..Scene::default() };
    assert_eq!(firing(&scene), []);
    scene.pool_list[0].problem = Some("no quota".into());
    assert_eq!(firing(&scene).len(), 1, "nobody comes");
}

#[test]
fn what_is_just_within_the_bounds_breaks_nothing() {
    let mut edge = calm();
    busy(&mut edge, 100);
    edge.load.total_steals = 19;
    edge.load.success_rate = 0.0;
    edge.newly_dead = 9;
    assert_eq!(firing(&edge), []);
}
