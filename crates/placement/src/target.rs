//! Decides what a target is, and keeps the table of them: who is there, in which state, with which weight and load.
//!
//! Knows nothing of policies: [`crate::Balancer`] tells them what changed. A target lives in a slot. A slot is used
//! again after its target has left, so an id carries a generation too: what is said about a target that has left
//! does not fall on its successor.

use std::collections::BTreeMap;

/// The most targets that a table holds.
pub const TARGETS_MAX: usize = 1 << 20;

/// The largest weight of a target.
pub const WEIGHT_MAX: f64 = 1_000_000.0;

/// Names one target for as long as it is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TargetId {
    slot: u32,
    generation: u32,
}

impl TargetId {
    /// An id that no target ever has.
    pub(crate) const NONE: Self = Self { slot: u32::MAX, generation: u32::MAX };

    /// The place in [`crate::View::targets`], for state that a policy keeps per target.
    pub fn slot(self) -> usize {
        self.slot as usize
    }
}

/// Whether a target may be picked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// May be picked.
    Up,
    /// Finishes what it has, gets nothing new.
    Draining,
    /// Is not reachable or not well.
    Down,
    /// Was removed: its slot is free.
    Gone,
}

/// What a target is when it is added.
#[derive(Clone, Debug, PartialEq)]
pub struct TargetSpec {
    /// Its name: unique in a table. Hashing policies place it by this name.
    pub name: String,
    /// Its share relative to the others; 1 if nothing is said.
    pub weight: f64,
    /// The most requests that it may have in flight; none means no limit.
    pub limit: Option<u32>,
    /// Its place in a tree, from the root down, such as `["eu", "rack-2"]`. Empty: directly at the root.
    pub path: Vec<String>,
    /// What it can do, each with an amount: `gpu` 2, `ffmpeg` 1.
    pub capabilities: BTreeMap<String, f64>,
    /// What it costs.
    pub cost: Cost,
}

/// What a target costs, as terms of a score.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// Watts while it does nothing.
    pub watts_idle: f64,
    /// Watts at full load.
    pub watts_busy: f64,
    /// Money per hour, in any one currency.
    pub price_hour: f64,
    /// Work done per time, relative to the others.
    pub speed: f64,
}

impl Default for Cost {
    fn default() -> Self {
        Self { watts_idle: 0.0, watts_busy: 0.0, price_hour: 0.0, speed: 1.0 }
    }
}

impl TargetSpec {
    /// A target of weight 1 without limit, capabilities or cost.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            weight: 1.0,
            limit: None,
            path: Vec::new(),
            capabilities: BTreeMap::new(),
            cost: Cost::default(),
        }
    }

    /// Sets the weight.
    pub fn weight(mut self, weight: f64) -> Self {
        self.weight = weight;
        self
    }

    /// Sets the most requests in flight.
    pub fn limit(mut self, limit: u32) -> Self {
        self.limit = Some(limit);
        self
    }

    /// Sets the place in the tree.
    pub fn path<S: Into<String>>(mut self, path: impl IntoIterator<Item = S>) -> Self {
        self.path = path.into_iter().map(Into::into).collect();
        self
    }

    /// Adds something that it can do, with its amount.
    pub fn capability(mut self, name: impl Into<String>, amount: f64) -> Self {
        self.capabilities.insert(name.into(), amount);
        self
    }

    /// Sets what it costs.
    pub fn cost(mut self, cost: Cost) -> Self {
        self.cost = cost;
        self
    }
}

/// One thread, backend or worker that can be picked.
#[derive(Clone, Debug)]
pub struct Target {
    /// Its id.
    pub id: TargetId,
    /// What it was added as; the weight and the limit as they are now.
    pub spec: TargetSpec,
    /// Whether it may be picked.
    pub state: State,
    /// Requests started and not finished.
    pub in_flight: u32,
    /// Requests that wait at the target itself, as it last reported.
    pub queued: u32,
}

impl Target {
    /// Whether it is up and below its limit.
    pub fn has_room(&self) -> bool {
        self.state == State::Up && self.spec.limit.is_none_or(|limit| self.in_flight < limit)
    }

