//! How long to wait before a crashed worker is started again: doubled each time, forgotten after a good run.

use std::time::Duration;

use divvy_guard::backoff::{Backoff, Jitter};

const FIRST: Duration = Duration::from_millis(250);
const LONGEST: Duration = Duration::from_secs(10);
/// A run of this length shows that the worker can work.
const GOOD_RUN: Duration = Duration::from_secs(30);

/// The crashes so far.
#[derive(Debug)]
pub(super) struct Restarts {
    backoff: Backoff,
    crashes: u32,
}

impl Default for Restarts {
    fn default() -> Self {
        // No jitter: the workers are few, and people read these waits.
        let backoff = Backoff::new(FIRST, 2.0, LONGEST, Jitter::None);
        Self { backoff: backoff.expect("the first wait is shorter than the longest"), crashes: 0 }
    }
}

impl Restarts {
    /// The wait after a crash that ended a run of this length.
    pub(super) fn after(&mut self, run: Duration) -> Duration {
        let before = if run >= GOOD_RUN { 0 } else { self.crashes };
        self.crashes = before.saturating_add(1);
        self.backoff.whole(self.crashes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest_and_start_anew_after_a_good_run() {
        let mut restarts = Restarts::default();
        let mut waits = |run: Duration, count: usize| -> Vec<u128> {
            (0..count).map(|_| restarts.after(run).as_millis()).collect()
        };
        let short = GOOD_RUN - Duration::from_millis(1);
        assert_eq!(waits(short, 8), [250, 500, 1_000, 2_000, 4_000, 8_000, 10_000, 10_000]);
        assert_eq!(waits(GOOD_RUN, 1), [250]);
        assert_eq!(waits(short, 1), [500]);
    }
}
