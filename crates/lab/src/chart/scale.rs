//! Decides where a value stands on an axis, and which values get a tick.
//!
//! Ticks are round numbers: steps of 1, 2, 2.5 or 5 times a power of ten on a linear axis, powers of ten (with 2 and 5
//! between them on short ones) on a logarithmic one. Knows nothing of drawing.

use super::Spacing;

/// Ticks that a linear axis aims for.
const TICKS_WANTED: f64 = 5.0;
/// A logarithmic axis of fewer decades gets ticks between the powers too.
const DECADES_FEW: f64 = 2.5;
/// Values that differ by a smaller share than this are one value.
const SPAN_MIN: f64 = 1e-9;

/// Maps values to places.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Scale {
    spacing: Spacing,
    low: f64,
    high: f64,
    start: f64,
    end: f64,
}

impl Scale {
    /// An axis from `start` to `end` on the canvas that holds all values. A linear one begins at zero if that is not
    /// far away, because lengths that do not begin at zero mislead.
    pub(super) fn over(
        spacing: Spacing,
        values: impl IntoIterator<Item = f64>,
        start: f64,
        end: f64,
    ) -> Self {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        let usable =
            |value: &f64| value.is_finite() && (spacing == Spacing::Linear || *value > 0.0);
        for value in values.into_iter().filter(usable) {
            low = low.min(value);
            high = high.max(value);
        }
        if low > high {
            (low, high) = if spacing == Spacing::Log { (1.0, 10.0) } else { (0.0, 1.0) };
        }
        let mut scale = Self { spacing, low, high, start, end };
        match spacing {
            Spacing::Linear => scale.widen_linear(),
            Spacing::Log => scale.widen_log(),
        }
        scale
    }

    /// The same for something that only grows along, such as time: the axis ends where the values end, and only the ticks
    /// are round.
    pub(super) fn along(
        spacing: Spacing,
        values: impl IntoIterator<Item = f64>,
        start: f64,
        end: f64,
    ) -> Self {
        let values: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
        let mut scale = Self::over(spacing, values.iter().copied(), start, end);
        let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        if spacing == Spacing::Linear && high > low {
            (scale.low, scale.high) = (scale.low.max(low), high);
            // A start that is close to zero is drawn from zero.
            if low > 0.0 && low <= 0.1 * high {
                scale.low = 0.0;
            }
        }
        scale
    }

    /// Where a value stands. Values outside (and zero on a logarithmic axis) stand at the nearer end.
    pub(super) fn place(&self, value: f64) -> f64 {
        let share = match self.spacing {
            Spacing::Linear => (value - self.low) / (self.high - self.low),
            Spacing::Log if value <= 0.0 => 0.0,
            Spacing::Log => (value / self.low).log10() / (self.high / self.low).log10(),
        };
        self.start + share.clamp(0.0, 1.0) * (self.end - self.start)
    }

    /// The values with a tick, rising.
    pub(super) fn ticks(&self) -> Vec<f64> {
        match self.spacing {
            Spacing::Linear => {
                let step = nice_step(self.high - self.low);
                // A tick that misses the end by an error of rounding is meant.
                let first = (self.low / step - 1e-6).ceil() as i64;
                let last = (self.high / step + 1e-6).floor() as i64;
                (first..=last).map(|number| number as f64 * step).collect()
            }
            Spacing::Log => {
                let few = (self.high / self.low).log10() <= DECADES_FEW;
                let factors: &[f64] = if few { &[1.0, 2.0, 5.0] } else { &[1.0] };
                let (first, last) = (self.low.log10().floor(), self.high.log10().ceil());
                let powers = (first as i32..=last as i32).map(|power| 10f64.powi(power));
                let all = powers.flat_map(|power| factors.iter().map(move |factor| factor * power));
                let within = self.low * 0.999..=self.high * 1.001;
                all.filter(|tick| within.contains(tick)).collect()
            }
        }
    }

    fn widen_linear(&mut self) {
        let span = self.high - self.low;
        let flat = span <= SPAN_MIN * self.high.abs().max(self.low.abs());
        if self.low > 0.0 && (flat || self.low < 0.6 * self.high) {
            self.low = 0.0;
        } else if self.high < 0.0 && flat {
            self.high = 0.0;
        } else if self.low == self.high {
            self.high = 1.0;
        }
        let step = nice_step(self.high - self.low);
        self.low = (self.low / step).floor() * step;
        self.high = (self.high / step).ceil() * step;
    }

