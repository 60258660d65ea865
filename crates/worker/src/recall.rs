//! How grants are given back that the server wants to move to another worker, and what becomes of their places in line.
//!
//! Decides by what is held under the lock: a grant that still waits is released, one that has begun is left alone
//! unless the server wants it all the same. So a recall and a start never both win.
//!
//! A grant that ends while it waits leaves its place in line behind, because taking it out would mean a search. Such
//! places are counted and swept out together when they are many, so that a server that grants and recalls without
//! end does not fill the memory of a worker whose slots are all taken.

use std::collections::VecDeque;
use std::sync::Arc;

use divvy_types::AttemptOutcome;

use crate::CancelReason;
use crate::run::Runners;
use crate::state::{Held, Hold, Key, State};

/// Places left behind that are not worth a sweep.
const STALE_MIN: usize = 64;

impl Runners {
    /// Gives back what has not begun, and stops what has where the server wants even that.
    pub(crate) fn recall(self: &Arc<Self>, recalls: impl Iterator<Item = (Key, bool)>) {
        for key in self.hold.recall(recalls) {
            self.stop(key, CancelReason::Recalled);
        }
    }
}

impl Hold {
    /// Releases what waits; returns what has begun and is wanted all the same. What is not held is ignored.
    fn recall(&self, recalls: impl Iterator<Item = (Key, bool)>) -> Vec<Key> {
        let mut state = self.lock();
        let (mut begun, mut rings) = (Vec::new(), false);
        for (key, begun_too) in recalls {
            match state.held.get(&key) {
                Some(Held::Queued) => rings |= state.end_waiting(key, AttemptOutcome::Released),
                Some(Held::Running(_)) if begun_too => begun.push(key),
                Some(Held::Running(_) | Held::Ended(_)) | None => {}
            }
        }
        self.after_end(state, rings);
        begun
    }
}

impl State {
    /// Ends an attempt that waits in line; says whether the sender has to be woken.
    pub(crate) fn end_waiting(&mut self, key: Key, outcome: AttemptOutcome) -> bool {
        let rings = self.end(key, outcome);
        self.stale += 1;
        let places: usize = self.tiers.iter().map(|tier| tier.queued).sum();
        if self.stale >= STALE_MIN && self.stale * 2 > places {
            self.sweep();
        }
        rings
    }

    /// Takes the places out of the lines whose grants have ended.
    fn sweep(&mut self) {
        let held = &self.held;
        for tier in &mut self.tiers {
            for line in &mut tier.lines {
                line.retain(|waiting| {
                    let key = (waiting.attempt.task.id, waiting.attempt.token);
                    matches!(held.get(&key), Some(Held::Queued))
                });
            }
            tier.queued = tier.lines.iter().map(VecDeque::len).sum();
        }
        self.stale = 0;
    }
}

#[cfg(test)]
mod tests {
    use divvy_types::{TaskId, Token};

    use super::*;
    use crate::state::Waiting;
    use crate::state::tests::waiting_on;
    use crate::{Slots, Tier};

    fn waiting(id: u128) -> (Tier, Waiting) {
        waiting_on(Tier::Async, id)
    }

    #[test]
    fn a_worker_whose_slots_are_taken_does_not_grow_while_grants_come_and_go() {
        let hold = Hold::new(Slots { async_: 1, blocking: 0, cpu: 0, process: 0 });
        hold.enqueue(vec![waiting(0)]);
        assert!(hold.next(Tier::Async, None).is_some(), "the one slot is taken");
        hold.enqueue((1..=10).map(waiting).collect());
        for round in 1..100 {
            let ids = round * 1_000..round * 1_000 + 100;
            hold.enqueue(ids.clone().map(waiting).collect());
            let key = |id| ((TaskId(id), Token(1)), false);
            assert_eq!(hold.recall(ids.clone().map(key)), []);
            hold.answered(ids.map(|id| (key(id).0, true)));
            let places = hold.lock().tiers.iter().map(|tier| tier.queued).sum::<usize>();
            assert!(places <= 10 + 2 * STALE_MIN, "{places} places in line for 10 grants");
        }
        let next = |_| hold.next(Tier::Async, None).map(|next| next.attempt.task.id.0);
        assert_eq!((1..=10).filter_map(next).collect::<Vec<_>>(), (1..=10).collect::<Vec<_>>());
    }
}
