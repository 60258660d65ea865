//! Decides nothing itself: joins a table of targets with a policy and keeps the two in step.
//!
//! Every change at run time goes through here: targets join, leave, drain, go down, change their weight; requests
//! start and finish. The table is changed first, then the policy hears of it.

use std::time::Duration;

use crate::policy::{Event, Outcome, Pick, Policy, Refused, Request, View};
use crate::target::{Error, State, Target, TargetId, TargetSpec, Targets};

/// Targets and the policy that picks among them. One thread at a time; a lock or a loop of the caller shares it.
#[derive(Clone, Debug)]
pub struct Balancer<P> {
    targets: Targets,
    policy: P,
}

/// Where a batch of equal requests went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// What each target got, in the order of their slots; targets that got nothing are left out.
    pub shares: Vec<(TargetId, u32)>,
    /// How many requests found no place.
    pub left: u32,
    /// Why, if any found no place.
    pub refused: Option<Refused>,
}

impl<P: Policy> Balancer<P> {
    /// A balancer without targets.
    pub fn new(policy: P) -> Self {
        Self { targets: Targets::new(), policy }
    }

    /// The targets.
    pub fn targets(&self) -> &Targets {
        &self.targets
    }

    /// The policy.
    pub fn policy(&self) -> &P {
        &self.policy
    }

    /// What the policy sees.
    pub fn view(&self) -> View<'_> {
        view(&self.targets)
    }

    /// Chooses for a request. Nothing is counted: call [`Balancer::start`] when the request really goes out.
    pub fn pick(&mut self, request: &Request<'_>, now: Duration) -> Pick {
        self.policy.pick(request, &view(&self.targets), now)
    }

    /// Chooses one target and counts the request as started there.
    pub fn assign(&mut self, request: &Request<'_>, now: Duration) -> Pick {
        let pick = self.pick(request, now);
        if let Some(id) = pick.first() {
            self.start(id, now);
        }
        pick
    }

    /// Splits `count` equal requests over the targets and counts them as started there. Cheaper than as many calls
    /// of [`Balancer::assign`] where the policy knows how; `want` of the request is not looked at.
    pub fn assign_many(&mut self, request: &Request<'_>, count: u32, now: Duration) -> Batch {
        let request = Request { want: 1, ..*request };
        let mut shares = vec![0; self.targets.slots().len()];
        let view = view(&self.targets);
        let split = self.policy.pick_many(&request, &view, count, &mut shares, now);
        for (slot, share) in shares.iter().enumerate().filter(|(_, share)| **share > 0) {
            self.targets.started_many(self.targets.slots()[slot].id, *share);
        }
        let mut left = count.checked_sub(split).expect("a policy places at most what it is given");
        let mut refused = None;
        while left > 0 && refused.is_none() {
            match self.assign(&request, now).target() {
                Ok(id) => {
                    shares[id.slot()] += 1;
                    left -= 1;
                }
                Err(reason) => refused = Some(reason),
            }
        }
        let shares = shares.into_iter().zip(self.targets.slots());
        let shares = shares.filter(|(share, _)| *share > 0);
        Batch { shares: shares.map(|(share, target)| (target.id, share)).collect(), left, refused }
    }

    /// Counts a request as started.
    pub fn start(&mut self, id: TargetId, now: Duration) {
        self.targets.started(id);
        self.tell(id, now, Event::Started);
    }

    /// Counts a request as finished; one that nobody started is not counted.
    pub fn finish(&mut self, id: TargetId, latency: Duration, outcome: Outcome, now: Duration) {
        if self.targets.finished(id).is_some() {
            self.tell(id, now, |target| Event::Finished { target, latency, outcome });
        }
    }

    /// Takes over a target's word that it has nothing to do.
    pub fn idle(&mut self, id: TargetId, now: Duration) {
        self.tell(id, now, Event::Idle);
    }

    /// Adds a target.
    pub fn add(&mut self, spec: TargetSpec, now: Duration) -> Result<TargetId, Error> {
        let id = self.targets.add(spec)?;
        self.tell(id, now, Event::Joined);
        Ok(id)
    }

    /// Removes a target; its requests in flight are forgotten.
    pub fn remove(&mut self, id: TargetId, now: Duration) -> Result<(), Error> {
        let removed = self.targets.remove(id)?;
        self.policy.on_event(&Event::Left(&removed), now);
        Ok(())
    }

    /// Lets a target finish what it has and gives it nothing new.
    pub fn drain(&mut self, id: TargetId, now: Duration) -> Result<(), Error> {
        self.set_state(id, State::Draining, now)
    }

    /// Takes a target out because it is not well.
    pub fn mark_down(&mut self, id: TargetId, now: Duration) -> Result<(), Error> {
        self.set_state(id, State::Down, now)
    }

    /// Brings a target back.
    pub fn mark_up(&mut self, id: TargetId, now: Duration) -> Result<(), Error> {
        self.set_state(id, State::Up, now)
    }

    /// Changes a target's share.
    pub fn set_weight(&mut self, id: TargetId, weight: f64, now: Duration) -> Result<(), Error> {
        self.targets.set_weight(id, weight)?;
        self.tell(id, now, Event::Changed);
        Ok(())
    }

    /// Changes how many requests a target may have in flight.
    pub fn set_limit(
        &mut self,
        id: TargetId,
        limit: Option<u32>,
        now: Duration,
    ) -> Result<(), Error> {
        self.targets.set_limit(id, limit)?;
        self.tell(id, now, Event::Changed);
        Ok(())
    }

    /// Takes over what a target says about its own queue.
    pub fn set_queued(&mut self, id: TargetId, queued: u32, now: Duration) -> Result<(), Error> {
        self.targets.set_queued(id, queued)?;
        self.tell(id, now, Event::Changed);
        Ok(())
    }

    fn set_state(&mut self, id: TargetId, state: State, now: Duration) -> Result<(), Error> {
        self.targets.set_state(id, state)?;
        self.tell(id, now, Event::Changed);
        Ok(())
    }

    fn tell<'a>(
        &'a mut self,
        id: TargetId,
        now: Duration,
        event: impl FnOnce(&'a Target) -> Event<'a>,
    ) {
        if let Some(target) = self.targets.get(id) {
            self.policy.on_event(&event(target), now);
        }
    }
}

fn view(targets: &Targets) -> View<'_> {
    View { epoch: targets.epoch(), targets: targets.slots(), up: targets.up() }
}
