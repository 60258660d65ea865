//! Which types of workers make up a capacity: the cheapest that reach it, starting from those that are there.
//!
//! Workers are added and taken away one by one: added where the missing capacity costs least, taken away where most is
//! saved, so that nothing is exchanged without need. Draining workers are called back first. A share of the workers is
//! not spot (`on_demand`). Minimum and maximum hold always; the budget holds down to the minimum.

use std::collections::BTreeMap;

use divvy_types::Name;
use divvy_types::pools::{Pool, WorkerType};

use crate::decision::{Bound, Wanted};

/// What is less than this is no capacity.
const NOTHING: f64 = 1e-6;

/// What a mix starts from.
pub(crate) struct Mix<'a> {
    pub(crate) pool: &'a Pool,
    pub(crate) types: &'a [WorkerType],
    /// Draining workers of each type.
    pub(crate) draining: &'a Wanted,
    /// Workers of each type that were paid for long enough to be given up; nothing means all.
    pub(crate) paid_off: Option<&'a Wanted>,
    /// What an hour may cost.
    pub(crate) money_hour: Option<f64>,
}

/// What one worker of a type does per second.
pub(crate) fn unit(one: &WorkerType) -> f64 {
    f64::from(one.slots.max(1)) * one.speed.max(0.001)
}

/// The type that a pool grows by: the one whose work is cheapest.
pub(crate) fn growth(types: &[WorkerType]) -> &WorkerType {
    let price = |one: &WorkerType| one.price_hour / unit(one);
    types
        .iter()
        .min_by(|a, b| price(a).total_cmp(&price(b)).then(a.boot_sec.total_cmp(&b.boot_sec)))
        .expect("a pool has at least one type")
}

