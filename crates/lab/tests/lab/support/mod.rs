//! The simplest policies, so that the simulator is tested against theory and not against the library.

use std::time::Duration;

use divvy_placement::{Event, Pick, Policy, Request, Target, TargetId, View};

/// Any target that fits, by chance.
pub(crate) struct AnyTarget(pub(crate) fastrand::Rng);

impl Policy for AnyTarget {
    fn name(&self) -> &'static str {
        "any"
    }

    fn pick(&mut self, request: &Request<'_>, view: &View<'_>, _now: Duration) -> Pick {
        let fitting: Vec<&Target> = view.fitting(request).collect();
        match self.0.choice(fitting) {
            Some(target) => Pick::One(target.id),
            None => view.none_fits(request),
        }
    }
}

/// The target with the fewest known requests; of equal ones, any.
pub(crate) struct Shortest(pub(crate) fastrand::Rng);

impl Policy for Shortest {
    fn name(&self) -> &'static str {
        "shortest"
    }

    fn pick(&mut self, request: &Request<'_>, view: &View<'_>, _now: Duration) -> Pick {
        let known = |target: &Target| target.in_flight + target.queued;
        let least = view.fitting(request).map(known).min();
        let best: Vec<&Target> =
            view.fitting(request).filter(|target| Some(known(target)) == least).collect();
        match self.0.choice(best) {
            Some(target) => Pick::One(target.id),
            None => view.none_fits(request),
        }
    }
}

/// A target that said that it is idle; else any.
pub(crate) struct IdleFirst {
    pub(crate) random: fastrand::Rng,
    pub(crate) idle: Vec<TargetId>,
}

impl Policy for IdleFirst {
    fn name(&self) -> &'static str {
        "idle-first"
    }

    fn pick(&mut self, _request: &Request<'_>, view: &View<'_>, _now: Duration) -> Pick {
        let id = self.idle.pop().or_else(|| self.random.choice(view.up()).map(|target| target.id));
        id.map_or(Pick::Wait, Pick::One)
    }

    fn on_event(&mut self, event: &Event<'_>, _now: Duration) {
        if let Event::Idle(target) = event
            && !self.idle.contains(&target.id)
        {
            self.idle.push(target.id);
        }
    }
}
