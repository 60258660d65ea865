//! Decides as a [`crate::Policy`] with a ring: requests about one key go to one target, and few keys change their
//! target when targets come and go.
//!
//! Knows what is in flight from the view and counts requests per key only if hot keys are to be spread. Rules:
//!
//! - A target is a node by its name and weight. One that is down or draining keeps its points: its keys go to their
//!   next owners and come back with it. One that is removed leaves the ring.
//! - A key goes to its owner if that fits the request, else to the next owner that does. More than one wanted: the
//!   owners in order, which is where replicas lie and where retries should go.
//! - With a bound, a target also has to be below ⌈(1 + bound) × its share of all in flight⌉ to be chosen first; see
//!   [`super::bounded`]. The bound gives way when only targets beyond it fit: it never refuses a request.
//! - With hot keys, a key that is too heavy goes to any of its first r owners that fit, the less loaded of two drawn.
//!   Use it for reads, or where any target can serve any key; see [`super::hot`].
//! - A request without a key gets a number of its own: targets are drawn by weight.
//!
//! Why the ring and not Maglev: targets change at run time, a change costs one pass and moves the fewest keys.
//!
//! Cost: O(1) while owners fit. New targets are taken in together at the next pick, so a start with thousands of them
//! costs one pass. If the weights of all targets ask for more points than the ring may have, the points per weight are
//! halved until they fit (and doubled again when there is room), because a policy cannot refuse a target; the number
//! depends on the targets alone, so balancers with the same targets still agree.
//!
//! At first start there are no targets and requests are shed.

use std::time::Duration;

use crate::policy::{Event, Pick, Policy, RANKED_MAX, Ranked, Request, View};
use crate::target::{State, Target};

use super::bounded::{capacity, check_epsilon};
use super::error::Error;
use super::hot::{self, HotKeys, SPREAD_MAX, two_choices};
use super::ring::{self, Ring};

/// Points of owners that do not fit, after which it is worth looking whether any target does.
const MISSES_MAX: usize = 64;

/// Stands in the place of an id that no target has had yet.
const NO_SLOT: u32 = u32::MAX;

/// How the policy chooses.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Settings {
    /// How the ring is built.
    pub ring: ring::Settings,
    /// How far above its share of all in flight a target may go, such as 0.25; none means without bound.
    pub bound: Option<f64>,
    /// When a key is spread over several targets; none means never.
    pub hot: Option<hot::Settings>,
    /// The seed of the draws among the owners of a hot key.
    pub seed: u64,
}

/// Equal keys to equal targets.
#[derive(Clone, Debug)]
pub struct RingPolicy {
    ring: Ring,
    /// The density that the settings ask for.
    points_per_weight: f64,
    /// The slot of each node, by its id.
    slots: Vec<u32>,
    /// Slots of targets that are not on the ring yet.
    joined: Vec<u32>,
    bound: Option<Bound>,
    hot: Option<HotKeys>,
    random: fastrand::Rng,
    /// Counts requests without a key.
    keyless: u64,
}

impl RingPolicy {
    /// A policy without targets.
    pub fn new(settings: Settings) -> Result<Self, Error> {
        let ring = Ring::new(settings.ring)?;
        let hot = settings.hot.map(HotKeys::new).transpose()?;
        if let Some(epsilon) = settings.bound {
            check_epsilon("bound", epsilon)?;
        }
        Ok(Self {
            points_per_weight: ring.points_per_weight(),
            ring,
            slots: Vec::new(),
            joined: Vec::new(),
            bound: settings.bound.map(Bound::new),
            hot,
            random: fastrand::Rng::with_seed(settings.seed),
            keyless: 0,
        })
    }

    /// The ring as it was at the last pick, with targets as nodes.
    pub fn ring(&self) -> &Ring {
        &self.ring
    }

    /// The hot keys, if they are looked for.
    pub fn hot_keys(&self) -> Option<&HotKeys> {
        self.hot.as_ref()
    }

    /// Takes in the targets that have joined since the last pick.
    fn settle(&mut self, view: &View<'_>) {
        let joined = std::mem::take(&mut self.joined);
        let specs = || joined.iter().map(|slot| &view.targets[*slot as usize].spec);
        let joining = || specs().map(|spec| (spec.name.as_str(), spec.weight));
        self.fit(|ring| ring.extend(joining()));
        for slot in joined {
            let node = self.ring.node(&view.targets[slot as usize].spec.name);
            let id = node.expect("the target was just put on the ring").id();
            if self.slots.len() <= id {
                self.slots.resize(id + 1, NO_SLOT);
            }
            self.slots[id] = slot;
        }
    }

