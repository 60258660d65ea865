//! Decides what arrivals of the past say about those to come: how many per hour of the day.

use super::input::{HOURS, PerHour};

/// A shorter past than this says nothing about hours of the day: its mean holds for all of them.
const DAY_SEC: f64 = 86_400.0;
/// Counted as at least this long, so that two arrivals in a second are not thousands per hour.
const LEAST_SEC: f64 = 600.0;

/// How many came per hour, from the seconds since 1970 at which they did; nothing if none did. The hours are those of UTC.
pub fn per_hour(arrivals: &[f64]) -> Option<PerHour> {
    let first = arrivals.iter().copied().reduce(f64::min)?;
    let last = arrivals.iter().copied().reduce(f64::max)?;
    let past = (last - first).max(LEAST_SEC);
    if past < DAY_SEC {
        return Some(PerHour::Same(arrivals.len() as f64 / past * 3_600.0));
    }
    // Whole days only, so that each hour of the day was seen as often as the others.
    let days = (past / DAY_SEC).floor();
    let from = last - days * DAY_SEC;
    let mut counts = vec![0.0; HOURS];
    for at in arrivals.iter().filter(|at| **at > from) {
        counts[(at.rem_euclid(DAY_SEC) / 3_600.0) as usize % HOURS] += 1.0;
    }
    Some(PerHour::OfDay(counts.into_iter().map(|count| count / days).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_past_is_a_mean_and_whole_days_are_hours() {
        assert_eq!(per_hour(&[]), None);
        assert_eq!(per_hour(&[50.0]), Some(PerHour::Same(6.0)));
        assert_eq!(per_hour(&[0.0, 1_800.0, 7_200.0]), Some(PerHour::Same(1.5)));
        // Two days: 6 arrivals between 3 and 4 in the morning, 2 in the last hour of the second day.
        let three = 3.0 * 3_600.0;
        let mut times: Vec<f64> = (0..3).map(|n| three + f64::from(n)).collect();
        times.extend((0..3).map(|n| DAY_SEC + three + f64::from(n)));
        times.extend([2.0 * DAY_SEC - 5.0, 2.0 * DAY_SEC - 4.0]);
        times.push(-10.0);
        let Some(PerHour::OfDay(hours)) = per_hour(&times) else { panic!("two days are known") };
        assert_eq!((hours[3], hours[23], hours.iter().sum::<f64>()), (3.0, 1.0, 4.0));
    }
}
