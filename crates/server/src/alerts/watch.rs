//! Looks at the server now and then and whenever somebody asks, steps the machine, and remembers what came of it.
//!
//! A look measures everything at one moment and steps each rule with it; one that is older than the last is shown and
//! not stepped. Only the loop writes the file and tells others, in this order: what fires and what is to be told is
//! durable first, then the courier makes tasks of it, then these are crossed off. A kill between any two of these
//! repeats the last, and a task of the same id is the same task.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use divvy_engine::{Error, Snapshot};
use divvy_types::alerts::{
    Alert, AlertChange, AlertState, AlertTestSent, Alerts, COURIER, Severity,
};
use divvy_types::view::LoadMetrics;
use divvy_types::{Name, Timestamp};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::courier::{self, Courier};
use super::memory::{self, HISTORY_MAX, Kept, Notice, OUTBOX_MAX};
use super::options::AlertOptions;
use super::rules::{COMMITS_MS, LATELY_MS, MISSED_MS, RULES, Rule, Scene};
use super::trend::{Counters, Trend};
use crate::app::App;
use divvy_wire::quiet::Quiet;

/// The time between two looks of the loop.
const EVERY: Duration = Duration::from_secs(5);
/// Sorts of tasks that nobody can run which are told.
const STRANDED_MAX: usize = 100;
/// Names of workers whose arrivals are counted, and arrivals of one.
const NAMES_MAX: usize = 1_000;
const ARRIVALS_MAX: usize = 64;

/// What is known of alerts.
pub(crate) struct Watch {
    state: Mutex<State>,
    wake: Notify,
    file: Option<PathBuf>,
    pub(super) courier: Courier,
}

#[derive(Default)]
struct State {
    looked: Timestamp,
    kept: Kept,
    trend: Trend,
    /// When the workers of each name connected lately.
    arrivals: BTreeMap<Name, VecDeque<Timestamp>>,
    /// Whether something is not in the file yet.
    is_dirty: bool,
}

/// What a look found.
pub(crate) struct Looked {
    pub(crate) scene: Scene,
    pub(crate) alerts: Alerts,
}

impl Watch {
    /// Whether alerts fire is kept in `file`; without it, it is forgotten with the process.
    pub(crate) fn new(file: Option<PathBuf>) -> Self {
        let kept = file.as_deref().map(memory::read).unwrap_or_default();
        let state = State { kept, ..State::default() };
        Self { state: Mutex::new(state), wake: Notify::new(), file, courier: Courier::default() }
    }

    /// A worker connected.
    pub(crate) fn came(&self, name: &Name, now: Timestamp) {
        let mut state = self.state();
        let known = state.arrivals.contains_key(name);
        if !known && state.arrivals.len() >= NAMES_MAX {
            return;
        }
        let times = state.arrivals.entry(name.clone()).or_default();
        if times.len() == ARRIVALS_MAX {
            times.pop_front();
        }
        times.push_back(now);
    }

    /// Tells nobody of an alert until then, or others again.
    pub(crate) fn silence(&self, name: &Name, until: Option<Timestamp>) {
        let mut state = self.state();
        match until {
            Some(until) => state.kept.silences.insert(name.clone(), until),
            None => state.kept.silences.remove(name),
        };
        state.is_dirty = true;
        drop(state);
        self.wake.notify_one();
    }

    /// Sends a test to everybody who is told; says by which tasks.
    pub(crate) fn test(&self, options: &AlertOptions, now: Timestamp) -> Vec<AlertTestSent> {
        let change = AlertChange {
            name: Name::const_new("test"),
            state: AlertState::Test,
            severity: Severity::Warning,
            at: now,
            since: now,
            value: 0.0,
            text: "this is a test: whoever reads it is told of alerts".to_owned(),
            cure: None,
        };
        tell_log(&change);
        let notices: Vec<Notice> =
            options.sinks.keys().map(|sink| Notice::new(sink, &change)).collect();
        let sent = |notice: &Notice| AlertTestSent { sink: notice.sink.clone(), task: notice.id };
        let sent = notices.iter().map(sent).collect();
        self.state().put_out(notices.into_iter());
        self.wake.notify_one();
        sent
    }

    /// The notice that has waited longest.
    pub(super) fn first(&self) -> Option<Notice> {
        self.state().kept.outbox.front().cloned()
    }

