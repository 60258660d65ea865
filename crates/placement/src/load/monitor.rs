//! Decides what every target carries right now, from the events that a policy hears.
//!
//! Knows nothing of what is done about it. Per target it keeps a sliding window of time buckets (rates, utilisation,
//! queue), the [`Statistics`] and a capacity estimate, all by slot; an event costs the same however many targets
//! there are. A snapshot reads all of them and costs as much as there are targets.
//!
//! Rules: a target with a limit is used as far as its limit is, one without is used or not used. A target that was
//! there before the monitor is known from its first event on. Cold: a target without events has rates of 0 over the
//! time since it joined.

use std::time::Duration;

use super::capacity::{self, Estimate, Estimator};
use super::error::{self, Error};
use super::imbalance::Imbalance;
use super::statistics::{self, Statistics, Summary};
use super::window::{Level, Window};
use crate::policy::{Event, Outcome};
use crate::target::{State, Target, TargetId};

/// The most buckets that a window has.
pub const BUCKETS_MAX: usize = 1_000;

/// What can be set.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// The width of a time bucket.
    pub bucket: Duration,
    /// How many of them the window has; at most [`BUCKETS_MAX`].
    pub buckets: usize,
    /// After this long an observation of the statistics counts half.
    pub half_life: Duration,
    /// How the capacity is estimated.
    pub capacity: capacity::Settings,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            bucket: Duration::from_secs(1),
            buckets: 10,
            half_life: statistics::HALF_LIFE_DEFAULT,
            capacity: capacity::Settings::default(),
        }
    }
}

/// Watches all targets.
#[derive(Clone, Debug, Default)]
pub struct Monitor {
    options: Options,
    /// By slot.
    watches: Vec<Option<Watch>>,
}

impl Monitor {
    /// Refuses options that mean nothing.
    pub fn new(options: Options) -> Result<Self, Error> {
        error::some_time("bucket", options.bucket)?;
        error::count("buckets", options.buckets, 1..=BUCKETS_MAX, "1 to 1,000")?;
        error::some_time("half_life", options.half_life)?;
        options.capacity.check()?;
        Ok(Self { options, watches: Vec::new() })
    }

    /// Takes in an event.
    pub fn observe(&mut self, event: &Event<'_>, now: Duration) {
        let target = target_of(event);
        if let Event::Left(_) = event {
            if let Some(watch) = self.watches.get_mut(target.id.slot()) {
                watch.take_if(|watch| watch.id == target.id);
            }
            return;
        }
        if let Some(watch) = self.watch(target, now) {
            watch.observe(event, target, now);
        }
    }

    /// The statistics of a target.
    pub fn statistics(&self, id: TargetId) -> Option<&Statistics> {
        self.watches.get(id.slot())?.as_ref().filter(|w| w.id == id).map(|w| &w.statistics)
    }

    /// What every target carries.
    pub fn snapshot(&self, now: Duration) -> Snapshot {
        let watches = self.watches.iter().flatten();
        Snapshot::of(watches.map(|watch| watch.load(now)).collect(), now)
    }

    /// The record of a target; none if the event is about one that has left.
    fn watch(&mut self, target: &Target, now: Duration) -> Option<&mut Watch> {
        let slot = target.id.slot();
        if slot >= self.watches.len() {
            self.watches.resize_with(slot + 1, || None);
        }
        let place = &mut self.watches[slot];
        let is_new = match place {
            Some(watch) if watch.id == target.id => false,
            Some(watch) if watch.id > target.id => return None,
            _ => true,
        };
        if is_new {
            *place = Some(Watch::new(target, &self.options, now));
        }
        place.as_mut()
    }
}

/// What one target carries.
#[derive(Clone, Debug, PartialEq)]
pub struct TargetLoad {
    /// Which target.
    pub id: TargetId,
    /// Its name.
    pub name: String,
    /// Whether it may be picked.
    pub state: State,
    /// Its share relative to the others.
    pub weight: f64,
    /// The most requests that it may have in flight.
    pub limit: Option<u32>,
    /// Requests in flight now.
    pub in_flight: u32,
    /// Requests that wait at the target, as it last reported.
    pub queued: u32,
    /// Requests started per second, over the window.
    pub rate_in: f64,
    /// Requests ended per second, over the window.
    pub rate_out: f64,
    /// Requests failed per second, over the window.
    pub rate_failed: f64,
    /// The mean of the requests in flight, over the window.
    pub in_flight_mean: f64,
    /// The mean of the requests that wait, over the window.
    pub queued_mean: f64,
    /// The mean share of the limit in use; without a limit, the share of time with anything in flight.
    pub utilisation: f64,
    /// Totals, error rate and quantiles.
    pub statistics: Summary,
    /// What it can bear, as far as that is known.
    pub capacity: Option<Estimate>,
}

