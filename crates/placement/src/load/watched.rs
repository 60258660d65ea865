//! Decides nothing: puts a [`Monitor`] beside any policy, so that both hear the same events.

use std::time::Duration;

use super::monitor::Monitor;
use crate::policy::{Event, Pick, Policy, Request, View};

/// A policy with a monitor beside it. Picks are those of the policy.
#[derive(Clone, Debug)]
pub struct Watched<P> {
    policy: P,
    monitor: Monitor,
}

impl<P: Policy> Watched<P> {
    /// Watches what the policy does.
    pub fn new(policy: P, monitor: Monitor) -> Self {
        Self { policy, monitor }
    }

    /// The policy.
    pub fn policy(&self) -> &P {
        &self.policy
    }

    /// The monitor.
    pub fn monitor(&self) -> &Monitor {
        &self.monitor
    }
}

impl<P: Policy> Policy for Watched<P> {
    fn name(&self) -> &'static str {
        self.policy.name()
    }

    fn pick(&mut self, request: &Request<'_>, view: &View<'_>, now: Duration) -> Pick {
        self.policy.pick(request, view, now)
    }

    fn on_event(&mut self, event: &Event<'_>, now: Duration) {
        self.monitor.observe(event, now);
        self.policy.on_event(event, now);
    }
}
