//! The rules about the health of a server: what each measures in a [`Scene`], and what it says of that. Pure functions.
//!
//! A *fault* is something that keeps work from going on until someone acts; a *warning* is work that could go better. A
//! rule counts things that are wrong (and is broken by one), or measures something that has a bound. The bounds and
//! times here are the defaults; a settings file may change each. When a rule fires is decided in `machine`.

use std::time::Duration;

use divvy_autoscale::status::PoolStatus;
use divvy_engine::Snapshot;
use divvy_types::alerts::Severity;
use divvy_types::need::{offers, spoken};
use divvy_types::overview::{Stranded, WorkerLoad};
use divvy_types::view::{LimitView, LoadMetrics, QueueView};
use divvy_types::{Name, Timestamp, WaitReason, shell};

use super::trend::Counters;
use crate::samples::queue_variance;
use crate::scale::Troubles;

/// Steals from which on their success says something.
const STEALS_MIN: u64 = 20;
/// Commits from which on their time says something.
const COMMITS_MIN: u64 = 5;
/// The time that is looked at for new dead letters, for steals and for workers that come and go.
pub(crate) const LATELY_MS: u64 = 600_000;
/// The time that is looked at for slow commits.
pub(crate) const COMMITS_MS: u64 = 60_000;
/// The time for which missed ticks are told.
pub(crate) const MISSED_MS: u64 = 900_000;
const DAY_MS: u64 = 86_400_000;
/// Names that one text lists.
const NAMES_MAX: usize = 3;

/// Everything that the rules look at.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scene {
    /// The counters of the engine.
    pub(crate) stats: Snapshot,
    /// How tasks move between workers.
    pub(crate) load: LoadMetrics,
    /// What each worker carries.
    pub(crate) workers: Vec<WorkerLoad>,
    /// The queues.
    pub(crate) queues: Vec<QueueView>,
    /// Who is not given which kind, and until when.
    pub(crate) quarantined: Vec<(Name, Name, Timestamp)>,
    /// How full the limits are.
    pub(crate) limits: Vec<LimitView>,
    /// Ready tasks that nobody can run.
    pub(crate) stranded: Vec<Stranded>,
    /// Open tasks that will presumably miss their deadlines.
    pub(crate) late: u64,
    /// Dead letters within [`LATELY_MS`].
    pub(crate) newly_dead: u64,
    /// Steals within [`LATELY_MS`].
    pub(crate) steals: Counters,
    /// Commits within [`COMMITS_MS`].
    pub(crate) commits: Counters,
    /// Workers that connected most often within [`LATELY_MS`], and how often.
    pub(crate) arrivals: Vec<(Name, u64)>,
    /// How much of the disk of the data folder is free, in mebibytes.
    pub(crate) disk_free: Option<f64>,
    /// What is wrong with the settings file.
    pub(crate) reload_error: Option<String>,
    /// Schedules whose last tick was refused, and why.
    pub(crate) refused_ticks: Vec<(Name, String)>,
    /// Schedules that missed ticks within [`MISSED_MS`].
    pub(crate) missed_ticks: Vec<Name>,
    /// What is wrong with pools of workers.
    pub(crate) pools: Troubles,
    /// The pools.
    pub(crate) pool_list: Vec<PoolStatus>,
}

/// What is said of a rule: the text, and the cure while it is broken.
pub(crate) type Said = (String, Option<String>);

/// A rule and its defaults.
#[derive(Debug)]
pub struct Rule {
    /// Its name.
    pub name: &'static str,
    /// How bad it is when it is broken.
    pub severity: Severity,
    /// What its value is.
    pub measures: &'static str,
    /// Whether small values are the bad ones.
    pub low: bool,
    /// The value at which it is broken.
    pub fires_at: f64,
    /// The value at which it is well again.
    pub resolves_at: f64,
    /// For how long it must be broken before it fires, in seconds.
    pub for_sec: f64,
    /// For how long it must be well before it is over, in seconds.
    pub calm_sec: f64,
    pub(super) measure: fn(&Scene) -> f64,
    /// What is the case, while it is broken (`true`) or not.
    pub(super) say: fn(&Scene, bool) -> Said,
}

/// Something that is there or not, or several times.
const fn counts(
    name: &'static str,
    severity: Severity,
    measures: &'static str,
    [for_sec, calm_sec]: [f64; 2],
    measure: fn(&Scene) -> f64,
    say: fn(&Scene, bool) -> Said,
) -> Rule {
    let (low, fires_at, resolves_at) = (false, 1.0, 0.0);
    Rule { name, severity, measures, low, fires_at, resolves_at, for_sec, calm_sec, measure, say }
}

