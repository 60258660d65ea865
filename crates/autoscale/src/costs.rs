//! What a pool costs, beside what a fixed fleet and the rules of Kubernetes would have cost over the same samples, and
//! what the budget leaves.

use std::collections::VecDeque;

use divvy_types::Timestamp;
use divvy_types::pools::{Pool, WorkerType};
use serde::{Deserialize, Serialize};

use crate::load::Load;
use crate::mix::{growth, unit};
use crate::policies::{hpa_desired, workers};
use crate::sample::Sample;

/// What a pool costs. Money is in the unit of the prices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Costs {
    /// Since when it is counted.
    pub since: Timestamp,
    /// What the workers that are there cost per hour.
    pub per_hour: f64,
    /// What they have cost so far.
    pub total: f64,
    /// What they have cost in this month of 30 days.
    pub month: f64,
    /// What a fleet that is always at the maximum would have cost.
    pub fixed_total: f64,
    /// What a fleet by the rules of Kubernetes with a target of 70 % would have cost.
    pub hpa_total: f64,
    /// The energy so far in kilowatt hours; nothing where no type states watts.
    pub energy_kwh: Option<f64>,
}

/// A longer time without a sample is not counted: nobody knows who worked.
const GAP_SEC_MAX: f64 = 900.0;
/// The seconds of a month.
const MONTH_SEC: f64 = 30.0 * 86_400.0;
/// How much faster than evenly the rest of the month's budget may be spent.
const MONTH_HASTE: f64 = 4.0;
/// The target of the fleet to compare with, and its window on the way down.
const HPA_TARGET: f64 = 0.7;
const HPA_WINDOW_SEC: f64 = 300.0;
/// What it wanted lately; more is not kept.
const HPA_KEPT_MAX: usize = 1_000;

/// Keeps the costs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Account {
    pub(crate) costs: Costs,
    /// The month that is counted.
    month: u64,
    /// The fleet by the rules of Kubernetes: how many it has, and what it wanted lately.
    hpa: Option<u32>,
    hpa_wanted: VecDeque<(Timestamp, u32)>,
}

impl Account {
    /// Counts the time since the last sample, in which `before` was there, and looks at the fleet that is there now.
    pub(crate) fn take(
        &mut self,
        pool: &Pool,
        types: &[WorkerType],
        before: Option<&Sample>,
        sample: &Sample,
        load: &Load,
    ) {
        let costs = &mut self.costs;
        let month = (sample.at.0 as f64 / 1e6 / MONTH_SEC) as u64;
        if before.is_none() {
            costs.since = sample.at;
        }
        if self.month != month {
            (self.month, costs.month) = (month, 0.0);
        }
        if let Some(before) = before {
            let hours = sample.at.since(before.at).as_secs_f64().min(GAP_SEC_MAX) / 3_600.0;
            let spent = per_hour(types, before) * hours;
            costs.total += spent;
            costs.month += spent;
            let cheapest = growth(types).price_hour;
            costs.fixed_total += f64::from(pool.max) * cheapest * hours;
            costs.hpa_total += f64::from(self.hpa.unwrap_or(0)) * cheapest * hours;
            if let Some(watts) = watts(types, before, load.used) {
                *costs.energy_kwh.get_or_insert(0.0) += watts * hours / 1e3;
            }
        }
        costs.per_hour = per_hour(types, sample);
        self.follow_hpa(pool, unit(growth(types)), load);
    }

    /// Lets the fleet of the rules of Kubernetes see the same work.
    fn follow_hpa(&mut self, pool: &Pool, unit: f64, load: &Load) {
        let least = pool.min.max(1);
        let held = self.hpa.unwrap_or_else(|| workers(load.rate / HPA_TARGET, unit).max(least));
        let used = (load.rate / (f64::from(held) * unit)).min(1.0);
        let wanted = hpa_desired(f64::from(held), used, 1.0, HPA_TARGET) as u32;
        let wanted = wanted.clamp(least, pool.max.max(least));
        self.hpa_wanted.push_back((load.at, wanted));
        let old = |at: Timestamp| load.at.since(at).as_secs_f64() > HPA_WINDOW_SEC;
        while self.hpa_wanted.len() > HPA_KEPT_MAX
            || self.hpa_wanted.front().is_some_and(|(at, _)| old(*at))
        {
            self.hpa_wanted.pop_front();
        }
        let most = self.hpa_wanted.iter().map(|(_, wanted)| *wanted).max().unwrap_or(wanted);
        self.hpa = Some(if wanted >= held { wanted } else { most.min(held) });
    }

    /// What an hour may cost from now on.
    pub(crate) fn money_hour(&self, pool: &Pool, now: Timestamp) -> Option<f64> {
        let left_hours = (MONTH_SEC - now.0 as f64 / 1e6 % MONTH_SEC).max(3_600.0) / 3_600.0;
        let month = pool.budget.month.map(|month| {
            (month - self.costs.month).max(0.0) / left_hours * MONTH_HASTE.min(left_hours)
        });
        [pool.budget.hour, month].into_iter().flatten().reduce(f64::min)
    }
}

/// What the workers of a sample cost per hour.
fn per_hour(types: &[WorkerType], sample: &Sample) -> f64 {
    let there = |one: &WorkerType| {
        sample.fleet.get(&one.name).map_or(0.0, |fleet| {
            f64::from(fleet.running) + f64::from(fleet.starting) + f64::from(fleet.draining)
        })
    };
    types.iter().map(|one| there(one) * one.price_hour).sum()
}

/// What they draw, where that is stated.
fn watts(types: &[WorkerType], sample: &Sample, used: f64) -> Option<f64> {
    let stated = types.iter().filter_map(|one| {
        let idle = one.watts_idle.or(one.watts_busy)?;
        let busy = one.watts_busy.unwrap_or(idle);
        let fleet = sample.fleet.get(&one.name).copied().unwrap_or_default();
        let there = f64::from(fleet.running) + f64::from(fleet.draining);
        Some(there * (idle + (busy - idle) * used) + f64::from(fleet.starting) * idle)
    });
    stated.reduce(|a, b| a + b)
}
