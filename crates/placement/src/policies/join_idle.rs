//! Decides by who is idle: a queue of idle targets, of which the one that has waited longest gets the request.
//!
//! Does not know latency or weights. A target enters the queue when it joins, when its last request from here ends,
//! or when it says that it is idle; it is idle no more when a request starts there or it reports a queue. Nothing is
//! measured when a request is placed: the look at the targets happened before, when they had time. If nobody is
//! idle, a random target that fits gets the request, or the request waits, as set.
//!
//! Why: one look whatever the number of targets, and the only policy here that stays close to the best with many
//! balancers, because targets tell who is idle instead of each balancer guessing from its own requests. With many
//! balancers set `idle_by_count` to off, so that only the word of a target counts, and let each target tell one
//! balancer at a time. At first start all targets are idle. From Lu and others, "Join-Idle-Queue" (2011).

use std::time::Duration;

use super::choose;
use crate::policy::{Event, Pick, Policy, Request, View};
use crate::target::{Target, TargetId};

/// What to do when nobody is idle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fallback {
    /// Give the request to a random target that fits.
    #[default]
    Random,
    /// Let the request wait until a target is idle.
    Wait,
}

/// The settings of [`JoinIdle`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// What to do when nobody is idle.
    pub fallback: Fallback,
    /// Whether a target without requests from here counts as idle. Off: only a target's own word counts.
    pub idle_by_count: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self { fallback: Fallback::Random, idle_by_count: true }
    }
}

/// Picks who is idle.
#[derive(Clone, Debug)]
pub struct JoinIdle {
    settings: Settings,
    idle: Line,
    rng: fastrand::Rng,
}

impl JoinIdle {
    /// The seed is for the fallback.
    pub fn new(settings: Settings, seed: u64) -> Self {
        Self { settings, idle: Line::default(), rng: fastrand::Rng::with_seed(seed) }
    }

    /// The first idle target that may be chosen. It goes to the end of the line: should nothing start there after
    /// all, it is still idle, and others have their turn first.
    fn take(&mut self, candidates: &choose::Candidates<'_, '_>) -> Option<TargetId> {
        let target = self.idle.iter().find_map(|slot| candidates.in_slot(slot))?;
        self.idle.remove(target.id.slot());
        self.idle.push(target.id.slot());
        Some(target.id)
    }
}

impl Policy for JoinIdle {
    fn name(&self) -> &'static str {
        "join-idle"
    }

    fn pick(&mut self, request: &Request<'_>, view: &View<'_>, _now: Duration) -> Pick {
        choose::each(request, view, |candidates| {
            self.take(candidates).or_else(|| match self.settings.fallback {
                Fallback::Random => candidates.any(&mut self.rng).map(|target| target.id),
                Fallback::Wait => None,
            })
        })
    }

    fn on_event(&mut self, event: &Event<'_>, _now: Duration) {
        let by_count = self.settings.idle_by_count;
        let free = |target: &Target| by_count && target.in_flight == 0 && target.queued == 0;
        match event {
            Event::Idle(target) => self.idle.push(target.id.slot()),
            Event::Joined(target) | Event::Changed(target) | Event::Finished { target, .. }
                if free(target) =>
            {
                self.idle.push(target.id.slot());
            }
            Event::Left(target) | Event::Started(target) => self.idle.remove(target.id.slot()),
            Event::Changed(target) if by_count => self.idle.remove(target.id.slot()),
            Event::Joined(_) | Event::Changed(_) | Event::Finished { .. } => {}
        }
    }
}

/// A line of slots, each in it at most once; any of them can step out at once.
#[derive(Clone, Debug, Default)]
struct Line {
    places: Vec<Place>,
    first: Option<u32>,
    last: Option<u32>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Place {
    is_taken: bool,
    before: Option<u32>,
    behind: Option<u32>,
}

impl Line {
    /// Puts a slot at the end, unless it is in the line.
    fn push(&mut self, slot: usize) {
        if slot >= self.places.len() {
            self.places.resize(slot + 1, Place::default());
        }
        if self.places[slot].is_taken {
            return;
        }
        self.places[slot] = Place { is_taken: true, before: self.last, behind: None };
        let new = Some(slot as u32);
        match std::mem::replace(&mut self.last, new) {
            Some(last) => self.places[last as usize].behind = new,
            None => self.first = new,
        }
    }

