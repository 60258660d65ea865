//! How long to wait before a crashed worker is started again: doubled each time, forgotten after a good run.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(250);
const LONGEST: Duration = Duration::from_secs(10);
/// A run of this length shows that the worker can work.
const GOOD_RUN: Duration = Duration::from_secs(30);

/// The waits so far.
#[derive(Debug)]
pub(super) struct Backoff {
    next: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { next: FIRST }
    }
}

impl Backoff {
    /// The wait after a run of this length.
    pub(super) fn after(&mut self, run: Duration) -> Duration {
        if run >= GOOD_RUN {
            self.next = FIRST;
        }
        let wait = self.next;
        self.next = (wait * 2).min(LONGEST);
        wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest_and_start_anew_after_a_good_run() {
        let mut backoff = Backoff::default();
        let waits: Vec<u128> = (0..8).map(|_| backoff.after(Duration::ZERO).as_millis()).collect();
        assert_eq!(waits, [250, 500, 1_000, 2_000, 4_000, 8_000, 10_000, 10_000]);
        assert_eq!(backoff.after(GOOD_RUN), FIRST);
    }
}
