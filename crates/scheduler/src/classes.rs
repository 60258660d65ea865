//! Classes: tasks with equal queue, kind, needs and matching. They have five bands, one per priority. Retries are in
//! classes of their own, by the worker that they failed on; see `elsewhere`.
//!
//! A class knows which groups of workers can serve it, as a set of bits, and the list knows which classes have
//! something to run in which band. It does not know tasks: those are in its streams. Classes that have been
//! empty for a while are swept when new ones come, so that names made up on the fly do not pile up.

use std::collections::BTreeMap;

use divvy_types::{Matching, Name, TaskSpec};

use crate::bands::Band;
use crate::bits::Bits;
use crate::streams::NONE;
use crate::traffic::Traffic;

/// Below this many classes nothing is swept.
const SWEEP_MIN: usize = 1_024;

#[derive(Debug)]
pub(crate) struct Class {
    hash: u64,
    pub(crate) queue: u32,
    pub(crate) queue_name: Name,
    pub(crate) kind: Name,
    /// Sorted, each once.
    pub(crate) needs: Vec<Name>,
    /// What to do when no worker meets them; as the settings say unless given.
    pub(crate) matching: Option<Matching>,
    /// The worker, by name, that is to have its tasks only if no other can.
    pub(crate) avoids: Option<Name>,
    /// Lowest priority first.
    pub(crate) bands: [Band; 5],
    /// The streams without fair key and limits, which most tasks go to.
    pub(crate) plain: [u32; 5],
    /// Groups of workers that serve it.
    pub(crate) groups: Bits,
    /// Tasks in memory and lanes in the store that refer to it.
    pub(crate) uses: u64,
    /// Whether it waits to be looked at for waiting workers.
    pub(crate) dirty: bool,
    /// What comes and goes.
    pub(crate) traffic: Traffic,
}

impl Class {
    /// An empty class for a spec.
    pub(crate) fn of(spec: &TaskSpec, avoids: Option<&Name>, queue: u32) -> Self {
        Self {
            hash: hash(spec, avoids),
            queue,
            queue_name: spec.queue.clone(),
            kind: spec.kind.clone(),
            needs: sorted(&spec.needs),
            matching: spec.matching,
            avoids: avoids.cloned(),
            bands: Default::default(),
            plain: [NONE; 5],
            groups: Bits::default(),
            uses: 0,
            dirty: false,
            traffic: Traffic::default(),
        }
    }

    fn is_of(&self, spec: &TaskSpec, avoids: Option<&Name>) -> bool {
        let same_needs = if is_sorted(&spec.needs) {
            self.needs == spec.needs
        } else {
            self.needs == sorted(&spec.needs)
        };
        same_needs
            && self.kind == spec.kind
            && self.queue_name == spec.queue
            && self.matching == spec.matching
            && self.avoids.as_ref() == avoids
    }
}

/// All classes.
#[derive(Debug, Default)]
pub(crate) struct Classes {
    list: Vec<Option<Class>>,
    free: Vec<u32>,
    /// More than one only if two classes have the same hash.
    by_hash: BTreeMap<u64, Vec<u32>>,
    /// Classes that may be served, by band: with streams that may, in queues that are not paused.
    pub(crate) runnable: [Bits; 5],
    /// Classes that avoid a worker.
    pub(crate) avoiding: Bits,
    /// When something of a class should start at the latest, by band: side by side, because every pick compares them.
    urgency: [Vec<u64>; 5],
    last: u32,
    sweep_at: usize,
}

impl Classes {
    /// The class of a spec, if there is one.
    pub(crate) fn find(&mut self, spec: &TaskSpec) -> Option<u32> {
        if let Some(Some(class)) = self.list.get(self.last as usize)
            && class.is_of(spec, None)
        {
            return Some(self.last);
        }
        let found = self.peek(spec)?;
        self.last = found;
        Some(found)
    }

    /// The same without a note of it.
    pub(crate) fn peek(&self, spec: &TaskSpec) -> Option<u32> {
        self.find_avoiding(spec, None)
    }

    /// The class for tasks of a spec that are not to go to a worker, if there is one.
    pub(crate) fn find_avoiding(&self, spec: &TaskSpec, avoids: Option<&Name>) -> Option<u32> {
        let list = self.by_hash.get(&hash(spec, avoids))?;
        list.iter().copied().find(|index| self.get(*index).is_of(spec, avoids))
    }

    /// A new class for a spec that has none.
    pub(crate) fn add(&mut self, spec: &TaskSpec, avoids: Option<&Name>, queue: u32) -> u32 {
        let class = Class::of(spec, avoids, queue);
        let hash = class.hash;
        let index = self.free.pop().unwrap_or_else(|| {
            self.list.push(None);
            self.list.len() as u32 - 1
        });
        self.avoiding.set(index, class.avoids.is_some());
        self.list[index as usize] = Some(class);
        self.by_hash.entry(hash).or_default().push(index);
        index
    }

