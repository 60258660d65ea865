//! Counters over the last minutes, from readings of what only grows. Pure: time is an argument.

use std::collections::VecDeque;

use divvy_types::Timestamp;

/// How far back it is remembered.
const KEPT_MS: u64 = 600_000;
/// The least time between two readings that are kept.
const STEP_MS: u64 = 1_000;

/// Counters since the start of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counters {
    /// Tasks that were asked back from a worker.
    pub(crate) steals: u64,
    /// Those that came back.
    pub(crate) stolen: u64,
    /// Groups that were committed.
    pub(crate) commits: u64,
    /// The time that took, in microseconds.
    pub(crate) commit_us: u64,
}

/// Readings of the last minutes, oldest first.
#[derive(Debug, Default)]
pub(super) struct Trend {
    readings: VecDeque<(Timestamp, Counters)>,
}

impl Trend {
    /// Keeps a reading.
    pub(super) fn push(&mut self, now: Timestamp, counters: Counters) {
        if self.readings.back().is_some_and(|(last, _)| now < last.plus_ms(STEP_MS)) {
            return;
        }
        while self.readings.front().is_some_and(|(first, _)| first.plus_ms(KEPT_MS) < now) {
            self.readings.pop_front();
        }
        self.readings.push_back((now, counters));
    }

    /// What was added in the last milliseconds up to this reading. Counters begin at 0, so what is older than the first
    /// reading is the start.
    pub(super) fn within(&self, now: Timestamp, counters: Counters, ms: u64) -> Counters {
        let before = self.readings.iter().rev().find(|(at, _)| at.plus_ms(ms) <= now);
        let before = before.map_or_else(Counters::default, |(_, counters)| *counters);
        Counters {
            steals: counters.steals.saturating_sub(before.steals),
            stolen: counters.stolen.saturating_sub(before.stolen),
            commits: counters.commits.saturating_sub(before.commits),
            commit_us: counters.commit_us.saturating_sub(before.commit_us),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_added_lately_counts_and_old_readings_go() {
        let counters = |steals| Counters { steals, ..Counters::default() };
        let mut trend = Trend::default();
        for second in 0..2_000u64 {
            trend.push(Timestamp(second * 1_000_000), counters(second));
        }
        let now = Timestamp(2_000 * 1_000_000);
        assert_eq!(trend.within(now, counters(2_000), 60_000).steals, 60);
        assert!(trend.readings.len() as u64 <= KEPT_MS / STEP_MS + 2);
        assert_eq!(Trend::default().within(now, counters(7), 60_000).steals, 7, "since the start");
    }
}
