//! Decides when requests are answered: nodes that do one operation after the other, and a balancer that places them.
//!
//! A request may be several operations (a write to every copy, a read of every part); it is answered when the last of
//! them is done. The time that an operation needs is random (exponential).

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use divvy_placement::hashing::RingPolicy;
use divvy_placement::{Balancer, Outcome, Request, TargetId, TargetSpec};

/// Nodes, each with a queue.
pub(super) struct Nodes {
    /// The balancer that knows what is in flight at which node.
    pub(super) balancer: Balancer<RingPolicy>,
    ids: Vec<TargetId>,
    /// When each node will have done all that it was given.
    free_at: Vec<Duration>,
    /// Operations in flight: when they end, which node, when they began.
    running: BinaryHeap<Reverse<(Duration, usize, Duration)>>,
    service: Duration,
    random: fastrand::Rng,
}

impl Nodes {
    /// Idle nodes.
    pub(super) fn new(policy: RingPolicy, count: usize, service: Duration, seed: u64) -> Self {
        let mut balancer = Balancer::new(policy);
        let ids: Vec<TargetId> = (0..count)
            .map(|node| {
                let added = balancer.add(TargetSpec::new(format!("node-{node}")), Duration::ZERO);
                added.expect("the names differ")
            })
            .collect();
        // Nodes are put on the ring at the first choice; one without a key is counted nowhere.
        balancer.pick(&Request::default(), Duration::ZERO);
        Self {
            balancer,
            free_at: vec![Duration::ZERO; ids.len()],
            ids,
            running: BinaryHeap::new(),
            service,
            random: fastrand::Rng::with_seed(seed),
        }
    }

    /// Lets time pass: what has ended is told to the balancer.
    pub(super) fn advance(&mut self, now: Duration) {
        while let Some(Reverse((end, node, start))) = self.running.peek().copied() {
            if end > now {
                break;
            }
            self.running.pop();
            self.balancer.finish(self.ids[node], end - start, Outcome::Success, end);
        }
    }

    /// Gives a node one operation; says when it will be done and how long the node works on it.
    pub(super) fn give(&mut self, node: usize, now: Duration) -> (Duration, Duration) {
        self.balancer.start(self.ids[node], now);
        let need = self.service.mul_f64(-(1.0 - self.random.f64()).ln());
        let end = self.free_at[node].max(now) + need;
        self.free_at[node] = end;
        self.running.push(Reverse((end, node, now)));
        (end, need)
    }

    /// Requests that wait at the fullest node.
    pub(super) fn longest_queue(&self) -> u32 {
        let slots = self.balancer.targets().slots();
        slots.iter().map(|target| target.in_flight).max().unwrap_or_default()
    }

    /// The number of each node, by its id on the ring.
    pub(super) fn numbers(&self) -> Vec<usize> {
        let slots = self.balancer.targets().slots();
        let mut numbers = vec![0; slots.len()];
        for (number, target) in slots.iter().enumerate() {
            let node = self.balancer.policy().ring().node(&target.spec.name);
            numbers[node.expect("every node is on the ring").id()] = number;
        }
        numbers
    }
}
