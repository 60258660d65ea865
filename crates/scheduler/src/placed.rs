//! The last decisions about who got what, so that they can be explained, and who last ran what with which affinity key.
//!
//! Both are bounded: the oldest decisions and the keys that were not used for longest go first.

use std::collections::{BTreeMap, VecDeque};

use divvy_types::view::{PlacedBy, Placement, Scored};
use divvy_types::{Name, Seq, TaskSpec, Timestamp};

use crate::Scheduler;
use crate::score::RANKED_MAX;
use crate::table::Row;

/// Decisions that are remembered.
const DECISIONS_MAX: usize = 4_096;
/// Affinity keys that are remembered.
const KEYS_MAX: usize = 10_000;

#[derive(Debug, Default)]
pub(crate) struct Placed {
    decisions: VecDeque<Decision>,
    /// How often names had been forgotten when the first of these was made: numbers of names hold until then.
    forgettings: u64,
    /// Who last got a task with this key, and when in the order of uses.
    by_key: BTreeMap<Name, (u32, u64)>,
    by_use: BTreeMap<u64, Name>,
    uses: u64,
}

/// Small, because one is written for every grant: workers are numbers of their names.
#[derive(Debug)]
struct Decision {
    seq: Seq,
    at: Timestamp,
    worker: u32,
    by: PlacedBy,
    compared_len: u8,
    compared: [u32; RANKED_MAX],
    scores: [f64; RANKED_MAX],
}

impl Placed {
    /// Whether a worker was the last to get a task with the same affinity key.
    pub(crate) fn is_close(&self, spec: &TaskSpec, known: u32) -> bool {
        spec.affinity
            .as_ref()
            .is_some_and(|key| self.by_key.get(key).is_some_and(|(last, _)| *last == known))
    }

    /// How many affinity keys each name had last. One of the few looks that goes through all keys that are remembered.
    pub(crate) fn keys_by_worker(&self) -> BTreeMap<u32, u32> {
        let mut keys = BTreeMap::new();
        for (known, _) in self.by_key.values() {
            *keys.entry(*known).or_default() += 1;
        }
        keys
    }

    fn note_key(&mut self, key: &Name, known: u32) {
        self.uses += 1;
        if let Some((_, used)) = self.by_key.insert(key.clone(), (known, self.uses)) {
            self.by_use.remove(&used);
        }
        self.by_use.insert(self.uses, key.clone());
        if self.by_use.len() > KEYS_MAX
            && let Some((_, oldest)) = self.by_use.pop_first()
        {
            self.by_key.remove(&oldest);
        }
    }

    fn note(&mut self, decision: Decision, forgettings: u64) {
        if self.forgettings != forgettings {
            self.decisions.clear();
            self.forgettings = forgettings;
        }
        if self.decisions.len() >= DECISIONS_MAX {
            self.decisions.pop_front();
        }
        self.decisions.push_back(decision);
    }
}

impl Scheduler {
    /// Remembers that a worker got a task, and what led to it.
    pub(crate) fn note_placement(&mut self, now: Timestamp, row: Row, index: u32, by: PlacedBy) {
        let task = &self.tasks[row];
        let worker = self.workers.get(index);
        let (mut compared, mut scores) = ([0; RANKED_MAX], [0.0; RANKED_MAX]);
        let mut compared_len = 0;
        if by == PlacedBy::Score {
            for (score, other) in self.ranking.for_task(row) {
                let place = usize::from(compared_len);
                (compared[place], scores[place]) = (self.workers.get(*other).known, *score);
                compared_len += 1;
            }
        }
        if let Some(key) = &task.spec.affinity {
            self.placed.note_key(key, worker.known);
        }
        let (seq, worker) = (task.seq, worker.known);
        let decision = Decision { seq, at: now, worker, by, compared_len, compared, scores };
        self.placed.note(decision, self.learning.forgettings());
    }

    /// How the last worker of a task was chosen, if that was not long ago.
    pub(crate) fn placement_of(&self, seq: Seq) -> Option<Placement> {
        if self.placed.forgettings != self.learning.forgettings() {
            return None;
        }
        let decision = self.placed.decisions.iter().rev().find(|decision| decision.seq == seq)?;
        let compared = &decision.compared[..usize::from(decision.compared_len)];
        let scored = compared
            .iter()
            .zip(decision.scores)
            .map(|(known, score)| Scored { worker: self.learning.name(*known).clone(), score });
        Some(Placement {
            worker: self.learning.name(decision.worker).clone(),
            at: decision.at,
            by: decision.by,
            compared: scored.collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use divvy_types::TaskId;

    use super::*;

    #[test]
    fn the_affinity_keys_that_were_not_used_for_longest_are_forgotten() {
        let mut placed = Placed::default();
        let with = |key: String| {
            let mut spec = TaskSpec::new(TaskId(1), "k");
            spec.affinity = Some(key.into());
            spec
        };
        placed.note_key(&"first".into(), 7);
        for number in 0..2 * KEYS_MAX {
            placed.note_key(&Name::from(format!("k{number}")), 1);
            if number % 100 == 0 {
                placed.note_key(&"first".into(), 7);
            }
        }
        assert_eq!((placed.by_key.len(), placed.by_use.len()), (KEYS_MAX, KEYS_MAX));
        assert!(placed.is_close(&with("first".into()), 7));
        assert!(!placed.is_close(&with("first".into()), 8));
        assert!(!placed.is_close(&with("k0".into()), 1));
        assert!(!placed.is_close(&TaskSpec::new(TaskId(1), "k"), 7));
    }
}
