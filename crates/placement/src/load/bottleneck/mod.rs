//! Decides where work piles up: among the stages of a chain, or among targets that do the same beside each other.
//!
//! Knows only the samples that it is given, per stage and in order; whoever gives them chooses how often. It does
//! nothing about what it finds: a [`Finding`] names the stage, the reasons and what to try.
//!
//! Signs, each from the older against the newer half of the last `samples` samples:
//! - **saturated**: the utilisation of the newer half is at least `utilisation_high`;
//! - **queue growing**: the queue has grown by at least `queue_growth_min` requests and by a fifth, and rises with
//!   time clearly (correlation of at least 0.7), so that a queue that swings is not one that grows;
//! - **latency rising**: the latency rose by `latency_growth` while the throughput stayed flat: more work at once
//!   does not bring more out.
//!
//! In a chain, a full stage makes the stages before it wait and starves those behind it. So the last stage with signs
//! is the cause, and the ones before it are told to wait for it (Goldratt's constraint, "The Goal", 1984: mend the
//! narrowest place first, every other gain is lost there). Cold: a stage with fewer than `samples` samples has no
//! findings.

mod finding;
mod trend;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

pub use finding::{Finding, Mitigation, Reason};
use trend::Trend;

use super::error::{self, Error};
use super::monitor::{Snapshot, TargetLoad};

/// The most stages or targets that a detector watches.
pub const STAGES_MAX: usize = 65_536;
/// The most samples that are kept of each.
pub const SAMPLES_MAX: usize = 256;

/// The least correlation of a queue with time for it to be growing.
const TREND_MIN: f64 = 0.7;
/// The least growth of a queue, relative to what it was.
const QUEUE_RATIO_MIN: f64 = 1.2;
/// A throughput that grew by less than this is flat.
const FLAT_RATIO_MAX: f64 = 1.05;

/// What can be set.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// How many samples of a stage are looked at; 4 to [`SAMPLES_MAX`].
    pub samples: usize,
    /// From this utilisation on, a stage is saturated.
    pub utilisation_high: f64,
    /// By at least this many requests must a queue grow.
    pub queue_growth_min: f64,
    /// By at least this factor must the latency rise.
    pub latency_growth: f64,
    /// From this factor of arrivals over completions on, shedding is proposed instead of adding.
    pub shed_ratio: f64,
    /// If the others beside a hot target are used less than this on average, moving is proposed.
    pub spare_below: f64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            samples: 8,
            utilisation_high: 0.9,
            queue_growth_min: 5.0,
            latency_growth: 1.3,
            shed_ratio: 1.5,
            spare_below: 0.7,
        }
    }
}

/// One look at a stage.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    /// The share of the stage in use, from 0 to 1.
    pub utilisation: f64,
    /// What waits before or in it.
    pub queued: f64,
    /// Arrivals per second.
    pub rate_in: f64,
    /// Completions per second.
    pub rate_out: f64,
    /// From arrival to completion, in seconds; 0 if not known.
    pub latency_seconds: f64,
}

impl From<&TargetLoad> for Sample {
    /// What is in flight counts as waiting too: beyond its places, a target without a limit only queues.
    fn from(load: &TargetLoad) -> Self {
        Self {
            utilisation: load.utilisation,
            queued: load.queued_mean + load.in_flight_mean,
            rate_in: load.rate_in,
            rate_out: load.rate_out,
            latency_seconds: load.statistics.mean.unwrap_or(Duration::ZERO).as_secs_f64(),
        }
    }
}

#[derive(Clone, Debug)]
struct Stage {
    /// Its place in a chain.
    position: usize,
    samples: VecDeque<Sample>,
}

/// Looks for bottlenecks.
#[derive(Clone, Debug)]
pub struct Detector {
    settings: Settings,
    is_chain: bool,
    stages: BTreeMap<String, Stage>,
}

impl Detector {
    /// For stages that work passes one after the other, in this order.
    pub fn chain<S: Into<String>>(
        stages: impl IntoIterator<Item = S>,
        settings: Settings,
    ) -> Result<Self, Error> {
        let mut detector = Self::of(settings, true)?;
        for stage in stages {
            let name = stage.into();
            if detector.stages.contains_key(&name) {
                return Err(Error::StageTwice(name));
            }
            detector.add(name)?;
        }
        Ok(detector)
    }

