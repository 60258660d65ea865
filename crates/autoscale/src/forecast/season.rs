//! What the same time of the day, or of the week, brought before, carried on with what is different today.
//!
//! Each slot keeps its last values; their mean without the highest and the lowest is the season, so that one burst does
//! not come back every day. What today has more or less than the season is carried into the next slot as far as that
//! was right on earlier days: within an hour of steady load nearly all of it, over a step between two hours perhaps
//! none. That share is a regression per slot, and starts at one: before anything is learnt, a season adds only the change
//! that it saw yesterday.

use serde::{Deserialize, Serialize};

use super::Expected;

/// The weight of the belief that what is different stays different, in squares of the usual difference.
const PRIOR: f64 = 0.5;
/// Slots ahead that the difference is carried step by step.
const CARRY_MAX: u64 = 24;

/// A season of a fixed number of slots.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Season {
    keep: usize,
    slots: Vec<Slot>,
    /// The slot that was learnt last, and what its mean was before: today is compared with earlier days only.
    latest: Option<(u64, Option<f64>)>,
}

/// One slot of the season.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Slot {
    /// Its values, oldest first.
    past: Vec<f32>,
    /// Sums of the products of this slot's difference with that before it, and of the squares of the latter.
    both: f32,
    own: f32,
    /// The recent mean of the squared errors.
    error: f32,
}

impl Season {
    pub(super) fn new(slots: usize, keep: usize) -> Self {
        Self { keep, slots: vec![Slot::default(); slots], latest: None }
    }

    /// What is expected in the slot `there` when `rate` arrives in the slot `here`.
    pub(super) fn expect(&self, here: u64, there: u64, rate: f64) -> Option<Expected> {
        let mut differs = rate - self.before(here)?;
        let first = (here + 1).max((there + 1).saturating_sub(CARRY_MAX));
        for slot in first..=there {
            differs *= self.slot(slot).carry();
        }
        let slot = self.slot(there);
        let rate = (slot.mean()? + differs).max(0.0);
        Some(Expected { rate, spread: f64::from(slot.error).sqrt() })
    }

    /// Takes the value of a slot; `last` is the one that was taken before.
    pub(super) fn learn(&mut self, slot: u64, value: f64, last: Option<(u64, f64)>) {
        let before = last.filter(|(before, _)| before + 1 == slot);
        let expected = before.and_then(|(before, rate)| self.expect(before, slot, rate));
        let differed = before.and_then(|(before, rate)| Some(rate - self.before(before)?));
        let place = (slot % self.slots.len() as u64) as usize;
        let keep = self.keep;
        let own = &mut self.slots[place];
        if let (Some(mean), Some(expected), Some(differed)) = (own.mean(), expected, differed) {
            // A burst says nothing about other days.
            let most = own.usual();
            let (now, then) = ((value - mean).clamp(-most, most), differed.clamp(-most, most));
            let fade = 1.0 - 1.0 / keep as f32;
            own.both = own.both * fade + (now * then) as f32;
            own.own = own.own * fade + (then * then) as f32;
            let error = (value - expected.rate).clamp(-most, most);
            own.error += ((error * error) as f32 - own.error) / own.past.len().min(keep) as f32;
        }
        self.latest = Some((slot, own.mean()));
        own.past.push(value as f32);
        if own.past.len() > keep {
            own.past.remove(0);
        }
    }

    /// The mean of a slot on the days before.
    fn before(&self, slot: u64) -> Option<f64> {
        match self.latest {
            Some((latest, mean)) if latest == slot => mean,
            _ => self.slot(slot).mean(),
        }
    }

    fn slot(&self, slot: u64) -> &Slot {
        &self.slots[(slot % self.slots.len() as u64) as usize]
    }
}

impl Slot {
    /// The mean of its values, without the highest and the lowest where there are enough.
    fn mean(&self) -> Option<f64> {
        let count = self.past.len();
        let sum: f64 = self.past.iter().map(|value| f64::from(*value)).sum();
        match count {
            0 => None,
            1 | 2 => Some(f64::from(self.past.iter().copied().fold(f32::INFINITY, f32::min))),
            _ => {
                let low = self.past.iter().copied().fold(f32::INFINITY, f32::min);
                let high = self.past.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                Some((sum - f64::from(low) - f64::from(high)) / (count - 2) as f64)
            }
        }
    }

    /// How far a value is from the mean at most that is not a burst.
    fn usual(&self) -> f64 {
        let Some(mean) = self.mean() else { return 0.0 };
        let far = self.past.iter().map(|value| (f64::from(*value) - mean).abs());
        let spread = far.sum::<f64>() / self.past.len() as f64;
        2.5 * spread + 0.1 * mean
    }

    /// How much of a difference is carried into this slot.
    fn carry(&self) -> f64 {
        let usual = self.own / (self.past.len().max(2) - 1) as f32 + f32::MIN_POSITIVE;
        let prior = PRIOR as f32 * usual;
        f64::from(((self.both + prior) / (self.own + prior)).clamp(0.0, 1.0))
    }
}