impl TargetLoad {
    /// In flight and queued now, per weight.
    pub fn relative_load(&self) -> f64 {
        f64::from(self.in_flight.saturating_add(self.queued)) / self.weight
    }
}

/// What all targets carry, at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// When it was taken.
    pub at: Duration,
    /// Every target, in the order of the slots.
    pub targets: Vec<TargetLoad>,
    /// Requests started per second, on all targets.
    pub rate_in: f64,
    /// Requests ended per second, on all targets.
    pub rate_out: f64,
    /// Requests that wait now, at all targets.
    pub queued: u64,
    /// How uneven the mean load per weight (in flight and queued) of the targets is that are up.
    pub load: Imbalance,
    /// How uneven the utilisation of the targets is that are up.
    pub utilisation: Imbalance,
}

impl Snapshot {
    fn of(targets: Vec<TargetLoad>, at: Duration) -> Self {
        let up = || targets.iter().filter(|target| target.state == State::Up);
        let load = up().map(|target| (target.in_flight_mean + target.queued_mean) / target.weight);
        Self {
            at,
            rate_in: targets.iter().map(|target| target.rate_in).sum(),
            rate_out: targets.iter().map(|target| target.rate_out).sum(),
            queued: targets.iter().map(|target| u64::from(target.queued)).sum(),
            load: Imbalance::of(load),
            utilisation: Imbalance::of(up().map(|target| target.utilisation)),
            targets,
        }
    }

    /// What one target carries.
    pub fn target(&self, id: TargetId) -> Option<&TargetLoad> {
        self.targets.iter().find(|target| target.id == id)
    }
}

/// The record of one target.
#[derive(Clone, Debug)]
struct Watch {
    id: TargetId,
    name: String,
    state: State,
    weight: f64,
    limit: Option<u32>,
    in_flight: u32,
    queued: u32,
    window: Window,
    statistics: Statistics,
    capacity: Estimator,
}

impl Watch {
    fn new(target: &Target, options: &Options, now: Duration) -> Self {
        Self {
            id: target.id,
            name: target.spec.name.clone(),
            state: target.state,
            weight: target.spec.weight,
            limit: target.spec.limit,
            in_flight: 0,
            queued: 0,
            window: Window::new(options.bucket, options.buckets, now),
            statistics: Statistics::checked(options.half_life),
            capacity: Estimator::checked(options.capacity.clone()),
        }
    }

    fn observe(&mut self, event: &Event<'_>, target: &Target, now: Duration) {
        self.window.advance(now);
        match event {
            Event::Started(_) => self.window.counts().started += 1,
            Event::Finished { latency, outcome, .. } => {
                let counts = self.window.counts();
                counts.finished += 1;
                counts.failed += u64::from(*outcome == Outcome::Failure);
                if *outcome == Outcome::Success {
                    let was_in_flight = target.in_flight.saturating_add(1);
                    let at_limit = target.spec.limit.is_some_and(|limit| was_in_flight >= limit);
                    self.capacity.succeeded(*latency, at_limit, now);
                }
            }
            Event::Joined(_) | Event::Left(_) | Event::Changed(_) | Event::Idle(_) => {}
        }
        self.statistics.observe(event, now);
        self.state = target.state;
        self.weight = target.spec.weight;
        self.limit = target.spec.limit;
        self.in_flight = target.in_flight;
        self.queued = target.queued;
        self.window.set_level(Level {
            in_flight: f64::from(target.in_flight),
            queued: f64::from(target.queued),
            used: used(target),
        });
    }

