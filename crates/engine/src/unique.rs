//! Unique keys: which task has which, and what becomes of a second one with the same key.
//!
//! A key is taken with the submission of a task and free again when that task has ended and its window, counted from
//! its submission, has passed. The keys in memory follow the facts that are recorded, so they are what the store will
//! show after a restart; a batch is decided before anything of it is recorded.
//!
//! It does not know how a task is cancelled, nor what a batch is refused for otherwise.

use std::collections::{BTreeSet, HashMap};

use divvy_types::limits::UNIQUE_KEYS_MAX;
use divvy_types::{
    Conflict, Fact, Name, OnConflict, Seq, SpecError, TaskId, TaskSpec, Timestamp, Unique,
};

/// The task that has a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Holder {
    pub(crate) task: TaskId,
    pub(crate) seq: Seq,
    pub(crate) until: Option<Timestamp>,
    pub(crate) open: bool,
}

impl Holder {
    /// Whether the key is not free.
    pub(crate) fn holds(&self, now: Timestamp) -> bool {
        self.open || self.until.is_some_and(|until| until > now)
    }
}

/// All keys that are taken.
#[derive(Debug)]
pub(crate) struct Keys {
    held: HashMap<Name, Holder>,
    /// The keys of open tasks.
    open: HashMap<Seq, Name>,
    /// When the windows of ended tasks pass.
    ending: BTreeSet<(Timestamp, Name)>,
    max: usize,
}

impl Default for Keys {
    fn default() -> Self {
        Self {
            held: HashMap::new(),
            open: HashMap::new(),
            ending: BTreeSet::new(),
            max: UNIQUE_KEYS_MAX,
        }
    }
}

/// What the tasks of one batch make of the keys, before any of them is recorded.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    of_batch: HashMap<Name, TaskId>,
    /// The task whose finish spawns the batch: its key is as good as free.
    finishing: Option<Seq>,
    skipped: HashMap<TaskId, TaskId>,
    /// Tasks that are not taken, and the one that has the key, in their order.
    pub(crate) conflicts: Vec<Conflict>,
    /// Tasks to be cancelled, and the one that takes the key.
    pub(crate) replaced: Vec<(TaskId, TaskId)>,
}

/// What becomes of a task with a key.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// It is taken.
    Take,
    /// It is taken, and this one is cancelled.
    Replace(TaskId),
    /// It is not taken.
    Skip,
}

impl Claims {
    /// Nothing is claimed yet. `finishing` is the task whose finish spawns the batch.
    pub(crate) fn new(finishing: Option<Seq>) -> Self {
        Self { finishing, ..Self::default() }
    }

    /// The task that has the key of a task of the batch that was not taken.
    pub(crate) fn instead_of(&self, task: TaskId) -> Option<TaskId> {
        self.skipped.get(&task).copied()
    }
}

impl Keys {
    /// Decides about the next task of a batch.
    pub(crate) fn decide(
        &mut self,
        now: Timestamp,
        task: TaskId,
        unique: &Unique,
        claims: &mut Claims,
    ) -> Result<Turn, SpecError> {
        self.expire(now);
        let holder = match claims.of_batch.get(&unique.key) {
            Some(first) => Some((*first, true)),
            None => self.holder(&unique.key, now, claims.finishing).map(|h| (h.task, h.open)),
        };
        let Some((first, open)) = holder else {
            if self.held.len() + claims.of_batch.len() >= self.max {
                let problem = format!(
                    "cannot be taken: {} unique keys are in use; wait until tasks with keys end, or give shorter windows",
                    self.max
                );
                return Err(SpecError::field("unique.key", problem));
            }
            claims.of_batch.insert(unique.key.clone(), task);
            return Ok(Turn::Take);
        };
        match unique.on_conflict {
            OnConflict::Refuse => {
                Err(SpecError::NotUnique { task, key: unique.key.clone(), holder: first })
            }
            OnConflict::Skip => {
                claims.skipped.insert(task, first);
                claims.conflicts.push(Conflict { task, first });
                Ok(Turn::Skip)
            }
            OnConflict::Replace => {
                claims.of_batch.insert(unique.key.clone(), task);
                if !open {
                    return Ok(Turn::Take);
                }
                claims.replaced.push((first, task));
                Ok(Turn::Replace(first))
            }
        }
    }