    pub(crate) fn get(&self, index: u32) -> &Class {
        self.list[index as usize].as_ref().expect("a class in use")
    }

    pub(crate) fn get_mut(&mut self, index: u32) -> &mut Class {
        self.list[index as usize].as_mut().expect("a class in use")
    }

    /// When something of a class and band should start at the latest, if it may be served.
    pub(crate) fn urgency(&self, class: u32, band: usize) -> u64 {
        self.urgency[band][class as usize]
    }

    /// Works out anew when something of a class and band should start at the latest.
    pub(crate) fn urgency_changed(&mut self, class: u32, band: usize, patience_us: u64) {
        let front = self.get(class).bands[band].front();
        let by = front.map_or(u64::MAX, |front| front.urgency(patience_us).0);
        let list = &mut self.urgency[band];
        if list.len() <= class as usize {
            list.resize(class as usize + 1, u64::MAX);
        }
        list[class as usize] = by;
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Class)> {
        self.list
            .iter()
            .enumerate()
            .filter_map(|(index, class)| Some((index as u32, class.as_ref()?)))
    }

    /// Classes that may go, if it is time to sweep.
    pub(crate) fn unused(&mut self) -> Vec<u32> {
        let count = self.list.len() - self.free.len();
        if count < self.sweep_at.max(SWEEP_MIN) {
            return Vec::new();
        }
        let unused: Vec<u32> = self
            .iter()
            .filter(|(_, class)| class.uses == 0 && !class.dirty)
            .map(|(index, _)| index)
            .collect();
        self.sweep_at = 2 * (count - unused.len());
        unused
    }

    pub(crate) fn remove(&mut self, index: u32) -> Class {
        let class = self.list[index as usize].take().expect("a class in use");
        for band in &mut self.runnable {
            band.set(index, false);
        }
        self.avoiding.set(index, false);
        self.free.push(index);
        if let Some(list) = self.by_hash.get_mut(&class.hash) {
            list.retain(|other| *other != index);
            if list.is_empty() {
                self.by_hash.remove(&class.hash);
            }
        }
        class
    }
}

/// A number for the class of a spec; two classes may have the same. Eight bytes at a time, because it is computed for
/// every submission; it is never stored.
fn hash(spec: &TaskSpec, avoids: Option<&Name>) -> u64 {
    let mut hash = 0_u64;
    let mut feed = |text: &str| {
        let mut rest = text.as_bytes();
        while let Some((word, after)) = rest.split_first_chunk::<8>() {
            hash = mix(hash, u64::from_le_bytes(*word));
            rest = after;
        }
        let mut last = [0xff; 8];
        last[..rest.len()].copy_from_slice(rest);
        hash = mix(hash, u64::from_le_bytes(last));
    };
    feed(&spec.queue);
    feed(&spec.kind);
    if !spec.terms.is_untouched() {
        if is_sorted(&spec.needs) {
            spec.needs.iter().for_each(|need| feed(need));
        } else {
            sorted(&spec.needs).iter().for_each(|need| feed(need));
        }
        // Nothing is fed for what is not said, so that it does not matter whether other terms are.
        if let Some(matching) = spec.matching {
            feed(matching.as_str());
        }
    }
    if let Some(avoids) = avoids {
        feed(avoids);
    }
    hash
}

fn mix(hash: u64, word: u64) -> u64 {
    (hash.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95)
}

/// Whether needs are in the fixed order already, each once.
fn is_sorted(names: &[Name]) -> bool {
    names.windows(2).all(|pair| pair[0] < pair[1])
}

/// Needs in a fixed order, each once.
pub(crate) fn sorted(names: &[Name]) -> Vec<Name> {
    let mut names = names.to_vec();
    names.sort_unstable();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use divvy_types::TaskId;

    use super::*;

    #[test]
    fn terms_that_make_no_class_do_not_part_tasks() {
        let plain = TaskSpec::new(TaskId(1), "noop");
        let (mut keyed, mut needy) = (plain.clone(), plain.clone());
        keyed.fair_key = Some("acme".into());
        needy.needs = vec!["gpu".into()];
        let mut classes = Classes::default();
        let class = classes.add(&plain, None, 0);
        assert_eq!(classes.peek(&keyed), Some(class));
        assert_eq!(classes.peek(&needy), None);
        let other = classes.add(&needy, None, 0);
        assert_eq!((classes.peek(&plain), classes.peek(&needy)), (Some(class), Some(other)));
        let name = Name::from("bad");
        let retries = classes.add(&plain, Some(&name), 0);
        assert_eq!(classes.find_avoiding(&plain, Some(&name)), Some(retries));
        assert_eq!(classes.peek(&plain), Some(class));
    }
}
