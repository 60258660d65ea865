//! Decides how policies are named and made from their names.
//!
//! Knows no policy's rules: each file of this folder does. A new policy is one file, one variant with its lines
//! here, and one row in the guide.

use std::fmt;
use std::str::FromStr;

use super::{
    AdaptiveP2c, Affinity, BestFit, Error, Hash, Hierarchical, JoinIdle, LeastConnections,
    LeastResponseTime, LoadAware, PeakEwma, Random, RoundRobin, Weighted, WeightedRandom,
};
use super::{
    adaptive_p2c, affinity, best_fit, hierarchical, join_idle, least_response_time, load_aware,
    peak_ewma,
};
use crate::hashing::{RingPolicy, policy as ring};
use crate::policy::Policy;

/// Names a policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// [`RoundRobin`].
    RoundRobin,
    /// [`Random`].
    Random,
    /// [`WeightedRandom`].
    WeightedRandom,
    /// [`Hash`](struct@super::Hash).
    Hash,
    /// [`RingPolicy`].
    Ring,
    /// [`Weighted`].
    Weighted,
    /// [`LeastConnections`].
    #[default]
    LeastConnections,
    /// [`LeastResponseTime`].
    LeastResponseTime,
    /// [`LoadAware`].
    LoadAware,
    /// [`AdaptiveP2c`].
    AdaptiveP2c,
    /// [`PeakEwma`].
    PeakEwma,
    /// [`JoinIdle`].
    JoinIdle,
    /// [`Hierarchical`].
    Hierarchical,
    /// [`Affinity`].
    Affinity,
    /// [`BestFit`].
    BestFit,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 15] = [
        Self::RoundRobin,
        Self::Random,
        Self::WeightedRandom,
        Self::Hash,
        Self::Ring,
        Self::Weighted,
        Self::LeastConnections,
        Self::LeastResponseTime,
        Self::LoadAware,
        Self::AdaptiveP2c,
        Self::PeakEwma,
        Self::JoinIdle,
        Self::Hierarchical,
        Self::Affinity,
        Self::BestFit,
    ];

    /// The best choice for targets whose speeds are not known, in front of which there are so many balancers: with one,
    /// counting what is in flight is all that is needed; with more, each sees only its own share of it and must learn
    /// the rest from latencies.
    pub fn for_balancers(count: usize) -> Self {
        if count <= 1 { Self::LeastConnections } else { Self::LoadAware }
    }

    /// The name by which it is set and shown.
    pub fn name(self) -> &'static str {
        match self {
            Self::RoundRobin => "round-robin",
            Self::Random => "random",
            Self::WeightedRandom => "weighted-random",
            Self::Hash => "hash",
            Self::Ring => "ring",
            Self::Weighted => "weighted",
            Self::LeastConnections => "least-connections",
            Self::LeastResponseTime => "least-response-time",
            Self::LoadAware => "load-aware",
            Self::AdaptiveP2c => "adaptive-p2c",
            Self::PeakEwma => "peak-ewma",
            Self::JoinIdle => "join-idle",
            Self::Hierarchical => "hierarchical",
            Self::Affinity => "affinity",
            Self::BestFit => "best-fit",
        }
    }

    /// What it does, in one line.
    pub fn description(self) -> &'static str {
        match self {
            Self::RoundRobin => "each target in turn",
            Self::Random => "any target, each equally likely",
            Self::WeightedRandom => "any target, in proportion to weight on average",
            Self::Hash => "the target that the hash of the key names",
            Self::Ring => "the owner of the key on a consistent-hash ring",
            Self::Weighted => "each target in turn, exactly in proportion to weight",
            Self::LeastConnections => "the fewest requests in flight for the weight",
            Self::LeastResponseTime => "the lowest average latency times load",
            Self::LoadAware => "the least work over the measured capacity",
            Self::AdaptiveP2c => "the better of two by load, latency and failures",
            Self::PeakEwma => "the better of two by load and peak latency that fades",
            Self::JoinIdle => "a target that is idle, longest first",
            Self::Hierarchical => "the least loaded branch of a tree, level by level",
            Self::Affinity => "the target that had the key before",
            Self::BestFit => "the best match of needs, queue, history and cost",
        }
    }

    /// The policy with its default settings. All chance in it comes from the seed.
    pub fn build(self, seed: u64) -> Box<dyn Policy + Send> {
        match self {
            Self::RoundRobin => Box::new(RoundRobin::starting_at(seed)),
            Self::Random => Box::new(Random::new(seed)),
            Self::WeightedRandom => Box::new(WeightedRandom::new(seed)),
            Self::Hash => Box::new(Hash::starting_at(seed)),
            Self::Ring => {
                let made = RingPolicy::new(ring::Settings { seed, ..ring::Settings::default() });
                Box::new(made.expect("default settings are in their own bounds"))
            }
            Self::Weighted => Box::new(Weighted::new()),
            Self::LeastConnections => Box::new(LeastConnections::new(seed)),
            Self::LeastResponseTime => {
                sound(LeastResponseTime::new(least_response_time::Settings::default(), seed))
            }
            Self::LoadAware => sound(LoadAware::new(load_aware::Settings::default(), seed)),
            Self::AdaptiveP2c => sound(AdaptiveP2c::new(adaptive_p2c::Settings::default(), seed)),
            Self::PeakEwma => sound(PeakEwma::new(peak_ewma::Settings::default(), seed)),
            Self::JoinIdle => Box::new(JoinIdle::new(join_idle::Settings::default(), seed)),
            Self::Hierarchical => sound(Hierarchical::new(hierarchical::Settings::default(), seed)),
            Self::Affinity => sound(Affinity::new(affinity::Settings::default(), seed)),
            Self::BestFit => sound(BestFit::new(best_fit::Settings::default(), seed)),
        }
    }
}

fn sound<P: Policy + Send + 'static>(made: Result<P, Error>) -> Box<dyn Policy + Send> {
    Box::new(made.expect("default settings are in their own bounds"))
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Kind {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        let found = Self::ALL.into_iter().find(|kind| kind.name() == name);
        found.ok_or_else(|| Error::UnknownName(name.into()))
    }
}

/// The names of all policies, for a message.
pub(super) fn names() -> String {
    Kind::ALL.map(Kind::name).join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_is_found_by_the_name_it_calls_itself() {
        for kind in Kind::ALL {
            assert_eq!(kind.build(1).name(), kind.name());
            assert_eq!(kind.to_string().parse(), Ok(kind));
            assert!(!kind.description().is_empty());
        }
    }

    #[test]
    fn the_guide_has_a_row_for_every_policy_with_its_description() {
        let guide = include_str!("../../../../docs/guides/placement.md");
        for kind in Kind::ALL {
            let row = format!("| `{kind}` | {} |", kind.description());
            assert!(guide.contains(&row), "the guide lacks: {row}");
        }
    }

    #[test]
    fn the_default_is_the_best_choice_of_a_single_balancer() {
        assert_eq!(Kind::default(), Kind::for_balancers(1));
        assert_ne!(Kind::for_balancers(1), Kind::for_balancers(20));
    }

    #[test]
    fn an_unknown_name_is_answered_with_all_names() {
        let error = "fastest".parse::<Kind>().unwrap_err().to_string();
        assert!(error.contains("`fastest`"), "{error}");
        assert!(Kind::ALL.iter().all(|kind| error.contains(kind.name())), "{error}");
    }
}