    fn load(&self, now: Duration) -> TargetLoad {
        let totals = self.window.totals_at(now);
        let rate =
            |count: u64| if totals.seconds > 0.0 { count as f64 / totals.seconds } else { 0.0 };
        TargetLoad {
            id: self.id,
            name: self.name.clone(),
            state: self.state,
            weight: self.weight,
            limit: self.limit,
            in_flight: self.in_flight,
            queued: self.queued,
            rate_in: rate(totals.counts.started),
            rate_out: rate(totals.counts.finished),
            rate_failed: rate(totals.counts.failed),
            in_flight_mean: totals.means.in_flight,
            queued_mean: totals.means.queued,
            utilisation: totals.means.used,
            statistics: self.statistics.summary(now),
            capacity: self.capacity.estimate(self.limit, now),
        }
    }
}

/// The share of a target in use, from 0 to 1.
fn used(target: &Target) -> f64 {
    match target.spec.limit {
        Some(limit) => (f64::from(target.in_flight) / f64::from(limit.max(1))).min(1.0),
        None => f64::from(u8::from(target.in_flight > 0)),
    }
}

fn target_of<'a>(event: &Event<'a>) -> &'a Target {
    match event {
        Event::Joined(target)
        | Event::Left(target)
        | Event::Changed(target)
        | Event::Started(target)
        | Event::Finished { target, .. }
        | Event::Idle(target) => target,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::target::{TargetSpec, Targets};

    /// What is done to one of the targets.
    #[derive(Clone, Debug)]
    enum Action {
        Start,
        Finish(Outcome),
        Queue(u32),
        Limit(Option<u32>),
    }

    fn any_action() -> impl Strategy<Value = Action> {
        prop_oneof![
            4 => Just(Action::Start),
            3 => Just(Action::Finish(Outcome::Success)),
            1 => Just(Action::Finish(Outcome::Failure)),
            1 => (0u32..20).prop_map(Action::Queue),
            1 => prop::option::of(1u32..5).prop_map(Action::Limit),
        ]
    }

    /// A table, a monitor, and everything that was ever true of it.
    struct World {
        targets: Targets,
        monitor: Monitor,
        /// Per target: when, and the target as it was from then on.
        history: Vec<Vec<(u64, Target)>>,
        started: Vec<Vec<u64>>,
        finished: Vec<Vec<u64>>,
    }

    impl World {
        fn new(count: usize) -> Self {
            let mut world = Self {
                targets: Targets::new(),
                monitor: Monitor::default(),
                history: vec![Vec::new(); count],
                started: vec![Vec::new(); count],
                finished: vec![Vec::new(); count],
            };
            for at in 0..count {
                world.targets.add(TargetSpec::new(at.to_string())).unwrap();
                let target = world.targets.slots()[at].clone();
                world.monitor.observe(&Event::Joined(&target), Duration::ZERO);
                world.history[at].push((0, target));
            }
            world
        }

        fn act(&mut self, at: usize, action: &Action, now_ms: u64) {
            let now = Duration::from_millis(now_ms);
            let id = self.targets.slots()[at].id;
            match action {
                Action::Start => {
                    self.targets.started(id);
                    self.started[at].push(now_ms);
                    self.monitor.observe(&Event::Started(&self.targets.slots()[at]), now);
                }
                Action::Finish(outcome) if self.targets.slots()[at].in_flight > 0 => {
                    self.targets.finished(id);
                    self.finished[at].push(now_ms);
                    let target = &self.targets.slots()[at];
                    let latency = Duration::from_millis(5);
                    let event = Event::Finished { target, latency, outcome: *outcome };
                    self.monitor.observe(&event, now);
                }
                Action::Finish(_) => {}
                Action::Queue(queued) => {
                    self.targets.set_queued(id, *queued).unwrap();
                    self.monitor.observe(&Event::Changed(&self.targets.slots()[at]), now);
                }
                Action::Limit(limit) => {
                    self.targets.set_limit(id, *limit).unwrap();
                    self.monitor.observe(&Event::Changed(&self.targets.slots()[at]), now);
                }
            }
            self.history[at].push((now_ms, self.targets.slots()[at].clone()));
        }

        /// A mean over the window, from the whole history.
        fn mean(&self, at: usize, from: u64, now: u64, of: impl Fn(&Target) -> f64) -> f64 {
            let history = &self.history[at];
            let ends = history.iter().skip(1).map(|(end, _)| *end).chain([now]);
            let area = |((begin, target), end): (&(u64, Target), u64)| {
                of(target) * end.max(from).saturating_sub((*begin).max(from)) as f64
            };
            let sum: f64 = history.iter().zip(ends).map(area).sum();
            if now > from { sum / (now - from) as f64 } else { 0.0 }
        }
    }

    proptest! {
        #[test]
        fn a_snapshot_is_what_the_whole_history_says(
            steps in prop::collection::vec((0u64..900, 0usize..3, any_action()), 1..80),
        ) {
            let mut world = World::new(3);
            let mut now = 0;
            for (wait, at, action) in steps {
                now += wait;
                world.act(at, &action, now);
            }
            let snapshot = world.monitor.snapshot(Duration::from_millis(now));
            let from = (now / 1_000 + 1).saturating_sub(10) * 1_000;
            let seconds = (now - from) as f64 / 1_000.0;
            let near = |a: f64, b: f64| (a - b).abs() < 1e-6 * (1.0 + b.abs());
            let mut loads = Vec::new();
            for (at, load) in snapshot.targets.iter().enumerate() {
                let rate = |times: &[u64]| {
                    let count = times.iter().filter(|time| **time >= from).count() as f64;
                    if seconds > 0.0 { count / seconds } else { 0.0 }
                };
                let in_flight = world.mean(at, from, now, |t| f64::from(t.in_flight));
                let queued = world.mean(at, from, now, |t| f64::from(t.queued));
                prop_assert!(near(load.rate_in, rate(&world.started[at])));
                prop_assert!(near(load.rate_out, rate(&world.finished[at])));
                prop_assert!(near(load.in_flight_mean, in_flight));
                prop_assert!(near(load.queued_mean, queued));
                prop_assert!(near(load.utilisation, world.mean(at, from, now, used)));
                prop_assert_eq!(load.in_flight, world.targets.slots()[at].in_flight);
                prop_assert_eq!(load.statistics.requests, world.started[at].len() as u64);
                loads.push(in_flight + queued);
            }
            let imbalance = Imbalance::of(loads.iter().copied());
            prop_assert!(near(snapshot.load.variance, imbalance.variance));
            prop_assert!(near(snapshot.load.jain, imbalance.jain));
        }
    }

    #[test]
    fn targets_that_leave_are_forgotten_and_their_successors_start_afresh() {
        let mut targets = Targets::new();
        let mut monitor = Monitor::default();
        let first = targets.add(TargetSpec::new("old")).unwrap();
        let old = targets.get(first).unwrap().clone();
        monitor.observe(&Event::Started(&old), Duration::ZERO);
        assert_eq!(monitor.snapshot(Duration::ZERO).targets[0].name, "old");
        targets.remove(first).unwrap();
        monitor.observe(&Event::Left(&old), Duration::ZERO);
        assert!(monitor.snapshot(Duration::ZERO).targets.is_empty());
        let second = targets.add(TargetSpec::new("new")).unwrap();
        monitor.observe(&Event::Joined(targets.get(second).unwrap()), Duration::ZERO);
        monitor.observe(&Event::Started(&old), Duration::ZERO);
        let snapshot = monitor.snapshot(Duration::ZERO);
        assert_eq!(snapshot.target(second).unwrap().statistics.requests, 0);
        assert!(monitor.statistics(first).is_none());
        assert!(monitor.statistics(second).is_some());
    }

    #[test]
    fn targets_that_are_not_up_do_not_count_as_uneven() {
        let mut world = World::new(3);
        (0..2).for_each(|at| (0..5).for_each(|_| world.act(at, &Action::Start, 0)));
        let id = world.targets.slots()[2].id;
        let now = Duration::from_secs(1);
        assert!(world.monitor.snapshot(now).load.jain < 0.7);
        world.targets.set_state(id, State::Down).unwrap();
        world.monitor.observe(&Event::Changed(&world.targets.slots()[2]), now);
        let snapshot = world.monitor.snapshot(now);
        assert_eq!((snapshot.load.jain, snapshot.load.count), (1.0, 2));
    }

    #[test]
    fn nonsense_is_refused() {
        let default = Options::default;
        let bad = [
            (Options { bucket: Duration::ZERO, ..default() }, "`bucket`"),
            (Options { buckets: 0, ..default() }, "`buckets`"),
            (Options { buckets: BUCKETS_MAX + 1, ..default() }, "`buckets`"),
            (Options { half_life: Duration::ZERO, ..default() }, "`half_life`"),
        ];
        for (options, field) in bad {
            let error = Monitor::new(options).unwrap_err();
            assert!(error.to_string().contains(field), "{error}");
        }
    }
}