    /// Makes a change that adds points, with fewer points per weight if there are too many. It ends, because a ring
    /// always has room for one point of each node.
    fn fit(&mut self, mut change: impl FnMut(&mut Ring) -> Result<(), Error>) {
        let mut is_coarser = false;
        loop {
            match change(&mut self.ring) {
                Ok(()) => break,
                Err(Error::TooManyPoints { points, points_max }) => {
                    let halvings = (points as f64 / f64::from(points_max)).log2().ceil().max(1.0);
                    self.ring.rescale(self.ring.points_per_weight() / halvings.exp2());
                    is_coarser = true;
                }
                Err(error) => panic!("the table of targets let in what the ring refuses: {error}"),
            }
        }
        if is_coarser {
            self.refine();
        }
    }

    /// Gives points back that had to be saved, as many as fit: the density is then the finest that these targets
    /// allow, by whatever way they came.
    fn refine(&mut self) {
        let mut finest = self.ring.points_per_weight();
        while finest < self.points_per_weight && self.ring.allows(finest * 2.0) {
            finest *= 2.0;
        }
        if finest > self.ring.points_per_weight() {
            self.ring.rescale(finest);
        }
    }

    fn leave(&mut self, target: &Target) {
        let slot = target.id.slot() as u32;
        if let Some(at) = self.joined.iter().position(|joined| *joined == slot) {
            self.joined.swap_remove(at);
        } else if self.ring.remove(&target.spec.name).is_ok() {
            self.refine();
        }
    }

    fn reweigh(&mut self, target: &Target) {
        let spec = &target.spec;
        if self.ring.node(&spec.name).is_some_and(|node| node.weight() != spec.weight) {
            self.fit(|ring| ring.set_weight(&spec.name, spec.weight));
            self.refine();
        }
    }

    /// The owners of a key as targets, in order, with repeats.
    fn walk<'s, 'a>(
        &'s self,
        key: u64,
        view: &View<'a>,
    ) -> impl Iterator<Item = &'a Target> + use<'s, 'a> {
        let targets = view.targets;
        self.ring.walk(key).map(move |id| &targets[self.slots[id as usize] as usize])
    }

    fn is_within_bound(&self, target: &Target) -> bool {
        self.bound.as_ref().is_none_or(|bound| bound.allows(target))
    }

    /// The owner if it fits and is within the bound, else the next that does.
    fn first<'a>(&self, key: u64, request: &Request<'_>, view: &View<'a>) -> Option<&'a Target> {
        let owner = self.ring.node_of(key)?;
        let target = &view.targets[self.slots[owner.id()] as usize];
        if request.fits(target) && self.is_within_bound(target) {
            return Some(target);
        }
        self.next(key, request, view)
    }

    /// The first owner that fits and is within the bound; without one, the first that fits.
    #[cold]
    fn next<'a>(&self, key: u64, request: &Request<'_>, view: &View<'a>) -> Option<&'a Target> {
        let suits = |target: &&Target| request.fits(target) && self.is_within_bound(target);
        let mut walk = self.walk(key, view);
        if let Some(target) = walk.by_ref().take(MISSES_MAX).find(suits) {
            return Some(target);
        }
        // Before the rest of the ring is searched, make sure that there is something to be found.
        if view.up().any(|target| suits(&target)) {
            return walk.find(suits);
        }
        if self.bound.is_some() && view.fitting(request).next().is_some() {
            return self.walk(key, view).find(|target| request.fits(target));
        }
        None
    }

    /// The first `count` owners that fit, or as many as there are.
    fn several<'a>(
        &self,
        key: u64,
        count: usize,
        request: &Request<'_>,
        view: &View<'a>,
    ) -> Few<'a> {
        // Without this, a walk for more owners than fit would go all the way around.
        let count = view.fitting(request).take(count.min(SPREAD_MAX)).count();
        let mut few = Few { targets: [None; SPREAD_MAX], count: 0 };
        for target in self.walk(key, view) {
            if few.count == count {
                break;
            }
            if request.fits(target) && !few.contains(target) {
                few.push(target);
            }
        }
        few
    }

    /// One of the first owners of a hot key, by two choices; by the rule for other keys if it is beyond the bound.
    fn any_of_first<'a>(
        &mut self,
        key: u64,
        spread: usize,
        request: &Request<'_>,
        view: &View<'a>,
    ) -> Option<&'a Target> {
        let few = self.several(key, spread, request, view);
        let load = |at: usize| few.targets[at].map_or(0.0, Target::relative_load);
        let chosen = few.targets[two_choices(&mut self.random, few.count, load)];
        chosen
            .filter(|target| self.is_within_bound(target))
            .or_else(|| self.first(key, request, view))
    }
}