    /// For targets that do the same beside each other. They become known by their first sample.
    pub fn parallel(settings: Settings) -> Result<Self, Error> {
        Self::of(settings, false)
    }

    /// Takes in a sample of a stage.
    pub fn observe(&mut self, stage: &str, sample: Sample) -> Result<(), Error> {
        check(&sample)?;
        if !self.stages.contains_key(stage) {
            if self.is_chain {
                return Err(Error::UnknownStage(stage.to_owned()));
            }
            self.add(stage.to_owned())?;
        }
        if let Some(known) = self.stages.get_mut(stage) {
            if known.samples.len() == self.settings.samples {
                known.samples.pop_front();
            }
            known.samples.push_back(sample);
        }
        Ok(())
    }

    /// Takes in one sample of each target of a snapshot, and forgets targets that are not in it.
    pub fn observe_snapshot(&mut self, snapshot: &Snapshot) -> Result<(), Error> {
        if !self.is_chain {
            let names: BTreeSet<&str> =
                snapshot.targets.iter().map(|target| target.name.as_str()).collect();
            self.stages.retain(|name, _| names.contains(name.as_str()));
        }
        snapshot.targets.iter().try_for_each(|target| self.observe(&target.name, target.into()))
    }

    /// Forgets a stage's samples; in a chain the stage itself stays.
    pub fn forget(&mut self, stage: &str) {
        if !self.is_chain {
            self.stages.remove(stage);
        } else if let Some(known) = self.stages.get_mut(stage) {
            known.samples.clear();
        }
    }

    /// The bottlenecks: in a chain the cause first and then the stages that wait for it, from the cause backwards;
    /// else the most severe first.
    pub fn findings(&self) -> Vec<Finding> {
        let mut found: Vec<(usize, Finding)> = self
            .stages
            .iter()
            .filter_map(|(name, stage)| Some((stage.position, self.examine(name, stage)?)))
            .collect();
        if !self.is_chain {
            found.sort_by(|(_, a), (_, b)| b.severity.total_cmp(&a.severity));
            return found.into_iter().map(|(_, finding)| finding).collect();
        }
        found.sort_by_key(|(position, _)| std::cmp::Reverse(*position));
        let mut findings: Vec<Finding> = found.into_iter().map(|(_, finding)| finding).collect();
        if let Some((cause, waiting)) = findings.split_first_mut() {
            waiting
                .iter_mut()
                .for_each(|f| f.mitigation = Mitigation::MendFirst(cause.stage.clone()));
        }
        findings
    }

    fn of(settings: Settings, is_chain: bool) -> Result<Self, Error> {
        error::count("samples", settings.samples, 4..=SAMPLES_MAX, "4 to 256")?;
        error::share("utilisation_high", settings.utilisation_high)?;
        error::positive("queue_growth_min", settings.queue_growth_min)?;
        error::above_one("latency_growth", settings.latency_growth)?;
        error::above_one("shed_ratio", settings.shed_ratio)?;
        error::share("spare_below", settings.spare_below)?;
        Ok(Self { settings, is_chain, stages: BTreeMap::new() })
    }

    fn add(&mut self, name: String) -> Result<(), Error> {
        let position = self.stages.len();
        if position >= STAGES_MAX {
            return Err(Error::TooMany { what: "stages", count: position + 1, max: STAGES_MAX });
        }
        let samples = VecDeque::with_capacity(self.settings.samples);
        self.stages.insert(name, Stage { position, samples });
        Ok(())
    }

    fn examine(&self, name: &str, stage: &Stage) -> Option<Finding> {
        let trend = Trend::of(&stage.samples, self.settings.samples)?;
        let reasons = self.reasons(&trend);
        if reasons.is_empty() {
            return None;
        }
        let well = reasons.iter().map(|reason| 1.0 - self.strength(reason)).product::<f64>();
        let mitigation = self.mitigation(name, &trend, &reasons);
        Some(Finding { stage: name.to_owned(), severity: 1.0 - well, reasons, mitigation })
    }

