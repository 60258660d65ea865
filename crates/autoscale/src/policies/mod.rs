//! The policies, one file each: how much capacity is wanted, from what was understood of the samples.
//!
//! A policy is a function without memory. It says what is needed at least and what is worth keeping; between the two
//! nothing changes. It knows nothing of minimum, maximum, budget and pace: those hold for every policy, and come after.

mod fixed;
mod hpa;
mod objective;
mod predictive;
mod queue;
mod reactive;
mod target;

use divvy_types::pools::{Pace, Policy, Pool};

use crate::forecast::Forecast;
use crate::load::{Load, share};

pub(crate) use hpa::desired as hpa_desired;

/// Every policy, in the order in which they are shown.
pub(crate) const ALL: [Policy; 7] = [
    Policy::Objective,
    Policy::Predictive,
    Policy::Queue,
    Policy::Target,
    Policy::Reactive,
    Policy::Hpa,
    Policy::Fixed,
];

/// What they are called in settings, in the same order.
pub const NAMES: [&str; 7] = {
    let mut names = [""; ALL.len()];
    let mut place = 0;
    while place < ALL.len() {
        names[place] = name(ALL[place]);
        place += 1;
    }
    names
};

/// What a policy is called in settings.
pub const fn name(policy: Policy) -> &'static str {
    match policy {
        Policy::Objective => "objective",
        Policy::Predictive => "predictive",
        Policy::Queue => "queue",
        Policy::Target => "target",
        Policy::Reactive => "reactive",
        Policy::Hpa => "hpa",
        Policy::Fixed => "fixed",
    }
}

/// What is more than needed and worth keeping against going up and down, as a share of a worker; and at most, of what is
/// needed, so that a pool without work stops.
const HYSTERESIS: f64 = 0.3;
const HYSTERESIS_SHARE: f64 = 0.5;

/// What a policy sees. Capacities are in seconds of work per second.
pub(crate) struct View<'a> {
    pub(crate) pool: &'a Pool,
    pub(crate) load: &'a Load,
    pub(crate) forecast: &'a Forecast,
    /// What was wanted so far.
    pub(crate) held: f64,
    /// The workers that take tasks and will stay.
    pub(crate) running: f64,
    /// Those that start: in how many seconds, and how much.
    pub(crate) coming: &'a [(f64, f64)],
    /// One worker of the type that the pool grows by.
    pub(crate) unit: f64,
    /// How long it takes to start.
    pub(crate) boot: f64,
    /// What it costs per second; 1 where all are free.
    pub(crate) price: f64,
}

/// What a policy wants.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Want {
    /// There are too few if there is less.
    pub(crate) least: f64,
    /// There are too many if there is more; not below `least`.
    pub(crate) keep: f64,
    /// Why.
    pub(crate) why: String,
}

/// Asks one policy.
pub(crate) fn ask(policy: Policy, view: &View<'_>) -> Want {
    let mut want = match policy {
        Policy::Objective => objective::want(view),
        Policy::Queue => queue::want(view),
        Policy::Predictive => predictive::want(view),
        Policy::Target => target::want(view),
        Policy::Reactive => reactive::want(view),
        Policy::Hpa => hpa::want(view),
        Policy::Fixed => fixed::want(view),
    };
    // Whatever waits or runs needs a worker.
    if view.load.open > 0 && want.least <= 0.0 {
        want.least = view.unit;
        want.why = "there is something to do".into();
    }
    want.least = want.least.clamp(0.0, f64::from(u32::MAX));
    want.keep = want.keep.max(want.least);
    want
}

/// How fast a pool may grow and shrink under a policy, and whether its cool-down counts from any change.
pub(crate) fn paces(policy: Policy, pool: &Pool) -> (Pace, Pace, bool) {
    match policy {
        Policy::Hpa => (Pace::default(), Pace { window_sec: 300.0, ..Pace::default() }, false),
        Policy::Reactive => {
            let pace = Pace { cool_down_sec: pool.thresholds.cool_down_sec, ..Pace::default() };
            (pace, pace, true)
        }
        Policy::Fixed => (Pace::default(), Pace::default(), false),
        _ => (pool.up, pool.down, false),
    }
}

impl View<'_> {
    /// Work that will wait when a worker that is asked for now is there, if `rate` arrives until then.
    fn backlog_after_boot(&self, rate: f64) -> f64 {
        let done: f64 = self.running * self.boot
            + self
                .coming
                .iter()
                .map(|(after, capacity)| (self.boot - after).max(0.0) * capacity)
                .sum::<f64>();
        (self.load.backlog + rate * self.boot - done).max(0.0)
    }

    /// The capacity for so much work per second that chance does not make tasks late.
    fn staffed(&self, rate: f64) -> f64 {
        self.load.staffed(rate, share(&self.pool.goal))
    }

    /// The capacity that waiting tasks with deadlines need, from when a new worker can help. What is due before that is out
    /// of reach. A task uses one slot at a time.
    fn for_deadlines(&self) -> f64 {
        let helps = |(left, work, tasks): &(f64, f64, f64)| {
            let time = left - self.boot;
            let done = self.running * self.boot.min(*left);
            (time > 0.0).then(|| ((work - done).max(0.0) / time).min(*tasks))
        };
        self.load.due.iter().filter_map(helps).fold(0.0, f64::max)
    }

    /// What is worth keeping where so much is needed.
    fn kept(&self, needed: f64) -> f64 {
        needed + (HYSTERESIS * self.unit).min(HYSTERESIS_SHARE * needed)
    }

    /// The capacity as a number of workers.
    pub(crate) fn workers(&self, capacity: f64) -> u32 {
        workers(capacity, self.unit)
    }
}

/// How many workers of `unit` have this capacity.
pub(crate) fn workers(capacity: f64, unit: f64) -> u32 {
    (capacity / unit - 1e-6).ceil().clamp(0.0, f64::from(u32::MAX)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_called_what_settings_call_them() {
        for (policy, name) in ALL.into_iter().zip(NAMES) {
            assert_eq!(serde_json::to_value(policy).unwrap(), name);
        }
    }
}