impl Policy for RingPolicy {
    fn name(&self) -> &'static str {
        "ring"
    }

    fn pick(&mut self, request: &Request<'_>, view: &View<'_>, now: Duration) -> Pick {
        if !self.joined.is_empty() {
            self.settle(view);
        }
        if let Some(bound) = &mut self.bound {
            bound.follow(view);
        }
        let key = request.key.unwrap_or_else(|| {
            self.keyless = self.keyless.wrapping_add(1);
            self.keyless
        });
        let spread = match (&mut self.hot, request.key) {
            (Some(hot), Some(key)) => hot.record(key, now),
            _ => 1,
        };
        let first = if spread > 1 {
            self.any_of_first(key, spread, request, view)
        } else {
            self.first(key, request, view)
        };
        let Some(first) = first.map(|target| target.id) else { return view.none_fits(request) };
        if request.want <= 1 {
            return Pick::One(first);
        }
        let want = request.want.min(RANKED_MAX);
        let spares = self.several(key, want, request, view);
        let ids = spares.targets.iter().flatten().map(|target| target.id);
        // The first may be one of the spares; it is then counted once, and the last spare makes up for it.
        let others = ids.filter(|id| *id != first).take(want - 1);
        Pick::Ranked(Ranked::of(std::iter::once(first).chain(others)))
    }

    fn on_event(&mut self, event: &Event<'_>, _now: Duration) {
        match event {
            Event::Joined(target) => self.joined.push(target.id.slot() as u32),
            Event::Left(target) => self.leave(target),
            Event::Changed(target) => self.reweigh(target),
            Event::Started(target) => self.bound.iter_mut().for_each(|bound| bound.started(target)),
            Event::Finished { target, .. } => {
                self.bound.iter_mut().for_each(|bound| bound.finished(target));
            }
            Event::Idle(_) => {}
        }
    }
}

/// A few different targets, best first, without an allocation.
struct Few<'a> {
    targets: [Option<&'a Target>; SPREAD_MAX],
    count: usize,
}

impl<'a> Few<'a> {
    fn contains(&self, target: &Target) -> bool {
        self.targets[..self.count].iter().flatten().any(|held| held.id == target.id)
    }

    fn push(&mut self, target: &'a Target) {
        self.targets[self.count] = Some(target);
        self.count += 1;
    }
}

/// The cap on what each target may have in flight, from the weights and loads of those that are up.
#[derive(Clone, Debug)]
struct Bound {
    epsilon: f64,
    /// The epoch of the view from which the sums were last taken.
    epoch: Option<u64>,
    weight_up: f64,
    in_flight_up: u64,
}

impl Bound {
    fn new(epsilon: f64) -> Self {
        Self { epsilon, epoch: None, weight_up: 0.0, in_flight_up: 0 }
    }

    /// Takes the sums anew when targets have changed; in between, events keep them.
    fn follow(&mut self, view: &View<'_>) {
        if self.epoch == Some(view.epoch) {
            return;
        }
        self.epoch = Some(view.epoch);
        self.weight_up = view.up().map(|target| target.spec.weight).sum();
        self.in_flight_up = view.up().map(|target| u64::from(target.in_flight)).sum();
    }

    fn started(&mut self, target: &Target) {
        self.in_flight_up += u64::from(target.state == State::Up);
    }

    fn finished(&mut self, target: &Target) {
        self.in_flight_up = self.in_flight_up.saturating_sub(u64::from(target.state == State::Up));
    }

    /// Whether the target may have one more in flight.
    fn allows(&self, target: &Target) -> bool {
        let share = target.spec.weight / self.weight_up;
        u64::from(target.in_flight) < capacity(self.epsilon, self.in_flight_up + 1, share)
    }
}
