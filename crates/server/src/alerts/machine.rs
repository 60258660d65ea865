//! When a rule fires and when it is over. Pure: what was measured and the time are arguments.
//!
//! ```text
//!            broken                    broken for `for_ms`                 well for `calm_ms`
//!   calm ───────────────► pending ────────────────────────────► firing ───────────────────────► calm
//!     ▲                      │ not broken                          │  ▲
//!     └──────────────────────┘                                     └──┘ broken again, or between the two bounds
//! ```
//!
//! **Two bounds.** A rule is *broken* at `fires_at` and beyond, and *well* at `resolves_at` and beyond on the other side.
//! Between the two nothing changes, so that a value which trembles around one bound does not ring a bell each time.
//!
//! **Telling.** Others are told that an alert fires when it does, or when its silence ends and it still fires. They are
//! told that it is over only if they were told that it fires, and then also during a silence: whoever has an open case
//! may close it.
//!
//! **Over a restart** lasts whether a rule fires and whether others were told. For how long it has been broken or well
//! does not: nobody looked meanwhile, so that is waited for anew.

use divvy_types::Timestamp;
use divvy_types::alerts::AlertState;
use serde::{Deserialize, Serialize};

/// When a rule is broken, and for how long that must last.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Bounds {
    /// Whether it is looked at.
    pub(super) enabled: bool,
    /// Whether small values are bad.
    pub(super) low: bool,
    /// The value at which it is broken.
    pub(super) fires_at: f64,
    /// The value at which it is well again.
    pub(super) resolves_at: f64,
    /// For how long it must be broken.
    pub(super) for_ms: u64,
    /// For how long it must be well.
    pub(super) calm_ms: u64,
}

impl Bounds {
    pub(super) fn is_broken(&self, value: f64) -> bool {
        self.enabled && if self.low { value <= self.fires_at } else { value >= self.fires_at }
    }

    fn is_well(&self, value: f64) -> bool {
        !self.enabled
            || if self.low { value >= self.resolves_at } else { value <= self.resolves_at }
    }

    fn calm_ms(&self) -> u64 {
        // A rule that was switched off has nothing to wait for.
        if self.enabled { self.calm_ms } else { 0 }
    }
}

/// How one rule stands.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Condition {
    /// Since when it fires.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) fired: Option<Timestamp>,
    /// Whether others were told that it fires.
    pub(super) told: bool,
    /// Broken without a break since then.
    #[serde(skip)]
    broken_since: Option<Timestamp>,
    /// Well without a break since then.
    #[serde(skip)]
    well_since: Option<Timestamp>,
}

/// What follows from a look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Step {
    /// What became of the alert.
    pub(super) change: Option<AlertState>,
    /// What others are to be told.
    pub(super) tell: Option<AlertState>,
    /// When the alert fired that this is about.
    pub(super) since: Option<Timestamp>,
}

impl Condition {
    /// Takes what was measured.
    pub(super) fn step(
        &mut self,
        now: Timestamp,
        value: f64,
        bounds: &Bounds,
        silenced: bool,
    ) -> Step {
        let since = |held: bool, since: Option<Timestamp>| held.then(|| since.unwrap_or(now));
        self.broken_since = since(bounds.is_broken(value), self.broken_since);
        self.well_since = since(bounds.is_well(value), self.well_since);
        let lasted =
            |since: Option<Timestamp>, ms: u64| since.is_some_and(|since| now >= since.plus_ms(ms));
        let mut step = Step::default();
        if self.fired.is_none() && lasted(self.broken_since, bounds.for_ms) {
            self.fired = Some(now);
            step.change = Some(AlertState::Fired);
        } else if self.fired.is_some() && lasted(self.well_since, bounds.calm_ms()) {
            step.change = Some(AlertState::Resolved);
            step.since = self.fired.take();
            step.tell = std::mem::take(&mut self.told).then_some(AlertState::Resolved);
            return step;
        }
        step.since = self.fired;
        if self.fired.is_some() && !self.told && !silenced {
            self.told = true;
            step.tell = Some(AlertState::Fired);
        }
        step
    }

    /// Since when it is broken, while it does not fire.
    pub(super) fn pending_since(&self) -> Option<Timestamp> {
        self.broken_since.filter(|_| self.fired.is_none())
    }

