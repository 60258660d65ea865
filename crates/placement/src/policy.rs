//! Decides how a choice is asked for and answered: the interface of every policy.
//!
//! A policy sees a [`View`] of the targets, answers with a [`Pick`], and hears [`Event`]s. It does not keep the table
//! of targets and does not count what is in flight: [`crate::Balancer`] does. It owns the state that its own rule
//! needs (a cursor, averages, a ring), by slot, and must follow `Joined`, `Left` and `Changed`.

use std::fmt;
use std::time::Duration;

use crate::target::{Target, TargetId};

/// The most targets that one [`Ranked`] answer names.
pub const RANKED_MAX: usize = 4;

/// Picks a target for a request.
pub trait Policy {
    /// The name by which it is set and shown, such as `round-robin`.
    fn name(&self) -> &'static str;

    /// Chooses. [`Pick::One`] if the request wants one target; else [`Pick::Ranked`], best first, without repeats.
    fn pick(&mut self, request: &Request<'_>, view: &View<'_>, now: Duration) -> Pick;

    /// Hears what happened. Policies without state ignore it.
    fn on_event(&mut self, event: &Event<'_>, now: Duration) {
        let _ = (event, now);
    }

    /// Splits up to `count` equal requests in one step where that is cheaper than as many picks: adds to
    /// `shares[slot]` what each target gets and says how many requests that are in all.
    ///
    /// No `Started` follows for these: a policy that counts starts counts them here. What is left is picked one by
    /// one, so the answer 0 is always right. [`crate::Balancer::assign_many`] is the caller.
    fn pick_many(
        &mut self,
        request: &Request<'_>,
        view: &View<'_>,
        count: u32,
        shares: &mut [u32],
        now: Duration,
    ) -> u32 {
        let _ = (request, view, count, shares, now);
        0
    }
}

impl<P: Policy + ?Sized> Policy for Box<P> {
    fn name(&self) -> &'static str {
        (**self).name()
    }

    fn pick(&mut self, request: &Request<'_>, view: &View<'_>, now: Duration) -> Pick {
        (**self).pick(request, view, now)
    }

    fn on_event(&mut self, event: &Event<'_>, now: Duration) {
        (**self).on_event(event, now);
    }

    fn pick_many(
        &mut self,
        request: &Request<'_>,
        view: &View<'_>,
        count: u32,
        shares: &mut [u32],
        now: Duration,
    ) -> u32 {
        (**self).pick_many(request, view, count, shares, now)
    }
}

/// What is to be placed.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The hash of what it is about, for policies that keep equal keys together; see [`crate::hashing::hash_of`].
    pub key: Option<u64>,
    /// What the target must be able to do: a name and the least amount.
    pub needs: &'a [(&'a str, f64)],
    /// Targets that must not be picked: those that were tried before.
    pub exclude: &'a [TargetId],
    /// How many targets to rank: 1 for a plain choice, more for retries, hedges and replicas.
    pub want: usize,
}

impl Default for Request<'_> {
    fn default() -> Self {
        Self { key: None, needs: &[], exclude: &[], want: 1 }
    }
}

impl<'a> Request<'a> {
    /// A request about this key.
    pub fn keyed(key: u64) -> Self {
        Self { key: Some(key), ..Self::default() }
    }

    /// Whether the target may get this request: up, below its limit, able, not excluded.
    pub fn fits(&self, target: &Target) -> bool {
        target.has_room() && self.is_met_by(target)
    }

    /// Whether the target is able and not excluded, whatever its state and load.
    pub fn is_met_by(&self, target: &Target) -> bool {
        let able = |(name, amount): &(&str, f64)| {
            target.spec.capabilities.get(*name).is_some_and(|offered| offered >= amount)
        };
        !self.exclude.contains(&target.id) && self.needs.iter().all(able)
    }
}

/// The targets as they are now.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// Grows with every change of who may be picked: a choice made on an older one may be stale.
    pub epoch: u64,
    /// Every slot; those of targets that have left are [`crate::State::Gone`].
    pub targets: &'a [Target],
    /// The slots of the targets that are up, in order.
    pub up: &'a [u32],
}