    /// Takes a slot out, if it is in the line.
    fn remove(&mut self, slot: usize) {
        let Some(place) = self.places.get_mut(slot).filter(|place| place.is_taken) else {
            return;
        };
        let Place { before, behind, .. } = std::mem::take(place);
        match before {
            Some(before) => self.places[before as usize].behind = behind,
            None => self.first = behind,
        }
        match behind {
            Some(behind) => self.places[behind as usize].before = before,
            None => self.last = before,
        }
    }

    /// The slots, first to last.
    fn iter(&self) -> impl Iterator<Item = usize> {
        let behind = |slot: &u32| self.places[*slot as usize].behind;
        std::iter::successors(self.first, behind).map(|slot| slot as usize)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::policy::Outcome;
    use crate::{Balancer, TargetSpec};

    const NOW: Duration = Duration::ZERO;

    fn balancer(settings: Settings) -> (Balancer<JoinIdle>, [TargetId; 3]) {
        let mut balancer = Balancer::new(JoinIdle::new(settings, 4));
        let ids = ["a", "b", "c"].map(|name| balancer.add(TargetSpec::new(name), NOW).unwrap());
        (balancer, ids)
    }

    fn assign(balancer: &mut Balancer<JoinIdle>) -> Option<TargetId> {
        balancer.assign(&Request::default(), NOW).first()
    }

    #[test]
    fn idle_targets_come_first_in_the_order_in_which_they_became_idle() {
        let (mut balancer, [a, b, c]) = balancer(Settings::default());
        assert_eq!([(); 3].map(|()| assign(&mut balancer)), [Some(a), Some(b), Some(c)]);
        balancer.finish(c, NOW, Outcome::Success, NOW);
        balancer.finish(a, NOW, Outcome::Failure, NOW);
        assert_eq!([(); 2].map(|()| assign(&mut balancer)), [Some(c), Some(a)]);
        // Nobody is idle: someone gets it all the same.
        assert!(assign(&mut balancer).is_some());
    }

    #[test]
    fn a_pick_that_starts_nothing_leaves_the_target_idle() {
        let (mut balancer, ids) = balancer(Settings::default());
        let mut picked = [(); 6].map(|()| balancer.pick(&Request::default(), NOW).first().unwrap());
        picked.sort();
        assert_eq!(picked, [ids[0], ids[0], ids[1], ids[1], ids[2], ids[2]]);
    }

    #[test]
    fn without_idle_targets_requests_wait_if_so_set() {
        let settings = Settings { fallback: Fallback::Wait, ..Settings::default() };
        let (mut balancer, ids) = balancer(settings);
        (0..3).for_each(|_| assert!(assign(&mut balancer).is_some()));
        assert_eq!(balancer.pick(&Request::default(), NOW), Pick::Wait);
        balancer.finish(ids[1], NOW, Outcome::Success, NOW);
        assert_eq!(assign(&mut balancer), Some(ids[1]));
    }

    #[test]
    fn only_the_word_of_a_target_counts_if_so_set_and_each_word_once() {
        let settings = Settings { fallback: Fallback::Wait, idle_by_count: false };
        let (mut balancer, ids) = balancer(settings);
        assert_eq!(assign(&mut balancer), None);
        balancer.idle(ids[2], NOW);
        balancer.idle(ids[2], NOW);
        assert_eq!(assign(&mut balancer), Some(ids[2]));
        balancer.finish(ids[2], NOW, Outcome::Success, NOW);
        assert_eq!(assign(&mut balancer), None);
    }

    #[test]
    fn a_reported_queue_is_work() {
        let (mut balancer, [a, b, c]) = balancer(Settings::default());
        balancer.set_queued(a, 3, NOW).unwrap();
        assert_eq!([(); 2].map(|()| assign(&mut balancer)), [Some(b), Some(c)]);
        balancer.set_queued(a, 0, NOW).unwrap();
        assert_eq!(assign(&mut balancer), Some(a));
    }

    proptest! {
        #[test]
        fn a_line_is_a_list_without_repeats(steps in prop::collection::vec((any::<bool>(), 0usize..6), 0..60)) {
            let mut line = Line::default();
            let mut list: Vec<usize> = Vec::new();
            for (push, slot) in steps {
                if push {
                    line.push(slot);
                    if !list.contains(&slot) {
                        list.push(slot);
                    }
                } else {
                    line.remove(slot);
                    list.retain(|other| *other != slot);
                }
                prop_assert_eq!(line.iter().collect::<Vec<_>>(), list.clone());
            }
        }
    }
}