    fn reasons(&self, trend: &Trend) -> Vec<Reason> {
        let (older, newer) = (&trend.older, &trend.newer);
        let settings = &self.settings;
        let mut reasons = Vec::new();
        if newer.utilisation >= settings.utilisation_high {
            reasons.push(Reason::Saturated { utilisation: newer.utilisation });
        }
        let grew = newer.queued - older.queued >= settings.queue_growth_min
            && newer.queued >= older.queued * QUEUE_RATIO_MIN;
        if grew && trend.queue_correlation >= TREND_MIN {
            reasons.push(Reason::QueueGrowing { from: older.queued, to: newer.queued });
        }
        let (from_seconds, to_seconds) = (older.latency_seconds, newer.latency_seconds);
        let is_flat = newer.rate_out <= older.rate_out * FLAT_RATIO_MAX;
        let rose = from_seconds > 0.0 && to_seconds >= from_seconds * settings.latency_growth;
        if rose && is_flat && older.rate_out > 0.0 {
            reasons.push(Reason::LatencyRising { from_seconds, to_seconds });
        }
        reasons
    }

    /// How much a reason weighs, from 0 to 0.9, so that several reasons weigh more than any one.
    fn strength(&self, reason: &Reason) -> f64 {
        let strength = match reason {
            Reason::Saturated { utilisation } => {
                let high = self.settings.utilisation_high;
                0.5 + 0.4 * (utilisation - high) / (1.0 - high).max(f64::EPSILON)
            }
            Reason::QueueGrowing { from, to } => 1.0 - from / to,
            Reason::LatencyRising { from_seconds, to_seconds } => 1.0 - from_seconds / to_seconds,
        };
        strength.clamp(0.0, 0.9)
    }

    fn mitigation(&self, name: &str, trend: &Trend, reasons: &[Reason]) -> Mitigation {
        let has = |wanted: fn(&Reason) -> bool| reasons.iter().any(wanted);
        if !self.is_chain && self.others_have_room(name) {
            return Mitigation::Move;
        }
        let is_growing = has(|reason| matches!(reason, Reason::QueueGrowing { .. }));
        if is_growing && trend.newer.rate_in >= trend.newer.rate_out * self.settings.shed_ratio {
            return Mitigation::Shed;
        }
        let is_slower = has(|reason| matches!(reason, Reason::LatencyRising { .. }));
        if is_slower && !is_growing { Mitigation::SlowDown } else { Mitigation::Add }
    }

    fn others_have_room(&self, name: &str) -> bool {
        let others = self.stages.iter().filter(|(other, _)| *other != name);
        let latest = others.filter_map(|(_, stage)| stage.samples.back());
        let (count, sum) =
            latest.fold((0, 0.0), |(count, sum), sample| (count + 1, sum + sample.utilisation));
        count > 0 && sum / f64::from(count) < self.settings.spare_below
    }
}