    /// Whether another task has the key of this one.
    pub(crate) fn is_taken_from(&self, now: Timestamp, task: TaskId, spec: &TaskSpec) -> bool {
        let Some(unique) = &spec.unique else { return false };
        self.holder(&unique.key, now, None).is_some_and(|holder| holder.task != task)
    }

    fn holder(&self, key: &Name, now: Timestamp, finishing: Option<Seq>) -> Option<Holder> {
        let mut holder = *self.held.get(key)?;
        holder.open &= Some(holder.seq) != finishing;
        holder.holds(now).then_some(holder)
    }

    /// Follows a fact that is recorded.
    pub(crate) fn follow(&mut self, now: Timestamp, fact: &Fact) {
        match fact {
            Fact::Submitted { seq, at, spec, .. } => self.take(*seq, *at, spec),
            Fact::Finished { seq, .. } | Fact::Dead { seq, .. } | Fact::Cancelled { seq, .. } => {
                self.ended(now, *seq);
            }
            _ => {}
        }
    }

    /// A task is open and has the key of its spec, if that has one.
    pub(crate) fn take(&mut self, seq: Seq, at: Timestamp, spec: &TaskSpec) {
        let Some(unique) = &spec.unique else { return };
        let (task, until) = (spec.id, unique.until(at));
        self.put(unique.key.clone(), Holder { task, seq, until, open: true });
    }

    /// Puts a holder in place of whoever had the key.
    pub(crate) fn put(&mut self, key: Name, holder: Holder) {
        if holder.open {
            self.open.insert(holder.seq, key.clone());
        } else if let Some(until) = holder.until {
            self.ending.insert((until, key.clone()));
        }
        if let Some(before) = self.held.insert(key.clone(), holder)
            && before.seq != holder.seq
        {
            self.open.remove(&before.seq);
            if let Some(until) = before.until.filter(|_| !before.open) {
                self.ending.remove(&(until, key));
            }
        }
    }

    fn ended(&mut self, now: Timestamp, seq: Seq) {
        if self.open.is_empty() {
            return;
        }
        let Some(key) = self.open.remove(&seq) else { return };
        let Some(holder) = self.held.get_mut(&key) else { return };
        holder.open = false;
        match holder.until.filter(|until| *until > now) {
            Some(until) => {
                self.ending.insert((until, key));
            }
            None => {
                self.held.remove(&key);
            }
        }
    }

