//! The probes of a half-open breaker: how many are under way, which are overdue, how many went well.

use std::time::Duration;

/// Probes since the breaker was half-open last.
#[derive(Debug, Default)]
pub(super) struct Probes {
    /// At most `Settings::probes`, oldest first.
    under_way: Vec<Probe>,
    pub(super) successes: u32,
    next_id: u64,
}

#[derive(Debug)]
struct Probe {
    id: u64,
    started: Duration,
}

impl Probes {
    pub(super) fn count(&self) -> usize {
        self.under_way.len()
    }

    pub(super) fn start(&mut self, now: Duration) -> u64 {
        self.next_id += 1;
        self.under_way.push(Probe { id: self.next_id, started: now });
        self.next_id
    }

    pub(super) fn end(&mut self, id: u64) {
        self.under_way.retain(|probe| probe.id != id);
    }

    /// When the first probe is overdue.
    pub(super) fn first_due(&self, timeout: Duration) -> Option<Duration> {
        self.under_way.iter().map(|probe| probe.started.saturating_add(timeout)).min()
    }

    /// How many probes are overdue.
    pub(super) fn overdue(&self, timeout: Duration, now: Duration) -> usize {
        self.under_way.iter().filter(|probe| probe.started.saturating_add(timeout) <= now).count()
    }

    /// Forgets all probes; the ids go on, so that a late report finds nothing.
    pub(super) fn clear(&mut self) {
        self.under_way.clear();
        self.successes = 0;
    }
}
