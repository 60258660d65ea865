//! The straight line through the last hour (least squares), carried on.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

/// Slots that the line goes through: an hour.
const LENGTH: usize = 12;

/// The last slots.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Line(VecDeque<(u64, f64)>);

impl Line {
    pub(super) fn learn(&mut self, slot: u64, value: f64) {
        self.0.push_back((slot, value));
        while self.0.len() > LENGTH {
            self.0.pop_front();
        }
    }

    /// What it says of a slot; nothing before it has three points, or when the last is long ago.
    pub(super) fn expect(&self, here: u64, there: u64) -> Option<f64> {
        let (last, _) = self.0.back()?;
        if self.0.len() < 3 || here.saturating_sub(*last) > LENGTH as u64 {
            return None;
        }
        let count = self.0.len() as f64;
        let place = |slot: u64| slot as f64 - *last as f64;
        let mean_x = self.0.iter().map(|(slot, _)| place(*slot)).sum::<f64>() / count;
        let mean_y = self.0.iter().map(|(_, value)| value).sum::<f64>() / count;
        let (mut both, mut own) = (0.0, 0.0);
        for (slot, value) in &self.0 {
            let x = place(*slot) - mean_x;
            both += x * (value - mean_y);
            own += x * x;
        }
        let slope = if own > 0.0 { both / own } else { 0.0 };
        Some((mean_y + slope * (place(there) - mean_x)).max(0.0))
    }
}
