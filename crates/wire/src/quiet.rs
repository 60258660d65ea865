//! Log lines about what strangers do, at most one in ten seconds with a count: nobody outside may fill the log.

use std::time::{Duration, Instant};

/// How often a line is written.
const EVERY: Duration = Duration::from_secs(10);

/// Counts what was not told yet.
#[derive(Debug, Default)]
pub struct Quiet {
    told: Option<Instant>,
    untold: u64,
}

impl Quiet {
    /// It happened once more. How often since the last line, if it is time for another one.
    pub fn count(&mut self) -> Option<u64> {
        self.count_at(Instant::now())
    }

    fn count_at(&mut self, now: Instant) -> Option<u64> {
        self.untold += 1;
        if self.told.is_some_and(|told| now.duration_since(told) < EVERY) {
            return None;
        }
        self.told = Some(now);
        Some(std::mem::take(&mut self.untold))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_events_are_one_line_and_none_is_forgotten() {
        let (mut quiet, start) = (Quiet::default(), Instant::now());
        assert_eq!(quiet.count_at(start), Some(1));
        for _ in 0..100 {
            assert_eq!(quiet.count_at(start + EVERY / 2), None);
        }
        assert_eq!(quiet.count_at(start + EVERY), Some(101));
    }
}
