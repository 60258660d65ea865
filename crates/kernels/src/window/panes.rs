//! Windows of a fixed size that begin at fixed times.
//!
//! There are few at a time, so they are in a list by their beginning; each has a table of its keys.

use super::windows::{Aggregate, Fired, Taken, put_signed, take_signed};
use crate::aggregate::{Damaged, Table, put_bytes, put_number, take_bytes, take_number};

/// All open windows.
#[derive(Debug)]
pub(super) struct Panes<S> {
    size_ms: i64,
    slide_ms: i64,
    panes: Vec<Pane<S>>,
}

/// One window.
#[derive(Debug)]
struct Pane<S> {
    start_ms: i64,
    /// From keys to one more than the place of their state.
    keys: Table,
    slots: Vec<Slot<S>>,
}

/// What is kept of one key.
#[derive(Debug)]
pub(super) struct Slot<S> {
    pub(super) state: S,
    pub(super) events: u64,
    /// Whether there were events since it was handed out last.
    pub(super) has_changed: bool,
}

impl<S> Slot<S> {
    /// Adds an event; says whether it is one of every so many.
    #[inline]
    pub(super) fn count(&mut self, every: u64) -> bool {
        self.events += 1;
        self.has_changed = true;
        let fires = every != u64::MAX && self.events.is_multiple_of(every);
        if fires {
            self.has_changed = false;
        }
        fires
    }
}

impl<S> Panes<S> {
    pub(super) fn new(size_ms: i64, slide_ms: i64) -> Self {
        Self { size_ms, slide_ms, panes: Vec::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.panes.len()
    }

    pub(super) fn states(&self) -> usize {
        self.panes.iter().map(|pane| pane.slots.len()).sum()
    }

    #[expect(clippy::too_many_arguments, reason = "one event, and what surrounds it")]
    #[inline]
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
        let mut taken = Taken::Late;
        let mut start_ms = time_ms.div_euclid(self.slide_ms) * self.slide_ms;
        // From the latest window of the event to the earliest; once one is closed, all before it are.
        while start_ms + self.size_ms > time_ms && start_ms + self.size_ms > watermark {
            taken = Taken::In;
            let end_ms = start_ms + self.size_ms;
            let slot = self.pane(start_ms).slot(key, aggregate);
            add(&mut slot.state)?;
            if slot.count(every) {
                let (state, events) = (&slot.state, slot.events);
                fire(Fired { start_ms, end_ms, key, state, events, is_early: true });
            }
            start_ms -= self.slide_ms;
        }
        Ok(taken)
    }

    #[inline]
    fn pane(&mut self, start_ms: i64) -> &mut Pane<S> {
        let at = match self.panes.binary_search_by_key(&start_ms, |pane| pane.start_ms) {
            Ok(at) => at,
            Err(at) => {
                self.panes.insert(at, Pane { start_ms, keys: Table::new(), slots: Vec::new() });
                at
            }
        };
        &mut self.panes[at]
    }

    pub(super) fn close(&mut self, watermark: i64, fire: &mut impl FnMut(Fired<'_, S>)) {
        let closed = self.panes.partition_point(|pane| pane.start_ms + self.size_ms <= watermark);
        for mut pane in self.panes.drain(..closed) {
            pane.fire(self.size_ms, false, |_| true, fire);
        }
    }

    pub(super) fn fire_changed(&mut self, fire: &mut impl FnMut(Fired<'_, S>)) {
        for pane in &mut self.panes {
            pane.fire(self.size_ms, true, |slot| slot.has_changed, fire);
        }
    }

    pub(super) fn save<A: Aggregate<State = S>>(&self, aggregate: &A, out: &mut Vec<u8>) {
        put_number(self.panes.len() as u64, out);
        for pane in &self.panes {
            put_signed(pane.start_ms, out);
            put_number(pane.slots.len() as u64, out);
            for (_, key, at) in pane.keys.sorted(1).iter() {
                put_bytes(key, out);
                pane.slots[at as usize - 1].save(aggregate, out);
            }
        }
    }

    pub(super) fn load<A: Aggregate<State = S>>(
        &mut self,
        aggregate: &A,
        from: &mut &[u8],
    ) -> Result<(), Damaged> {
        self.panes.clear();
        for _ in 0..take_number(from)? {
            let start_ms = take_signed(from)?;
            let count = take_number(from)?;
            let pane = self.pane(start_ms);
            for nth in 1..=count {
                *pane.keys.value(take_bytes(from)?) = nth;
                pane.slots.push(Slot::load(aggregate, from)?);
            }
        }
        Ok(())
    }
}

impl<S> Pane<S> {
    #[inline]
    fn slot<A: Aggregate<State = S>>(&mut self, key: &[u8], aggregate: &A) -> &mut Slot<S> {
        let (place, is_new) = self.keys.entry(key);
        if is_new {
            self.slots.push(Slot { state: aggregate.start(), events: 0, has_changed: false });
            *place = self.slots.len() as u64;
        }
        let at = *place as usize - 1;
        &mut self.slots[at]
    }

    /// Hands out some keys, in their order.
    fn fire(
        &mut self,
        size_ms: i64,
        is_early: bool,
        is_wanted: impl Fn(&Slot<S>) -> bool,
        fire: &mut impl FnMut(Fired<'_, S>),
    ) {
        let (start_ms, end_ms) = (self.start_ms, self.start_ms + size_ms);
        for (_, key, at) in self.keys.sorted(1).iter() {
            let slot = &mut self.slots[at as usize - 1];
            if is_wanted(slot) {
                slot.has_changed = false;
                let (state, events) = (&slot.state, slot.events);
                fire(Fired { start_ms, end_ms, key, state, events, is_early });
            }
        }
    }
}

impl<S> Slot<S> {
    pub(super) fn save<A: Aggregate<State = S>>(&self, aggregate: &A, out: &mut Vec<u8>) {
        put_number(self.events << 1 | u64::from(self.has_changed), out);
        aggregate.save(&self.state, out);
    }

    pub(super) fn load<A: Aggregate<State = S>>(
        aggregate: &A,
        from: &mut &[u8],
    ) -> Result<Self, Damaged> {
        let packed = take_number(from)?;
        let state = aggregate.load(from)?;
        Ok(Self { state, events: packed >> 1, has_changed: packed & 1 == 1 })
    }
}