    /// Forgets the keys of ended tasks whose window has passed.
    fn expire(&mut self, now: Timestamp) {
        while self.ending.first().is_some_and(|(until, _)| *until <= now) {
            let Some((_, key)) = self.ending.pop_first() else { return };
            if self.held.get(&key).is_some_and(|holder| !holder.holds(now)) {
                self.held.remove(&key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    const NOW: Timestamp = Timestamp(1_000_000);

    fn spec(id: u128, key: &str, window_ms: Option<u64>, on_conflict: OnConflict) -> TaskSpec {
        let mut spec = TaskSpec::new(TaskId(id), "noop");
        spec.unique = Some(Unique { key: key.into(), window_ms, on_conflict });
        spec
    }

    fn submit(keys: &mut Keys, now: Timestamp, spec: TaskSpec) {
        let seq = Seq(u64::try_from(spec.id.0).unwrap());
        let spec = Arc::new(spec);
        keys.follow(now, &Fact::Submitted { seq, at: now, spec, spawned_by: None, spilled: None });
    }

    fn end(keys: &mut Keys, now: Timestamp, seq: u64) {
        let reason = Name::default();
        keys.follow(now, &Fact::Cancelled { seq: Seq(seq), at: now, reason, spilled: None });
    }

    fn turn(keys: &mut Keys, now: Timestamp, spec: &TaskSpec) -> Result<Turn, SpecError> {
        let unique = spec.unique.as_ref().unwrap();
        keys.decide(now, spec.id, unique, &mut Claims::default())
    }

    #[test]
    fn a_key_is_free_when_its_task_has_ended_and_its_window_has_passed() {
        let mut keys = Keys::default();
        submit(&mut keys, NOW, spec(1, "open", None, OnConflict::Skip));
        submit(&mut keys, NOW, spec(2, "windowed", Some(1_000), OnConflict::Skip));
        let second = |key| spec(9, key, None, OnConflict::Skip);
        let later = NOW.plus_ms(5_000);
        assert_eq!(turn(&mut keys, later, &second("open")), Ok(Turn::Skip));
        assert_eq!(turn(&mut keys, later, &second("windowed")), Ok(Turn::Skip), "it is still open");
        end(&mut keys, NOW, 1);
        end(&mut keys, NOW, 2);
        assert_eq!(turn(&mut keys, NOW, &second("open")), Ok(Turn::Take));
        assert_eq!(turn(&mut keys, NOW.plus_ms(999), &second("windowed")), Ok(Turn::Skip));
        assert_eq!(turn(&mut keys, NOW.plus_ms(1_000), &second("windowed")), Ok(Turn::Take));
        assert!(keys.held.is_empty() && keys.open.is_empty() && keys.ending.is_empty());
    }

    #[test]
    fn each_policy_does_what_it_says() {
        let mut keys = Keys::default();
        submit(&mut keys, NOW, spec(1, "k", None, OnConflict::Skip));
        assert_eq!(
            turn(&mut keys, NOW, &spec(2, "k", None, OnConflict::Replace)),
            Ok(Turn::Replace(TaskId(1)))
        );
        let refused = turn(&mut keys, NOW, &spec(2, "k", None, OnConflict::Refuse)).unwrap_err();
        let words = refused.to_string();
        assert!(words.contains("`k`") && words.contains(&TaskId(1).to_string()), "{words}");
    }

    #[test]
    fn tasks_of_one_batch_meet_in_their_order() {
        let mut keys = Keys::default();
        let mut claims = Claims::default();
        for (id, on_conflict, expected) in [
            (1, OnConflict::Skip, Turn::Take),
            (2, OnConflict::Skip, Turn::Skip),
            (3, OnConflict::Replace, Turn::Replace(TaskId(1))),
            (4, OnConflict::Skip, Turn::Skip),
        ] {
            let spec = spec(id, "k", None, on_conflict);
            let unique = spec.unique.as_ref().unwrap();
            assert_eq!(keys.decide(NOW, spec.id, unique, &mut claims), Ok(expected), "task {id}");
        }
        let conflicts = [(2, 1), (4, 3)]
            .map(|(task, first)| Conflict { task: TaskId(task), first: TaskId(first) });
        assert_eq!(claims.conflicts, conflicts);
        assert_eq!(claims.instead_of(TaskId(4)), Some(TaskId(3)));
    }

    #[test]
    fn the_task_that_finishes_does_not_keep_its_successor_out() {
        let mut keys = Keys::default();
        submit(&mut keys, NOW, spec(1, "k", None, OnConflict::Skip));
        let next = spec(2, "k", None, OnConflict::Skip);
        let mut claims = Claims { finishing: Some(Seq(1)), ..Claims::default() };
        let unique = next.unique.as_ref().unwrap();
        assert_eq!(keys.decide(NOW, next.id, unique, &mut claims), Ok(Turn::Take));
        submit(&mut keys, NOW, next);
        end(&mut keys, NOW, 1);
        assert_eq!(
            turn(&mut keys, NOW, &spec(3, "k", None, OnConflict::Skip)),
            Ok(Turn::Skip),
            "the end of the first does not free the key of the second"
        );
    }

    #[test]
    fn more_keys_than_allowed_are_refused() {
        let mut keys = Keys { max: 2, ..Keys::default() };
        submit(&mut keys, NOW, spec(1, "a", None, OnConflict::Skip));
        let mut claims = Claims::default();
        for (key, fits) in [("b", true), ("a", true), ("c", false)] {
            let spec = spec(5, key, None, OnConflict::Skip);
            let unique = spec.unique.as_ref().unwrap();
            let decided = keys.decide(NOW, spec.id, unique, &mut claims);
            assert_eq!(decided.is_ok(), fits, "{key}: {decided:?}");
        }
    }
}
