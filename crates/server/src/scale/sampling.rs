//! What a pool sees: which tasks it can run, and which workers are its own.
//!
//! One look at the engine serves all pools. It goes through classes of tasks and workers, never through tasks, and
//! happens only while a pool has something to do.
//!
//! **Whose worker.** A worker belongs to the pool and the type that its capabilities `pool=NAME` and `type=NAME` say;
//! drivers give them. Without a type it is of the first one.
//!
//! **Whose task.** A pool can run a task whose kind and queue it lists, or any if it lists none, and whose needs its
//! capabilities meet. What a limit keeps or a paused queue has does not count: more workers would not help. Where it lists no kinds, those count that its workers were last seen to offer, so that a pool
//! does not grow for tasks that its workers cannot run. Of what several pools can run each counts a part (`shares`).
//!
//! **What a task takes.** A worker may run many tasks at once that mostly wait, and few that compute; a type has one
//! number of slots. Run times are told as the part of a slot that a task takes: of a worker with one slot that runs 64
//! such tasks at once, one that runs for 64 seconds takes 1 second.

use std::collections::{BTreeMap, BTreeSet};

use divvy_autoscale::{Due, Fleet, KindLoad, Sample};
use divvy_scheduler::{ClassLoad, Scheduler, Waits, WorkerTraffic};
use divvy_types::need::{capability, is_met};
use divvy_types::pools::Pool;
use divvy_types::{Name, Timestamp};
use serde::{Deserialize, Serialize};

use super::shares::{Part, parts, weight};

/// Steps of deadlines that are told of one kind.
const DUE_MAX: usize = 32;

/// What the workers of a pool were seen to offer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Offers {
    /// The part of a slot that a task of each kind takes.
    kinds: BTreeMap<Name, f64>,
    capabilities: Vec<Name>,
}

/// A worker of a pool.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Member {
    pub(crate) name: Name,
    pub(crate) worker_type: Name,
    pub(crate) draining: bool,
    pub(crate) paused: bool,
    pub(crate) running: u32,
    pub(crate) queued: u32,
    pub(crate) keys: u32,
    pub(crate) since: Timestamp,
}

/// What was seen of one pool.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Seen {
    /// The sample, whose `arrived` and `ended` count from the start of the server, and without workers that start.
    pub(crate) sample: Sample,
    pub(crate) members: Vec<Member>,
    pub(crate) offers: Offers,
    /// Tasks that a limit keeps, which more workers would not help; nobody says when it lets them go.
    pub(crate) held: u64,
    /// How long tasks of its queues waited until they started, since the start of the server.
    pub(crate) waits: Waits,
    /// Kinds that other pools can run too: the part that counts here, and the others.
    pub(crate) shared: BTreeMap<Name, (f64, Vec<Name>)>,
}

/// What is known of a pool before the look.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    pub(crate) offers: Offers,
    /// Whether its driver fails.
    pub(crate) fails: bool,
}

/// Looks at all pools at once.
pub(crate) fn look(
    scheduler: &Scheduler,
    now: Timestamp,
    pools: &BTreeMap<Name, Pool>,
    known: &BTreeMap<Name, Known>,
) -> BTreeMap<Name, Seen> {
    let workers = scheduler.worker_traffic();
    let mut looks: Vec<Look<'_>> = pools
        .iter()
        .map(|(name, pool)| {
            let is_own =
                |worker: &WorkerTraffic<'_>| value(worker.capabilities, "pool") == Some(name);
            let own: Vec<&WorkerTraffic<'_>> = workers.iter().filter(|one| is_own(one)).collect();
            let known = known.get(name).cloned().unwrap_or_default();
            let weight = if known.fails { 0.0 } else { weight(pool) };
            let offers = Offers::of(&own, pool).unwrap_or(known.offers);
            let mut seen = Seen { offers, ..Seen::default() };
            see_workers(&mut seen, now, pool, &own);
            Look { name, pool, weight, queues: BTreeSet::new(), seen }
        })
        .collect();
    for class in scheduler.class_loads() {
        see_class(&mut looks, &class, now);
    }
    for (queue, tally) in scheduler.tallies() {
        for look in looks.iter_mut().filter(|look| look.queues.contains(queue)) {
            let sums = look.seen.waits.0.iter_mut().zip(tally.waits.0);
            sums.for_each(|(sum, count)| *sum += count);
        }
    }
    let done = |mut look: Look<'_>| {
        for load in look.seen.sample.kinds.values_mut() {
            load.due = in_steps(std::mem::take(&mut load.due));
        }
        (look.name.clone(), look.seen)
    };
    looks.into_iter().map(done).collect()
}

