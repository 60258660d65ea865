//! Pools of workers: what they see, how many they want, and who starts and stops them.
//!
//! Reading order: `sampling` (what a pool sees), `shares` (whose work it is), `loads` (how full machines are), `pool` (one pool: its scaler and its driver), `leaving` (who rests
//! before it goes), `run` (the loop), `driver`
//! (who acts, one file each), `memory` (what lasts). How many are wanted is decided in `divvy-autoscale`, which the lab
//! tries out with the same code. It is here, and not in the engine, because it speaks with programs and clusters and
//! decides nothing about tasks; and not in the command, because whoever embeds the server has pools too.
//!
//! **Invariant:** a server without pools, or whose pools rest, asks the engine for nothing.

mod driver;
mod leaving;
pub(crate) mod loads;
mod memory;
mod pool;
mod run;
mod sampling;
mod shares;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use divvy_autoscale::replay::{Step, replay};
use divvy_autoscale::status::{
    PoolEvent, PoolExplained, PoolStatus, PoolWorker, Simulated, SimulatedStep, Trial,
};
use divvy_autoscale::{Change, Decision, Sample};
use divvy_engine::Error;
use divvy_http::{Following, Ring};
use divvy_types::pools::{Driver, Pool};
use divvy_types::settings::InvalidSetting;
use divvy_types::{Name, Timestamp};
use tokio::sync::Notify;

pub use driver::local::{LocalOrder, LocalWorkers};
pub(crate) use run::run;

use driver::{Answer, Order};
use loads::{Loads, Used};
use pool::{Kept, Pooled};
use sampling::{Known, Seen};

/// Events that are kept for watchers who come back.
const EVENTS_MAX: usize = 1_000;

/// What a server is given for its pools.
#[derive(Clone, Debug, Default)]
pub struct Scaling {
    /// Pools that the process brings itself; one of the same name in the settings takes the place.
    pub own: BTreeMap<Name, Pool>,
    /// Where what pools learnt is kept; without it, it is forgotten with the process.
    pub file: Option<PathBuf>,
    /// The desk of whoever runs worker processes beside the server.
    pub local: LocalWorkers,
}

/// All pools.
pub(crate) struct Scale {
    scaling: Scaling,
    /// What workers say of their machines.
    pub(crate) loads: Loads,
    state: Mutex<State>,
    wake: Notify,
    events: Ring<Arc<PoolEvent>>,
}

#[derive(Default)]
struct State {
    pools: BTreeMap<Name, Pooled>,
    /// What is known of pools that are not there at present.
    kept: BTreeMap<Name, Kept>,
    /// When somebody looked last, and the requests that had come by then.
    requests: Option<(Timestamp, u64)>,
}

impl State {
    /// Requests per second since the last look; nothing at the first one.
    fn requests_per_second(&mut self, now: Timestamp, total: u64) -> Option<f64> {
        let (before, known) = self.requests.replace((now, total))?;
        let sec = now.since(before).as_secs_f64();
        (sec > 0.0).then(|| total.saturating_sub(known) as f64 / sec)
    }
}

impl Scale {
    pub(crate) fn new(scaling: Scaling) -> Self {
        Self {
            scaling,
            loads: Loads::default(),
            state: Mutex::default(),
            wake: Notify::new(),
            events: Ring::new(EVENTS_MAX),
        }
    }

    /// Something happened that a pool may want to know: the loop looks soon.
    pub(crate) fn wake(&self) {
        self.wake.notify_one();
    }

    /// A worker connected or left, or a queue was paused or resumed: a pool may want to know.
    pub(crate) fn note(&self) {
        if self.has_pools() {
            self.wake();
        }
    }

    /// Changes of what is wanted, from now on or from the last one that was seen.
    pub(crate) fn follow(&self, last: Option<&str>) -> Following<Arc<PoolEvent>> {
        self.events.follow(last)
    }

    /// All pools, by name.
    pub(crate) fn list(&self, now: Timestamp) -> Vec<PoolStatus> {
        self.state().pools.iter().map(|(name, pool)| status(name, pool, now)).collect()
    }

    /// One pool.
    pub(crate) fn show(&self, name: &str, now: Timestamp) -> Result<PoolStatus, Error> {
        self.with(name, |pool| status(&name.into(), pool, now))
    }

    /// Its changes, newest first.
    pub(crate) fn history(&self, name: &str) -> Result<Vec<Change>, Error> {
        self.with(name, |pool| pool.scaler.changes().rev().cloned().collect())
    }

    /// Why it has as many workers as it has.
    pub(crate) fn explain(&self, name: &str, now: Timestamp) -> Result<PoolExplained, Error> {
        self.with(name, |pool| PoolExplained {
            status: status(&name.into(), pool, now),
            explanation: pool.scaler.explain(),
            sample: pool.sample.clone(),
            notes: pool.notes(),
            workers: pool.members.iter().map(|member| worker(pool, member)).collect(),
        })
    }

