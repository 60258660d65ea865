//! The machine of one pool: samples in, decisions out.
//!
//! Each sample is understood (`load`), teaches the forecasters, and is counted in the costs. Then the policy of
//! the pool says what is needed, the pace what may change now, and the mix which types of workers that means within
//! minimum, maximum and budget. Workers that will be taken away are replaced ahead: they are wanted on top.

use std::collections::{BTreeMap, VecDeque};

use divvy_types::pools::{Policy, Pool, WorkerType};
use divvy_types::{Name, Timestamp};
use serde::{Deserialize, Serialize};

use crate::costs::{Account, Costs};
use crate::decision::{Bound, Change, Decision, Flapping, Wanted};
use crate::explain::{Answer, Explanation};
use crate::forecast::{self, Forecast};
use crate::history::History;
use crate::load::{Load, Recent};
use crate::mix::{Mix, count, growth, total, unit};
use crate::pace::Paced;
use crate::policies::{self, View, Want};
use crate::reach;
use crate::sample::{Fleet, Sample};

/// Decides for one pool.
#[derive(Clone, Debug)]
pub struct Scaler {
    pool: Pool,
    types: Vec<WorkerType>,
    load: Load,
    memory: Memory,
}

/// All that a scaler has learnt: what a restarted server needs to go on as before.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Memory {
    last: Decision,
    /// What was wanted, without those that will be taken away.
    held: Option<Wanted>,
    /// When the workers of each type were asked for, oldest first.
    started: BTreeMap<Name, VecDeque<Timestamp>>,
    /// When the last sample was taken, and who worked; the rest of it is in what was learnt.
    sample: Option<Sample>,
    recent: Recent,
    forecast: Forecast,
    paced: Paced,
    history: History,
    account: Account,
    set: Option<u32>,
    paused: bool,
}

impl Scaler {
    /// Starts without any memory. The pool has passed [`Pool::check`].
    pub fn new(pool: Pool) -> Self {
        Self::resume(pool, Memory::default())
    }

    /// Goes on with what was learnt before.
    pub fn resume(pool: Pool, memory: Memory) -> Self {
        let types = pool.worker_types();
        Self { pool, types, load: Load::default(), memory }
    }

    /// What was learnt, to be kept.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// The settings.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Takes other settings from now on; what was learnt stays.
    pub fn reload(&mut self, pool: Pool) {
        self.types = pool.worker_types();
        self.pool = pool;
    }

    /// Holds a number that was set by hand, within the bounds of the pool, until it is unset.
    pub fn set(&mut self, now: Timestamp, workers: Option<u32>) -> &Decision {
        self.memory.set = workers;
        if workers.is_some() {
            let fleet = self.memory.sample.as_ref().map(|sample| sample.fleet.clone());
            self.carry_out(now, &fleet.unwrap_or_default(), None);
        }
        &self.memory.last
    }

    /// The number that was set by hand.
    pub fn is_set(&self) -> Option<u32> {
        self.memory.set
    }

    /// Stops changing anything, or goes on. Bounds of the pool still hold.
    pub fn pause(&mut self, paused: bool) {
        self.memory.paused = paused;
    }

    /// Whether it is paused.
    pub fn is_paused(&self) -> bool {
        self.memory.paused
    }

    /// Takes a sample and decides.
    pub fn decide(&mut self, sample: &Sample) -> &Decision {
        let types = &self.types;
        let memory = &mut self.memory;
        let staying = |one: &WorkerType| {
            let fleet = sample.fleet.get(&one.name).copied().unwrap_or_default();
            f64::from(fleet.running.saturating_sub(fleet.leaving))
        };
        let running: f64 = types.iter().map(|one| staying(one) * unit(one)).sum();
        let slots: f64 = types
            .iter()
            .map(|one| {
                let fleet = sample.fleet.get(&one.name).copied().unwrap_or_default();
                f64::from(fleet.running) * f64::from(one.slots)
            })
            .sum();
        let load = memory.recent.take(&self.pool, sample, running, slots);
        let boot = growth(types).boot_sec;
        let before = memory.sample.as_ref();
        if before.is_some() && load.step > 0.0 {
            let latest = memory.recent.latest_work(&load);
            memory.forecast.take(sample.at, latest, load.step, boot);
        }
        memory.account.take(&self.pool, types, before, sample, &load);
        if memory.held.is_none() {
            memory.held = Some(there(sample));
        }
        self.load = load;
        let (at, fleet) = (sample.at, sample.fleet.clone());
        self.memory.sample = Some(Sample { at, fleet, ..Sample::default() });
        let coming = self.coming(sample);
        let want = policies::ask(self.pool.policy, &self.view(running, &coming));
        self.carry_out(sample.at, &sample.fleet, Some(want));
        &self.memory.last
    }