impl Mix<'_> {
    /// The workers for a capacity, and what kept them from reaching it.
    pub(crate) fn reach(&self, held: &Wanted, capacity: f64) -> (Wanted, Option<Bound>) {
        let mut counts = held.clone();
        counts.retain(|name, count| *count > 0 && self.types.iter().any(|one| one.name == *name));
        let bound = if self.capacity(&counts) < capacity - NOTHING {
            self.grow(&mut counts, capacity)
        } else {
            self.shrink(&mut counts, capacity)
        };
        let bound = self.keep_bounds(&mut counts).or(bound);
        (counts, bound)
    }

    pub(crate) fn capacity(&self, counts: &Wanted) -> f64 {
        self.types.iter().map(|one| f64::from(count(counts, &one.name)) * unit(one)).sum()
    }

    pub(crate) fn price(&self, counts: &Wanted) -> f64 {
        self.types.iter().map(|one| f64::from(count(counts, &one.name)) * one.price_hour).sum()
    }

    fn grow(&self, counts: &mut Wanted, capacity: f64) -> Option<Bound> {
        let held = counts.clone();
        loop {
            let missing = capacity - self.capacity(counts);
            if missing <= NOTHING {
                return None;
            }
            let places = self.pool.max.saturating_sub(total(counts));
            if places == 0 {
                return Some(Bound::Maximum);
            }
            let Some(one) = self.next(&held, counts, missing, places) else {
                return Some(Bound::Budget);
            };
            *counts.entry(one.name.clone()).or_default() += 1;
        }
    }

    /// The type of the next worker; nothing if none can be paid.
    fn next(
        &self,
        held: &Wanted,
        counts: &Wanted,
        missing: f64,
        places: u32,
    ) -> Option<&WorkerType> {
        let price = self.price(counts);
        let payable = |one: &&WorkerType| {
            self.money_hour.is_none_or(|most| price + one.price_hour <= most + NOTHING)
        };
        // A worker that still drains is there at once and costs nothing more.
        let drains = |one: &&WorkerType| {
            count(counts, &one.name) < count(held, &one.name) + count(self.draining, &one.name)
        };
        if let Some(one) = self.types.iter().filter(payable).find(drains) {
            return Some(one);
        }
        let needs_firm = self.firm_missing(counts, 1);
        let largest = self.types.iter().map(unit).fold(0.0, f64::max);
        // Where few places are left, only the largest type reaches far enough.
        let short = missing > largest * f64::from(places - 1) + NOTHING;
        let cost = |one: &WorkerType| {
            let each = one.price_hour / unit(one).min(missing);
            if short { (-unit(one), each, one.boot_sec) } else { (each, -unit(one), one.boot_sec) }
        };
        self.types
            .iter()
            .filter(|one| !(needs_firm && one.spot))
            .filter(payable)
            .min_by(|a, b| cost(a).partial_cmp(&cost(b)).unwrap_or(std::cmp::Ordering::Equal))
    }

    fn shrink(&self, counts: &mut Wanted, capacity: f64) -> Option<Bound> {
        let mut left = self.paid_off.cloned();
        loop {
            let spare = self.capacity(counts) - capacity;
            if total(counts) <= self.pool.min || spare < NOTHING {
                return None;
            }
            let can_go = |one: &&WorkerType| {
                count(counts, &one.name) > 0
                    && unit(one) <= spare + NOTHING
                    && (one.spot || !self.firm_missing_without(counts))
            };
            let paid_off =
                |one: &&WorkerType| left.as_ref().is_none_or(|left| count(left, &one.name) > 0);
            let saved = |a: &&WorkerType, b: &&WorkerType| {
                let each = |one: &WorkerType| (one.price_hour, one.price_hour / unit(one));
                each(a).partial_cmp(&each(b)).unwrap_or(std::cmp::Ordering::Equal)
            };
            let Some(one) = self.types.iter().filter(can_go).filter(paid_off).max_by(saved) else {
                return self.types.iter().any(|one| can_go(&one)).then_some(Bound::Billing);
            };
            take(counts, &one.name);
            left.iter_mut().for_each(|left| take(left, &one.name));
        }
    }

    /// Minimum, maximum and budget, whatever was wanted.
    fn keep_bounds(&self, counts: &mut Wanted) -> Option<Bound> {
        let mut bound = None;
        let dearest = |counts: &Wanted| {
            self.types
                .iter()
                .filter(|one| count(counts, &one.name) > 0)
                .max_by(|a, b| a.price_hour.total_cmp(&b.price_hour))
                .map(|one| one.name.clone())
        };
        while total(counts) > self.pool.max {
            let Some(name) = dearest(counts) else { break };
            take(counts, &name);
            bound = Some(Bound::Maximum);
        }
        if let Some(most) = self.money_hour {
            while self.price(counts) > most + NOTHING && total(counts) > self.pool.min {
                let Some(name) = dearest(counts) else { break };
                take(counts, &name);
                bound = Some(Bound::Budget);
            }
        }
        while total(counts) < self.pool.min {
            let firm = self.firm_missing(counts, 1);
            let all = || self.types.iter().filter(|one| !(firm && one.spot));
            let cheapest = all().min_by(|a, b| a.price_hour.total_cmp(&b.price_hour));
            let Some(one) = cheapest else { break };
            *counts.entry(one.name.clone()).or_default() += 1;
            bound = Some(Bound::Minimum);
        }
        bound
    }

    /// Whether there are too few workers that nobody takes away, for so many workers more than there are.
    fn firm_missing(&self, counts: &Wanted, more: u32) -> bool {
        let firm = |spot: bool| self.types.iter().filter(move |one| one.spot == spot);
        if firm(true).next().is_none() || firm(false).next().is_none() {
            return false;
        }
        let there: u32 = firm(false).map(|one| count(counts, &one.name)).sum();
        let all = f64::from(total(counts) + more);
        f64::from(there) + NOTHING < (all * self.pool.on_demand).floor()
    }

    /// The same, if one of them left.
    fn firm_missing_without(&self, counts: &Wanted) -> bool {
        let spots: u32 =
            self.types.iter().filter(|one| one.spot).map(|one| count(counts, &one.name)).sum();
        let firms = total(counts) - spots;
        let all = f64::from(total(counts).saturating_sub(1));
        spots > 0
            && f64::from(firms.saturating_sub(1)) + NOTHING < (all * self.pool.on_demand).floor()
    }
}

/// Workers of one type.
pub(crate) fn count(counts: &BTreeMap<Name, u32>, name: &Name) -> u32 {
    counts.get(name).copied().unwrap_or(0)
}

/// Workers of all types.
pub(crate) fn total(counts: &Wanted) -> u32 {
    counts.values().sum()
}

fn take(counts: &mut Wanted, name: &Name) {
    if let Some(count) = counts.get_mut(name) {
        *count = count.saturating_sub(1);
        if *count == 0 {
            counts.remove(name);
        }
    }
}
