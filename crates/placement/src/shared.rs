//! Decides who counts a request out when many threads share one balancer: its ticket does, always.
//!
//! Does not know a clock: the caller gives a function that tells the time since a moment of its choice. It does not
//! block: a request that must wait is told so, and the caller asks again when a ticket was given back.
//!
//! The rules: a ticket is a request that was started; `finish` counts it out with its outcome; a ticket that is
//! dropped instead, by a panic or an early return, counts as cancelled. So no load is left behind for ever.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::balancer::Balancer;
use crate::policy::{Outcome, Pick, Policy, Refused, Request};
use crate::target::TargetId;

/// A balancer for many threads. Clones share it.
pub struct SharedBalancer<P> {
    shared: Arc<Shared<P>>,
}

struct Shared<P> {
    balancer: Mutex<Balancer<P>>,
    now: Box<dyn Fn() -> Duration + Send + Sync>,
}

impl<P: Policy> SharedBalancer<P> {
    /// A balancer without targets; `now` tells the time since any fixed moment.
    pub fn new(policy: P, now: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        let balancer = Mutex::new(Balancer::new(policy));
        Self { shared: Arc::new(Shared { balancer, now: Box::new(now) }) }
    }

    /// Picks a target and counts the request as started there until the ticket is finished or dropped.
    pub fn assign(&self, request: &Request<'_>) -> Result<Ticket<P>, Refused> {
        let started = (self.shared.now)();
        let pick = self.lock().assign(request, started);
        let target = pick.target()?;
        Ok(Ticket { shared: Arc::clone(&self.shared), target, pick, started, is_open: true })
    }

    /// Starts a request at a target that was picked before: a retry, a hedge or a replica.
    pub fn start(&self, target: TargetId) -> Ticket<P> {
        let started = (self.shared.now)();
        self.lock().start(target, started);
        let pick = Pick::One(target);
        Ticket { shared: Arc::clone(&self.shared), target, pick, started, is_open: true }
    }

    /// Does anything else with the balancer, under its lock: adds and removes targets, asks for loads. The function
    /// must not use this shared balancer or its tickets, which would wait for the same lock.
    pub fn with<T>(&self, act: impl FnOnce(&mut Balancer<P>, Duration) -> T) -> T {
        let now = (self.shared.now)();
        act(&mut self.lock(), now)
    }

    fn lock(&self) -> MutexGuard<'_, Balancer<P>> {
        self.shared.lock()
    }
}

impl<P> Shared<P> {
    fn lock(&self) -> MutexGuard<'_, Balancer<P>> {
        // A panic of a caller's function in `with` breaks no invariant of the balancer, whose own calls do not stop
        // half way; losing the balancer for all other threads would be worse.
        self.balancer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<P> Clone for SharedBalancer<P> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<P: fmt::Debug> fmt::Debug for SharedBalancer<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedBalancer").field("balancer", &self.shared.balancer).finish()
    }
}

/// A request that was started. Finish it; if it is dropped, it counts as cancelled.
#[must_use = "a ticket that is dropped counts its request out as cancelled"]
pub struct Ticket<P: Policy> {
    shared: Arc<Shared<P>>,
    target: TargetId,
    pick: Pick,
    started: Duration,
    is_open: bool,
}

impl<P: Policy> Ticket<P> {
    /// Where the request goes.
    pub fn target(&self) -> TargetId {
        self.target
    }

    /// The next best targets, if the request wanted more than one. Nothing is started there.
    pub fn alternatives(&self) -> &[TargetId] {
        match &self.pick {
            Pick::Ranked(ranked) => ranked.as_slice().get(1..).unwrap_or_default(),
            Pick::One(_) | Pick::Wait | Pick::Shed(_) => &[],
        }
    }

    /// Counts the request out.
    pub fn finish(mut self, outcome: Outcome) {
        self.close(outcome);
    }

    fn close(&mut self, outcome: Outcome) {
        if std::mem::take(&mut self.is_open) {
            let now = (self.shared.now)();
            let latency = now.saturating_sub(self.started);
            self.shared.lock().finish(self.target, latency, outcome, now);
        }
    }
}

