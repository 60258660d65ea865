//! Decides what one fleet does with what comes in one run: times, misses, use and cost.
//!
//! What happens is decided by the simulated cluster, in which the real scheduler and autoscaler work. Money is counted
//! for the time in which items come: a worker is paid from the moment it was asked for until it is gone.

use std::collections::BTreeMap;
use std::time::Duration;

use divvy_types::Name;
use divvy_types::pools::{Goal as PoolGoal, Pool};
use divvy_types::settings::{Settings, Strategy};

use super::answer::{Fleet, Scaled};
use super::demand::Demand;
use super::input::{Plan, Worker};
use crate::experiment::Error;
use crate::sim::cluster::{AtStart, Cluster, End, Hired, Interruptions, Member, Outcome, Scaling};

/// Hours of a month of 30 days.
pub(super) const MONTH_HOURS: f64 = 720.0;
const DAY_SEC: u64 = 86_400;
/// The lease of tasks.
const LEASE: Duration = Duration::from_secs(3_600);
/// How often the autoscaler looks.
const LOOK_EVERY: Duration = Duration::from_secs(60);
/// Points of a line that follows a run.
const POINTS: usize = 192;

/// What came out of one run.
#[derive(Clone, Debug, Default)]
pub(super) struct Played {
    /// From arrival to the first task that begins, in seconds, by rising time; infinite where none did.
    pub(super) starts: Vec<f64>,
    /// From arrival to the last task that ended, likewise.
    pub(super) ends: Vec<f64>,
    /// The same of the items of priority users.
    pub(super) urgent_ends: Vec<f64>,
    /// Items that were not done within the goal.
    pub(super) misses: usize,
    /// The same day by day, with the items of each.
    pub(super) days: Vec<(usize, usize)>,
    /// Money in the time in which items come, by type of worker: for as many as there always are, and for the rest.
    pub(super) paid: BTreeMap<Name, (f64, f64)>,
    /// Slot seconds of work, and those that were paid for.
    pub(super) busy_sec: f64,
    pub(super) paid_slot_sec: f64,
    /// Workers that were started after the start, and spot workers that were taken away.
    pub(super) started: u64,
    pub(super) interrupted: u64,
    /// Attempts that ended because a worker was taken away.
    pub(super) lost: u64,
    /// Hours and workers, for a chart.
    pub(super) workers: Vec<(f64, f64)>,
    /// The time in which items come, in hours.
    pub(super) hours: f64,
    /// When the last task ended, in seconds.
    pub(super) last_end_sec: f64,
}

impl Played {
    /// Money in a month.
    pub(super) fn month(&self) -> f64 {
        let paid: f64 = self.paid.values().map(|(base, rest)| base + rest).sum();
        paid / self.hours * MONTH_HOURS
    }

    pub(super) fn missed_share(&self) -> f64 {
        if self.ends.is_empty() { 0.0 } else { self.misses as f64 / self.ends.len() as f64 }
    }
}

/// The value that this share of sorted values does not exceed.
pub(super) fn quantile(sorted: &[f64], share: f64) -> f64 {
    let place = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(place.clamp(1, sorted.len().max(1)) - 1).copied().unwrap_or(0.0)
}

/// Items that may be late: one more, and the share of the goal is not in time.
pub(super) fn late_max(plan: &Plan, items: usize) -> usize {
    let in_time = (plan.goal.percentile / 100.0 * items as f64).ceil() as usize;
    items - in_time.clamp(items.min(1), items)
}

