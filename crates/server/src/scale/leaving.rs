//! Who of a pool is on its way out. Before a worker is ended that is let go by name it rests: it takes nothing more and
//! ends what it holds. Until it holds nothing it can be called back, which costs nothing, while a new worker would have to start.
//!
//! Decides who rests and who may go; knows neither engine nor processes. Workers that somebody else paused are none of
//! ours: they are not counted, and nobody here resumes them.

use std::collections::{BTreeMap, BTreeSet};

use divvy_autoscale::{Fleet, Wanted};
use divvy_types::Name;

use super::sampling::Member;

/// Workers that rest before they go.
#[derive(Debug, Default)]
pub(crate) struct Leaving(BTreeSet<Name>);

impl Leaving {
    /// Whether this worker is on its way out.
    pub(crate) fn has(&self, name: &Name) -> bool {
        self.0.contains(name)
    }

    /// Counts those that rest for us as leaving, and those that rest for others not at all.
    pub(crate) fn count(&self, members: &[Member], fleet: &mut BTreeMap<Name, Fleet>) {
        for member in members.iter().filter(|one| one.paused && !one.draining) {
            let Some(fleet) = fleet.get_mut(&member.worker_type) else { continue };
            fleet.running = fleet.running.saturating_sub(1);
            fleet.draining += u32::from(self.has(&member.name));
        }
    }

    /// Lets those rest who are too many, and calls back those who are wanted again; says who is told to rest (`true`) or
    /// to go on. Those with the least to do rest first, and are called back last.
    pub(crate) fn choose(&mut self, members: &[Member], wanted: &Wanted) -> Vec<(Name, bool)> {
        let mut chosen = BTreeSet::new();
        let mut by_type: BTreeMap<&Name, Vec<&Member>> = BTreeMap::new();
        for member in members.iter().filter(|one| self.is_ours(one)) {
            by_type.entry(&member.worker_type).or_default().push(member);
        }
        for (worker_type, mut own) in by_type {
            let stay = wanted.get(worker_type).copied().unwrap_or_default() as usize;
            own.sort_by_key(|one| (!self.has(&one.name), order(one)));
            chosen.extend(own.iter().take(own.len().saturating_sub(stay)).map(|one| &one.name));
        }
        let chosen: BTreeSet<Name> = chosen.into_iter().cloned().collect();
        let back =
            self.0.difference(&chosen).filter(|name| members.iter().any(|one| one.name == **name));
        // One that connected anew meanwhile has forgotten that it rests.
        let awake = members.iter().filter(|one| !one.paused && chosen.contains(&one.name));
        let told: Vec<(Name, bool)> = back
            .map(|name| (name.clone(), false))
            .chain(awake.map(|one| (one.name.clone(), true)))
            .collect();
        self.0 = chosen;
        told
    }

    /// Workers of a type that rest and still hold something: they are not ended yet.
    pub(crate) fn busy(&self, members: &[Member], worker_type: &Name) -> u32 {
        let own = members.iter().filter(|one| one.worker_type == *worker_type && !one.draining);
        own.filter(|one| self.has(&one.name) && !is_free_to_go(one)).count() as u32
    }

    fn is_ours(&self, member: &Member) -> bool {
        !member.draining && (!member.paused || self.has(&member.name))
    }
}

/// Nothing is there, and nothing can come any more.
fn is_free_to_go(member: &Member) -> bool {
    member.paused && member.running + member.queued == 0
}

/// Who goes first: who runs least, has least in line, and had the fewest affinity keys, so that the fewest tasks lose the
/// worker that knows them; of those alike the newest.
pub(crate) fn order(member: &Member) -> impl Ord + use<> {
    (member.running, member.queued, member.keys, std::cmp::Reverse(member.since))
}

#[cfg(test)]
mod tests {
    use super::super::tests;
    use super::*;

    fn member(name: &str, running: u32, paused: bool) -> Member {
        Member { paused, ..tests::member(name, running, 0) }
    }

    fn wanted(count: u32) -> Wanted {
        [("worker".into(), count)].into()
    }

    #[test]
    fn the_least_busy_rest_and_the_busiest_is_called_back() {
        let mut leaving = Leaving::default();
        let three = [member("a", 3, false), member("b", 1, false), member("c", 2, false)];
        assert_eq!(leaving.choose(&three, &wanted(1)), [("b".into(), true), ("c".into(), true)]);
        let resting = [member("a", 3, false), member("b", 1, true), member("c", 2, true)];
        assert_eq!(leaving.choose(&resting, &wanted(1)), []);
        assert_eq!(leaving.busy(&resting, &"worker".into()), 2);
        assert_eq!(leaving.choose(&resting, &wanted(2)), [("c".into(), false)]);
        assert!(leaving.has(&"b".into()) && !leaving.has(&"c".into()));
    }

    #[test]
    fn nobody_is_ended_before_it_is_known_to_take_nothing_more() {
        let mut leaving = Leaving::default();
        leaving.choose(&[member("a", 0, false)], &wanted(0));
        assert_eq!(leaving.busy(&[member("a", 0, false)], &"worker".into()), 1, "not paused yet");
        assert_eq!(leaving.busy(&[member("a", 1, true)], &"worker".into()), 1, "it runs one");
        assert_eq!(leaving.busy(&[member("a", 0, true)], &"worker".into()), 0);
    }

    #[test]
    fn who_was_paused_by_others_is_neither_counted_nor_called_back() {
        let mut leaving = Leaving::default();
        let two = [member("a", 0, true), member("b", 0, false)];
        assert_eq!(leaving.choose(&two, &wanted(2)), []);
        assert_eq!(leaving.choose(&two, &wanted(0)), [("b".into(), true)]);
        let mut fleet = [("worker".into(), Fleet { running: 2, ..Fleet::default() })].into();
        let both = [member("a", 0, true), member("b", 0, true)];
        leaving.count(&both, &mut fleet);
        assert_eq!((fleet["worker"].running, fleet["worker"].draining), (0, 1));
    }
}
