//! Decides how to choose among the targets that fit a request: the lowest score, one at random, two at random.
//!
//! Knows no policy. Every policy chooses through [`each`], so that limits, states, needs, exclusions and rankings
//! are kept in one place: a target that does not fit is never offered to a policy.

use crate::policy::{Pick, RANKED_MAX, Ranked, Request, View};
use crate::target::{Target, TargetId};

/// How often chance is tried before the targets that fit are counted.
const TRIES_MAX: usize = 8;

/// Up to this many targets, the least loaded is found by looking at all; above it, by two random candidates:
/// a scan picks better, but its cost grows with the number of targets.
const SCAN_MAX: usize = 64;

/// The targets that fit a request and were not chosen for it before.
pub(super) struct Candidates<'a, 'r> {
    request: &'a Request<'r>,
    view: &'a View<'a>,
    chosen: Ranked,
}

/// Lets `choose` choose one target, or as many as the request wants, best first.
pub(super) fn each(
    request: &Request<'_>,
    view: &View<'_>,
    mut choose: impl FnMut(&Candidates<'_, '_>) -> Option<TargetId>,
) -> Pick {
    let mut candidates = Candidates { request, view, chosen: Ranked::of([]) };
    let first = choose(&candidates);
    let Some(first) = first else {
        return view.none_fits(request);
    };
    if request.want <= 1 {
        return Pick::One(first);
    }
    candidates.chosen = Ranked::of([first]);
    for _ in 1..request.want.min(RANKED_MAX) {
        let Some(next) = choose(&candidates) else {
            break;
        };
        let chosen = candidates.chosen.as_slice().iter().copied();
        candidates.chosen = Ranked::of(chosen.chain([next]));
    }
    Pick::Ranked(candidates.chosen)
}

/// The lowest scores, of equal ones in turn: `cursor` is the position where the next look begins. A score of `floor` or
/// less is taken without looking further. Also says where the next look begins then.
pub(super) fn lowest_in_turn(
    request: &Request<'_>,
    view: &View<'_>,
    cursor: usize,
    floor: f64,
    mut score: impl FnMut(&Target) -> f64,
) -> (Pick, usize) {
    let mut next = cursor;
    let pick = each(request, view, |candidates| {
        let (position, target) = candidates.lowest(cursor, floor, &mut score)?;
        if candidates.is_first() {
            next = position + 1;
        }
        Some(target.id)
    });
    (pick, next)
}

/// How loaded a target would be with one more request, relative to its weight.
pub(super) fn load_with_one_more(target: &Target) -> f64 {
    (f64::from(target.in_flight) + 1.0) / target.spec.weight
}

impl<'a> Candidates<'a, '_> {
    /// Whether the target may be chosen.
    pub(super) fn fits(&self, target: &Target) -> bool {
        self.request.fits(target) && !self.chosen.as_slice().contains(&target.id)
    }

    /// The target in this slot, if it may be chosen.
    pub(super) fn in_slot(&self, slot: usize) -> Option<&'a Target> {
        self.view.targets.get(slot).filter(|target| self.fits(target))
    }

    /// Whether this is the choice that will get the request, not an alternative to it.
    pub(super) fn is_first(&self) -> bool {
        self.chosen.as_slice().is_empty()
    }

    /// The target with the lowest score and its position among those that are up. Of equal ones, the first from
    /// position `start` on. A score of `floor` or less is taken without looking further.
    pub(super) fn lowest(
        &self,
        start: usize,
        floor: f64,
        mut score: impl FnMut(&'a Target) -> f64,
    ) -> Option<(usize, &'a Target)> {
        let up = self.view.up;
        let start = if start < up.len() { start } else { start.checked_rem(up.len())? };
        let mut best = None;
        let mut best_score = f64::INFINITY;
        for range in [start..up.len(), 0..start] {
            for position in range {
                let target = &self.view.targets[up[position] as usize];
                if !self.fits(target) {
                    continue;
                }
                let score = score(target);
                if best.is_none() || score < best_score {
                    best = Some((position, target));
                    best_score = if score.is_nan() { f64::INFINITY } else { score };
                    if best_score <= floor {
                        return best;
                    }
                }
            }
        }
        best
    }

    /// A target with few requests in flight for its weight. Few targets are all looked at; of many, two are.
    pub(super) fn lightly_loaded(
        &self,
        start: usize,
        rng: &mut fastrand::Rng,
    ) -> Option<(usize, &'a Target)> {
        if self.view.up.len() <= SCAN_MAX {
            return self.lowest(start, 0.0, load_with_one_more);
        }
        self.better_of_two(rng, load_with_one_more).map(|target| (start, target))
    }

    /// The one with the lower score of two random targets.
    pub(super) fn better_of_two(
        &self,
        rng: &mut fastrand::Rng,
        mut score: impl FnMut(&'a Target) -> f64,
    ) -> Option<&'a Target> {
        let first = self.any(rng)?;
        let Some(second) = self.draw(rng, |target| target.id != first.id) else {
            return Some(first);
        };
        Some(if score(second) < score(first) { second } else { first })
    }

    /// A target that fits, each with equal chance.
    pub(super) fn any(&self, rng: &mut fastrand::Rng) -> Option<&'a Target> {
        self.draw(rng, |_| true)
    }

    /// A target by `draw`, which gives positions, if one of a few draws fits.
    pub(super) fn try_draws(&self, mut draw: impl FnMut() -> usize) -> Option<&'a Target> {
        let targets = self.view.targets;
        (0..TRIES_MAX)
            .map(|_| &targets[self.view.up[draw()] as usize])
            .find(|target| self.fits(target))
    }

    /// The targets that fit.
    pub(super) fn iter(&self) -> impl Iterator<Item = &'a Target> {
        self.view.up().filter(|target| self.fits(target))
    }

    fn draw(&self, rng: &mut fastrand::Rng, also: impl Fn(&Target) -> bool) -> Option<&'a Target> {
        let count = self.view.up.len();
        if count == 0 {
            return None;
        }
        for _ in 0..TRIES_MAX.min(2 * count) {
            let target = &self.view.targets[self.view.up[rng.usize(..count)] as usize];
            if also(target) && self.fits(target) {
                return Some(target);
            }
        }
        // Few fit: keep each with a chance of one in the number seen, which is fair to all of them.
        let mut kept = None;
        for (seen, target) in self.iter().filter(|target| also(target)).enumerate() {
            if rng.usize(..=seen) == 0 {
                kept = Some(target);
            }
        }
        kept
    }
}
