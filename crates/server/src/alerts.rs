//! The rules about the health of a server: a pure function from a [`Scene`] to every rule and whether it is broken.
//!
//! The same rules stand behind `GET /api/v1/alerts`, `divvy_alert` in `/metrics`, `divvy status` and
//! `divvy doctor --live`. A *fault* is something that keeps work from going on until someone acts; a *warning* is work
//! that could go better.

use std::time::Duration;

use divvy_autoscale::status::PoolStatus;
use divvy_engine::Snapshot;
use divvy_types::need::{offers, spoken};
use divvy_types::overview::{Alert, Severity, Stranded, WorkerLoad};
use divvy_types::view::{LimitView, LoadMetrics};
use divvy_types::{Name, Timestamp, WaitReason, shell};

use crate::samples::queue_variance;
use crate::scale::Troubles;

/// More waiting tasks than this while no worker is idle ask for more workers.
const QUEUED_MANY: u64 = 100;
/// Steals from which on their success says something.
const STEALS_MIN: u64 = 20;
/// A smaller share of steals that work is wasted effort.
const STEAL_SUCCESS_MIN: f64 = 0.5;
/// Queues whose lengths vary more than this are uneven.
const VARIANCE_MAX: f64 = 10.0;
/// Dead letters within [`DEAD_WITHIN_MS`] from which on they count as growing.
const DEAD_MANY: u64 = 10;
/// The time that is looked at for new dead letters.
pub(crate) const DEAD_WITHIN_MS: u64 = 600_000;
/// Ready tasks that limits may keep before that is worth a word.
const LIMITED_MANY: u64 = 100;
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
    /// Who is not given which kind, and until when.
    pub(crate) benched: Vec<(Name, Name, Timestamp)>,
    /// How full the limits are.
    pub(crate) limits: Vec<LimitView>,
    /// Ready tasks that nobody can run.
    pub(crate) stranded: Vec<Stranded>,
    /// Open tasks that will presumably miss their deadlines.
    pub(crate) late: u64,
    /// Dead letters within [`DEAD_WITHIN_MS`].
    pub(crate) newly_dead: u64,
    /// What is wrong with the settings file.
    pub(crate) reload_error: Option<String>,
    /// Schedules whose last tick was refused, and why.
    pub(crate) refused_ticks: Vec<(Name, String)>,
    /// What is wrong with pools of workers.
    pub(crate) pools: Troubles,
    /// The pools.
    pub(crate) pool_list: Vec<PoolStatus>,
}

/// Every rule, in a fixed order.
pub(crate) fn judge(scene: &Scene) -> Vec<Alert> {
    vec![
        no_worker(scene),
        no_capable_worker(scene),
        disk_full(scene),
        store_unavailable(scene),
        store_unreadable(scene),
        clock(scene),
        settings_reload(scene),
        ticks_refused(scene),
        all_workers_busy(scene),
        steal_efficiency(scene),
        queue_variance_high(scene),
        deadlines_at_risk(scene),
        dead_letters_growing(scene),
        workers_benched(scene),
        limits_saturated(scene),
        pools_differ(scene),
        pools_flap(scene),
    ]
}

/// What a rule found: the text while all is well, or the text and the cure while it is not.
type Found = Result<String, (String, String)>;

fn rule(name: &'static str, severity: Severity, found: Found) -> Alert {
    let name = Name::const_new(name);
    match found {
        Ok(text) => Alert { name, firing: false, severity, text, cure: None },
        Err((text, cure)) => Alert { name, firing: true, severity, text, cure: Some(cure) },
    }
}

fn working(scene: &Scene) -> usize {
    scene.workers.iter().filter(|worker| !worker.draining).count()
}

fn no_worker(scene: &Scene) -> Alert {
    let waiting: u64 = scene.stranded.iter().map(|stranded| stranded.ready).sum();
    let comes = |pool: &PoolStatus| pool.problem.is_none() && pool.starting > 0;
    let found = match (working(scene), waiting) {
        (0, 1..) if scene.pool_list.iter().any(comes) => {
            Ok(format!("{} wait for workers that start", count(waiting, "task")))
        }
        (0, 1..) => Err((
            format!("{} ready and no worker to run {}", count(waiting, "task"), them(waiting)),
            "start one with `divvy work`".to_owned(),
        )),
        (0, 0) => Ok("no worker is connected, and nothing waits for one".to_owned()),
        (working, _) => Ok(format!("{} at work", count(working as u64, "worker"))),
    };
    rule("no_worker", Severity::Fault, found)
}