    /// A notice needs no more of us.
    pub(super) fn cross_off(&self, notice: &Notice) {
        let mut state = self.state();
        state.kept.outbox.retain(|other| other.id != notice.id);
        state.is_dirty = true;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What has changed since it was last kept.
    fn to_keep(&self) -> Option<Kept> {
        let mut state = self.state();
        std::mem::take(&mut state.is_dirty).then(|| {
            let mut kept = state.kept.clone();
            kept.conditions.retain(|_, condition| condition.lasts());
            kept
        })
    }
}

impl State {
    /// Fills in what only the watch knows.
    fn complete(&mut self, scene: &mut Scene, now: Timestamp) {
        let counters = Counters {
            steals: scene.load.total_steals,
            stolen: scene.load.successful_steals,
            commits: scene.stats.groups,
            commit_us: scene.stats.commit_us_total,
        };
        scene.steals = self.trend.within(now, counters, LATELY_MS);
        scene.commits = self.trend.within(now, counters, COMMITS_MS);
        self.trend.push(now, counters);
        self.arrivals.retain(|_, times| {
            while times.front().is_some_and(|at| at.plus_ms(LATELY_MS) < now) {
                times.pop_front();
            }
            !times.is_empty()
        });
        let arrivals = self.arrivals.iter().map(|(name, times)| (name.clone(), times.len() as u64));
        scene.arrivals = arrivals.collect();
        scene.arrivals.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    }

    /// Steps every rule. Returns what became of alerts and what others are to be told.
    fn step(&mut self, scene: &Scene, now: Timestamp, options: &AlertOptions) -> Vec<AlertChange> {
        let was = self.kept.silences.len();
        self.kept.silences.retain(|_, until| *until > now);
        self.is_dirty |= self.kept.silences.len() != was;
        let mut changes = Vec::new();
        for rule in RULES {
            let bounds = options.bounds(rule);
            let value = (rule.measure)(scene);
            let name = Name::const_new(rule.name);
            let silenced = self.kept.silences.contains_key(&name);
            let condition = self.kept.conditions.entry(name.clone()).or_default();
            let step = condition.step(now, value, &bounds, silenced);
            let mut change = |state: AlertState| {
                let (text, cure) = (rule.say)(scene, state == AlertState::Fired);
                let since = step.since.unwrap_or(now);
                let severity = options.severity(rule);
                AlertChange {
                    name: name.clone(),
                    state,
                    severity,
                    at: now,
                    since,
                    value,
                    text,
                    cure,
                }
            };
            if let Some(state) = step.change {
                changes.push(change(state));
            }
            if let Some(change) = step.tell.map(&mut change) {
                tell_log(&change);
                self.put_out(options.sinks.keys().map(|sink| Notice::new(sink, &change)));
                self.is_dirty = true;
            }
        }
        self.kept.conditions.retain(|_, condition| !condition.is_empty());
        self.is_dirty |= !changes.is_empty();
        self.kept.history.extend(changes.iter().cloned());
        let more = self.kept.history.len().saturating_sub(HISTORY_MAX);
        self.kept.history.drain(..more);
        changes
    }

    fn put_out(&mut self, notices: impl Iterator<Item = Notice>) {
        self.kept.outbox.extend(notices);
        let more = self.kept.outbox.len().saturating_sub(OUTBOX_MAX);
        if more > 0 {
            tracing::error!("{more} notices of alerts are dropped: too many wait to be told");
            self.kept.outbox.drain(..more);
        }
        self.is_dirty = true;
    }

