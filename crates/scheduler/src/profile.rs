//! What a worker offers, and how well that meets the needs of a class.
//!
//! Nothing here is asked for a pick: profiles are compared with classes when either is new. Of capabilities with the
//! same name the last one that the worker gave holds.

use std::collections::BTreeMap;

use divvy_types::need::{Need, Test, capability, is_met, number};
use divvy_types::{Name, Seq, WorkerHello, WorkerTier};

use crate::classes::{Class, sorted};

/// What a worker offers. Lists are sorted, each entry once.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Profile {
    pub(crate) queues: Vec<Name>,
    pub(crate) kinds: Vec<Name>,
    /// One per name.
    pub(crate) capabilities: Vec<Name>,
}

impl Profile {
    /// Of a tier of a worker.
    pub(crate) fn of(hello: &WorkerHello<Seq>, tier: &WorkerTier) -> Self {
        let by_name: BTreeMap<&str, &Name> =
            hello.capabilities.iter().map(|text| (capability(text).0, text)).collect();
        let capabilities: Vec<Name> = by_name.into_values().cloned().collect();
        Self {
            queues: sorted(&hello.queues),
            kinds: sorted(&tier.kinds),
            capabilities: sorted(&capabilities),
        }
    }

    /// Whether it has everything that a class asks for.
    pub(crate) fn serves(&self, class: &Class) -> bool {
        self.runs(class.queue_name.as_str(), class.kind.as_str())
            && class.needs.iter().all(|need| self.has(need))
    }

    pub(crate) fn runs(&self, queue: &str, kind: &str) -> bool {
        self.has_kind(kind) && (self.queues.is_empty() || lists(&self.queues, queue))
    }

    pub(crate) fn has_kind(&self, kind: &str) -> bool {
        lists(&self.kinds, kind)
    }

    /// Whether it meets a need, such as `gpu>=2`.
    pub(crate) fn has(&self, need: &Name) -> bool {
        is_met(need, &self.capabilities)
    }

    /// How many of these needs it meets.
    pub(crate) fn met(&self, needs: &[Name]) -> usize {
        needs.iter().filter(|need| self.has(need)).count()
    }

    /// How far it is from the numbers that these needs ask for, in thousandths of them, all together.
    pub(crate) fn shortfall(&self, needs: &[Name]) -> u64 {
        let short = needs.iter().filter_map(|need| match Need::parse(need).ok()? {
            Need { name, test: Test::AtLeast(least) } if least > 0.0 => {
                let has = number(&self.capabilities, name).unwrap_or(0.0);
                Some(((least - has) / least).clamp(0.0, 1.0))
            }
            _ => None,
        });
        short.map(|share| (share * 1_000.0) as u64).sum()
    }

    /// The mean of needed over offered amounts: 1 if it offers just what is needed, less if it could do more, so that
    /// rare abilities stay free for those who need them. A need that it does not meet counts 0. Without needs it is 1.
    pub(crate) fn skill_match(&self, needs: &[Name]) -> f64 {
        if needs.is_empty() {
            return 1.0;
        }
        needs.iter().map(|need| self.share_used(need)).sum::<f64>() / needs.len() as f64
    }

    fn share_used(&self, need: &Name) -> f64 {
        if !self.has(need) {
            return 0.0;
        }
        let Ok(need) = Need::parse(need) else { return 0.0 };
        let offered = number(&self.capabilities, need.name).unwrap_or_default();
        match need.test {
            // Presence asks for one of however many there are.
            Test::Present if offered > 1.0 => 1.0 / offered,
            Test::AtLeast(least) if offered > 0.0 => (least / offered).clamp(0.0, 1.0),
            _ => 1.0,
        }
    }

    /// What a task costs here, and what energy it takes, both over the worker's speed.
    pub(crate) fn rates(&self) -> Rates {
        let get = |name| number(&self.capabilities, name);
        let speed = get("speed").filter(|speed| *speed > 0.0).unwrap_or(1.0);
        let watts = get("watts_busy").unwrap_or_default() - get("watts_idle").unwrap_or_default();
        Rates {
            price: (get("price_hour").unwrap_or_default() / speed).max(0.0),
            energy: (watts / speed).max(0.0),
        }
    }
}

/// What work costs on a worker, beyond what the worker costs when it does nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Rates {
    /// `price_hour / speed`
    pub(crate) price: f64,
    /// `(watts_busy − watts_idle) / speed`
    pub(crate) energy: f64,
}

/// Whether a sorted list has this name.
fn lists(names: &[Name], name: &str) -> bool {
    names.binary_search_by(|other| other.as_str().cmp(name)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(capabilities: &[&str]) -> Profile {
        let tier = WorkerTier { kinds: vec!["k".into()], credit: 1, slots: 1 };
        let hello = WorkerHello {
            capabilities: capabilities.iter().map(|text| Name::from(*text)).collect(),
            ..WorkerHello::default()
        };
        Profile::of(&hello, &tier)
    }

    #[test]
    fn the_last_capability_of_a_name_holds() {
        let worker = profile(&["gpu=4", "ffmpeg", "gpu=1"]);
        assert_eq!(worker.capabilities, ["ffmpeg", "gpu=1"]);
        assert!(worker.has(&"gpu>=1".into()) && !worker.has(&"gpu>=2".into()));
    }

    #[test]
    fn the_skill_match_is_the_mean_of_needed_over_offered() {
        let worker = profile(&["gpu=4", "ram=8", "ffmpeg", "region=eu"]);
        for (needs, expected) in [
            (&[][..], 1.0),
            (&["gpu>=4"], 1.0),
            (&["gpu>=1"], 0.25),
            (&["gpu"], 0.25),
            (&["ffmpeg"], 1.0),
            (&["region=eu"], 1.0),
            (&["gpu>=1", "ram>=6"], 0.5),
            (&["gpu>=1", "nvenc"], 0.125),
        ] {
            let needs: Vec<Name> = needs.iter().map(|need| Name::from(*need)).collect();
            assert!((worker.skill_match(&needs) - expected).abs() < 1e-9, "{needs:?}");
        }
    }

    #[test]
    fn rates_are_per_speed_and_never_below_nothing() {
        let worker = profile(&["price_hour=3", "speed=2", "watts_busy=300", "watts_idle=100"]);
        assert_eq!(worker.rates(), Rates { price: 1.5, energy: 100.0 });
        assert_eq!(profile(&["speed=0", "watts_idle=9", "price_hour=x"]).rates(), Rates::default());
    }
}