/// Plays one run. Unless the whole is wanted, it ends when too many are late for the goal; those that were not done by
/// then count as never done.
pub(super) fn play(
    plan: &Plan,
    fleet: &Fleet,
    demand: &Demand,
    seed: u64,
    whole: bool,
) -> Result<Played, Error> {
    // What has waited much longer than allowed is missed, whenever it ends.
    let tail = Duration::from_secs_f64(plan.goal.within_sec * 2.0 + 3_600.0);
    // Nothing waits at a worker that could be moved, and none vanishes in silence: both would only cost time here.
    let mut settings = Settings::default();
    settings.load_balancing.strategy = Strategy::None;
    let cluster = Cluster::new(seed)
        .given(demand.given.clone())
        .light(plan.stages.iter().filter(|stage| stage.light).map(|stage| stage.name.clone()))
        .settings(settings)
        .lease(LEASE)
        .until(demand.horizon + tail);
    let cluster = match whole {
        true => cluster,
        false => cluster.give_up_after(late_max(plan, demand.items.len())),
    };
    let types = types(plan, fleet);
    let (cluster, fixed) = match fleet {
        Fleet::Scaled(scaled) => (cluster.scaled(scaling(plan, scaled, &types)), Vec::new()),
        Fleet::Fixed(counts) => stand(cluster, counts, &types),
    };
    let mut outcome = cluster.run()?;
    outcome.scaled.hired.extend(fixed);
    Ok(judge(plan, demand, &types, &outcome))
}

/// The types of a fleet, in the order of the plan.
fn types<'a>(plan: &'a Plan, fleet: &Fleet) -> Vec<&'a Worker> {
    let used = |worker: &&Worker| match fleet {
        Fleet::Fixed(counts) => counts.contains_key(&worker.name),
        Fleet::Scaled(scaled) => scaled.types.contains(&worker.name),
    };
    plan.workers.iter().filter(used).collect()
}

/// Workers that are there from the start to the end, without an autoscaler.
fn stand(
    mut cluster: Cluster,
    counts: &BTreeMap<Name, u32>,
    types: &[&Worker],
) -> (Cluster, Vec<Hired>) {
    let mut fixed = Vec::new();
    for (worker_type, worker) in types.iter().enumerate() {
        for number in 0..counts.get(&worker.name).copied().unwrap_or(0) {
            let name = format!("{}-{number}", worker.name);
            let member = cluster.members.len();
            cluster = cluster.member(Member::new(name, worker.slots).speed(worker.speed));
            let asked = Duration::ZERO;
            fixed.push(Hired { worker_type, member, asked, gone: None, interrupted: false });
        }
    }
    (cluster, fixed)
}

fn scaling(plan: &Plan, scaled: &Scaled, types: &[&Worker]) -> Scaling {
    let pool = Pool {
        min: scaled.min,
        max: scaled.max.max(scaled.min).max(1),
        types: types.iter().map(|worker| worker.as_type()).collect(),
        goal: PoolGoal::Misses { under: 1.0 - plan.goal.percentile / 100.0 },
        policy: scaled.policy,
        on_demand: scaled.on_demand,
        ..Pool::default()
    };
    let interruptions = types.iter().filter(|worker| worker.spot).map(|worker| Interruptions {
        worker_type: worker.name.clone(),
        per_hour: worker.interruptions_hour,
        notice: Duration::from_secs_f64(worker.notice_sec),
    });
    Scaling {
        at_start: at_start(scaled, types),
        every: LOOK_EVERY,
        interruptions: interruptions.collect(),
        ..Scaling::new(pool)
    }
}

/// The minimum is there from the start, in the mix that is wanted.
fn at_start(scaled: &Scaled, types: &[&Worker]) -> Vec<AtStart> {
    let of = |spot: bool| types.iter().find(|worker| worker.spot == spot);
    let firm = match (of(false), of(true)) {
        (Some(_), Some(_)) => (f64::from(scaled.min) * scaled.on_demand).ceil() as u32,
        (Some(_), None) => scaled.min,
        _ => 0,
    };
    let some = |worker: Option<&&Worker>, count: u32| {
        let worker_type = worker?.name.clone();
        (count > 0).then_some(AtStart { worker_type, count })
    };
    [some(of(false), firm), some(of(true), scaled.min - firm)].into_iter().flatten().collect()
}

