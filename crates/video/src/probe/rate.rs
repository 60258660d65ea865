//! Chooses the output's grid: a constant frame rate that loses no picture of a source with a constant rate, and few of
//! one without.
//!
//! A rate that the source declares counts only if its pictures really are where that rate puts them. If none does, the
//! usual distance of pictures is measured and the nearest rate that cameras and screens use is taken. Does not know
//! containers or codecs.

use super::Refusal;
use super::packets::Timeline;
use super::{HOURS_MAX, KEYFRAMES_MAX};
use crate::FrameRate;

/// Rates that cameras and screens use, for sources without a constant one.
const COMMON: [FrameRate; 13] = [
    FrameRate { frames: 10, seconds: 1 },
    FrameRate { frames: 12, seconds: 1 },
    FrameRate { frames: 15, seconds: 1 },
    FrameRate { frames: 20, seconds: 1 },
    FrameRate { frames: 24_000, seconds: 1_001 },
    FrameRate { frames: 24, seconds: 1 },
    FrameRate { frames: 25, seconds: 1 },
    FrameRate { frames: 30_000, seconds: 1_001 },
    FrameRate { frames: 30, seconds: 1 },
    FrameRate { frames: 48, seconds: 1 },
    FrameRate { frames: 50, seconds: 1 },
    FrameRate { frames: 60_000, seconds: 1_001 },
    FrameRate { frames: 60, seconds: 1 },
];
/// Output has no more frames per second than this …
const RATE_MAX: f64 = 120.0;
/// … and no fewer than this.
const RATE_MIN: f64 = 1.0;
/// A fraction with a larger divisor is a measurement and not a choice.
const DIVISOR_MAX: u32 = 1_001;
const FRAMES_MAX: u32 = 240_000;

/// Seconds per unit of a stream's times, as a fraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TimeBase {
    pub(super) seconds: u32,
    pub(super) units: u32,
}

/// The output's grid for a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Grid {
    pub(super) rate: FrameRate,
    pub(super) frames: u64,
    pub(super) variable: bool,
    pub(super) start_us: i64,
    pub(super) keyframes: Vec<u64>,
}

impl Grid {
    /// The grid for these pictures; `declared` are the rates that the source claims, most trusted first.
    pub(super) fn choose(
        timeline: &Timeline,
        base: TimeBase,
        declared: &[FrameRate],
    ) -> Result<Self, Refusal> {
        let first = *timeline.shown.first().expect("a timeline has a picture");
        let last = *timeline.shown.last().expect("a timeline has a picture");
        let span = last.saturating_sub(first).saturating_add(timeline.last_duration.unwrap_or(0));
        let seconds = i128::from(span) * i128::from(base.seconds) / i128::from(base.units);
        if seconds >= i128::from(HOURS_MAX * 3_600) {
            return Err(Refusal::new(format!(
                "it lasts {} hours, or its time stamps jump; at most {HOURS_MAX} hours are possible",
                seconds / 3_600
            )));
        }
        let clock = Clock { first, base };
        let (rate, frames, variable) = match clock.constant(&timeline.shown, declared) {
            Some(source) => {
                let rate = within_limits(source);
                (rate, scaled(timeline.shown.len() as u64, source, rate), false)
            }
            None => {
                let rate = clock.usual(&timeline.shown, declared);
                (rate, clock.slot(last, rate) + 1, true)
            }
        };
        // The last picture may be shown for longer than the others.
        let frames = frames.max(clock.slot(first.saturating_add(span), rate));
        let mut keyframes: Vec<u64> =
            timeline.keys.iter().map(|&at| clock.slot(at, rate).min(frames - 1)).collect();
        keyframes.dedup();
        let start_us = clock.micros(first);
        Ok(Self { rate, frames, variable, start_us, keyframes: thinned(keyframes, rate) })
    }
}

/// Counts the times of a stream from its first picture.
#[derive(Clone, Copy)]
struct Clock {
    first: i64,
    base: TimeBase,
}