    fn widen_log(&mut self) {
        let down = |value: f64| {
            let power = 10f64.powf(value.log10().floor());
            [5.0, 2.0, 1.0].map(|f| f * power).into_iter().find(|tick| *tick <= value * 1.000_001)
        };
        let up = |value: f64| {
            let power = 10f64.powf(value.log10().floor());
            [1.0, 2.0, 5.0, 10.0]
                .map(|f| f * power)
                .into_iter()
                .find(|tick| *tick >= value * 0.999_999)
        };
        self.low = down(self.low).unwrap_or(self.low);
        self.high = up(self.high).unwrap_or(self.high);
        if self.high / self.low < 9.9 {
            self.low /= 10.0;
        }
    }
}

fn nice_step(span: f64) -> f64 {
    let rough = span / TICKS_WANTED;
    let power = 10f64.powf(rough.log10().floor());
    let factor = match rough / power {
        rest if rest <= 1.0 => 1.0,
        rest if rest <= 2.0 => 2.0,
        rest if rest <= 2.5 => 2.5,
        rest if rest <= 5.0 => 5.0,
        _ => 10.0,
    };
    factor * power
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ticks_are_round_and_begin_at_zero() {
        let ticks = |values: &[f64]| {
            Scale::over(Spacing::Linear, values.iter().copied(), 0.0, 100.0).ticks()
        };
        assert_eq!(ticks(&[31.0, 4.9]), [0.0, 10.0, 20.0, 30.0, 40.0]);
        assert_eq!(ticks(&[100.0, 98.0]), [98.0, 98.5, 99.0, 99.5, 100.0]);
        assert_eq!(ticks(&[]), [0.0, 0.2, 0.4, 0.6000000000000001, 0.8, 1.0]);
        assert_eq!(ticks(&[0.0]), [0.0, 0.2, 0.4, 0.6000000000000001, 0.8, 1.0]);
    }

    #[test]
    fn an_axis_of_time_ends_with_its_values() {
        let scale = Scale::along(Spacing::Linear, [1.0, 68.0], 0.0, 68.0);
        assert_eq!(scale.ticks(), [0.0, 20.0, 40.0, 60.0]);
        assert_eq!((scale.place(0.0), scale.place(68.0)), (0.0, 68.0));
        let late = Scale::along(Spacing::Linear, [50.0, 100.0], 0.0, 1.0);
        assert_eq!((late.place(50.0), late.ticks()[0]), (0.0, 50.0));
    }

    #[test]
    fn a_logarithmic_axis_has_powers_of_ten() {
        let scale = Scale::over(Spacing::Log, [1.0, 600_000.0, 0.0, -3.0], 0.0, 60.0);
        assert_eq!(scale.ticks(), [1.0, 10.0, 100.0, 1e3, 1e4, 1e5, 1e6]);
        assert!((scale.place(1_000.0) - 30.0).abs() < 1e-9);
        assert_eq!(scale.place(0.0), 0.0);
        let short = Scale::over(Spacing::Log, [4.9, 31.2], 0.0, 1.0);
        assert_eq!(short.ticks(), [2.0, 5.0, 10.0, 20.0, 50.0]);
    }

    proptest! {
        #[test]
        fn every_value_stands_on_its_axis_in_order(
            values in proptest::collection::vec(1e-6..1e9_f64, 1..20),
            log in any::<bool>(),
        ) {
            let spacing = if log { Spacing::Log } else { Spacing::Linear };
            let scale = Scale::over(spacing, values.iter().copied(), 10.0, 90.0);
            let mut sorted = values;
            sorted.sort_by(f64::total_cmp);
            let places: Vec<f64> = sorted.iter().map(|value| scale.place(*value)).collect();
            prop_assert!(places.iter().all(|place| (10.0..=90.0).contains(place)));
            prop_assert!(places.is_sorted());
            let ticks = scale.ticks();
            prop_assert!((2..=14).contains(&ticks.len()), "{ticks:?}");
        }
    }
}