impl<'a> View<'a> {
    /// The targets that are up.
    pub fn up(&self) -> impl ExactSizeIterator<Item = &'a Target> + Clone + use<'a> {
        let targets = self.targets;
        self.up.iter().map(move |slot| &targets[*slot as usize])
    }

    /// The targets that may get the request.
    pub fn fitting<'b>(
        &self,
        request: &'b Request<'_>,
    ) -> impl Iterator<Item = &'a Target> + Clone + use<'a, 'b> {
        self.up().filter(move |target| request.fits(target))
    }

    /// What to answer when nothing fits: wait if a target would, had it room; shed if none ever would.
    pub fn none_fits(&self, request: &Request<'_>) -> Pick {
        if self.up.is_empty() {
            return Pick::Shed(Reason::NoTargetUp);
        }
        if self.up().any(|target| request.is_met_by(target)) {
            return Pick::Wait;
        }
        Pick::Shed(if request.exclude.is_empty() { Reason::NotAble } else { Reason::AllExcluded })
    }
}

/// The answer of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pick {
    /// This target.
    One(TargetId),
    /// These targets, best first.
    Ranked(Ranked),
    /// Targets fit, but all are at their limit: ask again when one finishes. This turns a balancer into a queue.
    Wait,
    /// No target can take it: refuse the request.
    Shed(Reason),
}

impl Pick {
    /// The best target, if there is one.
    pub fn first(&self) -> Option<TargetId> {
        match self {
            Self::One(id) => Some(*id),
            Self::Ranked(ranked) => ranked.as_slice().first().copied(),
            Self::Wait | Self::Shed(_) => None,
        }
    }

    /// The best target, or why there is none.
    pub fn target(&self) -> Result<TargetId, Refused> {
        match self {
            Self::Shed(reason) => Err(Refused::Shed(*reason)),
            _ => self.first().ok_or(Refused::Wait),
        }
    }
}

/// Why a request got no target now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Targets fit, but all are at their limit.
    #[error("every target that fits is at its limit; ask again when a request has finished")]
    Wait,
    /// No target can take it.
    #[error(transparent)]
    Shed(Reason),
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// There is no target, or none is up.
    #[error("no target is up")]
    NoTargetUp,
    /// No target that is up has the capabilities.
    #[error("no target that is up can do this")]
    NotAble,
    /// Every able target is excluded.
    #[error("every able target was tried already")]
    AllExcluded,
}

/// Up to [`RANKED_MAX`] targets, best first, without repeats.
#[derive(Clone, Copy)]
pub struct Ranked {
    ids: [TargetId; RANKED_MAX],
    count: u8,
}

impl Ranked {
    /// The first [`RANKED_MAX`] of these; repeats are left out.
    pub fn of(ids: impl IntoIterator<Item = TargetId>) -> Self {
        let mut ranked = Self { ids: [TargetId::NONE; RANKED_MAX], count: 0 };
        for id in ids {
            if ranked.as_slice().len() == RANKED_MAX {
                break;
            }
            if !ranked.as_slice().contains(&id) {
                ranked.ids[usize::from(ranked.count)] = id;
                ranked.count += 1;
            }
        }
        ranked
    }

    /// The targets, best first.
    pub fn as_slice(&self) -> &[TargetId] {
        &self.ids[..usize::from(self.count)]
    }
}

impl PartialEq for Ranked {
    fn eq(&self, other: &Self) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl Eq for Ranked {}

impl fmt::Debug for Ranked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.as_slice()).finish()
    }
}

/// What a policy hears.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// A target was added. Its slot may have belonged to another before.
    Joined(&'a Target),
    /// A target was removed.
    Left(&'a Target),
    /// The state, weight, limit or reported queue of a target changed; it is shown as it is now.
    Changed(&'a Target),
    /// A request was given to the target, which is shown with that request counted in.
    Started(&'a Target),
    /// A request ended; the target is shown with that request counted out.
    Finished {
        /// Where it ran.
        target: &'a Target,
        /// From start to end.
        latency: Duration,
        /// How it ended.
        outcome: Outcome,
    },
    /// The target has nothing to do and says so.
    Idle(&'a Target),
}

/// How a request ended, as far as the target is to blame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Well.
    Success,
    /// Badly, by the fault of the target.
    Failure,
    /// It was called off; it says nothing about the target.
    Cancelled,
}
