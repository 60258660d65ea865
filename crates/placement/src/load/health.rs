//! Decides how well a target is: a score from 0 (ill) to 1 (well), with the terms that it came from.
//!
//! Does not decide what follows: a policy may weigh by it, an operator may read it, a breaker has its own rules.
//!
//! Three terms, each from 0 to 1, are joined as a weighted geometric mean. Why not a weighted sum: there a target
//! that fails every request keeps the points for being idle and quick; here one term at 0 makes the score 0.
//!
//! - **errors**: 1 without failures, 0 from `error_rate_worst` on.
//! - **latency**: 1 if the 95th percentile is at most the reference, else reference per percentile: twice as slow
//!   is 0.5. The reference is `latency_target`, or else the median of the fleet's percentiles (of two, the lower),
//!   which one slow member cannot drag along.
//! - **load**: the free share of the limit, or without a limit the fleet's mean load per weight against the
//!   target's. It never falls under `load_floor`: being busy is not being ill.
//!
//! Cold: the error and latency terms count in proportion to the evidence, as if `evidence_half` perfect requests had
//! been seen before the first. So a new target scores 1 until it shows otherwise, one unlucky first request does not
//! condemn it, and a target that nobody asks any more recovers as the evidence fades.

use std::time::Duration;

use super::error::{self, Error};
use super::monitor::{Snapshot, TargetLoad};
use crate::target::TargetId;

/// What can be set.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// How much the error term counts; 0 leaves it out.
    pub weight_errors: f64,
    /// How much the latency term counts; 0 leaves it out.
    pub weight_latency: f64,
    /// How much the load term counts; 0 leaves it out.
    pub weight_load: f64,
    /// From this error rate on, the error term is 0.
    pub error_rate_worst: f64,
    /// The 95th percentile that is good enough; none compares with the fleet.
    pub latency_target: Option<Duration>,
    /// The load term of a target that is full.
    pub load_floor: f64,
    /// With this many recent requests, errors and latency count half of what they will with many.
    pub evidence_half: f64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            weight_errors: 0.5,
            weight_latency: 0.3,
            weight_load: 0.2,
            error_rate_worst: 0.5,
            latency_target: None,
            load_floor: 0.2,
            evidence_half: 5.0,
        }
    }
}

/// One reason of a score.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Term {
    /// What was measured: the error rate, the percentile per reference, the share in use or the load per mean.
    pub measured: f64,
    /// 0 is ill, 1 is well.
    pub score: f64,
    /// How much it counts; the weights of the three terms sum to 1.
    pub weight: f64,
}

/// How well a target is, and why.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Health {
    /// 0 is ill, 1 is well.
    pub score: f64,
    /// How far the errors and the latency are known, from 0 to 1.
    pub confidence: f64,
    /// The recent error rate.
    pub errors: Term,
    /// The 95th percentile per reference.
    pub latency: Term,
    /// The share of the limit in use, or the load per weight against the fleet's mean.
    pub load: Term,
}

impl Health {
    /// The term that takes the most from the score, with its name.
    pub fn worst(&self) -> (&'static str, Term) {
        let terms = [("errors", self.errors), ("latency", self.latency), ("load", self.load)];
        let loss = |term: &Term| -term.weight * term.score.max(f64::MIN_POSITIVE).ln();
        let by_loss = |a: &(_, Term), b: &(_, Term)| loss(&a.1).total_cmp(&loss(&b.1));
        terms.into_iter().max_by(by_loss).expect("there are three terms")
    }
}

/// What the members of a fleet have in common, to compare one of them with.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Fleet {
    /// The median of the targets' 95th percentiles.
    pub p95: Option<Duration>,
    /// The mean of in flight and queued per weight.
    pub relative_load: f64,
}

