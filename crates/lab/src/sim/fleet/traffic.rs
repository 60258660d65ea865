//! Tasks that come over days: the rate of each second, and how many came.

/// Seconds of an hour and a day.
pub const HOUR: usize = 3_600;
/// Seconds of a day.
pub const DAY: usize = 24 * HOUR;

/// What comes, second by second.
#[derive(Clone, Debug, PartialEq)]
pub struct Traffic {
    /// Tasks per second in the mean.
    pub rates: Vec<f32>,
    /// Tasks that came.
    pub arrived: Vec<u32>,
}

/// The load of the day in the exercise, by hour, before its noise: a base, a ramp in the morning, a peak, a decline.
pub fn hour_load(hour: usize) -> f64 {
    let hour = hour as f64;
    match hour {
        8.0..=10.0 => 30.0 + (hour - 8.0) * 20.0,
        11.0..=14.0 => 70.0,
        15.0..=18.0 => 60.0 - (hour - 15.0) * 10.0,
        _ => 30.0,
    }
}

/// The rate of each second over `days`: ten times the load of its hour, with noise of ±5 drawn anew for every hour.
/// Interpolated, the load moves from the middle of an hour to the middle of the next in a straight line.
pub fn seed_days(days: usize, interpolated: bool, random: &mut fastrand::Rng) -> Vec<f32> {
    let loads: Vec<f64> =
        (0..days * 24).map(|hour| hour_load(hour % 24) + random.f64() * 10.0 - 5.0).collect();
    let rate = |second: usize| {
        let hour = second / HOUR;
        if !interpolated {
            return loads[hour] * 10.0;
        }
        let middle = second as f64 / HOUR as f64 - 0.5;
        let before = middle.floor().max(0.0) as usize;
        let after = (before + 1).min(loads.len() - 1);
        let way = (middle - before as f64).clamp(0.0, 1.0);
        (loads[before] * (1.0 - way) + loads[after] * way) * 10.0
    };
    (0..days * DAY).map(|second| rate(second) as f32).collect()
}

impl Traffic {
    /// Draws what comes at these rates.
    pub fn draw(rates: Vec<f32>, random: &mut fastrand::Rng) -> Self {
        let arrived = rates.iter().map(|rate| poisson(f64::from(*rate), random)).collect();
        Self { rates, arrived }
    }

    /// The tasks that came from this second on.
    pub fn count_from(&self, second: usize) -> u64 {
        self.arrived.iter().skip(second).map(|count| u64::from(*count)).sum()
    }
}

/// How many of a rare thing happen. Above 30 the normal distribution is close enough (within 1 % of the spread).
fn poisson(mean: f64, random: &mut fastrand::Rng) -> u32 {
    if mean > 30.0 {
        let radius = (-2.0 * (1.0 - random.f64()).ln()).sqrt();
        let normal = radius * (std::f64::consts::TAU * random.f64()).cos();
        return (mean + mean.sqrt() * normal).round().max(0.0) as u32;
    }
    let end = (-mean).exp();
    let (mut count, mut product) = (0, random.f64());
    while product > end {
        count += 1;
        product *= random.f64();
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrivals_follow_their_rate() {
        for mean in [0.5, 7.0, 400.0] {
            let mut random = fastrand::Rng::with_seed(1);
            let drawn = Traffic::draw(vec![mean as f32; 20_000], &mut random);
            let found = drawn.count_from(0) as f64 / 20_000.0;
            let squares: f64 =
                drawn.arrived.iter().map(|count| (f64::from(*count) - found).powi(2)).sum();
            let spread = squares / 20_000.0;
            assert!((found / mean - 1.0).abs() < 0.03 && (spread / mean - 1.0).abs() < 0.1);
        }
    }

    #[test]
    fn a_day_is_that_of_the_exercise() {
        let loads: Vec<f64> = (0..24).map(hour_load).collect();
        assert_eq!(
            loads[7..=19],
            [30.0, 30.0, 50.0, 70.0, 70.0, 70.0, 70.0, 70.0, 60.0, 50.0, 40.0, 30.0, 30.0]
        );
        let steps = seed_days(1, false, &mut fastrand::Rng::with_seed(1));
        assert!(steps[9 * HOUR..10 * HOUR].iter().all(|rate| (450.0..=550.0).contains(rate)));
        assert_eq!(steps[9 * HOUR], steps[10 * HOUR - 1]);
    }
}
