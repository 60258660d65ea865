//! Which groups of workers may take the tasks of a class, and how closely they fit.
//!
//! Normally these are the groups that meet all needs. A class that falls back is open to the groups that meet the most
//! needs while no active worker meets all of them; its tasks of high priority wait nevertheless. Kind and queue must
//! be served in any case. The sets are kept as workers come and go, so that a pick asks only for a bit.

use std::collections::BTreeSet;

use divvy_types::{Matching, TaskSpec};

use crate::Scheduler;
use crate::bits::Bits;
use crate::classes::Class;
use crate::streams::NONE;
use crate::workers::Group;

/// Priority bands.
const BANDS: usize = 5;

/// What is known of each class besides the class itself, by its index.
#[derive(Debug, Default)]
pub(crate) struct Fits {
    list: Vec<Fit>,
    /// Classes that may fall back.
    wide: BTreeSet<u32>,
    /// How many do at the moment.
    fallen: usize,
}

#[derive(Debug, Default)]
pub(crate) struct Fit {
    /// The number of its kind among those that are learnt about.
    pub(crate) kind: u32,
    /// The skill match per group; left out where it is 1.
    matches: Vec<(u32, f64)>,
    /// Whether it is open to groups that do not meet all needs, and how many needs these meet.
    fallen: bool,
    met: usize,
}

impl Fits {
    pub(crate) fn get(&self, class: u32) -> &Fit {
        &self.list[class as usize]
    }

    fn get_mut(&mut self, class: u32) -> &mut Fit {
        let place = class as usize;
        if self.list.len() <= place {
            self.list.resize_with(place + 1, Fit::default);
        }
        &mut self.list[place]
    }
}

impl Fit {
    pub(crate) fn skill_match(&self, group: u32) -> f64 {
        self.matches.iter().find(|(other, _)| *other == group).map_or(1.0, |(_, value)| *value)
    }
}

impl Scheduler {
    /// How a class is matched.
    pub(crate) fn matching_of(&self, class: &Class) -> Matching {
        class.matching.unwrap_or(self.settings.load_balancing.capabilities.matching_strategy)
    }

    /// Finds the groups of a new class.
    pub(crate) fn class_added(&mut self, index: u32) {
        let kind = self.learning.use_kind(&self.classes.get(index).kind);
        *self.fits.get_mut(index) = Fit { kind, ..Fit::default() };
        self.refit(index);
    }

    /// A class that nothing uses is gone.
    pub(crate) fn class_removed(&mut self, index: u32, class: &Class) {
        for group in class.groups.iter() {
            self.workers.group_mut(group).classes.set(index, false);
        }
        let fit = std::mem::take(self.fits.get_mut(index));
        self.fits.fallen -= usize::from(fit.fallen);
        self.fits.wide.remove(&index);
        self.learning.leave_kind(fit.kind);
    }

    /// Finds the classes of a new group.
    pub(crate) fn group_added(&mut self, index: u32) {
        let profile = &self.workers.group(index).profile;
        let served: Vec<u32> = self
            .classes
            .iter()
            .filter(|(class, _)| !self.fits.wide.contains(class))
            .filter(|(_, class)| profile.serves(class))
            .map(|(class, _)| class)
            .collect();
        for class in served {
            self.tie(class, index);
        }
    }

    /// The last worker of a group is gone.
    pub(crate) fn group_removed(&mut self, index: u32, group: &Group) {
        for class in group.classes.iter() {
            self.classes.get_mut(class).groups.set(index, false);
            self.fits.get_mut(class).matches.retain(|(other, _)| *other != index);
        }
    }

    /// The first active worker of a group has come: it may be nearer to what falls back than others.
    pub(crate) fn activity_began(&mut self, group: u32) {
        for index in self.fits.wide.clone() {
            let class = self.classes.get(index);
            let profile = &self.workers.group(group).profile;
            if !profile.runs(&class.queue_name, &class.kind) {
                continue;
            }
            let (met, fit) = (profile.met(&class.needs), self.fits.get(index));
            let known = class.groups.contains(group);
            if met == class.needs.len() && !fit.fallen {
                if !known {
                    self.tie(index, group);
                }
            } else if fit.fallen && met == fit.met && !known {
                self.tie(index, group);
            } else if (fit.fallen && met > fit.met) || !self.is_served(class) {
                self.refit(index);
            }
        }
    }

    /// The last active worker of a group has gone: what it served may have to fall back.
    pub(crate) fn activity_ended(&mut self, group: u32) {
        for index in self.fits.wide.clone() {
            let class = self.classes.get(index);
            if class.groups.contains(group) && !self.is_served(class) {
                self.refit(index);
            }
        }
    }

    /// Whether an active worker may take tasks of a class.
    fn is_served(&self, class: &Class) -> bool {
        class.groups.iter().any(|group| !self.workers.group(group).active.is_empty())
    }

