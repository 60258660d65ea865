//! Decides how a policy keeps a value per target: in a vector, by slot.
//!
//! Knows nothing of generations: a policy resets the slot when a target joins, so that a successor starts fresh.

use crate::target::TargetId;

/// One value per slot. A slot that nobody wrote holds the default.
#[derive(Clone, Debug, Default)]
pub(super) struct BySlot<T> {
    values: Vec<T>,
}

impl<T: Copy + Default> BySlot<T> {
    /// The value of a target.
    pub(super) fn get(&self, id: TargetId) -> T {
        self.values.get(id.slot()).copied().unwrap_or_default()
    }

    /// The value of a target, to change it. The vector is as long as the highest slot, which
    /// [`crate::target::TARGETS_MAX`] bounds.
    pub(super) fn at(&mut self, id: TargetId) -> &mut T {
        if id.slot() >= self.values.len() {
            self.values.resize(id.slot() + 1, T::default());
        }
        &mut self.values[id.slot()]
    }

    /// Forgets the value of a target.
    pub(super) fn reset(&mut self, id: TargetId) {
        *self.at(id) = T::default();
    }
}
