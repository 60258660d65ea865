//! Decides what happens next in a simulation: arrivals, choices, queues and ends, in the order of time.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

use divvy_placement::{Balancer, Outcome as End, Pick, Policy, Request, TargetId, TargetSpec};

use super::outcome::{Outcome, QUEUE_OVERLOADED, Slice, Times};
use super::setup::{Reports, Setup, Upset};

/// Time since the start, in nanoseconds.
type Nanos = u64;

/// The target that an upset falls on.
const UPSET_TARGET: usize = 0;

/// Everything in a simulation.
pub(super) struct World<'a> {
    setup: &'a Setup,
    now: Nanos,
    /// What will happen: when, in which order of planning, what.
    events: BinaryHeap<Reverse<(Nanos, u64, Event)>>,
    planned: u64,
    balancers: Vec<Desk>,
    ids: Vec<TargetId>,
    servers: Vec<Server>,
    arrived: u64,
    /// Each kind of chance has its own source, so that policies face the same requests.
    arrivals: fastrand::Rng,
    needs: fastrand::Rng,
    keys: fastrand::Rng,
    desks: fastrand::Rng,
    idlers: fastrand::Rng,
    record: Record,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Arrival,
    /// This target ends what it serves.
    Served(usize),
}

/// A balancer and the requests that wait there because every target is at its limit.
struct Desk {
    balancer: Balancer<Box<dyn Policy>>,
    waiting: VecDeque<Call>,
}

/// A target: the first in its queue is being served.
struct Server {
    queue: VecDeque<Call>,
    slowness: f64,
    failing: bool,
}

/// A request on its way.
#[derive(Clone, Copy, Debug)]
struct Call {
    key: u64,
    desk: usize,
    /// The time that it needs on a target of full speed.
    need: f64,
    arrived: Nanos,
    sent: Nanos,
    counted: bool,
}

/// What is written down.
struct Record {
    all: Times,
    slices: Vec<Times>,
    slice_calls: Vec<(u64, u64)>,
    slice_length: Nanos,
    answered: u64,
    failed: u64,
    shed: u64,
    sent: Vec<u64>,
    overloaded: usize,
    upset_at: Option<Nanos>,
    sent_after_upset: (u64, u64),
}

impl<'a> World<'a> {
    pub(super) fn new(setup: &'a Setup, policy: &mut dyn FnMut(u64) -> Box<dyn Policy>) -> Self {
        let mut seeds = fastrand::Rng::with_seed(setup.seed);
        let mut source = || fastrand::Rng::with_seed(seeds.u64(..));
        let (arrivals, needs, keys) = (source(), source(), source());
        let (desks, idlers, mut policies) = (source(), source(), source());
        let mut ids = Vec::new();
        let balancers = (0..setup.balancers).map(|_| {
            let mut balancer = Balancer::new(policy(policies.u64(..)));
            ids = (0..setup.targets).map(|target| add(&mut balancer, setup, target)).collect();
            Desk { balancer, waiting: VecDeque::new() }
        });
        let balancers = balancers.collect();
        let servers = (0..setup.targets).map(|target| Server {
            queue: VecDeque::new(),
            slowness: setup.slowness(target),
            failing: false,
        });
        let length = setup.gap_ns() * setup.requests as f64 / setup.slices as f64;
        let record = Record {
            all: Times::new(),
            slices: (0..setup.slices).map(|_| Times::new()).collect(),
            slice_calls: vec![(0, 0); setup.slices],
            slice_length: (length as Nanos).max(1),
            answered: 0,
            failed: 0,
            shed: 0,
            sent: vec![0; setup.targets],
            overloaded: 0,
            upset_at: None,
            sent_after_upset: (0, 0),
        };
        Self {
            setup,
            now: 0,
            events: BinaryHeap::new(),
            planned: 0,
            balancers,
            ids,
            servers: servers.collect(),
            arrived: 0,
            arrivals,
            needs,
            keys,
            desks,
            idlers,
            record,
        }
    }

    pub(super) fn run(mut self) -> Outcome {
        for target in 0..self.setup.targets {
            self.say_idle(target);
        }
        self.plan_arrival();
        while let Some(Reverse((at, _, event))) = self.events.pop() {
            self.now = at;
            match event {
                Event::Arrival => self.arrive(),
                Event::Served(target) => self.serve_end(target),
            }
        }
        self.record.outcome()
    }

    fn arrive(&mut self) {
        self.arrived += 1;
        if self.arrived == self.setup.requests / 2 {
            self.upset();
        }
        let call = Call {
            key: self.keys.u64(..self.setup.keys),
            desk: self.desks.usize(..self.setup.balancers),
            need: exponential(&mut self.needs) * self.setup.service.as_nanos() as f64,
            arrived: self.now,
            sent: self.now,
            counted: self.arrived as f64 > self.setup.warm_up * self.setup.requests as f64,
        };
        // Those that wait came first.
        if self.balancers[call.desk].waiting.is_empty() {
            self.place(call);
        } else {
            self.balancers[call.desk].waiting.push_back(call);
        }
        if self.arrived < self.setup.requests {
            self.plan_arrival();
        } else {
            let grown = |server: &&Server| server.queue.len() >= QUEUE_OVERLOADED;
            self.record.overloaded = self.servers.iter().filter(grown).count();
        }
    }

    /// Chooses a target for a request, or lets it wait. Says whether it went somewhere.
    fn place(&mut self, mut call: Call) -> bool {
        if self.setup.reports == Reports::Exact {
            self.report_queues(call.desk);
        }
        let now = Duration::from_nanos(self.now);
        let desk = &mut self.balancers[call.desk];
        let request = Request::keyed(spread_key(call.key));
        match desk.balancer.assign(&request, now) {
            Pick::Wait => {
                desk.waiting.push_front(call);
                false
            }
            Pick::Shed(_) => {
                self.record.shed += 1;
                true
            }
            pick @ (Pick::One(_) | Pick::Ranked(_)) => {
                let id = pick.first().expect("a policy that ranks names a target");
                call.sent = self.now;
                self.send(id.slot(), call);
                true
            }
        }
    }