impl Clock {
    /// The first rate at which every picture has its own place, in order.
    fn constant(self, shown: &[i64], declared: &[FrameRate]) -> Option<FrameRate> {
        let measured = self.mean(shown);
        declared.iter().copied().chain(measured).find(|&rate| self.fits(shown, rate))
    }

    fn fits(self, shown: &[i64], rate: FrameRate) -> bool {
        // A source counts in milliseconds or finer; rounding stays well below 4/10 of a frame.
        let (_, unit) = self.fraction(self.first, rate);
        shown.iter().zip(0_i128..).all(|(&at, place)| {
            let (frames, _) = self.fraction(at, rate);
            (frames - place * unit).abs() * 10 <= unit * 4
        })
    }

    /// The mean rate, made simple.
    fn mean(self, shown: &[i64]) -> Option<FrameRate> {
        let ticks = shown.last()?.checked_sub(self.first).filter(|&ticks| ticks > 0)?;
        nearest_simple(self.per_second(ticks as f64 / (shown.len() - 1) as f64))
    }

    /// The nearest common rate to the usual distance of pictures; a declared one if it is as near.
    fn usual(self, shown: &[i64], declared: &[FrameRate]) -> FrameRate {
        let mut distances: Vec<i64> =
            shown.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).collect();
        distances.sort_unstable();
        let median = distances.get(distances.len() / 2).copied().unwrap_or(1) as f64;
        // The mean of those near the median is finer than the median, which is a whole number of ticks.
        let near: Vec<f64> = distances
            .into_iter()
            .map(|ticks| ticks as f64)
            .filter(|ticks| (ticks - median).abs() <= median / 5.0)
            .collect();
        let usual = self.per_second(near.iter().sum::<f64>() / near.len().max(1) as f64);
        let off = |rate: &FrameRate| (rate.per_second() / usual).ln().abs();
        let common = COMMON.into_iter().min_by(|one, other| off(one).total_cmp(&off(other)));
        declared
            .iter()
            .copied()
            .find(|rate| COMMON.contains(rate) && off(rate) < 0.006)
            .or(common)
            .expect("there are common rates")
    }

    fn per_second(self, ticks: f64) -> f64 {
        f64::from(self.base.units) / (f64::from(self.base.seconds) * ticks)
    }

    /// The frame of a grid that is nearest to a time; 0 if it is before the first.
    fn slot(self, at: i64, rate: FrameRate) -> u64 {
        let (frames, unit) = self.fraction(at, rate);
        u64::try_from((frames + unit / 2).div_euclid(unit)).unwrap_or(0)
    }

    fn fraction(self, at: i64, rate: FrameRate) -> (i128, i128) {
        let ticks = i128::from(at) - i128::from(self.first);
        let frames = ticks * i128::from(self.base.seconds) * i128::from(rate.frames);
        (frames, i128::from(self.base.units) * i128::from(rate.seconds))
    }

    /// Rounded down, so that nobody who begins there misses the first picture.
    fn micros(self, at: i64) -> i64 {
        let micros = i128::from(at) * i128::from(self.base.seconds) * 1_000_000;
        let micros = micros.div_euclid(i128::from(self.base.units));
        i64::try_from(micros).unwrap_or(0)
    }
}

/// A rate as ffprobe writes it, such as `30000/1001`; nothing if it is none.
pub(super) fn parse(text: &str) -> Option<FrameRate> {
    let (frames, seconds) = text.split_once('/')?;
    FrameRate::new(frames.parse().ok()?, seconds.parse().ok()?)
}

/// The common rate, or else the whole number, that is nearest.
fn nearest_simple(per_second: f64) -> Option<FrameRate> {
    let common = COMMON.into_iter().find(|rate| {
        // 30 and 30000/1001 differ by a thousandth.
        (rate.per_second() / per_second - 1.0).abs() < 0.000_4
    });
    common.or_else(|| FrameRate::new(per_second.round().clamp(1.0, 1e6) as u32, 1))
}

