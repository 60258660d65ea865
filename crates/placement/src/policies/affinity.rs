//! Decides by where a key was before: requests about the same key go to the same target as long as it is up.
//!
//! Does not know what a key stands for, nor latency. A table holds the target of each key. A new key goes to the
//! least loaded target. The table is bounded: the key that was not asked for longest makes room. A key whose target
//! has left, drains or is down moves to the least loaded one when it is next asked for, so a change of targets costs
//! nothing at once and moves only the keys that are still in use. If the target of a key is there but cannot take
//! the request (it is full, excluded or unable), the request goes elsewhere this once, or waits, as set; the key
//! stays. Requests without a key go to the least loaded target.
//!
//! Why not a hash: new keys follow the load, and keys that live stay where their data is warm, however the targets
//! change. The price is memory per key, and that balancers do not agree: each has its own table. At first start
//! every key is new; keys spread evenly, because targets with equal load take turns.

use std::time::Duration;

use super::choose;
use super::error::{Check, Error};
use super::recent::Recent;
use crate::policy::{Pick, Policy, Request, View};
use crate::target::{State, TargetId};

const NAME: &str = "affinity";

/// The most keys that a table can be set to hold.
pub const KEYS_MAX: usize = 1 << 24;

/// What to do when the target of a key cannot take the request now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// Give the request to another target this once; the key stays.
    #[default]
    Spill,
    /// Let the request wait for the target of its key, if that is at its limit.
    Wait,
}

/// The settings of [`Affinity`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How many keys are remembered, from 1 to [`KEYS_MAX`]. A key takes about 40 bytes.
    pub keys: usize,
    /// What to do when the target of a key cannot take the request now.
    pub when_full: WhenFull,
}

impl Default for Settings {
    fn default() -> Self {
        Self { keys: 65_536, when_full: WhenFull::Spill }
    }
}

/// What became of requests with a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Requests that went to the target of their key.
    pub hits: u64,
    /// Requests whose key was not in the table.
    pub misses: u64,
    /// Keys that got another target because theirs was not up.
    pub moves: u64,
    /// Requests that went elsewhere because the target of their key could not take them.
    pub spills: u64,
    /// Keys that made room for others.
    pub evictions: u64,
}

/// Keeps keys where they were.
#[derive(Clone, Debug)]
pub struct Affinity {
    settings: Settings,
    homes: Recent<TargetId>,
    statistics: Statistics,
    cursor: usize,
    rng: fastrand::Rng,
}

impl Affinity {
    /// Checks the settings; the seed sets where it starts to look, and is for large numbers of targets.
    pub fn new(settings: Settings, seed: u64) -> Result<Self, Error> {
        let fits = (1..=KEYS_MAX).contains(&settings.keys);
        Check(NAME).that(fits, "keys", settings.keys, "from 1 to 16777216")?;
        let mut rng = fastrand::Rng::with_seed(seed);
        Ok(Self {
            settings,
            homes: Recent::new(settings.keys),
            statistics: Statistics::default(),
            cursor: rng.u32(..) as usize,
            rng,
        })
    }

    /// What became of requests with a key so far.
    pub fn statistics(&self) -> Statistics {
        self.statistics
    }

    /// How many keys are remembered.
    pub fn keys(&self) -> usize {
        self.homes.len()
    }

    /// The least loaded target, or as many as the request wants, with `home` before them.
    fn place(&mut self, request: &Request<'_>, view: &View<'_>, home: Option<TargetId>) -> Pick {
        let (rng, cursor) = (&mut self.rng, &mut self.cursor);
        choose::each(request, view, |candidates| {
            if candidates.is_first() && home.is_some() {
                return home;
            }
            let (position, target) = candidates.lightly_loaded(*cursor, rng)?;
            *cursor = position + 1;
            Some(target.id)
        })
    }

    fn settle(&mut self, key: u64, pick: &Pick) {
        if let Some(id) = pick.first() {
            let evicted = self.homes.insert(key, id);
            self.statistics.evictions += u64::from(evicted.is_some());
        }
    }
}

