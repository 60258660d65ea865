//! Decides what one more request costs on a target, in joules and in money, and where to pack work so that other
//! targets can sleep.
//!
//! Measures nothing: the figures are those that a target advertises ([`Cost`]). Power is taken as linear between idle
//! and busy, which fits servers well enough (Barroso and Hölzle, "The Case for Energy-Proportional Computing", IEEE
//! Computer 2007). Whether it is better to run fast and sleep or to run slowly depends on the hardware, so it is
//! not decided here: speed and watts are given, and the arithmetic shows it.
//!
//! Rules: a request holds one of the target's places for `work / speed`. Its marginal power is one place's part of
//! what full load adds; on an empty target, which could sleep, it must bear the idle power too. Money likewise.
//! Cold: a target without advertised figures costs nothing and has speed 1, so that it neither wins nor loses by them
//! against others of its kind; do not mix targets with and without figures.

use std::time::Duration;

use super::error::{self, Error};
use crate::target::{Cost, Target};

/// What a target draws and earns, checked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Profile {
    cost: Cost,
    places: f64,
}

/// What one more request costs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Marginal {
    /// How long it runs.
    pub seconds: f64,
    /// The power that it adds.
    pub watts: f64,
    /// The energy that it adds.
    pub joules: f64,
    /// The money that it adds.
    pub money: f64,
}

/// How much each kind of cost counts in a score; a score that is lower is better.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weights {
    /// Per joule.
    pub joule: f64,
    /// Per unit of money.
    pub money: f64,
    /// Per second of running time.
    pub second: f64,
}

impl Default for Weights {
    fn default() -> Self {
        Self { joule: 1.0, money: 0.0, second: 0.0 }
    }
}

impl Weights {
    /// Refuses weights that mean nothing.
    pub fn check(&self) -> Result<(), Error> {
        error::not_negative("joule", self.joule)?;
        error::not_negative("money", self.money)?;
        error::not_negative("second", self.second)
    }

    /// The score of a cost; lower is better.
    pub fn score(&self, marginal: &Marginal) -> f64 {
        self.joule * marginal.joules + self.money * marginal.money + self.second * marginal.seconds
    }
}

impl Profile {
    /// Of a target with these figures that runs up to `places` requests at once.
    pub fn new(cost: Cost, places: u32) -> Result<Self, Error> {
        error::not_negative("watts_idle", cost.watts_idle)?;
        error::not_negative("watts_busy", cost.watts_busy)?;
        error::not_negative("price_hour", cost.price_hour)?;
        error::positive("speed", cost.speed)?;
        error::positive("places", f64::from(places))?;
        if cost.watts_busy < cost.watts_idle {
            let value = cost.watts_busy.to_string();
            return Err(Error::BadValue {
                field: "watts_busy",
                value,
                must: "at least watts_idle",
            });
        }
        Ok(Self { cost, places: f64::from(places) })
    }

    /// Of a target as it was added; its limit is its number of places, 1 if it has none.
    pub fn of(target: &Target) -> Result<Self, Error> {
        Self::new(target.spec.cost, target.spec.limit.unwrap_or(1))
    }

    /// The power at a utilisation from 0 to 1.
    pub fn watts(&self, utilisation: f64) -> f64 {
        let utilisation = utilisation.clamp(0.0, 1.0);
        self.cost.watts_idle + (self.cost.watts_busy - self.cost.watts_idle) * utilisation
    }

    /// What a request adds that takes `work` at speed 1, where `in_flight` others run already.
    pub fn marginal(&self, in_flight: u32, work: Duration) -> Marginal {
        let seconds = work.as_secs_f64() / self.cost.speed;
        let wakes = in_flight == 0;
        let idle = if wakes { self.cost.watts_idle } else { 0.0 };
        let watts = idle + (self.cost.watts_busy - self.cost.watts_idle) / self.places;
        let part = if wakes { 1.0 } else { 1.0 / self.places };
        let money = self.cost.price_hour / 3600.0 * seconds * part;
        Marginal { seconds, watts, joules: watts * seconds, money }
    }

    /// The energy that a second of work at speed 1 takes when the target runs at this utilisation; infinite at 0.
    pub fn joules_per_work(&self, utilisation: f64) -> f64 {
        self.watts(utilisation) / (self.cost.speed * self.places * utilisation)
    }

    /// What a planner pays for this target in watts: while anything is on it, and for each unit of load, if it bears
    /// `capacity` units.
    pub fn plan_watts(&self, capacity: f64) -> (f64, f64) {
        (self.cost.watts_idle, (self.cost.watts_busy - self.cost.watts_idle) / capacity)
    }
}

/// How work is packed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Consolidation {
    utilisation_max: f64,
    stickiness: f64,
}

impl Default for Consolidation {
    /// Fills up to 80 %; a full target may be a fifth less efficient than an empty one and still be preferred.
    fn default() -> Self {
        Self { utilisation_max: 0.8, stickiness: 0.2 }
    }
}

impl Consolidation {
    /// Fills targets up to `utilisation_max`. `stickiness`, from 0 to 1, says how much less efficient a target that is
    /// awake may be than one that must be woken.
    pub fn new(utilisation_max: f64, stickiness: f64) -> Result<Self, Error> {
        error::share("utilisation_max", utilisation_max)?;
        error::share_or_none("stickiness", stickiness)?;
        Ok(Self { utilisation_max, stickiness })
    }

