//! Windows that events make: each event is a window as long as the gap, and windows of a key that touch are one.
//!
//! So an event may join two sessions that were apart. A session is closed when its end has passed; the index by end says
//! which are.

use std::collections::{BTreeMap, BTreeSet};

use super::panes::Slot;
use super::windows::{Aggregate, Fired, Taken, put_signed, take_signed};
use crate::aggregate::{Damaged, put_bytes, put_number, take_bytes, take_number};

/// All open sessions.
#[derive(Debug)]
pub(super) struct Sessions<S> {
    gap_ms: i64,
    /// By key, in the order of time.
    keys: BTreeMap<Vec<u8>, Vec<Session<S>>>,
    /// When sessions end: end, key, start.
    ends: BTreeSet<(i64, Vec<u8>, i64)>,
}

#[derive(Debug)]
struct Session<S> {
    start_ms: i64,
    /// The last event and the gap.
    end_ms: i64,
    slot: Slot<S>,
}

impl<S> Sessions<S> {
    pub(super) fn new(gap_ms: i64) -> Self {
        Self { gap_ms, keys: BTreeMap::new(), ends: BTreeSet::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    #[expect(clippy::too_many_arguments, reason = "one event, and what surrounds it")]
    pub(super) fn add<E, A: Aggregate<State = S>>(
        &mut self,
        time_ms: i64,
        key: &[u8],
        watermark: i64,
        aggregate: &A,
        every: u64,
        add: &mut impl FnMut(&mut S) -> Result<(), E>,
        fire: &mut impl FnMut(Fired<'_, S>),
    ) -> Result<Taken, E> {
        let mut start_ms = time_ms;
        let mut end_ms = time_ms + self.gap_ms;
        if !self.keys.contains_key(key) {
            if end_ms <= watermark {
                return Ok(Taken::Late);
            }
            self.keys.insert(key.to_vec(), Vec::new());
        }
        let sessions = self.keys.get_mut(key).expect("it was inserted above");
        let from = sessions.partition_point(|session| session.end_ms <= start_ms);
        let until = sessions.partition_point(|session| session.start_ms < end_ms);
        if from == until && end_ms <= watermark {
            return Ok(Taken::Late);
        }
        // The sessions between the two touch the event; they become one.
        let mut joined: Option<Slot<S>> = None;
        for session in sessions.drain(from..until) {
            self.ends.remove(&(session.end_ms, key.to_vec(), session.start_ms));
            start_ms = start_ms.min(session.start_ms);
            end_ms = end_ms.max(session.end_ms);
            match &mut joined {
                None => joined = Some(session.slot),
                Some(slot) => {
                    slot.events += session.slot.events;
                    aggregate.merge(&mut slot.state, session.slot.state);
                }
            }
        }
        let mut slot = joined.unwrap_or_else(|| Slot {
            state: aggregate.start(),
            events: 0,
            has_changed: false,
        });
        let added = add(&mut slot.state);
        if added.is_ok() && slot.count(every) {
            let (state, events) = (&slot.state, slot.events);
            fire(Fired { start_ms, end_ms, key, state, events, is_early: true });
        }
        sessions.insert(from, Session { start_ms, end_ms, slot });
        self.ends.insert((end_ms, key.to_vec(), start_ms));
        added.map(|()| Taken::In)
    }

    pub(super) fn close(&mut self, watermark: i64, fire: &mut impl FnMut(Fired<'_, S>)) {
        while self.ends.first().is_some_and(|(end_ms, ..)| *end_ms <= watermark) {
            let Some((end_ms, key, start_ms)) = self.ends.pop_first() else { return };
            let sessions = self.keys.get_mut(&key).expect("a session that ends has a key");
            let at = sessions.partition_point(|session| session.start_ms < start_ms);
            let Session { slot, .. } = sessions.remove(at);
            if sessions.is_empty() {
                self.keys.remove(&key);
            }
            let (state, events) = (&slot.state, slot.events);
            fire(Fired { start_ms, end_ms, key: &key, state, events, is_early: false });
        }
    }

    pub(super) fn fire_changed(&mut self, fire: &mut impl FnMut(Fired<'_, S>)) {
        for (key, sessions) in &mut self.keys {
            for session in sessions.iter_mut().filter(|session| session.slot.has_changed) {
                session.slot.has_changed = false;
                let Session { start_ms, end_ms, slot: Slot { state, events, .. } } = session;
                let (start_ms, end_ms, events) = (*start_ms, *end_ms, *events);
                fire(Fired { start_ms, end_ms, key, state, events, is_early: true });
            }
        }
    }

    pub(super) fn save<A: Aggregate<State = S>>(&self, aggregate: &A, out: &mut Vec<u8>) {
        put_number(self.keys.len() as u64, out);
        for (key, sessions) in &self.keys {
            put_bytes(key, out);
            put_number(sessions.len() as u64, out);
            for session in sessions {
                put_signed(session.start_ms, out);
                put_signed(session.end_ms, out);
                session.slot.save(aggregate, out);
            }
        }
    }

    pub(super) fn load<A: Aggregate<State = S>>(
        &mut self,
        aggregate: &A,
        from: &mut &[u8],
    ) -> Result<(), Damaged> {
        self.keys.clear();
        self.ends.clear();
        for _ in 0..take_number(from)? {
            let key = take_bytes(from)?.to_vec();
            let mut sessions = Vec::new();
            for _ in 0..take_number(from)? {
                let (start_ms, end_ms) = (take_signed(from)?, take_signed(from)?);
                let slot = Slot::load(aggregate, from)?;
                self.ends.insert((end_ms, key.clone(), start_ms));
                sessions.push(Session { start_ms, end_ms, slot });
            }
            self.keys.insert(key, sessions);
        }
        Ok(())
    }
}