/// A pool that is looked at.
struct Look<'a> {
    name: &'a Name,
    pool: &'a Pool,
    /// What it may have at most, in slots.
    weight: f64,
    /// Queues of tasks that it can run.
    queues: BTreeSet<Name>,
    seen: Seen,
}

/// Counts a class of tasks for all pools that can run it.
fn see_class(looks: &mut [Look<'_>], class: &ClassLoad<'_>, now: Timestamp) {
    let mut takers: Vec<&mut Look<'_>> =
        looks.iter_mut().filter(|look| look.seen.offers.take(look.pool, class)).collect();
    let weights: Vec<f64> = takers.iter().map(|look| look.weight).collect();
    let names: Vec<Name> = takers.iter().map(|look| look.name.clone()).collect();
    for (look, part) in takers.iter_mut().zip(parts(&weights)) {
        look.queues.insert(class.queue.clone());
        let seen = &mut look.seen;
        seen.held += if class.paused { 0 } else { part.of(class.held) };
        let share = seen.offers.share(class.kind);
        add(seen.sample.kinds.entry(class.kind.clone()).or_default(), class, now, share, part);
        if names.len() > 1 {
            let others = names.iter().filter(|name| *name != look.name).cloned().collect();
            seen.shared.insert(class.kind.clone(), (part.share(), others));
        }
    }
}

/// Who works for a pool.
fn see_workers(seen: &mut Seen, now: Timestamp, pool: &Pool, own: &[&WorkerTraffic<'_>]) {
    let types = pool.worker_types();
    let sample = &mut seen.sample;
    sample.at = now;
    sample.fleet = types.iter().map(|one| (one.name.clone(), Fleet::default())).collect();
    let mut busy = 0.0;
    for worker in own {
        let worker_type = type_of(worker, pool);
        let slots = types.iter().find(|one| one.name == worker_type).map_or(1, |one| one.slots);
        busy += worker.busy * f64::from(slots);
        let fleet = sample.fleet.entry(worker_type.clone()).or_default();
        if worker.draining {
            fleet.draining += 1;
        } else {
            fleet.running += 1;
        }
        seen.members.push(Member {
            name: worker.name.clone(),
            worker_type,
            draining: worker.draining,
            paused: worker.paused,
            running: worker.running,
            queued: worker.queued,
            keys: worker.keys,
            since: worker.since,
        });
    }
    sample.busy_slots = busy.ceil() as u32;
}

fn add(load: &mut KindLoad, class: &ClassLoad<'_>, now: Timestamp, share: f64, part: Part) {
    load.arrived += part.of_total(class.arrived);
    load.ended += part.of_total(class.ended);
    let waiting = part.of(class.waiting.saturating_sub(class.held));
    load.waiting += waiting;
    load.running += part.of(class.running);
    if let Some(oldest) = class.oldest.filter(|_| waiting > 0) {
        load.oldest_sec = load.oldest_sec.max(now.since(oldest).as_secs_f64());
    }
    if let Some(run) = class.run {
        load.run_sec = Some(run.mean_sec * share);
        load.run_p95_sec = Some(run.p95_sec * share);
    }
    let mut before = 0;
    let due = class.due().map(|(at, tasks)| {
        let counted = part.of(before + tasks).saturating_sub(part.of(before));
        before += tasks;
        Due { at, tasks: counted }
    });
    load.due.extend(due.filter(|due| due.tasks > 0));
}

/// Many deadlines in a few steps, each as early as its first.
fn in_steps(mut due: Vec<Due>) -> Vec<Due> {
    due.sort_unstable_by_key(|step| step.at);
    let chunk = due.len().div_ceil(DUE_MAX).max(1);
    let steps = due.chunks(chunk);
    steps
        .map(|steps| Due { at: steps[0].at, tasks: steps.iter().map(|step| step.tasks).sum() })
        .collect()
}

/// The type that a worker says, or the first of the pool.
fn type_of(worker: &WorkerTraffic<'_>, pool: &Pool) -> Name {
    let said = value(worker.capabilities, "type").map(Name::from);
    said.or_else(|| pool.types.first().map(|one| one.name.clone()))
        .unwrap_or_else(|| pool.worker_types()[0].name.clone())
}

fn value<'a>(capabilities: &'a [Name], name: &str) -> Option<&'a str> {
    capabilities
        .iter()
        .map(|text| capability(text))
        .find(|(other, _)| *other == name)
        .map(|it| it.1)
}