    /// In flight and queued, per weight.
    pub fn relative_load(&self) -> f64 {
        f64::from(self.in_flight.saturating_add(self.queued)) / self.spec.weight
    }
}

/// Why the table refused a change.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// The name is in use.
    #[error("a target named `{0}` is there already; remove it first or choose another name")]
    NameTaken(String),
    /// The weight cannot be used.
    #[error(
        "the weight of target `{name}` is {weight}; it must be above 0 and at most {WEIGHT_MAX}"
    )]
    BadWeight {
        /// Whose weight.
        name: String,
        /// What was given.
        weight: f64,
    },
    /// The target has left, or was never there.
    #[error("there is no such target; it may have been removed")]
    Unknown,
    /// The table is full.
    #[error("there are {TARGETS_MAX} targets already, which is the most that a table holds")]
    Full,
}

/// The table of targets.
#[derive(Clone, Debug, Default)]
pub struct Targets {
    slots: Vec<Target>,
    free: Vec<u32>,
    /// The slots of the targets that are up, in order.
    up: Vec<u32>,
    names: BTreeMap<String, u32>,
    epoch: u64,
}

impl Targets {
    /// An empty table.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many targets there are, in whatever state.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Grows with every change of who may be picked.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// All slots, free ones included.
    pub fn slots(&self) -> &[Target] {
        &self.slots
    }

    /// The slots of the targets that are up.
    pub fn up(&self) -> &[u32] {
        &self.up
    }

    /// The targets that are there, in whatever state.
    pub fn iter(&self) -> impl Iterator<Item = &Target> {
        self.slots.iter().filter(|target| target.state != State::Gone)
    }

    /// One target.
    pub fn get(&self, id: TargetId) -> Option<&Target> {
        self.slots.get(id.slot()).filter(|target| target.id == id && target.state != State::Gone)
    }

    /// The target of this name.
    pub fn by_name(&self, name: &str) -> Option<&Target> {
        self.names.get(name).map(|slot| &self.slots[*slot as usize])
    }

    /// Adds a target, up at once.
    pub fn add(&mut self, spec: TargetSpec) -> Result<TargetId, Error> {
        check_weight(&spec.name, spec.weight)?;
        if self.names.contains_key(&spec.name) {
            return Err(Error::NameTaken(spec.name));
        }
        if self.len() >= TARGETS_MAX {
            return Err(Error::Full);
        }
        let name = spec.name.clone();
        let id = match self.free.pop() {
            Some(slot) => {
                let generation = self.slots[slot as usize].id.generation.wrapping_add(1);
                TargetId { slot, generation }
            }
            None => TargetId { slot: self.slots.len() as u32, generation: 0 },
        };
        let target = Target { id, spec, state: State::Up, in_flight: 0, queued: 0 };
        match self.slots.get_mut(id.slot()) {
            Some(slot) => *slot = target,
            None => self.slots.push(target),
        }
        self.names.insert(name, id.slot);
        self.changed(id.slot);
        Ok(id)
    }

    /// Removes a target; what it has in flight is forgotten.
    pub fn remove(&mut self, id: TargetId) -> Result<Target, Error> {
        let removed = self.get_mut(id)?.clone();
        self.slots[id.slot()].state = State::Gone;
        self.names.remove(&removed.spec.name);
        self.free.push(id.slot);
        self.changed(id.slot);
        Ok(removed)
    }

    /// Puts a target up, on its way out, or down.
    ///
    /// # Panics
    /// If `state` is [`State::Gone`]: that is what [`Targets::remove`] is for.
    pub fn set_state(&mut self, id: TargetId, state: State) -> Result<(), Error> {
        assert!(state != State::Gone, "a target leaves through remove");
        self.get_mut(id)?.state = state;
        self.changed(id.slot);
        Ok(())
    }

    /// Changes a target's share.
    pub fn set_weight(&mut self, id: TargetId, weight: f64) -> Result<(), Error> {
        let target = self.get_mut(id)?;
        check_weight(&target.spec.name, weight)?;
        target.spec.weight = weight;
        self.epoch += 1;
        Ok(())
    }