/// Something that has a bound: broken at the first, well at the second. Both are warnings.
const fn bounded(
    name: &'static str,
    measures: &'static str,
    [fires_at, resolves_at]: [f64; 2],
    [for_sec, calm_sec]: [f64; 2],
    measure: fn(&Scene) -> f64,
    say: fn(&Scene, bool) -> Said,
) -> Rule {
    let (severity, low) = (Warning, resolves_at > fires_at);
    Rule { name, severity, measures, low, fires_at, resolves_at, for_sec, calm_sec, measure, say }
}

use Severity::{Fault, Warning};

/// Every rule, in a fixed order.
#[rustfmt::skip]
pub static RULES: &[Rule] = &[
    counts("no_worker", Fault, "ready tasks while no worker is connected", [15.0, 15.0], nobody, no_worker),
    counts("no_capable_worker", Fault, "sorts of ready tasks that no connected worker can run", [15.0, 15.0],
        |scene| if working(scene) > 0 { scene.stranded.len() as f64 } else { 0.0 }, no_capable_worker),
    counts("disk_full", Fault, "1 while new tasks are refused for lack of disk space", [0.0, 30.0],
        |scene| scene.stats.disk_full as f64, disk_full),
    bounded("disk_low", "mebibytes that are free on the disk of the data folder", [2_048.0, 3_072.0], [30.0, 60.0],
        |scene| scene.disk_free.unwrap_or(1e6), disk_low),
    counts("store_unavailable", Fault, "1 while nothing can be recorded", [0.0, 5.0],
        |scene| truth(scene.stats.store_problem.is_some()), store_unavailable),
    counts("store_unreadable", Fault, "reads of the store that failed since the start", [0.0, 0.0],
        |scene| scene.stats.failed_reads as f64, store_unreadable),
    bounded("store_slow", "milliseconds that a commit took in the last minute, on average", [250.0, 100.0], [60.0, 60.0],
        commit_ms, store_slow),
    counts("clock", Warning, "1 while the clock of the server is not believed", [0.0, 60.0],
        |scene| truth(scene.stats.clock_away_ms != 0 || scene.stats.retention_behind_ms > DAY_MS), clock),
    counts("settings_reload", Fault, "1 while the settings file cannot be used", [0.0, 0.0],
        |scene| truth(scene.reload_error.is_some()), settings_reload),
    counts("ticks_refused", Fault, "schedules whose last tick was refused", [0.0, 0.0],
        |scene| scene.refused_ticks.len() as f64, ticks_refused),
    counts("ticks_missed", Warning, "schedules that missed ticks in the last 15 minutes", [0.0, 0.0],
        |scene| scene.missed_ticks.len() as f64, ticks_missed),
    bounded("oldest_wait", "seconds that the oldest ready task has waited, paused queues left out", [300.0, 150.0], [60.0, 60.0],
        |scene| oldest(scene).map_or(0.0, |(_, ms)| ms as f64 / 1e3), oldest_wait),
    bounded("all_workers_busy", "tasks that wait while no worker is idle", [100.0, 50.0], [60.0, 60.0],
        |scene| if scene.load.agent_count > 0 && scene.load.idle_agents == 0 { scene.load.total_queued as f64 } else { 0.0 },
        all_workers_busy),
    bounded("steal_efficiency", "percent of the steals of the last 10 minutes that worked, from 20 on", [50.0, 60.0], [60.0, 60.0],
        steal_success, steal_efficiency),
    bounded("queue_variance", "the variance of the workers' queue lengths", [10.0, 5.0], [60.0, 60.0],
        |scene| queue_variance(&scene.workers), queue_variance_high),
    counts("deadlines_at_risk", Warning, "open tasks that will presumably miss their deadlines", [30.0, 60.0],
        |scene| scene.late as f64, deadlines_at_risk),
    bounded("dead_letters_growing", "dead letters of the last 10 minutes", [10.0, 5.0], [0.0, 60.0],
        |scene| scene.newly_dead as f64, dead_letters_growing),
    counts("workers_quarantined", Warning, "open breakers: workers that are kept from a kind that they keep failing", [0.0, 60.0],
        |scene| scene.quarantined.len() as f64, workers_quarantined),
    bounded("workers_flap", "times that one worker connected in the last 10 minutes", [6.0, 3.0], [0.0, 60.0],
        |scene| scene.arrivals.first().map_or(0.0, |(_, count)| *count as f64), workers_flap),
    bounded("limits_saturated", "ready tasks that limits keep", [100.0, 50.0], [60.0, 60.0], kept_by_limits, limits_saturated),
    counts("pools_differ", Fault, "pools whose workers cannot be had", [0.0, 30.0],
        |scene| scene.pools.drivers.len() as f64, pools_differ),
    counts("pools_flap", Warning, "pools that go up and down again and again", [0.0, 60.0],
        |scene| scene.pools.flapping.len() as f64, pools_flap),
];