impl Policy for Affinity {
    fn name(&self) -> &'static str {
        NAME
    }

    fn pick(&mut self, request: &Request<'_>, view: &View<'_>, _now: Duration) -> Pick {
        let Some(key) = request.key else {
            return self.place(request, view, None);
        };
        let Some(home) = self.homes.get(key) else {
            self.statistics.misses += 1;
            let pick = self.place(request, view, None);
            self.settle(key, &pick);
            return pick;
        };
        let target = &view.targets.get(home.slot());
        let Some(target) = target.filter(|it| it.id == home && it.state == State::Up) else {
            let pick = self.place(request, view, None);
            self.statistics.moves += u64::from(pick.first().is_some());
            self.settle(key, &pick);
            return pick;
        };
        if request.fits(target) {
            self.statistics.hits += 1;
            return self.place(request, view, Some(home));
        }
        if self.settings.when_full == WhenFull::Wait && request.is_met_by(target) {
            return Pick::Wait;
        }
        let pick = self.place(request, view, None);
        self.statistics.spills += u64::from(pick.first().is_some());
        pick
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Outcome;
    use crate::{Balancer, TargetSpec};

    const NOW: Duration = Duration::ZERO;

    fn balancer(settings: Settings, count: usize) -> (Balancer<Affinity>, Vec<TargetId>) {
        let mut balancer = Balancer::new(Affinity::new(settings, 9).unwrap());
        let specs = (0..count).map(|index| TargetSpec::new(index.to_string()));
        let ids = specs.map(|spec| balancer.add(spec, NOW).unwrap()).collect();
        (balancer, ids)
    }

    fn ask(balancer: &mut Balancer<Affinity>, key: u64) -> TargetId {
        balancer.pick(&Request::keyed(key), NOW).first().unwrap()
    }

    #[test]
    fn keys_spread_evenly_and_stay() {
        let (mut balancer, ids) = balancer(Settings::default(), 4);
        let homes: Vec<TargetId> = (0..400).map(|key| ask(&mut balancer, key)).collect();
        for id in &ids {
            assert_eq!(homes.iter().filter(|home| *home == id).count(), 100);
        }
        let again: Vec<TargetId> = (0..400).map(|key| ask(&mut balancer, key)).collect();
        assert_eq!(homes, again);
        let wanted = Statistics { hits: 400, misses: 400, ..Statistics::default() };
        assert_eq!(balancer.policy().statistics(), wanted);
    }

    #[test]
    fn new_keys_go_to_the_least_loaded() {
        let (mut balancer, ids) = balancer(Settings::default(), 3);
        balancer.start(ids[0], NOW);
        balancer.start(ids[2], NOW);
        assert_eq!(ask(&mut balancer, 1), ids[1]);
        balancer.start(ids[1], NOW);
        balancer.start(ids[1], NOW);
        balancer.finish(ids[2], NOW, Outcome::Success, NOW);
        assert_eq!(ask(&mut balancer, 1), ids[1]);
        assert_eq!(ask(&mut balancer, 2), ids[2]);
    }

    #[test]
    fn only_keys_of_targets_that_left_drained_or_went_down_move() {
        let (mut balancer, ids) = balancer(Settings::default(), 6);
        let before: Vec<TargetId> = (0..600).map(|key| ask(&mut balancer, key)).collect();
        balancer.remove(ids[0], NOW).unwrap();
        balancer.drain(ids[1], NOW).unwrap();
        balancer.mark_down(ids[2], NOW).unwrap();
        // A successor in the same slot is another target: it does not inherit keys.
        balancer.add(TargetSpec::new("successor"), NOW).unwrap();
        let after: Vec<TargetId> = (0..600).map(|key| ask(&mut balancer, key)).collect();
        for (before, after) in before.iter().zip(&after) {
            assert_eq!(before == after, ids[3..].contains(before));
        }
        assert_eq!(balancer.policy().statistics().moves, 300);
        // Who comes back does not get its old keys back.
        balancer.mark_up(ids[2], NOW).unwrap();
        assert!((0..600).all(|key| ask(&mut balancer, key) == after[key as usize]));
    }

    #[test]
    fn the_table_is_bounded_and_forgets_what_was_not_asked_for_longest() {
        let (mut balancer, _) = balancer(Settings { keys: 10, ..Settings::default() }, 3);
        for key in 0..10 {
            ask(&mut balancer, key);
        }
        ask(&mut balancer, 0);
        for key in 10..19 {
            ask(&mut balancer, key);
        }
        let statistics = balancer.policy().statistics();
        assert_eq!((statistics.evictions, balancer.policy().keys()), (9, 10));
        ask(&mut balancer, 0);
        assert_eq!(balancer.policy().statistics().hits, statistics.hits + 1);
    }

    #[test]
    fn a_full_home_spills_or_waits_as_set_and_keeps_its_key() {
        for when_full in [WhenFull::Spill, WhenFull::Wait] {
            let (mut balancer, ids) = balancer(Settings { when_full, ..Settings::default() }, 2);
            let home = ask(&mut balancer, 7);
            balancer.set_limit(home, Some(0), NOW).unwrap();
            let other = if home == ids[0] { ids[1] } else { ids[0] };
            let wanted = match when_full {
                WhenFull::Spill => Pick::One(other),
                WhenFull::Wait => Pick::Wait,
            };
            assert_eq!(balancer.pick(&Request::keyed(7), NOW), wanted);
            // Who was tried before and is excluded is not waited for.
            let request = Request { exclude: &[home], ..Request::keyed(7) };
            assert_eq!(balancer.pick(&request, NOW), Pick::One(other));
            balancer.set_limit(home, None, NOW).unwrap();
            assert_eq!(ask(&mut balancer, 7), home);
        }
    }

    #[test]
    fn a_table_without_room_is_refused() {
        for keys in [0, KEYS_MAX + 1] {
            let error = Affinity::new(Settings { keys, ..Settings::default() }, 0).unwrap_err();
            assert!(error.to_string().contains("`keys`"), "{error}");
        }
    }
}