    /// Whether there is anything to remember.
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether there is anything to keep over a restart.
    pub(super) fn lasts(&self) -> bool {
        self.fired.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds {
        enabled: true,
        low: false,
        fires_at: 10.0,
        resolves_at: 5.0,
        for_ms: 3_000,
        calm_ms: 2_000,
    };

    fn at(second: u64) -> Timestamp {
        Timestamp(1_000_000_000 + second * 1_000_000)
    }

    /// Steps once a second; returns the seconds at which others were told, and what.
    fn told(condition: &mut Condition, bounds: &Bounds, values: &[f64]) -> Vec<(u64, AlertState)> {
        let steps = values.iter().zip(0..).filter_map(|(value, second)| {
            Some((second, condition.step(at(second), *value, bounds, false).tell?))
        });
        steps.collect()
    }

    #[test]
    fn it_fires_after_its_time_and_is_over_after_a_calm() {
        let values = [12.0, 12.0, 4.0, 12.0, 12.0, 11.0, 10.0, 7.0, 4.0, 6.0, 5.0, 1.0, 0.0, 0.0];
        let told = told(&mut Condition::default(), &BOUNDS, &values);
        assert_eq!(told, [(6, AlertState::Fired), (12, AlertState::Resolved)]);
    }

    #[test]
    fn a_value_that_trembles_around_a_bound_is_told_once() {
        let values: Vec<f64> =
            (0..60).map(|second| if second % 2 == 0 { 10.0 } else { 9.0 }).collect();
        let bounds = Bounds { for_ms: 0, calm_ms: 0, ..BOUNDS };
        assert_eq!(told(&mut Condition::default(), &bounds, &values), [(0, AlertState::Fired)]);
    }

    #[test]
    fn small_values_may_be_the_bad_ones() {
        let bounds = Bounds {
            low: true,
            fires_at: 10.0,
            resolves_at: 12.0,
            for_ms: 0,
            calm_ms: 0,
            ..BOUNDS
        };
        let told = told(&mut Condition::default(), &bounds, &[20.0, 10.0, 11.0, 12.0]);
        assert_eq!(told, [(1, AlertState::Fired), (3, AlertState::Resolved)]);
    }

    #[test]
    fn a_rule_that_is_switched_off_is_over_at_once() {
        let mut condition = Condition::default();
        let bounds = Bounds { for_ms: 0, ..BOUNDS };
        condition.step(at(0), 20.0, &bounds, false);
        let off = Bounds { enabled: false, ..bounds };
        assert_eq!(condition.step(at(1), 20.0, &off, false).tell, Some(AlertState::Resolved));
        assert!(!condition.lasts());
    }

    #[test]
    fn a_silence_puts_the_telling_off_and_an_end_within_it_is_not_told() {
        let bounds = Bounds { for_ms: 0, calm_ms: 0, ..BOUNDS };
        let mut condition = Condition::default();
        assert_eq!(condition.step(at(0), 20.0, &bounds, true).tell, None);
        assert_eq!(condition.step(at(1), 0.0, &bounds, true).tell, None);
        assert_eq!(condition.step(at(2), 20.0, &bounds, true).change, Some(AlertState::Fired));
        assert_eq!(condition.step(at(3), 20.0, &bounds, false).tell, Some(AlertState::Fired));
        let over = condition.step(at(4), 0.0, &bounds, true);
        assert_eq!((over.tell, over.since), (Some(AlertState::Resolved), Some(at(2))));
    }

    /// The same rules said in another way: over all that was measured since the start.
    #[derive(Default)]
    struct Reference {
        seen: Vec<(Timestamp, f64)>,
        fires: bool,
        told: bool,
    }

    impl Reference {
        fn held_for(&self, now: Timestamp, ms: u64, holds: impl Fn(f64) -> bool) -> bool {
            let run = self.seen.iter().rev().take_while(|(_, value)| holds(*value)).last();
            run.is_some_and(|(since, _)| now.0 - since.0 >= ms * 1_000)
        }

        fn step(&mut self, now: Timestamp, value: f64, silenced: bool) -> Option<AlertState> {
            self.seen.push((now, value));
            let broken = |value: f64| value >= BOUNDS.fires_at;
            let well = |value: f64| value <= BOUNDS.resolves_at;
            if self.fires && self.held_for(now, BOUNDS.calm_ms, well) {
                self.fires = false;
                return std::mem::take(&mut self.told).then_some(AlertState::Resolved);
            }
            self.fires |= self.held_for(now, BOUNDS.for_ms, broken);
            let tell = self.fires && !self.told && !silenced;
            self.told |= tell;
            tell.then_some(AlertState::Fired)
        }
    }

    /// xorshift64*, so that a seed is enough to see a failure again.
    struct Chance(u64);

    impl Chance {
        fn below(&mut self, bound: u64) -> u64 {
            self.0 ^= self.0 >> 12;
            self.0 ^= self.0 << 25;
            self.0 ^= self.0 >> 27;
            (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % bound
        }
    }

    #[test]
    fn whatever_happens_the_model_agrees_and_others_hear_each_end_once() {
        for seed in 1..=300 {
            let mut chance = Chance(seed);
            let (mut condition, mut model) = (Condition::default(), Reference::default());
            let (mut now, mut value, mut heard) = (at(0), 0.0, Vec::new());
            for _ in 0..400 {
                now = now.plus_ms(chance.below(1_500));
                if chance.below(3) == 0 {
                    value = chance.below(16) as f64;
                }
                let silenced = chance.below(4) == 0;
                let step = condition.step(now, value, &BOUNDS, silenced);
                assert_eq!(step.tell, model.step(now, value, silenced), "seed {seed} at {now}");
                heard.extend(step.tell);
                if chance.below(20) == 0 {
                    // The process is killed; what was kept is read again, and nobody looked for a while.
                    let kept = serde_json::to_string(&condition).unwrap();
                    condition = serde_json::from_str(&kept).unwrap();
                    model.seen.clear();
                    now = now.plus_ms(chance.below(10_000));
                }
            }
            for (index, state) in heard.iter().enumerate() {
                let expected = [AlertState::Fired, AlertState::Resolved][index % 2];
                assert_eq!(*state, expected, "seed {seed}: {heard:?}");
            }
        }
    }
}