    fn send(&mut self, target: usize, call: Call) {
        self.record.sent[target] += 1;
        if self.record.upset_at.is_some() {
            self.record.sent_after_upset.0 += u64::from(target == UPSET_TARGET);
            self.record.sent_after_upset.1 += 1;
        }
        self.servers[target].queue.push_back(call);
        if self.servers[target].queue.len() == 1 {
            self.plan_end(target);
        }
    }

    fn serve_end(&mut self, target: usize) {
        let server = &mut self.servers[target];
        let call = server.queue.pop_front().expect("a target ends only what it serves");
        let end = if server.failing { End::Failure } else { End::Success };
        let more = !server.queue.is_empty();
        self.record.end(&call, end, self.now);
        let now = Duration::from_nanos(self.now);
        let latency = Duration::from_nanos(self.now - call.sent);
        self.balancers[call.desk].balancer.finish(self.ids[target], latency, end, now);
        if more {
            self.plan_end(target);
        } else {
            self.say_idle(target);
        }
        self.serve_waiting(call.desk);
    }

    /// A target without work says so to one balancer.
    fn say_idle(&mut self, target: usize) {
        let desk = self.idlers.usize(..self.setup.balancers);
        let now = Duration::from_nanos(self.now);
        self.balancers[desk].balancer.idle(self.ids[target], now);
        self.serve_waiting(desk);
    }

    fn serve_waiting(&mut self, desk: usize) {
        while let Some(call) = self.balancers[desk].waiting.pop_front() {
            if !self.place(call) {
                break;
            }
        }
    }

    /// Tells a balancer how many requests of others are at each target.
    fn report_queues(&mut self, desk: usize) {
        let now = Duration::from_nanos(self.now);
        let balancer = &mut self.balancers[desk].balancer;
        for (server, id) in self.servers.iter().zip(&self.ids) {
            let known = &balancer.targets().slots()[id.slot()];
            let others = (server.queue.len() as u32).saturating_sub(known.in_flight);
            if known.queued != others {
                balancer.set_queued(*id, others, now).expect("no target leaves a simulation");
            }
        }
    }

    fn upset(&mut self) {
        let server = &mut self.servers[UPSET_TARGET];
        match self.setup.upset {
            Upset::None => return,
            Upset::Slow { factor } => server.slowness *= factor,
            Upset::Fails { share } => {
                server.slowness *= share;
                server.failing = true;
            }
        }
        self.record.upset_at = Some(self.now);
    }

    fn plan_arrival(&mut self) {
        let gap = exponential(&mut self.arrivals) * self.setup.gap_ns();
        self.plan(gap, Event::Arrival);
    }

    fn plan_end(&mut self, target: usize) {
        let server = &self.servers[target];
        let need = server.queue.front().map_or(0.0, |call| call.need * server.slowness);
        self.plan(need, Event::Served(target));
    }

    fn plan(&mut self, after: f64, event: Event) {
        self.planned += 1;
        self.events.push(Reverse((self.now + after as Nanos, self.planned, event)));
    }
}

impl Record {
    fn end(&mut self, call: &Call, end: End, now: Nanos) {
        let last = self.slices.len() - 1;
        let slice = ((call.arrived / self.slice_length) as usize).min(last);
        let failed = end == End::Failure;
        self.slice_calls[slice].0 += 1;
        self.slice_calls[slice].1 += u64::from(failed);
        if !failed {
            self.slices[slice].record(now - call.arrived);
        }
        if !call.counted {
            return;
        }
        if failed {
            self.failed += 1;
        } else {
            self.answered += 1;
            self.all.record(now - call.arrived);
        }
    }

    fn outcome(self) -> Outcome {
        let slice = |(index, times): (usize, &Times)| {
            let (calls, failed) = self.slice_calls[index];
            Slice {
                at: Duration::from_nanos(self.slice_length * (2 * index as u64 + 1) / 2),
                response: times.quantiles(),
                failed: if calls == 0 { 0.0 } else { failed as f64 / calls as f64 },
            }
        };
        let (hit, all) = self.sent_after_upset;
        Outcome {
            response: self.all.quantiles(),
            slices: self.slices.iter().enumerate().map(slice).collect(),
            answered: self.answered,
            failed: self.failed,
            shed: self.shed,
            overloaded: self.overloaded,
            upset_at: self.upset_at.map(Duration::from_nanos),
            sent_to_upset: if all == 0 { 0.0 } else { hit as f64 / all as f64 },
            sent: self.sent,
        }
    }
}

fn add(balancer: &mut Balancer<Box<dyn Policy>>, setup: &Setup, target: usize) -> TargetId {
    let mut spec = TargetSpec::new(format!("target-{target}"));
    if setup.weights_known {
        spec.weight = 1.0 / setup.slowness(target);
    }
    spec.limit = setup.limit;
    let id = balancer.add(spec, Duration::ZERO).expect("names differ and weights are sound");
    assert_eq!(id.slot(), target, "targets take the slots in order");
    id
}

/// A draw with mean 1.
fn exponential(random: &mut fastrand::Rng) -> f64 {
    -(1.0 - random.f64()).ln()
}

/// Neighbouring keys get hashes far apart (the finaliser of SplitMix64).
fn spread_key(key: u64) -> u64 {
    let mut hash = key.wrapping_add(0x9e37_79b9_7f4a_7c15);
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}