fn judge(plan: &Plan, demand: &Demand, types: &[&Worker], outcome: &Outcome) -> Played {
    let mut played = Played { hours: demand.horizon.as_secs_f64() / 3_600.0, ..Played::default() };
    for item in &demand.items {
        let lives = &outcome.lives[item.tasks.0..item.tasks.1];
        let began = lives.iter().filter_map(|life| life.began).min();
        let done = lives.iter().all(|life| life.end == Some(End::Done));
        let last = lives.iter().filter_map(|life| life.ended).max();
        // Where an item has none of the stages, there is nothing to wait for.
        let ended = last.or_else(|| lives.is_empty().then_some(item.at)).filter(|_| done);
        let since = |time: Option<Duration>| {
            time.map_or(f64::INFINITY, |time| time.saturating_sub(item.at).as_secs_f64())
        };
        played.starts.push(since(began));
        played.ends.push(since(ended));
        let at = ended.map_or(0.0, |at| at.as_secs_f64());
        played.last_end_sec = played.last_end_sec.max(at);
        let missed = usize::from(since(ended) > plan.goal.within_sec);
        played.misses += missed;
        let day = (item.at.as_secs() / DAY_SEC) as usize;
        played.days.resize(played.days.len().max(day + 1), (0, 0));
        played.days[day].0 += missed;
        played.days[day].1 += 1;
        if item.urgent {
            played.urgent_ends.push(since(ended));
        }
    }
    for times in [&mut played.starts, &mut played.ends, &mut played.urgent_ends] {
        times.sort_unstable_by(f64::total_cmp);
    }
    pay(&mut played, types, demand.horizon, outcome);
    played
}

fn pay(played: &mut Played, types: &[&Worker], horizon: Duration, outcome: &Outcome) {
    let mut changes: Vec<Vec<(f64, f64)>> = vec![Vec::new(); types.len()];
    for hired in &outcome.scaled.hired {
        let (tally, worker) = (&outcome.members[hired.member], types[hired.worker_type]);
        let (from, to) = paid_time(hired, worker, horizon);
        let paid_sec = (to - from).max(0.0);
        played.started += u64::from(!hired.asked.is_zero());
        played.interrupted += u64::from(hired.interrupted);
        played.lost += tally.lost;
        played.paid_slot_sec += paid_sec * f64::from(worker.slots);
        played.busy_sec += tally.busy.as_secs_f64();
        if paid_sec > 0.0 {
            changes[hired.worker_type].extend([(from, 1.0), (to, -1.0)]);
        }
    }
    played.workers = vec![(0.0, 0.0); POINTS];
    for (worker, changes) in types.iter().zip(changes) {
        let seconds: f64 = changes.iter().map(|(at, change)| -at * change).sum();
        let there = over_time(changes, horizon);
        let least = there.iter().map(|(_, count)| *count).fold(f64::INFINITY, f64::min);
        let base_sec = (least * horizon.as_secs_f64()).min(seconds);
        let money = |seconds: f64| seconds / 3_600.0 * worker.price_hour;
        let paid = (money(base_sec), money(seconds - base_sec));
        played.paid.insert(worker.name.clone(), paid);
        for (all, (hour, count)) in played.workers.iter_mut().zip(there) {
            *all = (hour, all.1 + count);
        }
    }
}

/// From when until when a worker is paid, in seconds of the run.
fn paid_time(hired: &Hired, worker: &Worker, horizon: Duration) -> (f64, f64) {
    let from = hired.asked.as_secs_f64();
    let gone = hired.gone.map_or(f64::INFINITY, |gone| gone.as_secs_f64());
    (from, gone.max(from + worker.billing_sec).min(horizon.as_secs_f64()))
}

/// How many workers there are, hour by hour, from when each came and went.
fn over_time(mut changes: Vec<(f64, f64)>, horizon: Duration) -> Vec<(f64, f64)> {
    changes.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let end = horizon.as_secs_f64();
    let (mut count, mut next) = (0.0, 0);
    let point = |number: usize| {
        let at = end * number as f64 / POINTS as f64;
        while changes.get(next).is_some_and(|(time, _)| *time <= at) {
            count += changes[next].1;
            next += 1;
        }
        (at / 3_600.0, count)
    };
    (0..POINTS).map(point).collect()
}
