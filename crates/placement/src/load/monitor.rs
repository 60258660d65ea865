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
#[derive(Clone, Debug)]
pub struct Monitor {
    options: Options,
    /// By slot.
    watches: Vec<Option<Watch>>,
}

impl Default for Monitor {
    fn default() -> Self {
        Self { options: Options::default(), watches: Vec::new() }
    }
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