fn truth(so: bool) -> f64 {
    f64::from(u8::from(so))
}

fn ill(text: impl Into<String>, cure: impl Into<String>) -> Said {
    (text.into(), Some(cure.into()))
}

fn well(text: impl Into<String>) -> Said {
    (text.into(), None)
}

fn working(scene: &Scene) -> usize {
    scene.workers.iter().filter(|worker| !worker.draining).count()
}

fn stranded(scene: &Scene) -> u64 {
    scene.stranded.iter().map(|stranded| stranded.ready).sum()
}

fn some_start(scene: &Scene) -> bool {
    scene.pool_list.iter().any(|pool| pool.problem.is_none() && pool.starting > 0)
}

fn nobody(scene: &Scene) -> f64 {
    if working(scene) > 0 || some_start(scene) { 0.0 } else { stranded(scene) as f64 }
}

fn no_worker(scene: &Scene, broken: bool) -> Said {
    let waiting = stranded(scene);
    if broken {
        return ill(
            format!("{} ready and no worker to run {}", count(waiting, "task"), them(waiting)),
            "start one with `divvy work`",
        );
    }
    well(match working(scene) as u64 {
        0 if waiting > 0 && some_start(scene) => {
            format!("{} wait for workers that start", count(waiting, "task"))
        }
        0 => "no worker is connected, and nothing waits for one".to_owned(),
        working => format!("{} at work", count(working, "worker")),
    })
}

fn no_capable_worker(scene: &Scene, broken: bool) -> Said {
    let first = scene.stranded.first().filter(|_| broken);
    let Some(Stranded { kind, queue, ready, wait }) = first else {
        return well("every ready task has a worker that can run it");
    };
    let tasks = format!("{} of `{kind}` in queue `{queue}`", count(*ready, "task"));
    let others = match scene.stranded.len() - 1 {
        0 => String::new(),
        others => format!(" (and {} of tasks)", count(others as u64, "more sort")),
    };
    match wait {
        WaitReason::MissingCapability { missing, nearest } => ill(
            format!(
                "{tasks}{others} cannot run: no worker has {}; nearest is `{nearest}`",
                spoken(missing)
            ),
            format!("start a worker that has it: divvy work {}", offers(missing)),
        ),
        _ => ill(
            format!("{tasks}{others} cannot run: no connected worker serves it"),
            format!(
                "start a worker that does: divvy work --exec {}",
                shell::word(&format!("{kind}=PROGRAM"))
            ),
        ),
    }
}

fn disk_full(_: &Scene, broken: bool) -> Said {
    if broken {
        return ill(
            "the disk of the server is nearly full: no new tasks are taken",
            "free some space, or keep finished tasks for fewer days",
        );
    }
    well("the disk of the server has room")
}

fn disk_low(scene: &Scene, broken: bool) -> Said {
    let Some(free) = scene.disk_free else { return well("the server has no data folder") };
    let text = format!("{free:.0} MiB are free on the disk of the data folder");
    if !broken {
        return well(text);
    }
    let cure = "free some space, or keep finished tasks for fewer days (serve.retention_days), before new tasks are refused";
    ill(text, cure)
}

fn store_unavailable(scene: &Scene, broken: bool) -> Said {
    match scene.stats.store_problem.as_ref().filter(|_| broken) {
        None => well("the data folder can be written to"),
        Some(problem) => ill(
            format!("nothing is recorded: {problem}"),
            "see to it and the server goes on by itself; if the folder is lost, stop the server and restore a backup",
        ),
    }
}

fn store_unreadable(scene: &Scene, broken: bool) -> Said {
    match scene.stats.failed_read.as_ref().filter(|_| broken) {
        None => well("everything that was asked for could be read"),
        Some(problem) => ill(
            format!(
                "{} of the store failed since the start, the last: {problem}",
                count(scene.stats.failed_reads, "read")
            ),
            "stop the server and run `divvy store check`",
        ),
    }
}

fn commit_ms(scene: &Scene) -> f64 {
    let Counters { commits, commit_us, .. } = scene.commits;
    if commits < COMMITS_MIN { 0.0 } else { commit_us as f64 / commits as f64 / 1e3 }
}

