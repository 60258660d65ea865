//! What a breaker can tell about itself.

use std::time::Duration;

use super::state::State;

/// The numbers of a breaker at one moment. Under concurrent calls they are read one after the other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Metrics {
    /// The state that was decided last.
    pub state: State,
    /// For how long it has been in that state.
    pub in_state: Duration,
    /// Calls that reported: successes and failures.
    pub calls: u64,
    /// Calls that went well.
    pub successes: u64,
    /// Calls that failed.
    pub failures: u64,
    /// Calls that were slow, whether they went well or not.
    pub slow: u64,
    /// Calls whose outcome was ignored.
    pub ignored: u64,
    /// Calls that were dropped without an outcome.
    pub cancelled: u64,
    /// Calls that were refused.
    pub rejected: u64,
    /// Probes that did not report in time. Their late reports, if any, are counted as calls too.
    pub probes_timed_out: u64,
    /// How often it opened, by a rule, a failed probe or by hand.
    pub opened: u64,
    /// The share of failures in the window; 0 if the window is empty.
    pub failure_rate: f64,
    /// The share of slow calls in the window; 0 if the window is empty.
    pub slow_rate: f64,
    /// How many calls failed one after the other, up to now.
    pub consecutive_failures: u32,
    /// When a call failed last.
    pub last_failure: Option<Duration>,
    pub(super) spent: [Duration; State::COUNT],
}

impl Metrics {
    /// How long it was in this state altogether.
    pub fn spent_in(&self, state: State) -> Duration {
        self.spent[state as usize]
    }
}
