//! Decides what a simulation is made of, and refuses what makes no sense.

use std::time::Duration;

use crate::experiment::Error;

/// The most of anything in one simulation: targets, balancers.
pub const PARTIES_MAX: usize = 10_000;
/// The most requests in one simulation.
pub const REQUESTS_MAX: u64 = 100_000_000;

/// What a simulation is made of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setup {
    /// Targets, each with a queue of its own.
    pub targets: usize,
    /// Balancers, each with a view of its own; a request comes to any of them.
    pub balancers: usize,
    /// The share of what all targets can do (before any upset) that is asked of them.
    pub load: f64,
    /// The mean time that a request needs on a target of full speed.
    pub service: Duration,
    /// Requests in all.
    pub requests: u64,
    /// The share of requests at the start that are not counted, because queues are still empty.
    pub warm_up: f64,
    /// How fast the targets are.
    pub fleet: Fleet,
    /// What happens when half of the requests have come.
    pub upset: Upset,
    /// What targets tell balancers of their queues.
    pub reports: Reports,
    /// Whether balancers know the speeds of targets, as weights.
    pub weights_known: bool,
    /// The most requests that a balancer may have in flight at one target.
    pub limit: Option<u32>,
    /// Different keys that requests are about.
    pub keys: u64,
    /// Parts of the run for which times are kept apart.
    pub slices: usize,
    /// Where all chance comes from.
    pub seed: u64,
}

/// How fast the targets are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fleet {
    /// All at full speed.
    Equal,
    /// Every second one needs this many times as long.
    HalfSlower {
        /// How many times as long.
        factor: f64,
    },
}

/// What happens to the first target when half of the requests have come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Upset {
    /// Nothing.
    None,
    /// It needs this many times as long from then on.
    Slow {
        /// How many times as long.
        factor: f64,
    },
    /// It answers every request with an error from then on, after this share of the usual time.
    Fails {
        /// The share of the usual time.
        share: f64,
    },
}

/// What targets tell balancers of their queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reports {
    /// Nothing: a balancer knows only its own requests.
    None,
    /// Their true length at every choice, which no network can give: the best that reports could do.
    Exact,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            targets: 50,
            balancers: 1,
            load: 0.85,
            service: Duration::from_millis(10),
            requests: 300_000,
            warm_up: 0.1,
            fleet: Fleet::Equal,
            upset: Upset::None,
            reports: Reports::None,
            weights_known: false,
            limit: None,
            keys: 100_000,
            slices: 40,
            seed: 1,
        }
    }
}

impl Setup {
    /// Refuses what makes no sense.
    pub fn check(&self) -> Result<(), Error> {
        count("targets", self.targets)?;
        count("balancers", self.balancers)?;
        count("slices", self.slices)?;
        let wrong = |field, given: String, cure| Err(Error::BadSetting { field, given, cure });
        if !(self.load > 0.0 && self.load < 1.0) {
            return wrong("load", self.load.to_string(), "it must be above 0 and below 1");
        }
        if !(0.0..1.0).contains(&self.warm_up) {
            return wrong("warm_up", self.warm_up.to_string(), "it must be at least 0 and below 1");
        }
        if self.service < Duration::from_micros(1) || self.service > Duration::from_secs(3_600) {
            return wrong(
                "service",
                format!("{:?}", self.service),
                "it must be from 1 µs to 1 hour",
            );
        }
        if self.requests == 0 || self.requests > REQUESTS_MAX {
            return wrong(
                "requests",
                self.requests.to_string(),
                "it must be from 1 to 100 million",
            );
        }
        if self.keys == 0 {
            return wrong("keys", "0".into(), "there must be one at least");
        }
        if self.limit == Some(0) {
            return wrong("limit", "0".into(), "it must be 1 at least, or absent");
        }
        if let Fleet::HalfSlower { factor } = self.fleet {
            factor_of("fleet.factor", factor, 1.0)?;
        }
        match self.upset {
            Upset::None => Ok(()),
            Upset::Slow { factor } => factor_of("upset.factor", factor, 1.0),
            Upset::Fails { share } => factor_of("upset.share", share, 0.0),
        }
    }

    /// How many times as long a target needs as one of full speed, before any upset.
    pub fn slowness(&self, target: usize) -> f64 {
        match self.fleet {
            Fleet::HalfSlower { factor } if target % 2 == 1 => factor,
            Fleet::Equal | Fleet::HalfSlower { .. } => 1.0,
        }
    }

    /// The mean time between two arrivals, in nanoseconds.
    pub(super) fn gap_ns(&self) -> f64 {
        let speeds: f64 = (0..self.targets).map(|target| 1.0 / self.slowness(target)).sum();
        self.service.as_nanos() as f64 / (speeds * self.load)
    }
}

fn count(field: &'static str, given: usize) -> Result<(), Error> {
    if (1..=PARTIES_MAX).contains(&given) {
        return Ok(());
    }
    Err(Error::BadSetting { field, given: given.to_string(), cure: "it must be from 1 to 10,000" })
}

fn factor_of(field: &'static str, given: f64, least: f64) -> Result<(), Error> {
    if given.is_finite() && given >= least && given <= 1_000.0 {
        return Ok(());
    }
    let cure =
        if least > 0.0 { "it must be from 1 to 1,000" } else { "it must be from 0 to 1,000" };
    Err(Error::BadSetting { field, given: given.to_string(), cure })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonsense_is_refused_by_the_name_of_its_field() {
        let good = Setup::default();
        assert!(good.check().is_ok());
        let cases = [
            ("targets", Setup { targets: 0, ..good }),
            ("balancers", Setup { balancers: 20_000, ..good }),
            ("load", Setup { load: 1.0, ..good }),
            ("load", Setup { load: f64::NAN, ..good }),
            ("warm_up", Setup { warm_up: 1.0, ..good }),
            ("service", Setup { service: Duration::ZERO, ..good }),
            ("requests", Setup { requests: 0, ..good }),
            ("keys", Setup { keys: 0, ..good }),
            ("limit", Setup { limit: Some(0), ..good }),
            ("slices", Setup { slices: 0, ..good }),
            ("fleet.factor", Setup { fleet: Fleet::HalfSlower { factor: 0.5 }, ..good }),
            ("upset.factor", Setup { upset: Upset::Slow { factor: f64::INFINITY }, ..good }),
            ("upset.share", Setup { upset: Upset::Fails { share: -1.0 }, ..good }),
        ];
        for (field, setup) in cases {
            let text = setup.check().unwrap_err().to_string();
            assert!(text.starts_with(field) && text.contains("must be"), "{field}: {text}");
        }
    }
}