fn store_slow(scene: &Scene, broken: bool) -> Said {
    let text = match scene.commits.commits {
        0 => "nothing was committed in the last minute".to_owned(),
        commits => {
            let mean = scene.commits.commit_us as f64 / commits as f64 / 1e3;
            format!("a commit took {mean:.1} ms in the last minute, on average")
        }
    };
    if broken {
        return ill(text, "put the data folder on a faster disk of its own: divvy doctor times it");
    }
    well(text)
}

fn clock(scene: &Scene, broken: bool) -> Said {
    let (away, behind) = (scene.stats.clock_away_ms, scene.stats.retention_behind_ms);
    if !broken {
        return well("the clock of the server runs evenly");
    }
    if away != 0 {
        let way = if away > 0 { "forward" } else { "back" };
        let by = Duration::from_millis(away.unsigned_abs());
        return ill(
            format!("the clock of the server was set {way} by {by:?}, and is not believed yet"),
            "set it right; if it is right, wait some minutes, or restart the server",
        );
    }
    ill(
        format!("the clock is {} ahead of what the store has seen", count(behind / DAY_MS, "day")),
        "set it right if it is wrong: old tasks are deleted, a day of them an hour",
    )
}

fn settings_reload(scene: &Scene, broken: bool) -> Said {
    match scene.reload_error.as_ref().filter(|_| broken) {
        None => well("the settings that hold are the ones that were given"),
        Some(error) => ill(
            format!("the settings file could not be used, the old settings hold: {error}"),
            "correct the file; it is read again when it changes",
        ),
    }
}

fn ticks_refused(scene: &Scene, broken: bool) -> Said {
    match scene.refused_ticks.first().filter(|_| broken) {
        None => well("every schedule submits its tasks"),
        Some((name, problem)) => {
            let names = scene.refused_ticks.iter().map(|(name, _)| format!("`{name}`"));
            ill(
                format!("the last tick was refused of schedule {}: {problem}", listed(names)),
                format!("correct it: divvy schedule show {name}"),
            )
        }
    }
}

fn ticks_missed(scene: &Scene, broken: bool) -> Said {
    match scene.missed_ticks.first().filter(|_| broken) {
        None => well("no schedule missed a tick lately"),
        Some(name) => {
            let names = scene.missed_ticks.iter().map(|name| format!("`{name}`"));
            ill(
                format!(
                    "ticks were missed and are not made up for, while the server was away or busy, of schedule {}",
                    listed(names)
                ),
                format!(
                    "run it now if it matters: divvy schedule trigger {name}; catch_up says what becomes of missed ticks"
                ),
            )
        }
    }
}

/// The queue whose oldest ready task has waited longest, and how long.
fn oldest(scene: &Scene) -> Option<(&Name, u64)> {
    let waits = scene.queues.iter().filter(|queue| !queue.paused);
    waits.filter_map(|queue| Some((&queue.name, queue.oldest_ready_ms?))).max_by_key(|(_, ms)| *ms)
}

fn oldest_wait(scene: &Scene, broken: bool) -> Said {
    let Some((queue, ms)) = oldest(scene) else { return well("no task waits for a worker") };
    let wait = Duration::from_secs(ms / 1_000);
    let text = format!("the oldest ready task, in queue `{queue}`, has waited {wait:?}");
    if !broken {
        return well(text);
    }
    let list = format!("divvy task list --state ready --queue {}", shell::word(queue));
    ill(
        text,
        format!(
            "see why with `{list}`, then `divvy explain ID`; start more workers, or raise its priority or limit"
        ),
    )
}

fn all_workers_busy(scene: &Scene, broken: bool) -> Said {
    let LoadMetrics { agent_count, idle_agents, total_queued, .. } = scene.load;
    if !broken {
        return well(format!("{} of {} idle", idle_agents, count(agent_count, "worker")));
    }
    ill(
        format!("none of {} is idle and {total_queued} tasks wait", count(agent_count, "worker")),
        "start more workers, or give them more slots",
    )
}

fn steal_success(scene: &Scene) -> f64 {
    let Counters { steals, stolen, .. } = scene.steals;
    if steals < STEALS_MIN { 100.0 } else { stolen as f64 * 100.0 / steals as f64 }
}

fn steal_efficiency(scene: &Scene, broken: bool) -> Said {
    let Counters { steals, stolen, .. } = scene.steals;
    if !broken {
        return well(format!("{stolen} of {} worked lately", count(steals, "steal")));
    }
    ill(
        format!("only {:.0} % of {steals} steals worked", steal_success(scene)),
        "raise load_balancing.thresholds.busy_threshold, or look at what workers can do",
    )
}