    /// When to look again although nothing happens. Where the policy forecasts and workers take time to start, quiet
    /// times are learnt from too, and workers may be wanted before anything has come; else nothing is to be seen.
    pub fn next_look(&self) -> Option<Timestamp> {
        let forecasts = matches!(self.pool.policy, Policy::Objective | Policy::Predictive);
        let boots = growth(&self.types).boot_sec > 0.0;
        let decides = !self.memory.paused && self.memory.set.is_none();
        let last = self.memory.sample.as_ref().filter(|_| forecasts && boots && decides)?;
        Some(forecast::next_slot(last.at))
    }

    /// The work that arrives, as the last sample was understood, in seconds per second.
    pub fn work_rate(&self) -> f64 {
        self.load.rate
    }

    /// The work that the workers of a sample do, in seconds per second.
    pub fn capacity(&self, sample: &Sample) -> f64 {
        self.running(sample)
    }

    /// The last decision.
    pub fn last(&self) -> &Decision {
        &self.memory.last
    }

    /// The changes so far, oldest first.
    pub fn changes(&self) -> impl DoubleEndedIterator<Item = &Change> + ExactSizeIterator {
        self.memory.history.0.iter()
    }

    /// What it costs.
    pub fn costs(&self) -> &Costs {
        &self.memory.account.costs
    }

    /// Whether the fleet goes up and down again and again.
    pub fn flapping(&self) -> Option<Flapping> {
        self.memory.history.flapping(self.memory.last.at)
    }

    /// Why so many; nothing before the first sample, or after a restart before the next.
    pub fn explain(&self) -> Option<Explanation> {
        let sample = self.memory.sample.as_ref().filter(|sample| sample.at == self.load.at)?;
        let coming = self.coming(sample);
        let running = self.running(sample);
        let view = self.view(running, &coming);
        let answers: Vec<Answer> = policies::ALL
            .into_iter()
            .map(|policy| {
                let want = policies::ask(policy, &view);
                let workers = view.workers(view.held.clamp(want.least, want.keep));
                Answer { policy, workers, why: want.why }
            })
            .collect();
        let starting = coming.iter().map(|(_, capacity)| capacity).sum();
        let until = view.boot + self.load.step;
        let money_hour = self.memory.account.money_hour(&self.pool, sample.at);
        let explanation = Explanation {
            at: sample.at,
            goal: self.pool.goal.to_string(),
            policy: self.pool.policy,
            wanted: self.memory.last.wanted.clone(),
            bound: self.memory.last.bound,
            inputs: self.load.inputs(running, starting, view.boot),
            answers,
            forecast: self.memory.forecast.view(sample.at, until, self.load.rate),
            impossible: reach::impossible(&self.pool, &self.types, &self.load, money_hour),
            flapping: self.flapping(),
            costs: self.memory.account.costs,
            words: Vec::new(),
        };
        let words = explanation.sentences(&self.memory.last.why());
        Some(Explanation { words, ..explanation })
    }

    fn running(&self, sample: &Sample) -> f64 {
        let staying = |fleet: Fleet| f64::from(fleet.running.saturating_sub(fleet.leaving));
        self.types
            .iter()
            .filter_map(|one| Some(staying(*sample.fleet.get(&one.name)?) * unit(one)))
            .sum()
    }

    /// The workers that start: in how many seconds they will be there, and what they do.
    fn coming(&self, sample: &Sample) -> Vec<(f64, f64)> {
        let mut coming = Vec::new();
        for one in &self.types {
            let Some(fleet) = sample.fleet.get(&one.name).filter(|fleet| fleet.starting > 0) else {
                continue;
            };
            let starts = self.memory.started.get(&one.name);
            let mut latest = starts.into_iter().flatten().rev();
            for _ in 0..fleet.starting {
                let after = latest.next().map_or(one.boot_sec * 0.5, |start| {
                    let age = sample.at.since(*start).as_secs_f64();
                    // Whoever is late is nearly there.
                    (one.boot_sec - age).max(one.boot_sec * 0.1)
                });
                match coming.last_mut() {
                    Some((last, capacity)) if *last == after => *capacity += unit(one),
                    _ => coming.push((after, unit(one))),
                }
            }
        }
        coming
    }

    fn view<'a>(&'a self, running: f64, coming: &'a [(f64, f64)]) -> View<'a> {
        let one = growth(&self.types);
        let held = self.memory.held.as_ref();
        let held = self
            .types
            .iter()
            .map(|one| f64::from(held.map_or(0, |held| count(held, &one.name))) * unit(one));
        let price = if one.price_hour > 0.0 { one.price_hour / 3_600.0 } else { 1.0 };
        View {
            pool: &self.pool,
            load: &self.load,
            forecast: &self.memory.forecast,
            held: held.sum(),
            running,
            coming,
            unit: unit(one),
            boot: one.boot_sec,
            price,
        }
    }