    /// Changes how many requests a target may have in flight.
    pub fn set_limit(&mut self, id: TargetId, limit: Option<u32>) -> Result<(), Error> {
        self.get_mut(id)?.spec.limit = limit;
        Ok(())
    }

    /// Takes over what a target says about its own queue.
    pub fn set_queued(&mut self, id: TargetId, queued: u32) -> Result<(), Error> {
        self.get_mut(id)?.queued = queued;
        Ok(())
    }

    /// Counts a request in. Nothing happens if the target has left.
    pub fn started(&mut self, id: TargetId) {
        self.started_many(id, 1);
    }

    /// Counts several requests in. Nothing happens if the target has left.
    pub fn started_many(&mut self, id: TargetId, count: u32) {
        if let Ok(target) = self.get_mut(id) {
            target.in_flight = target.in_flight.saturating_add(count);
        }
    }

    /// Counts a request out and says how many are left. Nothing happens if the target has left or has none in flight.
    pub fn finished(&mut self, id: TargetId) -> Option<u32> {
        let target = self.get_mut(id).ok()?;
        target.in_flight = target.in_flight.checked_sub(1)?;
        Some(target.in_flight)
    }

    fn get_mut(&mut self, id: TargetId) -> Result<&mut Target, Error> {
        let target = self.slots.get_mut(id.slot()).ok_or(Error::Unknown)?;
        if target.id != id || target.state == State::Gone {
            return Err(Error::Unknown);
        }
        Ok(target)
    }

    /// Lists the target as up or not, as its state says. Cheap: the list is in order, and most changes are few.
    fn changed(&mut self, slot: u32) {
        self.epoch += 1;
        let is_up = self.slots[slot as usize].state == State::Up;
        match self.up.binary_search(&slot) {
            Ok(place) if !is_up => drop(self.up.remove(place)),
            Err(place) if is_up => self.up.insert(place, slot),
            _ => {}
        }
    }
}

fn check_weight(name: &str, weight: f64) -> Result<(), Error> {
    if weight > 0.0 && weight <= WEIGHT_MAX {
        return Ok(());
    }
    Err(Error::BadWeight { name: name.into(), weight })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_used_again_but_its_old_id_is_not_heard() {
        let mut targets = Targets::new();
        let first = targets.add(TargetSpec::new("a")).unwrap();
        targets.remove(first).unwrap();
        let second = targets.add(TargetSpec::new("b")).unwrap();
        assert_eq!(first.slot(), second.slot());
        targets.started(second);
        assert_eq!(targets.finished(first), None);
        assert_eq!(targets.get(second).unwrap().in_flight, 1);
        assert_eq!(targets.set_weight(first, 2.0), Err(Error::Unknown));
    }

    #[test]
    fn only_targets_that_are_up_are_listed_as_up() {
        let mut targets = Targets::new();
        let ids: Vec<TargetId> =
            ["a", "b", "c", "d"].map(|name| targets.add(TargetSpec::new(name)).unwrap()).into();
        targets.set_state(ids[0], State::Draining).unwrap();
        targets.set_state(ids[1], State::Down).unwrap();
        targets.remove(ids[2]).unwrap();
        assert_eq!(targets.up(), [3]);
        targets.set_state(ids[1], State::Up).unwrap();
        assert_eq!(targets.up(), [1, 3]);
        assert_eq!(targets.len(), 3);
    }

    #[test]
    fn bad_weights_and_names_in_use_are_refused_with_the_name() {
        let mut targets = Targets::new();
        targets.add(TargetSpec::new("a")).unwrap();
        for weight in [0.0, -1.0, f64::NAN, f64::INFINITY, 2e6] {
            let error = targets.add(TargetSpec::new("b").weight(weight)).unwrap_err();
            assert!(error.to_string().contains("target `b`"), "{error}");
        }
        let error = targets.add(TargetSpec::new("a")).unwrap_err();
        assert_eq!(error, Error::NameTaken("a".into()));
        assert_eq!(targets.len(), 1);
    }
}