    /// The score of giving one more request to a target; lower is better, none if it is filled. The most efficient
    /// target comes first, and of equal ones the fullest, so that the others run empty.
    pub fn score(&self, profile: &Profile, in_flight: u32) -> Option<f64> {
        let after = (f64::from(in_flight) + 1.0) / profile.places;
        // A target with one or two places could else never be used at all.
        let most = self.utilisation_max.max(1.0 / profile.places);
        if after > most + 1e-9 {
            return None;
        }
        let fullness = f64::from(in_flight) / (profile.places * most);
        Some(profile.joules_per_work(most) * (1.0 - self.stickiness * fullness))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn profile(watts_idle: f64, watts_busy: f64, speed: f64, places: u32) -> Profile {
        let cost = Cost { watts_idle, watts_busy, speed, price_hour: 3.6 };
        Profile::new(cost, places).unwrap()
    }

    #[test]
    fn an_empty_target_bears_its_idle_power_and_price() {
        let server = profile(100.0, 200.0, 2.0, 10);
        let first = server.marginal(0, SECOND);
        assert_eq!((first.seconds, first.watts, first.joules), (0.5, 110.0, 55.0));
        assert!((first.money - 0.0005).abs() < 1e-12);
        let next = server.marginal(1, SECOND);
        assert_eq!((next.seconds, next.watts, next.joules), (0.5, 10.0, 5.0));
        assert!((next.money - 0.00005).abs() < 1e-12);
    }

    #[test]
    fn weights_choose_between_quick_and_cheap() {
        let quick = profile(50.0, 400.0, 4.0, 1).marginal(1, SECOND);
        let frugal = profile(5.0, 15.0, 1.0, 1).marginal(1, SECOND);
        let by_energy = Weights::default();
        assert!(by_energy.score(&frugal) < by_energy.score(&quick));
        let by_time = Weights { joule: 0.0, money: 0.0, second: 1.0 };
        assert!(by_time.score(&quick) < by_time.score(&frugal));
    }

    /// The power of all targets that are awake.
    fn total_watts(targets: &[Profile], in_flight: &[u32]) -> f64 {
        let awake = targets.iter().zip(in_flight).filter(|(_, count)| **count > 0);
        awake.map(|(target, count)| target.watts(f64::from(*count) / target.places)).sum()
    }

    #[test]
    fn packing_draws_less_than_spreading_evenly() {
        // targets, requests: identical servers, a mix of old and new ones, and nearly full.
        let old = profile(120.0, 250.0, 1.0, 10);
        let new = profile(60.0, 220.0, 1.0, 20);
        let cases = [(vec![old; 4], 8), (vec![old, old, new, new], 16), (vec![new; 5], 60)];
        for (targets, requests) in cases {
            let mut packed = vec![0u32; targets.len()];
            let packing = Consolidation::default();
            for _ in 0..requests {
                let scores = targets
                    .iter()
                    .zip(&packed)
                    .enumerate()
                    .filter_map(|(at, (t, count))| Some((packing.score(t, *count)?, at)));
                let best = scores.min_by(|a, b| a.0.total_cmp(&b.0)).unwrap().1;
                packed[best] += 1;
            }
            let even: Vec<u32> = (0..targets.len())
                .map(|at| ((requests + targets.len() - 1 - at) / targets.len()) as u32)
                .collect();
            assert_eq!(packed.iter().sum::<u32>(), even.iter().sum::<u32>());
            let (packed_watts, even_watts) =
                (total_watts(&targets, &packed), total_watts(&targets, &even));
            assert!(packed_watts < even_watts, "{packed:?} {packed_watts}, {even:?} {even_watts}");
        }
    }

    #[test]
    fn packing_fills_the_efficient_first_and_stops_at_the_limit() {
        let (good, poor) = (profile(50.0, 100.0, 1.0, 10), profile(100.0, 300.0, 1.0, 10));
        let packing = Consolidation::default();
        assert!(packing.score(&good, 0) < packing.score(&poor, 0));
        assert!(packing.score(&good, 5) < packing.score(&good, 1));
        assert!(packing.score(&good, 7).is_some());
        assert_eq!(packing.score(&good, 8), None);
        assert!(packing.score(&profile(1.0, 2.0, 1.0, 1), 0).is_some());
    }

    #[test]
    fn nonsense_is_refused() {
        let good = Cost { watts_idle: 10.0, watts_busy: 20.0, price_hour: 1.0, speed: 1.0 };
        let bad = [
            (Cost { watts_idle: f64::NAN, ..good }, "watts_idle"),
            (Cost { watts_busy: 5.0, ..good }, "watts_busy"),
            (Cost { price_hour: -1.0, ..good }, "price_hour"),
            (Cost { speed: 0.0, ..good }, "speed"),
        ];
        for (cost, field) in bad {
            let error = Profile::new(cost, 1).unwrap_err();
            assert!(error.to_string().contains(field), "{error}");
        }
        assert!(Profile::new(good, 0).is_err());
        assert!(Consolidation::new(1.5, 0.0).is_err());
        assert!(Weights { joule: f64::NAN, ..Weights::default() }.check().is_err());
    }
}