fn check(sample: &Sample) -> Result<(), Error> {
    error::not_negative("utilisation", sample.utilisation)?;
    error::not_negative("queued", sample.queued)?;
    error::not_negative("rate_in", sample.rate_in)?;
    error::not_negative("rate_out", sample.rate_out)?;
    error::not_negative("latency_seconds", sample.latency_seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calm() -> Sample {
        Sample {
            utilisation: 0.6,
            queued: 2.0,
            rate_in: 100.0,
            rate_out: 100.0,
            latency_seconds: 0.01,
        }
    }

    /// Gives as many samples as are looked at; `change` shapes each by its place from 0 to 1.
    fn feed(detector: &mut Detector, stage: &str, change: impl Fn(f64, &mut Sample)) {
        for step in 0..8 {
            let mut sample = calm();
            change(f64::from(step) / 7.0, &mut sample);
            detector.observe(stage, sample).unwrap();
        }
    }

    fn parallel() -> Detector {
        Detector::parallel(Settings::default()).unwrap()
    }

    #[test]
    fn each_sign_is_found_alone_with_its_mitigation() {
        type Change = fn(f64, &mut Sample);
        let cases: [(Change, Mitigation); 5] = [
            (|_, s| s.utilisation = 0.97, Mitigation::Add),
            (|at, s| s.queued += 50.0 * at, Mitigation::Add),
            (
                |at, s| {
                    s.queued += 50.0 * at;
                    s.rate_in = 200.0;
                },
                Mitigation::Shed,
            ),
            (|at, s| s.latency_seconds *= 1.0 + at, Mitigation::SlowDown),
            (
                |at, s| {
                    s.utilisation = 1.0;
                    s.latency_seconds *= 1.0 + at;
                },
                Mitigation::SlowDown,
            ),
        ];
        for (change, mitigation) in cases {
            let mut detector = parallel();
            feed(&mut detector, "a", change);
            let findings = detector.findings();
            assert_eq!(findings.len(), 1);
            assert_eq!(findings[0].mitigation, mitigation, "{}", findings[0]);
        }
    }

    #[test]
    fn what_only_looks_like_a_bottleneck_is_none() {
        type Change = fn(f64, &mut Sample);
        let cases: [(&str, Change); 4] = [
            ("a queue that swings", |at, s| {
                s.queued = if at * 7.0 % 2.0 < 0.5 { 5.0 } else { 60.0 }
            }),
            ("a queue that grows by a hair", |at, s| s.queued = 100.0 + 8.0 * at),
            ("a latency that rises with the throughput", |at, s| {
                s.latency_seconds *= 1.0 + at;
                s.rate_out *= 1.0 + at;
            }),
            ("a queue that shrinks", |at, s| s.queued = 90.0 - 80.0 * at),
        ];
        for (what, change) in cases {
            let mut detector = parallel();
            feed(&mut detector, "a", change);
            assert_eq!(detector.findings(), [], "{what}");
        }
    }

    #[test]
    fn a_hot_target_beside_idle_ones_should_give_work_away() {
        let mut detector = parallel();
        for name in ["a", "b", "c"] {
            let hot = name == "b";
            feed(&mut detector, name, |_, s| s.utilisation = if hot { 0.99 } else { 0.3 });
        }
        let findings = detector.findings();
        assert_eq!(findings.len(), 1);
        assert_eq!((findings[0].stage.as_str(), &findings[0].mitigation), ("b", &Mitigation::Move));
        detector.forget("b");
        assert_eq!(detector.findings(), []);
    }

    #[test]
    fn the_worst_comes_first_and_says_why() {
        let mut detector = parallel();
        feed(&mut detector, "a", |_, s| s.utilisation = 0.92);
        feed(&mut detector, "b", |at, s| {
            s.utilisation = 1.0;
            s.queued += 98.0 * at;
        });
        let findings = detector.findings();
        assert_eq!(findings.iter().map(|f| f.stage.as_str()).collect::<Vec<_>>(), ["b", "a"]);
        let text = findings[0].to_string();
        assert_eq!(text, "`b`: 100 % in use, queue grew from 23.0 to 79.0; add places or targets");
    }

    #[test]
    fn few_samples_find_nothing_and_old_ones_are_forgotten() {
        let mut detector = parallel();
        let hot = Sample { utilisation: 1.0, ..calm() };
        for _ in 0..7 {
            detector.observe("a", hot).unwrap();
            assert_eq!(detector.findings(), []);
        }
        detector.observe("a", hot).unwrap();
        assert_eq!(detector.findings().len(), 1);
        feed(&mut detector, "a", |_, _| {});
        assert_eq!(detector.findings(), []);
    }

    #[test]
    fn nonsense_is_refused() {
        let default = Settings::default;
        let bad = [
            Settings { samples: 3, ..default() },
            Settings { samples: SAMPLES_MAX + 1, ..default() },
            Settings { utilisation_high: 1.2, ..default() },
            Settings { queue_growth_min: 0.0, ..default() },
            Settings { latency_growth: 1.0, ..default() },
            Settings { shed_ratio: f64::NAN, ..default() },
            Settings { spare_below: 0.0, ..default() },
        ];
        for settings in bad {
            assert!(Detector::parallel(settings.clone()).is_err(), "{settings:?}");
        }
        let mut chain = Detector::chain(["a", "b"], default()).unwrap();
        assert_eq!(chain.observe("c", calm()), Err(Error::UnknownStage("c".into())));
        let bad = Sample { queued: f64::NAN, ..calm() };
        assert!(chain.observe("a", bad).unwrap_err().to_string().contains("`queued`"));
        let twice = Detector::chain(["a", "a"], default()).unwrap_err();
        assert_eq!(twice, Error::StageTwice("a".into()));
    }
}