fn queue_variance_high(scene: &Scene, broken: bool) -> Said {
    let variance = queue_variance(&scene.workers);
    if !broken {
        return well(format!("the queues of the workers are even: variance {variance:.1}"));
    }
    ill(
        format!("the queues of the workers are uneven: variance {variance:.1}"),
        "even them out with `divvy queue rebalance`, or shorten rebalance_interval_sec",
    )
}

fn deadlines_at_risk(scene: &Scene, broken: bool) -> Said {
    if !broken {
        return well("no deadline is expected to be missed");
    }
    ill(
        format!("{} will presumably miss {} deadline", count(scene.late, "task"), its(scene.late)),
        "start more workers, or raise their priority",
    )
}

fn dead_letters_growing(scene: &Scene, broken: bool) -> Said {
    let minutes = LATELY_MS / 60_000;
    let text = format!("{} in the last {minutes} minutes", count(scene.newly_dead, "dead letter"));
    if broken { ill(text, "see what they have in common: divvy dead list") } else { well(text) }
}

fn workers_quarantined(scene: &Scene, broken: bool) -> Said {
    match scene.quarantined.first().filter(|_| broken) {
        None => well("no breaker is open: no worker is kept from a kind that it keeps failing"),
        Some((worker, ..)) => {
            let names = scene
                .quarantined
                .iter()
                .map(|(worker, kind, _)| format!("`{worker}` gets no `{kind}`"));
            ill(
                format!("breaker open for workers that keep failing a kind: {}", listed(names)),
                format!(
                    "others run it meanwhile, and each tries again by itself; see why it fails there: divvy worker status {}",
                    shell::word(worker)
                ),
            )
        }
    }
}

fn workers_flap(scene: &Scene, broken: bool) -> Said {
    match scene.arrivals.first().filter(|_| broken) {
        None => well("no worker comes and goes"),
        Some((name, count)) => ill(
            format!(
                "worker `{name}` connected {count} times in the last {} minutes",
                LATELY_MS / 60_000
            ),
            "look at its log: it crashes, is killed for its memory, or its network breaks",
        ),
    }
}

fn kept_by_limits(scene: &Scene) -> f64 {
    scene.limits.iter().map(|limit| limit.waiting).sum::<u64>() as f64
}

fn limits_saturated(scene: &Scene, broken: bool) -> Said {
    let waiting: u64 = scene.limits.iter().map(|limit| limit.waiting).sum();
    if !broken {
        return well(format!("{} kept by limits", count(waiting, "ready task")));
    }
    let mut saturated: Vec<&LimitView> =
        scene.limits.iter().filter(|limit| limit.waiting > 0).collect();
    saturated.sort_by_key(|limit| std::cmp::Reverse(limit.waiting));
    let names = saturated.iter().map(|limit| match &limit.key {
        Some(key) => format!("`{}/{key}`", limit.name),
        None => format!("`{}`", limit.name),
    });
    ill(
        format!("{waiting} ready tasks are kept by {}", listed(names)),
        "raise the limits, or submit less: divvy limit list",
    )
}

fn pools_differ(scene: &Scene, broken: bool) -> Said {
    match scene.pools.drivers.as_slice() {
        [(text, cure), others @ ..] if broken => {
            let others = match others.len() {
                0 => String::new(),
                others => format!(" (and {})", count(others as u64, "more pool")),
            };
            ill(format!("{text}{others}"), cure.clone())
        }
        _ => well(format!("{} as wanted", count(scene.pools.pools as u64, "pool"))),
    }
}

fn pools_flap(scene: &Scene, broken: bool) -> Said {
    match scene.pools.flapping.as_slice() {
        [] => well("no pool goes up and down again and again"),
        _ if !broken => well("no pool goes up and down again and again"),
        flapping => {
            ill(listed(flapping.iter().cloned()), "see its changes: divvy scale history NAME")
        }
    }
}

/// The first names, and how many more there are.
fn listed(mut names: impl ExactSizeIterator<Item = String>) -> String {
    let more = names.len().saturating_sub(NAMES_MAX);
    let first: Vec<String> = names.by_ref().take(NAMES_MAX).collect();
    let first = first.join(", ");
    if more > 0 { format!("{first} and {more} more") } else { first }
}

fn count(number: u64, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

fn them(number: u64) -> &'static str {
    if number == 1 { "it" } else { "them" }
}

fn its(number: u64) -> &'static str {
    if number == 1 { "its" } else { "their" }
}