fn no_capable_worker(scene: &Scene) -> Alert {
    let first = scene.stranded.first().filter(|_| working(scene) > 0);
    let found = match first {
        None => Ok("every ready task has a worker that can run it".to_owned()),
        Some(Stranded { kind, queue, ready, wait }) => {
            let tasks = format!("{} of `{kind}` in queue `{queue}`", count(*ready, "task"));
            let others = scene.stranded.len() - 1;
            let others = match others {
                0 => String::new(),
                others => format!(" (and {} of tasks)", count(others as u64, "more sort")),
            };
            Err(match wait {
                WaitReason::MissingCapability { missing, nearest } => (
                    format!(
                        "{tasks}{others} cannot run: no worker has {}; nearest is `{nearest}`",
                        spoken(missing)
                    ),
                    format!("start a worker that has it: divvy work {}", offers(missing)),
                ),
                _ => (
                    format!("{tasks}{others} cannot run: no connected worker serves it"),
                    format!(
                        "start a worker that does: divvy work --exec {}",
                        shell::word(&format!("{kind}=PROGRAM"))
                    ),
                ),
            })
        }
    };
    rule("no_capable_worker", Severity::Fault, found)
}

fn disk_full(scene: &Scene) -> Alert {
    let found = if scene.stats.disk_full == 0 {
        Ok("the disk of the server has room".to_owned())
    } else {
        Err((
            "the disk of the server is nearly full: no new tasks are taken".to_owned(),
            "free some space, or keep finished tasks for fewer days".to_owned(),
        ))
    };
    rule("disk_full", Severity::Fault, found)
}

fn store_unavailable(scene: &Scene) -> Alert {
    let found = match &scene.stats.store_problem {
        None => Ok("the data folder can be written to".to_owned()),
        Some(problem) => Err((
            format!("nothing is recorded: {problem}"),
            "see to it and the server goes on by itself; if the folder is lost, stop the server and restore a backup"
                .to_owned(),
        )),
    };
    rule("store_unavailable", Severity::Fault, found)
}

fn store_unreadable(scene: &Scene) -> Alert {
    let found = match &scene.stats.failed_read {
        None => Ok("everything that was asked for could be read".to_owned()),
        Some(problem) => Err((
            format!(
                "{} of the store failed since the start, the last: {problem}",
                count(scene.stats.failed_reads, "read")
            ),
            "stop the server and run `divvy store check`".to_owned(),
        )),
    };
    rule("store_unreadable", Severity::Fault, found)
}

fn clock(scene: &Scene) -> Alert {
    let (away, behind) = (scene.stats.clock_away_ms, scene.stats.retention_behind_ms);
    let found = if away != 0 {
        let way = if away > 0 { "forward" } else { "back" };
        let by = Duration::from_millis(away.unsigned_abs());
        Err((
            format!("the clock of the server was set {way} by {by:?}, and is not believed yet"),
            "set it right; if it is right, wait some minutes, or restart the server".to_owned(),
        ))
    } else if behind > DAY_MS {
        let days = behind / DAY_MS;
        Err((
            format!("the clock is {} ahead of what the store has seen", count(days, "day")),
            "set it right if it is wrong: old tasks are deleted, a day of them an hour".to_owned(),
        ))
    } else {
        Ok("the clock of the server runs evenly".to_owned())
    };
    rule("clock", Severity::Warning, found)
}

fn settings_reload(scene: &Scene) -> Alert {
    let found = match &scene.reload_error {
        None => Ok("the settings that hold are the ones that were given".to_owned()),
        Some(error) => Err((
            format!("the settings file could not be used, the old settings hold: {error}"),
            "correct the file; it is read again when it changes".to_owned(),
        )),
    };
    rule("settings_reload", Severity::Fault, found)
}

fn ticks_refused(scene: &Scene) -> Alert {
    let found = match scene.refused_ticks.first() {
        None => Ok("every schedule submits its tasks".to_owned()),
        Some((name, problem)) => {
            let names = scene.refused_ticks.iter().map(|(name, _)| format!("`{name}`"));
            Err((
                format!("the last tick was refused of schedule {}: {problem}", listed(names)),
                format!("correct it: divvy schedule show {name}"),
            ))
        }
    };
    rule("ticks_refused", Severity::Fault, found)
}

fn all_workers_busy(scene: &Scene) -> Alert {
    let LoadMetrics { agent_count, idle_agents, total_queued, .. } = scene.load;
    let found = if agent_count > 0 && idle_agents == 0 && total_queued > QUEUED_MANY {
        Err((
            format!(
                "none of {} is idle and {total_queued} tasks wait",
                count(agent_count, "worker")
            ),
            "start more workers, or give them more slots".to_owned(),
        ))
    } else {
        Ok(format!("{} of {} idle", idle_agents, count(agent_count, "worker")))
    };
    rule("all_workers_busy", Severity::Warning, found)
}

