//! Decides what happens next: by time, and at the same time in the order of planning.
//!
//! Knows nothing of what happens. Most of what is planned is a message, and all messages travel equally long, so they
//! are in order by themselves, as arrivals are; only the rest has to be sorted.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, VecDeque};

use super::world::{Event, Micros};

/// What will happen.
#[derive(Default)]
pub(super) struct Agenda {
    arrivals: VecDeque<Entry<Event>>,
    messages: VecDeque<Entry<Event>>,
    /// Boxed, because a heap moves its entries about and some are large.
    others: BinaryHeap<Reverse<Entry<Box<Event>>>>,
    numbers: u64,
}

struct Entry<E> {
    /// When, and which in the order of planning.
    key: (Micros, u64),
    event: E,
}

enum Source {
    Arrivals,
    Messages,
    Others,
}

impl Agenda {
    /// A number that is larger than all before.
    pub(super) fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// Plans an arrival; they are planned by rising time.
    pub(super) fn arrives(&mut self, at: Micros, event: Event) {
        let key = (at, self.number());
        debug_assert!(self.arrivals.back().is_none_or(|last| last.key < key), "by rising time");
        self.arrivals.push_back(Entry { key, event });
    }

    /// Plans a message that arrives then; messages are planned by rising time.
    pub(super) fn travels(&mut self, at: Micros, event: Event) {
        let key = (at, self.number());
        debug_assert!(self.messages.back().is_none_or(|last| last.key < key), "by rising time");
        self.messages.push_back(Entry { key, event });
    }

    /// Plans anything else.
    pub(super) fn plan(&mut self, at: Micros, event: Event) {
        let key = (at, self.number());
        self.others.push(Reverse(Entry { key, event: Box::new(event) }));
    }

    /// When the next thing happens.
    pub(super) fn next_at(&self) -> Option<Micros> {
        self.next().map(|(key, _)| key.0)
    }

    /// Takes the next thing.
    pub(super) fn take(&mut self) -> Option<Event> {
        match self.next()?.1 {
            Source::Arrivals => self.arrivals.pop_front().map(|entry| entry.event),
            Source::Messages => self.messages.pop_front().map(|entry| entry.event),
            Source::Others => self.others.pop().map(|Reverse(entry)| *entry.event),
        }
    }

    fn next(&self) -> Option<((Micros, u64), Source)> {
        let arrival = self.arrivals.front().map(|entry| (entry.key, Source::Arrivals));
        let message = self.messages.front().map(|entry| (entry.key, Source::Messages));
        let other = self.others.peek().map(|Reverse(entry)| (entry.key, Source::Others));
        [arrival, message, other].into_iter().flatten().min_by_key(|(key, _)| *key)
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key.cmp(&other.key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn things_happen_by_time_and_then_in_the_order_of_planning() {
        let mut agenda = Agenda::default();
        let event = Event::Boots;
        agenda.plan(5, event(0));
        agenda.arrives(1, event(1));
        agenda.arrives(5, event(2));
        agenda.plan(2, event(3));
        agenda.travels(2, event(4));
        agenda.travels(5, event(5));
        agenda.plan(5, event(6));
        let mut order = Vec::new();
        while let Some(at) = agenda.next_at() {
            let Some(Event::Boots(number)) = agenda.take() else { panic!("nothing else is there") };
            order.push((at, number));
        }
        assert_eq!(order, [(1, 1), (2, 3), (2, 4), (5, 0), (5, 2), (5, 5), (5, 6)]);
    }
}