impl Fleet {
    /// Of these targets.
    pub fn of(targets: &[TargetLoad]) -> Self {
        let mut p95s: Vec<Duration> =
            targets.iter().filter_map(|load| load.statistics.p95).collect();
        let middle = p95s.len().saturating_sub(1) / 2;
        let p95 = (!p95s.is_empty()).then(|| *p95s.select_nth_unstable(middle).1);
        let sum: f64 = targets.iter().map(TargetLoad::relative_load).sum();
        Self { p95, relative_load: sum / targets.len().max(1) as f64 }
    }
}

/// Scores targets.
#[derive(Clone, Debug)]
pub struct Scorer {
    settings: Settings,
}

impl Default for Scorer {
    fn default() -> Self {
        Self { settings: Settings::default() }
    }
}

impl Scorer {
    /// Refuses settings that mean nothing.
    pub fn new(settings: Settings) -> Result<Self, Error> {
        error::not_negative("weight_errors", settings.weight_errors)?;
        error::not_negative("weight_latency", settings.weight_latency)?;
        error::not_negative("weight_load", settings.weight_load)?;
        let weights = settings.weight_errors + settings.weight_latency + settings.weight_load;
        error::positive("weight_errors + weight_latency + weight_load", weights)?;
        error::share("error_rate_worst", settings.error_rate_worst)?;
        error::share_or_none("load_floor", settings.load_floor)?;
        error::not_negative("evidence_half", settings.evidence_half)?;
        if let Some(target) = settings.latency_target {
            error::some_time("latency_target", target)?;
        }
        Ok(Self { settings })
    }

    /// Scores every target of a snapshot.
    pub fn score_all(&self, snapshot: &Snapshot) -> Vec<(TargetId, Health)> {
        let fleet = Fleet::of(&snapshot.targets);
        snapshot.targets.iter().map(|target| (target.id, self.score(target, &fleet))).collect()
    }

    /// Scores one target.
    pub fn score(&self, target: &TargetLoad, fleet: &Fleet) -> Health {
        let settings = &self.settings;
        let evidence = target.statistics.evidence;
        let half = settings.evidence_half;
        let confidence = if evidence > 0.0 { evidence / (evidence + half) } else { 0.0 };
        let weights = settings.weight_errors + settings.weight_latency + settings.weight_load;
        let term = |measured: f64, score: f64, weight: f64| Term {
            measured,
            score: score.clamp(0.0, 1.0),
            weight: weight / weights,
        };
        let error_rate = target.statistics.error_rate;
        let errors = 1.0 - confidence * (error_rate / settings.error_rate_worst).min(1.0);
        let slowness = self.slowness(target, fleet);
        let latency = 1.0 - confidence * (1.0 - 1.0 / slowness.max(1.0));
        let (used, free) = load(target, fleet);
        let errors = term(error_rate, errors, settings.weight_errors);
        let latency = term(slowness, latency, settings.weight_latency);
        let load = term(used, free.max(settings.load_floor), settings.weight_load);
        let score =
            [errors, latency, load].iter().map(|term| term.score.powf(term.weight)).product();
        Health { score, confidence, errors, latency, load }
    }

    /// The 95th percentile per reference; 1 if either is not known.
    fn slowness(&self, target: &TargetLoad, fleet: &Fleet) -> f64 {
        match (target.statistics.p95, self.settings.latency_target.or(fleet.p95)) {
            (Some(p95), Some(reference)) if !reference.is_zero() => {
                p95.as_secs_f64() / reference.as_secs_f64()
            }
            _ => 1.0,
        }
    }
}

/// What is in use, and the score of it before the floor.
fn load(target: &TargetLoad, fleet: &Fleet) -> (f64, f64) {
    match target.limit {
        Some(limit) => {
            let used = f64::from(target.in_flight) / f64::from(limit.max(1));
            (used, 1.0 - used)
        }
        None if fleet.relative_load > 0.0 => {
            let ratio = target.relative_load() / fleet.relative_load;
            (ratio, 1.0 / ratio.max(1.0))
        }
        None => (0.0, 1.0),
    }
}