    /// New settings may change how classes are matched.
    pub(crate) fn matching_changed(&mut self) {
        let classes: Vec<u32> = self
            .classes
            .iter()
            .filter(|(_, class)| class.matching.is_none() && !class.needs.is_empty())
            .map(|(index, _)| index)
            .collect();
        for class in classes {
            self.refit(class);
        }
    }

    /// Sets the groups of a class anew.
    fn refit(&mut self, index: u32) {
        let class = self.classes.get(index);
        let wide = self.is_wide(class);
        let (groups, fallen) = self.able_groups(class, wide);
        let nearest = groups.first().filter(|_| fallen);
        let met = nearest.map_or(0, |group| self.workers.group(*group).profile.met(&class.needs));
        if wide {
            self.fits.wide.insert(index);
        } else {
            self.fits.wide.remove(&index);
        }
        let before: Vec<u32> = class.groups.iter().collect();
        for group in before.into_iter().filter(|group| !groups.contains(group)) {
            self.classes.get_mut(index).groups.set(group, false);
            self.workers.group_mut(group).classes.set(index, false);
        }
        let fit = self.fits.get_mut(index);
        fit.matches.clear();
        fit.met = met;
        let was = std::mem::replace(&mut fit.fallen, fallen);
        self.fits.fallen = self.fits.fallen + usize::from(fallen) - usize::from(was);
        for group in groups {
            self.tie(index, group);
        }
        if self.classes.runnable.iter().any(|band| band.contains(index)) {
            self.mark_class(index);
        }
    }

    /// The groups that may take a task, whether it has a class or not.
    pub(crate) fn groups_for(&self, spec: &TaskSpec) -> Bits {
        if let Some(class) = self.classes.peek(spec) {
            return self.classes.get(class).groups.clone();
        }
        let class = Class::of(spec, None, NONE);
        let mut groups = Bits::default();
        for group in self.able_groups(&class, self.is_wide(&class)).0 {
            groups.set(group, true);
        }
        groups
    }

    /// Whether a class may fall back.
    fn is_wide(&self, class: &Class) -> bool {
        !class.needs.is_empty() && self.matching_of(class) == Matching::Fallback
    }

    /// The groups that may take tasks of a class, and whether they lack something.
    fn able_groups(&self, class: &Class, wide: bool) -> (Vec<u32>, bool) {
        let serving: Vec<u32> = self
            .workers
            .groups()
            .filter(|(_, group)| group.profile.serves(class))
            .map(|(index, _)| index)
            .collect();
        let is_active = |group: &u32| !self.workers.group(*group).active.is_empty();
        if !wide || serving.iter().any(is_active) {
            return (serving, false);
        }
        let near: Vec<(usize, u32)> = self
            .workers
            .groups()
            .filter(|(_, group)| !group.active.is_empty())
            .filter(|(_, group)| group.profile.runs(&class.queue_name, &class.kind))
            .map(|(index, group)| (group.profile.met(&class.needs), index))
            .collect();
        match near.iter().map(|(met, _)| *met).max() {
            Some(most) => {
                let nearest = near.into_iter().filter(|(met, _)| *met == most);
                (nearest.map(|(_, index)| index).collect(), true)
            }
            None => (serving, false),
        }
    }

    /// Lets a group take tasks of a class.
    fn tie(&mut self, class: u32, group: u32) {
        let needs = &self.classes.get(class).needs;
        if !needs.is_empty() {
            let value = self.workers.group(group).profile.skill_match(needs);
            self.fits.get_mut(class).matches.push((group, value));
        }
        self.classes.get_mut(class).groups.set(group, true);
        self.workers.group_mut(group).classes.set(class, true);
    }

    /// How many bands of a class, from the lowest, a worker may be given now, of those that its group is open to: none
    /// if it is kept from them or they would wait there for too long, not the high ones if the class falls back.
    pub(crate) fn open_bands(&self, worker: u32, class: u32) -> usize {
        if self.is_kept_from(worker, class) || !self.has_place_for(worker, class) {
            return 0;
        }
        self.bands_that_fall(class)
    }

    /// How many bands of a class, from the lowest, its groups may take: all unless it falls back.
    pub(crate) fn bands_that_fall(&self, class: u32) -> usize {
        if self.fits.fallen == 0 || !self.fits.get(class).fallen {
            return BANDS;
        }
        let high = self.settings.load_balancing.priority.high_priority_threshold;
        usize::from(high).saturating_sub(1).min(BANDS)
    }

    /// Whether tasks of this class and band go to workers that lack something.
    pub(crate) fn falls_back(&self, class: u32, band: usize) -> bool {
        self.fits.fallen > 0 && self.fits.get(class).fallen && band < self.bands_that_fall(class)
    }

    /// Whether a worker whose group is open to a class may be given its tasks of a band now.
    pub(crate) fn may_run(&self, worker: u32, class: u32, band: usize) -> bool {
        band < self.open_bands(worker, class)
    }
}