impl Offers {
    /// What these workers offer; nothing if there are none.
    fn of(workers: &[&WorkerTraffic<'_>], pool: &Pool) -> Option<Self> {
        let mut offers = Self::default();
        for worker in workers {
            let name = type_of(worker, pool);
            let types = pool.worker_types();
            let slots = types.iter().find(|one| one.name == name).map_or(1, |one| one.slots);
            for (kinds, at_once) in &worker.tiers {
                let share = f64::from(slots) / f64::from(*at_once);
                for kind in *kinds {
                    offers.kinds.insert(kind.clone(), share);
                }
            }
            offers.capabilities.extend(worker.capabilities.iter().cloned());
        }
        offers.capabilities.sort_unstable();
        offers.capabilities.dedup();
        (!workers.is_empty()).then_some(offers)
    }

    /// Whether workers that offer `other` can run nothing that those who offer this cannot.
    pub(crate) fn include(&self, other: &Self) -> bool {
        let kinds = self.kinds.is_empty()
            || !other.kinds.is_empty()
                && other.kinds.keys().all(|kind| self.kinds.contains_key(kind));
        kinds && other.capabilities.iter().all(|one| self.capabilities.contains(one))
    }

    fn share(&self, kind: &Name) -> f64 {
        self.kinds.get(kind).copied().unwrap_or(1.0)
    }

    /// Whether a pool whose workers offer this can run a class of tasks.
    fn take(&self, pool: &Pool, class: &ClassLoad<'_>) -> bool {
        let kind = if pool.kinds.is_empty() {
            self.kinds.is_empty() || self.kinds.contains_key(class.kind)
        } else {
            pool.kinds.contains(class.kind)
        };
        let queue = pool.queues.is_empty() || pool.queues.contains(class.queue);
        let met =
            |need: &Name| is_met(need, &pool.capabilities) || is_met(need, &self.capabilities);
        kind && queue && class.needs.iter().all(met)
    }
}

#[cfg(test)]
impl Offers {
    /// Of workers that run these.
    pub(crate) fn of_kinds(kinds: &[&str]) -> Self {
        let kinds = kinds.iter().map(|kind| (Name::from(*kind), 1.0)).collect();
        Self { kinds, ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_deadlines_are_told_in_a_few_steps_none_too_late() {
        let due: Vec<Due> =
            (0..1_000).rev().map(|at| Due { at: Timestamp(at), tasks: 2 }).collect();
        let steps = in_steps(due);
        assert!(steps.len() <= DUE_MAX);
        assert_eq!(steps[0].at, Timestamp(0));
        assert_eq!(steps.iter().map(|step| step.tasks).sum::<u64>(), 2_000);
        assert!(steps.windows(2).all(|pair| pair[0].at < pair[1].at));
        assert!(in_steps(Vec::new()).is_empty());
    }
}
