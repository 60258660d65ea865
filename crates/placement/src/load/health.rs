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
#[derive(Clone, Debug, Default)]
pub struct Scorer {
    settings: Settings,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::Monitor;
    use crate::load::statistics::Summary;
    use crate::policy::Event;
    use crate::target::{TargetSpec, Targets};

    /// A target with nothing on it.
    fn idle(limit: Option<u32>) -> TargetLoad {
        let mut targets = Targets::new();
        let id = targets.add(TargetSpec { limit, ..TargetSpec::new("a") }).unwrap();
        let mut monitor = Monitor::default();
        monitor.observe(&Event::Joined(targets.get(id).unwrap()), Duration::ZERO);
        monitor.snapshot(Duration::ZERO).targets.remove(0)
    }

    fn with(error_rate: f64, p95_ms: u64, in_flight: u32) -> TargetLoad {
        let p95 = Some(Duration::from_millis(p95_ms));
        let statistics = Summary { error_rate, evidence: 1_000.0, p95, ..Summary::default() };
        TargetLoad { statistics, in_flight, ..idle(Some(10)) }
    }

    const FLEET: Fleet = Fleet { p95: Some(Duration::from_millis(100)), relative_load: 2.0 };

    fn score(target: &TargetLoad) -> f64 {
        Scorer::default().score(target, &FLEET).score
    }

    #[test]
    fn worse_signs_give_a_lower_score() {
        // Each row is less well than the one before.
        let rows = [
            with(0.0, 100, 0),
            with(0.0, 100, 5),
            with(0.0, 200, 5),
            with(0.05, 200, 5),
            with(0.05, 400, 8),
            with(0.2, 400, 8),
            with(0.4, 800, 10),
            with(0.5, 800, 10),
        ];
        let scores: Vec<f64> = rows.iter().map(score).collect();
        assert!((scores[0] - 1.0).abs() < 0.01, "{scores:?}");
        assert!(scores.windows(2).all(|pair| pair[1] < pair[0]), "{scores:?}");
        assert!(scores[7] < 0.1, "{scores:?}");
    }

    #[test]
    fn a_target_that_fails_every_request_is_ill_although_it_is_quick_and_idle() {
        assert!(score(&with(1.0, 1, 0)) < 0.1);
    }

    #[test]
    fn being_busy_is_not_being_ill() {
        let full = Scorer::default().score(&with(0.0, 100, 10), &FLEET);
        assert_eq!(full.load.score, 0.2);
        assert!(full.score > 0.7, "{full:?}");
        assert_eq!(full.worst().0, "load");
    }

    #[test]
    fn a_new_target_is_well_and_one_bad_start_does_not_condemn_it() {
        let new = Scorer::default().score(&idle(None), &FLEET);
        assert_eq!((new.score, new.confidence), (1.0, 0.0));
        let mut unlucky = with(1.0, 1_000, 0);
        unlucky.statistics.evidence = 1.0;
        assert!(score(&unlucky) > 0.8, "{}", score(&unlucky));
        unlucky.statistics.evidence = 50.0;
        assert!(score(&unlucky) < 0.3, "{}", score(&unlucky));
    }

    #[test]
    fn the_terms_explain_the_score() {
        let health = Scorer::default().score(&with(0.1, 250, 4), &FLEET);
        let terms = [health.errors, health.latency, health.load];
        assert_eq!(terms.map(|term| term.measured), [0.1, 2.5, 0.4]);
        let product: f64 = terms.iter().map(|term| term.score.powf(term.weight)).product();
        assert!((health.score - product).abs() < 1e-12);
        assert!((terms.iter().map(|term| term.weight).sum::<f64>() - 1.0).abs() < 1e-12);
        assert_eq!(health.worst().0, "latency");
    }

    #[test]
    fn the_fleet_is_compared_by_its_median() {
        let fleet = |p95s: &[u64]| {
            let targets: Vec<TargetLoad> = p95s.iter().map(|ms| with(0.0, *ms, 0)).collect();
            Fleet::of(&targets).p95
        };
        assert_eq!(fleet(&[]), None);
        assert_eq!(fleet(&[10, 900]), Some(Duration::from_millis(10)));
        assert_eq!(fleet(&[900, 10, 20]), Some(Duration::from_millis(20)));
        let strict =
            Settings { latency_target: Some(Duration::from_millis(50)), ..Settings::default() };
        let strict = Scorer::new(strict).unwrap().score(&with(0.0, 100, 0), &FLEET);
        assert_eq!(strict.latency.measured, 2.0);
    }

    #[test]
    fn without_a_limit_the_load_is_compared_with_the_fleet() {
        for (in_flight, score) in [(0, 1.0), (2, 1.0), (4, 0.5), (100, 0.2)] {
            let target = TargetLoad { in_flight, ..idle(None) };
            assert_eq!(Scorer::default().score(&target, &FLEET).load.score, score, "{in_flight}");
        }
    }

    #[test]
    fn nonsense_is_refused() {
        let default = Settings::default;
        let bad = [
            (Settings { weight_errors: f64::NAN, ..default() }, "weight_errors"),
            (Settings { weight_load: -1.0, ..default() }, "weight_load"),
            (
                Settings { weight_errors: 0.0, weight_latency: 0.0, weight_load: 0.0, ..default() },
                "weight_errors + ",
            ),
            (Settings { error_rate_worst: 1.5, ..default() }, "error_rate_worst"),
            (Settings { load_floor: 2.0, ..default() }, "load_floor"),
            (Settings { evidence_half: -1.0, ..default() }, "evidence_half"),
            (Settings { latency_target: Some(Duration::ZERO), ..default() }, "latency_target"),
        ];
        for (settings, field) in bad {
            let error = Scorer::new(settings).unwrap_err();
            assert!(error.to_string().contains(field), "{error}");
        }
    }
}
