//! Decides whether items and targets make a problem that can be planned for, and who may be where.
//!
//! Knows no objective. Items that are bound to the same targets, by name or by needs, share one table of them, so
//! that a look-up costs the same however the binding came about.

use std::collections::{BTreeMap, BTreeSet};

use super::{BINDINGS_MAX, ITEMS_MAX, Item, TARGETS_MAX, Target};
use crate::load::error::{self, Error};

/// Items on targets, checked.
#[derive(Clone, Debug)]
pub struct Problem {
    items: Vec<Item>,
    targets: Vec<Target>,
    /// By item: the binding it is under, if any.
    binding_of: Vec<Option<u32>>,
    bindings: Vec<Binding>,
    total_load: f64,
}

/// What an item is bound by: names of targets, and needs with the bits of their amounts.
type Bond<'a> = (Option<&'a [usize]>, Vec<(&'a str, u64)>);

#[derive(Clone, Debug)]
struct Binding {
    /// By target.
    is_allowed: Vec<bool>,
    /// The open ones among them.
    open: Vec<u32>,
}

impl Problem {
    /// Refuses figures that mean nothing, ids that repeat and targets that are not there.
    pub fn new(items: Vec<Item>, targets: Vec<Target>) -> Result<Self, Error> {
        check_count("items", items.len(), ITEMS_MAX)?;
        check_count("targets", targets.len(), TARGETS_MAX)?;
        targets.iter().try_for_each(check_target)?;
        let mut ids = BTreeSet::new();
        for item in &items {
            check_item(item, targets.len())?;
            if !ids.insert(item.id) {
                return Err(Error::ItemTwice(item.id));
            }
        }
        let mut problem = Self {
            total_load: items.iter().map(|item| item.load).sum(),
            binding_of: Vec::with_capacity(items.len()),
            bindings: Vec::new(),
            items,
            targets,
        };
        problem.bind()?;
        Ok(problem)
    }

    /// The items.
    pub fn items(&self) -> &[Item] {
        &self.items
    }

    /// The targets.
    pub fn targets(&self) -> &[Target] {
        &self.targets
    }

    /// The load of all items.
    pub fn total_load(&self) -> f64 {
        self.total_load
    }

    /// Whether an item may go to a target, whatever is there.
    pub(super) fn may_be_on(&self, item: usize, target: usize) -> bool {
        let binding = self.binding_of[item].map(|at| &self.bindings[at as usize]);
        self.targets[target].open && binding.is_none_or(|binding| binding.is_allowed[target])
    }

    /// The open targets that an item is bound to; none if it may go to any.
    pub(super) fn bound_to(&self, item: usize) -> Option<&[u32]> {
        self.binding_of[item].map(|at| self.bindings[at as usize].open.as_slice())
    }

    fn bind(&mut self) -> Result<(), Error> {
        // Needs are numbers that were checked, so their bits tell them apart.
        let mut known: BTreeMap<Bond<'_>, u32> = BTreeMap::new();
        for item in &self.items {
            if item.allowed.is_none() && item.needs.is_empty() {
                self.binding_of.push(None);
                continue;
            }
            let needs = item.needs.iter().map(|(name, amount)| (name.as_str(), amount.to_bits()));
            let key = (item.allowed.as_deref(), needs.collect());
            let next = known.len() as u32;
            let at = *known.entry(key).or_insert(next);
            if at == next {
                check_count("different bindings of items", known.len(), BINDINGS_MAX)?;
                self.bindings.push(Binding::of(item, &self.targets));
            }
            self.binding_of.push(Some(at));
        }
        Ok(())
    }
}

impl Binding {
    fn of(item: &Item, targets: &[Target]) -> Self {
        let mut is_allowed = vec![item.allowed.is_none(); targets.len()];
        item.allowed.iter().flatten().for_each(|target| is_allowed[*target] = true);
        for (allowed, target) in is_allowed.iter_mut().zip(targets) {
            let able = |(name, amount): (&String, &f64)| {
                target.capabilities.get(name).is_some_and(|offered| offered >= amount)
            };
            *allowed &= item.needs.iter().all(able);
        }
        let open = (0..targets.len()).filter(|at| is_allowed[*at] && targets[*at].open);
        Self { open: open.map(|at| at as u32).collect(), is_allowed }
    }
}

fn check_count(what: &'static str, count: usize, max: usize) -> Result<(), Error> {
    if count > max { Err(Error::TooMany { what, count, max }) } else { Ok(()) }
}

fn check_target(target: &Target) -> Result<(), Error> {
    if target.capacity != f64::INFINITY {
        error::positive("capacity", target.capacity)?;
    }
    error::positive("weight", target.weight)?;
    error::not_negative("cost_on", target.cost_on)?;
    error::not_negative("cost_load", target.cost_load)
}

fn check_item(item: &Item, targets: usize) -> Result<(), Error> {
    error::not_negative("load", item.load)?;
    error::not_negative("move_cost", item.move_cost)?;
    item.needs.values().try_for_each(|amount| error::not_negative("needs", *amount))?;
    let named = item.allowed.iter().flatten().chain([&item.on]);
    match named.copied().find(|target| *target >= targets) {
        Some(target) => Err(Error::NoSuchTarget { item: item.id, target, count: targets }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bindings_join_names_and_needs() {
        let targets = vec![
            Target::new(1.0).capability("gpu", 2.0),
            Target::new(1.0).capability("gpu", 1.0),
            Target::new(1.0).capability("gpu", 4.0).closed(),
            Target::new(1.0),
        ];
        let items = vec![
            Item::new(1, 0.1, 0),
            Item::new(2, 0.1, 0).need("gpu", 2.0),
            Item::new(3, 0.1, 0).need("gpu", 1.0).allowed([1, 3]),
            Item::new(4, 0.1, 0).need("tpu", 1.0),
        ];
        let problem = Problem::new(items, targets).unwrap();
        let open = |item| (0..4).filter(|at| problem.may_be_on(item, *at)).collect::<Vec<_>>();
        assert_eq!(open(0), [0, 1, 3]);
        assert_eq!(open(1), [0]);
        assert_eq!(open(2), [1]);
        assert_eq!(open(3), [] as [usize; 0]);
        assert_eq!(problem.bound_to(0), None);
        assert_eq!(problem.bound_to(1), Some([0].as_slice()));
    }

    #[test]
    fn nonsense_is_refused_with_its_name() {
        let good = || vec![Target::new(1.0), Target::new(1.0)];
        let cases = [
            (vec![Item::new(1, f64::NAN, 0)], good(), "`load`"),
            (vec![Item::new(1, 1.0, 0).move_cost(-1.0)], good(), "`move_cost`"),
            (vec![Item::new(7, 1.0, 2)], good(), "item 7 names target 2"),
            (vec![Item::new(7, 1.0, 0).allowed([5])], good(), "item 7 names target 5"),
            (vec![Item::new(7, 1.0, 0), Item::new(7, 1.0, 1)], good(), "id 7"),
            (vec![Item::new(7, 1.0, 0).need("gpu", f64::NAN)], good(), "`needs`"),
            (vec![], vec![Target::new(0.0)], "`capacity`"),
            (vec![], vec![Target::new(1.0).weight(f64::INFINITY)], "`weight`"),
            (vec![], vec![Target::new(1.0).costs(-1.0, 0.0)], "`cost_on`"),
        ];
        for (items, targets, part) in cases {
            let error = Problem::new(items, targets).unwrap_err();
            assert!(error.to_string().contains(part), "{error} has no {part}");
        }
    }

    #[test]
    fn too_many_different_bindings_are_refused() {
        let item = |id: u64| Item::new(id, 1.0, 0).need("memory", id as f64);
        let items = |count| (0..count as u64).map(item).collect();
        assert!(Problem::new(items(BINDINGS_MAX), vec![Target::new(1.0)]).is_ok());
        let error = Problem::new(items(BINDINGS_MAX + 1), vec![Target::new(1.0)]).unwrap_err();
        assert!(matches!(error, Error::TooMany { .. }), "{error}");
    }
}