    /// Holds a number of workers until it is unset.
    pub(crate) fn set(
        &self,
        name: &str,
        now: Timestamp,
        workers: Option<u32>,
    ) -> Result<PoolStatus, Error> {
        let set = self.with(name, |pool| {
            let Pool { min, max, .. } = *pool.scaler.pool();
            if let Some(workers) = workers.filter(|workers| !(min..=max).contains(workers)) {
                let problem = format!(
                    "is {workers}, and pool `{name}` has {min} to {max}; change min or max in its settings"
                );
                return Err(Error::Setting(InvalidSetting { path: "workers".into(), problem }));
            }
            pool.scaler.set(now, workers);
            Ok(status(&name.into(), pool, now))
        })?;
        self.wake();
        set
    }

    /// Stops changing the number of workers, or goes on.
    pub(crate) fn pause(
        &self,
        name: &str,
        now: Timestamp,
        paused: bool,
    ) -> Result<PoolStatus, Error> {
        let status = self.with(name, |pool| {
            pool.scaler.pause(paused);
            status(&name.into(), pool, now)
        })?;
        self.wake();
        Ok(status)
    }

    /// What a pool would have wanted with other settings; nothing if no sample was kept.
    pub(crate) fn simulate(&self, name: &str, trial: Trial) -> Result<Option<Simulated>, Error> {
        let (mut settings, kept) =
            self.with(name, |pool| (pool.scaler.pool().clone(), pool.kept.clone()))?;
        let Trial { policy, min, max, goal } = trial;
        settings.policy = policy.unwrap_or(settings.policy);
        settings.min = min.unwrap_or(settings.min);
        settings.max = max.unwrap_or(settings.max);
        settings.goal = goal.unwrap_or(settings.goal);
        settings.check(name)?;
        if kept.is_empty() {
            return Ok(None);
        }
        let (policy, min, max) = (settings.policy, settings.min, settings.max);
        let (scaler, replayed) = replay(settings, &kept);
        let differ = |pair: &&[Step]| pair[0].decision.wanted != pair[1].decision.wanted;
        let changes = replayed.windows(2).filter(differ).count();
        let step = |(sample, step): (&Sample, &Step)| SimulatedStep {
            at: sample.at,
            waiting: sample.kinds.values().map(|load| load.waiting).sum(),
            workers: sample.fleet.values().map(|fleet| fleet.running).sum(),
            wanted: step.decision.total(),
            would_wait: step.waiting,
            would_work: step.workers,
            work_rate: step.work_rate,
            capacity: scaler.capacity(sample),
            reason: step.decision.reason.clone(),
        };
        let steps = kept.iter().zip(&replayed).map(step).collect();
        Ok(Some(Simulated {
            policy,
            min,
            max,
            steps,
            changes: changes as u32,
            costs: *scaler.costs(),
        }))
    }

    /// What is wrong with drivers, and fleets that go up and down again and again: texts and cures.
    pub(crate) fn troubles(&self, now: Timestamp) -> Troubles {
        let state = self.state();
        let drivers = state.pools.iter().filter_map(|(name, pool)| pool.trouble(name, now));
        let flapping = state
            .pools
            .iter()
            .filter_map(|(name, pool)| Some(format!("pool `{name}`: {}", pool.flapping()?)));
        Troubles {
            pools: state.pools.len(),
            drivers: drivers.collect(),
            flapping: flapping.collect(),
        }
    }

    fn with<T>(&self, name: &str, act: impl FnOnce(&mut Pooled) -> T) -> Result<T, Error> {
        let mut state = self.state();
        match state.pools.get_mut(name) {
            Some(pool) => Ok(act(pool)),
            None => Err(Error::NoSuchSetting { what: "pool", name: name.to_owned() }),
        }
    }

    /// What is known of each pool before a look.
    fn known(&self) -> BTreeMap<Name, Known> {
        let state = self.state();
        let known = |pool: &Pooled| Known {
            offers: pool.offers.clone(),
            fails: matches!(pool.answer, Some(Err(_))),
        };
        state.pools.iter().map(|(name, pool)| (name.clone(), known(pool))).collect()
    }

    /// When a pool that rests wants to be looked at, from its last look on.
    fn next_look(&self) -> Option<Duration> {
        let state = self.state();
        let next = |pool: &Pooled| Some(pool.scaler.next_look()?.since(pool.sample.at));
        state.pools.values().filter_map(next).min()
    }

    /// Takes over what was kept in the file.
    fn remember(&self, kept: BTreeMap<Name, Kept>) {
        self.state().kept = kept;
    }

    /// What is to be kept.
    fn to_keep(&self) -> BTreeMap<Name, Kept> {
        let state = self.state();
        let mut kept = state.kept.clone();
        kept.extend(state.pools.iter().map(|(name, pool)| (name.clone(), pool.to_keep())));
        kept
    }