    /// How one rule stands, for people.
    fn shown(&self, rule: &Rule, scene: &Scene, options: &AlertOptions) -> Alert {
        let bounds = options.bounds(rule);
        let value = (rule.measure)(scene);
        let (text, cure) = (rule.say)(scene, bounds.is_broken(value));
        let condition = self.kept.conditions.get(rule.name);
        let fired = condition.and_then(|condition| condition.fired);
        let pending = condition.and_then(super::machine::Condition::pending_since);
        Alert {
            name: Name::const_new(rule.name),
            firing: fired.is_some(),
            pending: pending.is_some(),
            severity: options.severity(rule),
            text,
            cure,
            value,
            fires_at: bounds.fires_at,
            since: fired.or(pending),
            silenced_until: self.kept.silences.get(rule.name).copied(),
        }
    }
}

fn tell_log(change: &AlertChange) {
    let AlertChange { name, text, cure, .. } = change;
    match (change.state, cure) {
        (AlertState::Fired, Some(cure)) => tracing::warn!(alert = %name, "{text}; {cure}"),
        (AlertState::Fired, None) => tracing::warn!(alert = %name, "{text}"),
        (AlertState::Resolved, _) => tracing::info!(alert = %name, "resolved: {text}"),
        (AlertState::Test, _) => tracing::info!(alert = %name, "{text}"),
    }
}

/// Looks at everything now.
pub(crate) async fn look(app: &App, stats: Snapshot) -> Result<Looked, Error> {
    let (now, mut scene) = scene(app, stats).await?;
    let options = app.settings_file.alerts();
    let watch = &app.watch;
    let mut state = watch.state();
    state.complete(&mut scene, now);
    let changes = if now >= state.looked {
        state.looked = now;
        state.step(&scene, now, &options)
    } else {
        Vec::new()
    };
    let alerts: Vec<Alert> = RULES.iter().map(|rule| state.shown(rule, &scene, &options)).collect();
    let history = state.kept.history.iter().rev().cloned().collect();
    drop(state);
    if !changes.is_empty() {
        watch.wake.notify_one();
    }
    Ok(Looked { scene, alerts: Alerts { time: now, alerts, history, sinks: options.shown() } })
}

/// What the rules look at.
async fn scene(app: &App, stats: Snapshot) -> Result<(Timestamp, Scene), Error> {
    let (now, mut scene) = app
        .handle
        .look(move |core| {
            let (scheduler, now) = (core.scheduler(), core.now());
            // All that is known of ten thousand workers is not asked for in vain.
            let workers = if scheduler.has_quarantined() { core.workers() } else { Vec::new() };
            let quarantined = workers.into_iter().flat_map(|worker| {
                let name = worker.name;
                worker.skills.into_iter().filter_map(move |skill| {
                    let until = skill.quarantined_until.filter(|until| *until > now)?;
                    Some((name.clone(), skill.kind, until))
                })
            });
            let schedules = core.schedules();
            let missed = Timestamp(now.0.saturating_sub(MISSED_MS * 1_000));
            let mut scene = Scene {
                load: scheduler.load_metrics(),
                workers: scheduler.worker_loads(),
                queues: core.queues(),
                quarantined: quarantined.collect(),
                limits: scheduler.limit_views(now),
                stranded: scheduler.stranded(STRANDED_MAX),
                late: scheduler.deadlines_at_risk(now),
                refused_ticks: schedules
                    .all_refused()
                    .map(|(name, problem)| (name.clone(), problem.to_owned()))
                    .collect(),
                missed_ticks: schedules.all_missed(missed).cloned().collect(),
                ..Scene::default()
            };
            without_courier(&mut scene);
            (now, scene)
        })
        .await?;
    let since = Timestamp(now.0.saturating_sub(LATELY_MS * 1_000));
    scene.newly_dead = stats.dead.saturating_sub(app.samples.dead_before(since));
    (scene.pools, scene.pool_list) = (app.scale.troubles(now), app.scale.list(now));
    scene.reload_error = app.settings_file.reload_error();
    scene.disk_free = app.watch.file.as_deref().and_then(Path::parent).and_then(free_mib);
    scene.stats = stats;
    Ok((now, scene))
}

/// The courier is no worker of people: what it does and waits for is left out. It is known by its name, from the moment at
/// which the engine knows it.
fn without_courier(scene: &mut Scene) {
    scene.stranded.retain(|stranded| stranded.queue != COURIER);
    let before = scene.workers.len();
    scene.workers.retain(|worker| worker.name != COURIER);
    let LoadMetrics { agent_count, idle_agents, .. } = &mut scene.load;
    if scene.workers.len() < before {
        *agent_count = agent_count.saturating_sub(1);
        *idle_agents = idle_agents.saturating_sub(1);
    }
}

/// How much of the disk of a folder is free, in mebibytes.
fn free_mib(folder: &Path) -> Option<f64> {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let disk = nix::sys::statvfs::statvfs(folder).ok()?;
    Some(disk.blocks_available() as f64 * disk.fragment_size() as f64 / f64::from(1 << 20))
}

/// Looks until `shutdown`, keeps what came of it, and tells others.
pub(crate) async fn run(app: App, shutdown: CancellationToken) {
    let mut failures = Quiet::default();
    loop {
        match app.handle.stats().await {
            Ok(stats) => {
                // An engine that is too busy to be looked at is looked at later.
                if let Ok(looked) = look(&app, stats).await {
                    keep(&app, &mut failures).await;
                    courier::tell(&app, &looked.scene.queues, &shutdown).await;
                }
            }
            Err(Error::Stopping) => break,
            Err(_) => {}
        }
        keep(&app, &mut failures).await;
        tokio::select! {
            () = shutdown.cancelled() => break,
            () = app.watch.wake.notified() => {}
            () = tokio::time::sleep(EVERY) => {}
        }
    }
    keep(&app, &mut failures).await;
}

/// Writes down what has changed. If that fails, it is tried again with the next change; others are told nevertheless.
async fn keep(app: &App, failures: &mut Quiet) {
    let Some(path) = app.watch.file.clone() else { return };
    let Some(kept) = app.watch.to_keep() else { return };
    let shown = path.display().to_string();
    let written = tokio::task::spawn_blocking(move || memory::write(&path, kept)).await;
    if let Ok(Err(error)) = written {
        app.watch.state().is_dirty = true;
        if let Some(count) = failures.count() {
            tracing::warn!(
                count,
                "cannot write {shown}, alerts may be told again after a restart: {error}"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::worker;
    use super::*;
    use crate::alerts::options::{Command, Sink};

    fn options() -> AlertOptions {
        let sink = Sink::Command(Command { run: vec!["true".into()] });
        AlertOptions { sinks: [("ops".into(), sink)].into(), ..AlertOptions::default() }
    }

    #[test]
    fn the_courier_is_no_worker_that_could_run_a_task() {
        let workers = vec![worker(COURIER, 0), worker("w1", 0)];
        let mut scene = Scene { workers, ..Scene::default() };
        (scene.load.agent_count, scene.load.idle_agents) = (2, 2);
        without_courier(&mut scene);
        assert_eq!(scene.workers, [worker("w1", 0)]);
        assert_eq!((scene.load.agent_count, scene.load.idle_agents), (1, 1));
    }

    fn at(second: u64) -> Timestamp {
        Timestamp(1_000_000_000 + second * 1_000_000)
    }

    #[test]
    fn an_alert_is_told_once_and_its_end_once_also_over_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("alerts.json");
        let mut ill = Scene::default();
        ill.stats.disk_full = 1;
        let watch = Watch::new(Some(path.clone()));
        let mut state = watch.state();
        assert_eq!(state.step(&ill, at(0), &options()).len(), 1);
        assert!(state.step(&ill, at(1), &options()).is_empty());
        drop(state);
        // Killed between the write and the telling: the notice is there, once.
        memory::write(&path, watch.to_keep().unwrap()).unwrap();
        let watch = Watch::new(Some(path.clone()));
        let first = watch.first().unwrap();
        assert_eq!((first.sink.as_str(), first.change.state), ("ops", AlertState::Fired));
        let mut state = watch.state();
        assert!(state.step(&ill, at(60), &options()).is_empty(), "it fires already");
        assert_eq!(state.kept.outbox.len(), 1);
        drop(state);
        watch.cross_off(&first);
        memory::write(&path, watch.to_keep().unwrap()).unwrap();
        let watch = Watch::new(Some(path));
        let mut state = watch.state();
        assert!(
            state.step(&Scene::default(), at(61), &options()).is_empty(),
            "it must be calm first"
        );
        let over = state.step(&Scene::default(), at(91), &options());
        assert_eq!((over[0].state, over[0].since), (AlertState::Resolved, at(0)));
        assert_eq!(state.kept.outbox.len(), 1);
        assert!(state.step(&Scene::default(), at(200), &options()).is_empty());
        assert_eq!(state.kept.history.len(), 2);
    }

    #[test]
    fn a_silence_ends_by_itself_and_workers_that_come_and_go_are_counted() {
        let watch = Watch::new(None);
        watch.silence(&"disk_full".into(), Some(at(10)));
        let mut ill = Scene::default();
        ill.stats.disk_full = 1;
        let mut state = watch.state();
        assert_eq!(state.step(&ill, at(0), &options()).len(), 1, "it fires");
        assert!(state.kept.outbox.is_empty(), "and nobody is told");
        state.step(&ill, at(10), &options());
        assert_eq!(state.kept.outbox.len(), 1, "until then");
        drop(state);
        for second in 0..7 {
            watch.came(&"w1".into(), at(second));
        }
        let mut scene = Scene::default();
        watch.state().complete(&mut scene, at(8));
        assert_eq!(scene.arrivals, [("w1".into(), 7)]);
        watch.state().complete(&mut scene, at(700));
        assert_eq!(scene.arrivals, []);
    }
}