fn steal_efficiency(scene: &Scene) -> Alert {
    let load = &scene.load;
    let percent = load.success_rate * 100.0;
    let found = if load.total_steals >= STEALS_MIN && load.success_rate < STEAL_SUCCESS_MIN {
        Err((
            format!("only {percent:.0} % of {} steals worked", load.total_steals),
            "raise load_balancing.thresholds.busy_threshold, or look at what workers can do"
                .to_owned(),
        ))
    } else {
        Ok(format!("{} of {} worked", load.successful_steals, count(load.total_steals, "steal")))
    };
    rule("steal_efficiency", Severity::Warning, found)
}

fn queue_variance_high(scene: &Scene) -> Alert {
    let variance = queue_variance(&scene.workers);
    let found = if variance > VARIANCE_MAX {
        Err((
            format!("the queues of the workers are uneven: variance {variance:.1}"),
            "even them out with `divvy queue rebalance`, or shorten rebalance_interval_sec"
                .to_owned(),
        ))
    } else {
        Ok(format!("the queues of the workers are even: variance {variance:.1}"))
    };
    rule("queue_variance", Severity::Warning, found)
}

fn deadlines_at_risk(scene: &Scene) -> Alert {
    let found = match scene.late {
        0 => Ok("no deadline is expected to be missed".to_owned()),
        late => Err((
            format!("{} will presumably miss {} deadline", count(late, "task"), its(late)),
            "start more workers, or raise their priority".to_owned(),
        )),
    };
    rule("deadlines_at_risk", Severity::Warning, found)
}

fn dead_letters_growing(scene: &Scene) -> Alert {
    let minutes = DEAD_WITHIN_MS / 60_000;
    let text = format!("{} in the last {minutes} minutes", count(scene.newly_dead, "dead letter"));
    let found = if scene.newly_dead < DEAD_MANY {
        Ok(text)
    } else {
        Err((text, "see what they have in common: divvy dead list".to_owned()))
    };
    rule("dead_letters_growing", Severity::Warning, found)
}

fn workers_benched(scene: &Scene) -> Alert {
    let found = match scene.benched.as_slice() {
        [] => Ok("no worker is kept from a kind that it keeps failing".to_owned()),
        benched => {
            let names = benched.iter().map(|(worker, kind, _)| format!("`{worker}` from `{kind}`"));
            Err((
                format!("kept from kinds that they keep failing: {}", listed(names)),
                format!("see why: divvy worker status {}", benched[0].0),
            ))
        }
    };
    rule("workers_benched", Severity::Warning, found)
}

fn limits_saturated(scene: &Scene) -> Alert {
    let waiting: u64 = scene.limits.iter().map(|limit| limit.waiting).sum();
    let mut saturated: Vec<&LimitView> =
        scene.limits.iter().filter(|limit| limit.waiting > 0).collect();
    saturated.sort_by_key(|limit| std::cmp::Reverse(limit.waiting));
    let found = if waiting < LIMITED_MANY {
        Ok(format!("{} kept by limits", count(waiting, "ready task")))
    } else {
        let names = saturated.iter().map(|limit| match &limit.key {
            Some(key) => format!("`{}/{key}`", limit.name),
            None => format!("`{}`", limit.name),
        });
        Err((
            format!("{waiting} ready tasks are kept by {}", listed(names)),
            "raise the limits, or submit less: divvy limit list".to_owned(),
        ))
    };
    rule("limits_saturated", Severity::Warning, found)
}

fn pools_differ(scene: &Scene) -> Alert {
    let found = match scene.pools.drivers.as_slice() {
        [] => Ok(format!("{} as wanted", count(scene.pools.pools as u64, "pool"))),
        [(text, cure), others @ ..] => {
            let others = match others.len() {
                0 => String::new(),
                others => format!(" (and {})", count(others as u64, "more pool")),
            };
            Err((format!("{text}{others}"), cure.clone()))
        }
    };
    rule("pools_differ", Severity::Fault, found)
}

fn pools_flap(scene: &Scene) -> Alert {
    let found = match scene.pools.flapping.as_slice() {
        [] => Ok("no pool goes up and down again and again".to_owned()),
        flapping => Err((
            listed(flapping.iter().cloned()),
            "see its changes: divvy scale history NAME".to_owned(),
        )),
    };
    rule("pools_flap", Severity::Warning, found)
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

#[cfg(test)]
mod tests;
