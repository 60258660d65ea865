//! Decides level by level: from the root of a tree to the best branch, and so on down to a target.
//!
//! Does not know latency. The tree follows the paths of the targets (region, rack, ...). Where more than `fanout`
//! targets would hang on one branch, they are put in groups of neighbouring slots, and groups of groups, so that no
//! such level has more than `fanout` members. Each level chooses the branch with the least load for its weight, or
//! by the key of the request, as set. The loads of all branches are kept by events; a pick looks only at the members
//! of the branches on its way: levels × fan-out, whatever the number of targets. If a branch has no target that fits
//! (a need, an exclusion), the next best one is tried.
//!
//! By key, the branch with the highest weighted rendezvous hash is chosen (Thaler and Ravishankar, 1996; weights
//! after Schindelhauer and Schomaker, 2005): when a target leaves, the keys of other targets hardly move, and its
//! own keys stay within the nearest branch that lives. A change of the branch's weight moves a share of keys in
//! proportion. Requests without a key go by load.
//!
//! Why: least loaded over thousands of targets without looking at each, and keys that keep to a region. The tree is
//! built anew when the set of targets, a state or a weight changes. At first start it is least loaded, with chance
//! between equal branches.

mod tree;

use std::time::Duration;

use self::tree::Tree;
use super::choose;
use super::error::{Check, Error};
use crate::policy::{Event, Pick, Policy, Request, View};

const NAME: &str = "hierarchical";

/// The largest fan-out.
pub const FANOUT_MAX: usize = 4_096;

pub use self::tree::LEVELS_MAX;

/// How a level chooses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum By {
    /// The branch with the least load for its weight.
    #[default]
    Load,
    /// The branch that the key of the request belongs to.
    Key,
}

/// The settings of [`Hierarchical`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The most targets, or groups of them, on one branch; from 2 to [`FANOUT_MAX`].
    pub fanout: usize,
    /// How a level chooses.
    pub by: By,
}

impl Default for Settings {
    fn default() -> Self {
        Self { fanout: 16, by: By::Load }
    }
}

/// Picks level by level.
#[derive(Clone, Debug)]
pub struct Hierarchical {
    settings: Settings,
    tree: Tree,
    /// The tree was built for this epoch of the view.
    epoch: Option<u64>,
    rng: fastrand::Rng,
}

impl Hierarchical {
    /// Checks the settings; the seed is for chance between equal branches.
    pub fn new(settings: Settings, seed: u64) -> Result<Self, Error> {
        let fits = (2..=FANOUT_MAX).contains(&settings.fanout);
        Check(NAME).that(fits, "fanout", settings.fanout, "from 2 to 4096")?;
        let rng = fastrand::Rng::with_seed(seed);
        Ok(Self { settings, tree: Tree::default(), epoch: None, rng })
    }

    fn follow(&mut self, view: &View<'_>) {
        if self.epoch != Some(view.epoch) {
            self.epoch = Some(view.epoch);
            self.tree = Tree::build(view, self.settings.fanout);
        }
    }
}

impl Policy for Hierarchical {
    fn name(&self) -> &'static str {
        NAME
    }

    fn pick(&mut self, request: &Request<'_>, view: &View<'_>, _now: Duration) -> Pick {
        self.follow(view);
        let key = request.key.filter(|_| self.settings.by == By::Key);
        choose::each(request, view, |candidates| {
            let turn = self.rng.u64(..);
            let fits = |slot: u32| {
                let target = &view.targets[slot as usize];
                candidates.fits(target).then_some(target.id)
            };
            match key {
                Some(key) => self.tree.descend(turn, &|node| node.distance(key), &fits),
                None => self.tree.descend(turn, &|node| node.load_with_one_more(), &fits),
            }
        })
    }

    fn on_event(&mut self, event: &Event<'_>, _now: Duration) {
        match event {
            Event::Started(target) | Event::Finished { target, .. } | Event::Changed(target) => {
                self.tree.refresh(target);
            }
            // The epoch has changed with these: the tree is built anew before it is used.
            Event::Joined(_) | Event::Left(_) | Event::Idle(_) => {}
        }
    }
}

#[cfg(test)]
mod tests;