impl<P: Policy> Drop for Ticket<P> {
    fn drop(&mut self) {
        self.close(Outcome::Cancelled);
    }
}

impl<P: Policy> fmt::Debug for Ticket<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket")
            .field("target", &self.target)
            .field("started", &self.started)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::TargetSpec;
    use crate::policies::{LeastConnections, LeastResponseTime, least_response_time};

    fn in_flight<P: Policy>(balancer: &SharedBalancer<P>) -> Vec<u32> {
        balancer.with(|balancer, _| balancer.targets().iter().map(|it| it.in_flight).collect())
    }

    fn balancer(limits: &[u32]) -> SharedBalancer<LeastConnections> {
        let balancer = SharedBalancer::new(LeastConnections::new(0), || Duration::ZERO);
        for (index, limit) in limits.iter().enumerate() {
            let spec = TargetSpec::new(index.to_string()).limit(*limit);
            balancer.with(|balancer, now| balancer.add(spec, now)).unwrap();
        }
        balancer
    }

    #[test]
    fn a_ticket_counts_its_request_out_once_however_it_ends() {
        let balancer = balancer(&[9]);
        let finished = balancer.assign(&Request::default()).unwrap();
        let dropped = balancer.assign(&Request::default()).unwrap();
        let panicked = balancer.clone();
        assert_eq!(in_flight(&balancer), [2]);
        finished.finish(Outcome::Success);
        assert_eq!(in_flight(&balancer), [1]);
        drop(dropped);
        assert_eq!(in_flight(&balancer), [0]);
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _ticket = panicked.assign(&Request::default()).unwrap();
            panic!("the request went wrong");
        }));
        assert!(result.is_err());
        assert_eq!(in_flight(&balancer), [0]);
    }

    #[test]
    fn the_latency_is_the_time_between_start_and_finish_and_cancelled_tickets_say_nothing() {
        let clock = Arc::new(AtomicU64::new(0));
        let read = Arc::clone(&clock);
        let policy = LeastResponseTime::new(least_response_time::Settings::default(), 0).unwrap();
        let balancer = SharedBalancer::new(policy, move || {
            Duration::from_millis(read.load(Ordering::Relaxed))
        });
        let id = balancer.with(|balancer, now| balancer.add(TargetSpec::new("a"), now)).unwrap();
        for (ms, outcome) in [(40, Some(Outcome::Success)), (900, None)] {
            let ticket = balancer.assign(&Request::default()).unwrap();
            clock.fetch_add(ms, Ordering::Relaxed);
            match outcome {
                Some(outcome) => ticket.finish(outcome),
                None => drop(ticket),
            }
            let average = balancer
                .with(|balancer, _| balancer.policy().average(balancer.targets().get(id).unwrap()));
            assert_eq!(average, Some(Duration::from_millis(40)));
        }
    }

    #[test]
    fn full_targets_make_requests_wait_until_a_ticket_comes_back() {
        let balancer = balancer(&[1, 1]);
        let request = Request { want: 2, ..Request::default() };
        let first = balancer.assign(&request).unwrap();
        let hedge = balancer.start(first.alternatives()[0]);
        assert_ne!(first.target(), hedge.target());
        assert_eq!(balancer.assign(&request).unwrap_err(), Refused::Wait);
        drop(first);
        assert!(balancer.assign(&request).is_ok());
    }

    #[test]
    fn threads_never_exceed_limits_and_leave_nothing_behind() {
        let balancer = balancer(&[2, 3]);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        let tickets: Vec<_> =
                            (0..2).map(|_| balancer.assign(&Request::default())).collect();
                        let loads = in_flight(&balancer);
                        assert!(loads[0] <= 2 && loads[1] <= 3, "{loads:?}");
                        drop(tickets);
                    }
                });
            }
        });
        assert_eq!(in_flight(&balancer), [0, 0]);
    }
}