    /// Takes what was seen, with the requests that have come since the start, decides, and says whom to tell what.
    fn take(
        &self,
        pools: BTreeMap<Name, Pool>,
        mut seen: BTreeMap<Name, Seen>,
        requests: u64,
        rested: bool,
        every: Duration,
    ) -> Taken {
        let mut state = self.state();
        let gone: Vec<Name> =
            state.pools.keys().filter(|name| !pools.contains_key(*name)).cloned().collect();
        for name in gone {
            if let Some(pool) = state.pools.remove(&name) {
                state.kept.insert(name, pool.to_keep());
            }
        }
        self.scaling
            .local
            .keep_only(|name| pools.get(name).is_some_and(|pool| pool.driver == Driver::Local));
        let now = seen.values().map(|seen| seen.sample.at).max();
        let requests = now.and_then(|now| state.requests_per_second(now, requests));
        let mut taken = Taken::default();
        for (name, settings) in pools {
            let kept = state.kept.remove(&name);
            let pool = state
                .pools
                .entry(name.clone())
                .or_insert_with(|| Pooled::new(settings.clone(), kept.unwrap_or_default()));
            pool.reload(settings);
            let Some(mut seen) = seen.remove(&name) else { continue };
            seen.sample.requests_per_second = requests;
            let is_local = pool.scaler.pool().driver == Driver::Local;
            let used = match is_local {
                true => Used::default(),
                false => self.loads.of(&seen.members, Instant::now()),
            };
            pool.take(seen, used, rested, every);
            if pool.scaler.last().wanted != pool.told_people.wanted {
                let now = pool.scaler.last().clone();
                let before = std::mem::replace(&mut pool.told_people, now);
                taken.events.push(event(&name, pool, &before));
            }
            taken.rests.extend(pool.rests());
            taken.orders.extend(pool.order(&name));
        }
        taken
    }

    fn answered(&self, name: &Name, answer: Answer) {
        // A pool that is gone needs no answer.
        let _ = self.with(name, |pool| pool.answered(answer));
    }

    fn has_pools(&self) -> bool {
        !self.state().pools.is_empty()
    }

    fn is_at_rest(&self) -> bool {
        self.state().pools.values().all(Pooled::is_at_rest)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is wrong with pools.
#[derive(Clone, Debug, Default)]
pub(crate) struct Troubles {
    /// How many pools there are.
    pub(crate) pools: usize,
    /// What drivers fail to do, and the cures.
    pub(crate) drivers: Vec<(String, String)>,
    /// Fleets that go up and down again and again, in words.
    pub(crate) flapping: Vec<String>,
}

/// What follows from what was seen.
#[derive(Default)]
struct Taken {
    /// Workers that shall rest (`true`) or go on.
    rests: Vec<(Name, bool)>,
    orders: Vec<Order>,
    events: Vec<PoolEvent>,
}

fn event(name: &Name, pool: &Pooled, before: &Decision) -> PoolEvent {
    let decision = pool.scaler.last().clone();
    let leaving = if decision.total() < before.total() { pool.leaving() } else { None };
    PoolEvent { pool: name.clone(), from: before.total(), decision, leaving }
}

fn status(name: &Name, pool: &Pooled, now: Timestamp) -> PoolStatus {
    let settings = pool.scaler.pool();
    let decision = pool.scaler.last();
    let fleet = || pool.sample.fleet.values();
    let kinds = || pool.sample.kinds.values();
    let trouble = pool.trouble(name, now).map(|(text, _)| text);
    PoolStatus {
        name: name.clone(),
        driver: Name::const_new(driver_name(&settings.driver)),
        policy: settings.policy,
        goal: settings.goal,
        min: settings.min,
        max: settings.max,
        paused: pool.scaler.is_paused(),
        set: pool.scaler.is_set(),
        wanted: pool.wanted(),
        running: fleet().map(|fleet| fleet.running).sum(),
        starting: fleet().map(|fleet| fleet.starting).sum(),
        draining: fleet().map(|fleet| fleet.draining).sum(),
        tasks_waiting: kinds().map(|load| load.waiting).sum(),
        tasks_running: kinds().map(|load| load.running).sum(),
        decided_at: decision.at,
        reason: decision.reason.clone(),
        bound: decision.bound,
        costs: *pool.scaler.costs(),
        problem: trouble.or_else(|| pool.flapping()),
    }
}

fn driver_name(driver: &Driver) -> &'static str {
    match driver {
        Driver::Local => "local",
        Driver::Print => "print",
        Driver::Exec { .. } => "exec",
        Driver::Kubernetes { .. } => "kubernetes",
    }
}

fn worker(pool: &Pooled, member: &sampling::Member) -> PoolWorker {
    PoolWorker {
        name: member.name.clone(),
        worker_type: member.worker_type.clone(),
        draining: member.draining || pool.leaving.has(&member.name),
        running: member.running,
        queued: member.queued,
        affinity_keys: member.keys,
    }
}

#[cfg(test)]
mod tests;