/// The rate itself if it is simple and possible, else the nearest that is; a fast one is divided, so that pictures are
/// left out evenly.
fn within_limits(rate: FrameRate) -> FrameRate {
    let simple = if rate.seconds <= DIVISOR_MAX && rate.frames <= FRAMES_MAX {
        rate
    } else {
        nearest_simple(rate.per_second()).unwrap_or(rate)
    };
    let FrameRate { frames, seconds } = simple;
    let per_second = simple.per_second();
    let limited = if per_second > RATE_MAX {
        FrameRate::new(frames, seconds.saturating_mul((per_second / RATE_MAX).ceil() as u32))
    } else if per_second < RATE_MIN {
        FrameRate::new(frames.saturating_mul((RATE_MIN / per_second).ceil() as u32), seconds)
    } else {
        Some(simple)
    };
    limited.unwrap_or(simple)
}

/// How many frames at one rate last as long as so many at another; at least one.
fn scaled(frames: u64, from: FrameRate, to: FrameRate) -> u64 {
    let of = u128::from(frames) * u128::from(from.seconds) * u128::from(to.frames);
    let unit = u128::from(from.frames) * u128::from(to.seconds);
    u64::try_from((of + unit / 2) / unit).unwrap_or(u64::MAX).max(1)
}

/// Leaves the first key frame of each half second, or of each longer span if that is still too many.
fn thinned(mut keyframes: Vec<u64>, rate: FrameRate) -> Vec<u64> {
    let mut span = u64::from(rate.frames_in_ms(500));
    loop {
        keyframes.dedup_by_key(|frame| *frame / span);
        if keyframes.len() <= KEYFRAMES_MAX {
            return keyframes;
        }
        span *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLIS: TimeBase = TimeBase { seconds: 1, units: 1_000 };
    const FINE: TimeBase = TimeBase { seconds: 1, units: 90_000 };

    fn rate(frames: u32, seconds: u32) -> FrameRate {
        FrameRate::new(frames, seconds).unwrap()
    }

    fn grid(shown: Vec<i64>, base: TimeBase, declared: &[FrameRate]) -> Grid {
        let keys = shown.clone();
        let timeline = Timeline { keys, shown, ..Timeline::default() };
        Grid::choose(&timeline, base, declared).unwrap()
    }

    fn at(frames: u64, rate: FrameRate, base: TimeBase) -> Vec<i64> {
        let place = |frame: u64| {
            let seconds = frame as f64 / rate.per_second();
            (seconds * f64::from(base.units)).round() as i64
        };
        (0..frames).map(place).collect()
    }

    #[test]
    fn a_constant_rate_is_kept_whatever_the_container_rounds_to() {
        for exact in [rate(24_000, 1_001), rate(25, 1), rate(30_000, 1_001), rate(60_000, 1_001)] {
            for (base, declared) in [(MILLIS, vec![exact]), (FINE, vec![exact]), (FINE, vec![])] {
                let grid = grid(at(2_000, exact, base), base, &declared);
                assert_eq!((grid.rate, grid.frames, grid.variable), (exact, 2_000, false));
            }
        }
    }

    #[test]
    fn a_declared_rate_that_pictures_do_not_follow_is_not_believed() {
        let declared = [rate(90_000, 1), rate(50, 1), rate(30, 1)];
        let grid = grid(at(1_000, rate(25, 1), FINE), FINE, &declared);
        assert_eq!((grid.rate, grid.frames, grid.variable), (rate(25, 1), 1_000, false));
    }

    #[test]
    fn fast_sources_are_halved_and_slow_ones_repeated() {
        let fast = grid(at(120, rate(240, 1), FINE), FINE, &[rate(240, 1)]);
        assert_eq!((fast.rate, fast.frames), (rate(120, 1), 60));
        let slow = grid(vec![0, 5_000, 10_000], MILLIS, &[rate(1, 5)]);
        assert_eq!((slow.rate, slow.frames), (rate(1, 1), 15));
    }

    #[test]
    fn an_odd_rate_stays_if_it_is_a_choice_and_is_rounded_if_it_is_a_measurement() {
        let odd = grid(at(100, rate(173, 10), FINE), FINE, &[rate(173, 10)]);
        assert_eq!((odd.rate, odd.frames), (rate(173, 10), 100));
        let measured = rate(1_475_011, 50_000);
        let camera = grid(at(3_000, measured, FINE), FINE, &[measured]);
        assert_eq!((camera.rate, camera.variable), (rate(30, 1), false));
        assert_eq!(camera.frames, 3_051);
    }

    #[test]
    fn a_variable_rate_gets_the_usual_one() {
        // A phone that means 30 and wavers, then loses ten pictures.
        let wavering: Vec<i64> = (0..300)
            .map(|n| n * 3_000 + (n * 7_919 % 600) + if n > 150 { 30_000 } else { 0 })
            .collect();
        let phone = grid(wavering, FINE, &[rate(90_000, 1), rate(7_123, 250)]);
        assert_eq!((phone.rate, phone.variable, phone.frames), (rate(30, 1), true, 310));
        // 24 for two seconds, then 60 for one.
        let mut mixed = at(48, rate(24, 1), FINE);
        mixed.extend(at(60, rate(60, 1), FINE).iter().map(|at| at + 180_000));
        let mixed = grid(mixed, FINE, &[rate(120, 1), rate(36, 1)]);
        assert_eq!((mixed.rate, mixed.variable, mixed.frames), (rate(60, 1), true, 180));
    }

    #[test]
    fn one_lost_picture_does_not_change_the_rate_and_is_noticed() {
        let mut shown = at(100, rate(24_000, 1_001), MILLIS);
        shown.remove(50);
        let grid = grid(shown, MILLIS, &[rate(24_000, 1_001)]);
        assert_eq!((grid.rate, grid.frames, grid.variable), (rate(24_000, 1_001), 100, true));
    }

    #[test]
    fn a_grid_begins_at_the_first_picture_and_ends_with_the_last() {
        let shown: Vec<i64> = at(60, rate(30, 1), FINE).iter().map(|at| at + 128_090).collect();
        let grid = grid(shown, FINE, &[rate(30, 1)]);
        assert_eq!((grid.start_us, grid.frames), (1_423_222, 60));
        let (shown, keys) = (vec![-5], vec![-5]);
        let one = Timeline { shown, keys, last_duration: Some(7), ..Timeline::default() };
        let one = Grid::choose(&one, MILLIS, &[]).unwrap();
        assert_eq!((one.frames, one.start_us, one.keyframes), (1, -5_000, vec![0]));
    }

    #[test]
    fn key_frames_before_the_first_picture_count_for_it_and_many_are_thinned_out() {
        let shown = at(90_000, rate(25, 1), MILLIS);
        let mut keys = shown.clone();
        keys.insert(0, -400);
        let timeline = Timeline { shown, keys, ..Timeline::default() };
        let grid = Grid::choose(&timeline, MILLIS, &[rate(25, 1)]).unwrap();
        assert_eq!(grid.keyframes[..3], [0, 13, 26]);
        assert_eq!(grid.keyframes.len(), 90_000_usize.div_ceil(13));
        let many = thinned((0..12 * 3_600 * 25).collect(), rate(25, 1));
        assert!(many.len() <= KEYFRAMES_MAX && many[1] == 104, "{}", many.len());
    }

    #[test]
    fn times_that_jump_by_days_are_refused() {
        let timeline = Timeline { shown: vec![0, 90_000 * 86_400], ..Timeline::default() };
        let refusal = Grid::choose(&timeline, FINE, &[]).unwrap_err();
        assert!(refusal.0.contains("24 hours"), "{refusal}");
        let extreme = Timeline { shown: vec![i64::MIN, i64::MAX], ..Timeline::default() };
        assert!(Grid::choose(&extreme, FINE, &[]).is_err());
    }
}