    /// Turns what a policy wants into a decision.
    fn carry_out(&mut self, now: Timestamp, fleet: &BTreeMap<Name, Fleet>, want: Option<Want>) {
        let held = self.memory.held.clone().unwrap_or_default();
        let money_hour = self.memory.account.money_hour(&self.pool, now);
        let paid_off = self.paid_off(now, &held);
        let draining = fleet.iter().map(|(name, fleet)| (name.clone(), fleet.draining)).collect();
        let mix = Mix {
            pool: &self.pool,
            types: &self.types,
            draining: &draining,
            paid_off: Some(&paid_off).filter(|_| self.memory.set.is_none()),
            money_hour,
        };
        let each = unit(growth(&self.types));
        let holds = mix.capacity(&held);
        let workers = |capacity: f64| policies::workers(capacity, each);
        let (capacity, bound, reason) = match (&want, self.memory.set) {
            (_, Some(set)) => {
                (f64::from(set) * each, Some(Bound::Set), format!("{set} were set by hand"))
            }
            _ if self.memory.paused => (holds, Some(Bound::Paused), "the scaling is paused".into()),
            (None, None) => (holds, None, self.memory.last.reason.clone()),
            (Some(want), None) => {
                let held = workers(holds);
                let paces = policies::paces(self.pool.policy, &self.pool);
                let asked = (workers(want.least), workers(want.keep));
                let (next, bound) = self.memory.paced.next(now, held, asked, paces);
                let exact = if next == asked.0 { want.least } else { f64::from(next) * each };
                let capacity = if next == held { holds } else { exact };
                (capacity, bound, want.why.clone())
            }
        };
        let (counts, mixed) = mix.reach(&held, capacity);
        let bound = match bound {
            Some(Bound::Set | Bound::Paused) => bound,
            _ => mixed.or(bound),
        };
        let decision = Decision {
            at: now,
            recall: recall(&held, &counts, &draining),
            wanted: self.with_leaving(&counts, fleet),
            reason,
            bound,
        };
        self.record(now, &held, &counts, &draining, &decision.why());
        self.memory.last = decision;
        self.memory.held = Some(counts);
    }

    /// Workers of each type that have been there for as long as they are paid for anyway.
    fn paid_off(&self, now: Timestamp, held: &Wanted) -> Wanted {
        let old = |one: &WorkerType| {
            let starts = self.memory.started.get(&one.name);
            let young = starts.map_or(0, |starts| {
                let age = |start: &&Timestamp| now.since(**start).as_secs_f64();
                starts.iter().rev().take_while(|start| age(start) < one.billing_sec).count() as u32
            });
            count(held, &one.name).saturating_sub(young)
        };
        self.types.iter().map(|one| (one.name.clone(), old(one))).collect()
    }

    /// Those that will be taken away are wanted on top, as far as the maximum allows, so that others start ahead.
    fn with_leaving(&self, counts: &Wanted, fleet: &BTreeMap<Name, Fleet>) -> Wanted {
        let mut wanted = counts.clone();
        let mut places = self.pool.max.saturating_sub(total(counts));
        for one in &self.types {
            let leaving = fleet.get(&one.name).map_or(0, |fleet| fleet.leaving.min(fleet.running));
            let more = leaving.min(places);
            if more > 0 {
                places -= more;
                *wanted.entry(one.name.clone()).or_default() += more;
            }
        }
        wanted
    }

    fn record(
        &mut self,
        now: Timestamp,
        held: &Wanted,
        counts: &Wanted,
        draining: &Wanted,
        reason: &str,
    ) {
        for one in &self.types {
            let (from, to) = (count(held, &one.name), count(counts, &one.name));
            let starts = self.memory.started.entry(one.name.clone()).or_default();
            // Whoever is called back has been there for long.
            let recalled = to.saturating_sub(from).min(count(draining, &one.name));
            (0..recalled).for_each(|_| starts.push_front(Timestamp(0)));
            (from + recalled..to).for_each(|_| starts.push_back(now));
            while starts.len() > to as usize {
                starts.pop_front();
            }
        }
        let (from, to) = (total(held), total(counts));
        if from != to {
            self.memory.paced.changed(now, from, to);
            self.memory.history.add(now, from, to, reason);
        }
    }
}

/// The workers that are there and will stay.
fn there(sample: &Sample) -> Wanted {
    let count =
        |fleet: &Fleet| fleet.running.saturating_sub(fleet.leaving).saturating_add(fleet.starting);
    sample
        .fleet
        .iter()
        .map(|(name, fleet)| (name.clone(), count(fleet)))
        .filter(|(_, count)| *count > 0)
        .collect()
}

/// Draining workers to call back for what there is more of.
fn recall(held: &Wanted, counts: &Wanted, draining: &Wanted) -> Wanted {
    counts
        .iter()
        .map(|(name, to)| {
            let more = to.saturating_sub(count(held, name));
            (name.clone(), more.min(count(draining, name)))
        })
        .filter(|(_, count)| *count > 0)
        .collect()
}
