//! Decides which keys of a stream are the most frequent, in memory for k of them ("Efficient Computation of Frequent
//! and Top-k Elements in Data Streams", Metwally, Agrawal and El Abbadi 2005).
//!
//! Knows keys as hashes, and no time: whoever drives it says when to [`SpaceSaving::fade`]. Rules: a key that has a
//! counter is counted there. Another takes over the smallest counter, goes on from its count, and notes that count as
//! its possible error. So for n keys seen:
//!
//! - true count ≤ estimate ≤ true count + error, and error ≤ n / k;
//! - every key that was seen more than n / k times has a counter.
//!
//! [`SpaceSaving::fade`] halves every count, so that old heat is forgotten; with a fade at every turn of a window, a
//! request of one window ago counts half. Halves are rounded up, after which all bounds hold with 1 added.
//!
//! Why this and not a count-min sketch: it names the heavy keys itself, its bound is certain and not only likely, and
//! an update is O(1): counters stand in order of count, in runs of equal counts, and one that grows by 1 changes place
//! with the last of its run.
//!
//! At first start all counters are free, and counts are exact until more than k keys were seen.

use super::super::error::Error;
use super::table::Table;

/// The most keys that are counted at once.
pub const KEYS_MAX: usize = 1 << 20;

/// The count of one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counter {
    /// The hash of the key.
    pub key: u64,
    /// The estimate: never below the true count.
    pub count: u64,
    /// By how much the estimate may be too high.
    pub error: u64,
}

impl Counter {
    /// The count that is certain.
    pub fn sure(&self) -> u64 {
        self.count - self.error
    }
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    counter: Counter,
    /// Where it stands in the order.
    place: u32,
    /// Its run of equal counts.
    run: u32,
    /// What the owner of the counts keeps with the key; lost with the counter.
    mark: u8,
}

/// The most frequent keys of a stream.
#[derive(Clone, Debug)]
pub struct SpaceSaving {
    /// A count of 0 marks a free counter.
    entries: Vec<Entry>,
    /// Entries by ascending count.
    order: Vec<u32>,
    /// Where each run ends in the order. A run that is not in use waits in `free_runs`.
    runs: Vec<u32>,
    free_runs: Vec<u32>,
    table: Table,
    total: u64,
}

impl SpaceSaving {
    /// Counts up to `keys` keys at once.
    pub fn new(keys: usize) -> Result<Self, Error> {
        if keys == 0 || keys > KEYS_MAX {
            let cure = format!("it must be from 1 to {KEYS_MAX}; 128 finds keys above 1 % of all");
            return Err(Error::setting("keys", keys, cure));
        }
        let mut empty = Self {
            entries: Vec::new(),
            order: (0..keys as u32).collect(),
            runs: Vec::with_capacity(keys),
            free_runs: Vec::with_capacity(keys),
            table: Table::new(keys),
            total: 0,
        };
        let free = Counter { key: 0, count: 0, error: 0 };
        empty.entries =
            (0..keys as u32).map(|place| Entry { counter: free, place, run: 0, mark: 0 }).collect();
        empty.find_runs();
        Ok(empty)
    }

    /// Counts a key and says how often it was seen.
    pub fn record(&mut self, key: u64) -> Counter {
        self.record_marked(key, |_, mark, _| mark).0
    }

    /// The count of a key; none if it has no counter, and was then seen at most [`SpaceSaving::unseen_max`] times.
    pub fn get(&self, key: u64) -> Option<Counter> {
        self.marked(key).map(|(counter, _)| counter)
    }

    /// The keys that have counters, most frequent first.
    pub fn top(&self) -> impl Iterator<Item = Counter> + '_ {
        self.top_marked().map(|(counter, _)| counter)
    }

    /// How many keys were seen, as far as they have not faded.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// How often a key without a counter may have been seen: the largest error that a new one would start with.
    pub fn unseen_max(&self) -> u64 {
        self.entries[self.order[0] as usize].counter.count
    }

    /// Halves all counts. One pass over the counters.
    pub fn fade(&mut self) {
        for entry in &mut self.entries {
            entry.counter.count = entry.counter.count.div_ceil(2);
            entry.counter.error = entry.counter.error.div_ceil(2);
        }
        self.total = self.total.div_ceil(2);
        self.find_runs();
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        for entry in &mut self.entries {
            entry.counter = Counter { key: 0, count: 0, error: 0 };
            entry.mark = 0;
        }
        self.table.clear();
        self.total = 0;
        self.find_runs();
    }

    /// Counts a key and renews its mark from its count, its mark and the total.
    pub(super) fn record_marked(
        &mut self,
        key: u64,
        renew: impl FnOnce(Counter, u8, u64) -> u8,
    ) -> (Counter, u8) {
        self.total += 1;
        let id = self.table.get(key).unwrap_or_else(|| self.take_over_smallest(key));
        self.grow(id);
        let entry = &mut self.entries[id as usize];
        entry.mark = renew(entry.counter, entry.mark, self.total);
        (entry.counter, entry.mark)
    }

    /// The count of a key and what is kept with it.
    pub(super) fn marked(&self, key: u64) -> Option<(Counter, u8)> {
        let entry = &self.entries[self.table.get(key)? as usize];
        Some((entry.counter, entry.mark))
    }

    /// The keys that have counters, most frequent first, with what is kept with them.
    pub(super) fn top_marked(&self) -> impl Iterator<Item = (Counter, u8)> + '_ {
        let entries = self.order.iter().rev().map(|id| &self.entries[*id as usize]);
        entries.take_while(|entry| entry.counter.count > 0).map(|entry| (entry.counter, entry.mark))
    }

    fn take_over_smallest(&mut self, key: u64) -> u32 {
        let id = self.order[0];
        let entry = &mut self.entries[id as usize];
        let before = entry.counter;
        entry.counter = Counter { key, count: before.count, error: before.count };
        entry.mark = 0;
        if before.count > 0 {
            self.table.remove(before.key);
        }
        self.table.insert(key, id);
        id
    }

    /// Counts one more: the entry goes to the end of its run, and from there into the next.
    fn grow(&mut self, id: u32) {
        let Entry { place, run, .. } = self.entries[id as usize];
        let last = self.runs[run as usize] - 1;
        self.order.swap(place as usize, last as usize);
        self.entries[self.order[place as usize] as usize].place = place;
        let entry = &mut self.entries[id as usize];
        entry.place = last;
        entry.counter.count += 1;
        let count = entry.counter.count;
        let was_alone = last == 0 || self.entry_at(last - 1).run != run;
        let next = (last as usize + 1 < self.order.len())
            .then(|| self.entry_at(last + 1))
            .filter(|next| next.counter.count == count)
            .map(|next| next.run);
        let joined = match next {
            Some(next) => {
                if was_alone {
                    self.free_runs.push(run);
                }
                next
            }
            // Alone before and after: the run goes on with the higher count.
            None if was_alone => run,
            None => self.new_run(last + 1),
        };
        if !was_alone {
            self.runs[run as usize] = last;
        }
        self.entries[id as usize].run = joined;
    }

    fn entry_at(&self, place: u32) -> &Entry {
        &self.entries[self.order[place as usize] as usize]
    }

    fn new_run(&mut self, end: u32) -> u32 {
        if let Some(run) = self.free_runs.pop() {
            self.runs[run as usize] = end;
            return run;
        }
        self.runs.push(end);
        self.runs.len() as u32 - 1
    }

    /// Finds the runs anew from the order, which is still ascending.
    fn find_runs(&mut self) {
        self.runs.clear();
        self.free_runs.clear();
        let mut count_before = None;
        for place in 0..self.order.len() {
            let entry = &mut self.entries[self.order[place] as usize];
            if count_before != Some(entry.counter.count) {
                count_before = Some(entry.counter.count);
                self.runs.push(place as u32);
            }
            entry.run = self.runs.len() as u32 - 1;
            self.runs[entry.run as usize] = place as u32 + 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;

    /// Whether order, places and runs tell one story.
    fn check_structure(counts: &SpaceSaving) {
        let entries: Vec<&Entry> =
            counts.order.iter().map(|id| &counts.entries[*id as usize]).collect();
        for (place, entry) in entries.iter().enumerate() {
            assert_eq!(entry.place as usize, place);
            assert!(entry.counter.error <= entry.counter.count);
            let end = counts.runs[entry.run as usize] as usize;
            assert!(place < end, "the run of place {place} ends at {end}");
            assert!(entries[place..end].iter().all(|same| same.run == entry.run));
            if let Some(next) = entries.get(place + 1) {
                let same = next.counter.count == entry.counter.count;
                assert!(next.counter.count >= entry.counter.count);
                assert_eq!(same, next.run == entry.run, "at place {place}");
            }
        }
        let used: BTreeSet<u32> = entries.iter().map(|entry| entry.run).collect();
        assert_eq!(used.len() + counts.free_runs.len(), counts.runs.len(), "a run was lost");
    }

    #[test]
    fn the_example_of_the_paper() {
        let mut counts = SpaceSaving::new(2).unwrap();
        for key in [1, 2, 2, 3] {
            counts.record(key);
        }
        let top: Vec<Counter> = counts.top().collect();
        assert_eq!(top[0].count, 2);
        assert_eq!(counts.get(3), Some(Counter { key: 3, count: 2, error: 1 }));
        assert_eq!(counts.get(1), None);
        assert_eq!((counts.total(), counts.unseen_max()), (4, 2));
    }

    #[test]
    fn counts_fade_by_half_and_clear_to_nothing() {
        let mut counts = SpaceSaving::new(4).unwrap();
        (0..100).for_each(|_| {
            counts.record(9);
        });
        counts.record(5);
        counts.fade();
        check_structure(&counts);
        assert_eq!(counts.get(9).unwrap().count, 50);
        assert_eq!(counts.total(), 51);
        counts.clear();
        check_structure(&counts);
        assert_eq!((counts.top().count(), counts.total(), counts.get(9)), (0, 0, None));
        counts.record(9);
        assert_eq!(counts.get(9).unwrap().count, 1);
    }

    #[test]
    fn no_counters_or_too_many_are_refused() {
        for keys in [0, KEYS_MAX + 1] {
            let error = SpaceSaving::new(keys).unwrap_err();
            assert!(error.to_string().contains("`keys`"), "{error}");
        }
    }

    /// Keys of which small ones are frequent.
    fn any_stream() -> impl Strategy<Value = Vec<u64>> {
        let key = prop_oneof![3 => 0_u64..4, 2 => 0_u64..20, 1 => any::<u64>()];
        proptest::collection::vec(key, 0..600)
    }

    proptest! {
        #[test]
        fn estimates_lie_between_the_truth_and_the_truth_with_error(stream in any_stream(), keys in 1_usize..24) {
            let mut counts = SpaceSaving::new(keys).unwrap();
            let mut truth: BTreeMap<u64, u64> = BTreeMap::new();
            for key in &stream {
                *truth.entry(*key).or_default() += 1;
                prop_assert_eq!(Some(counts.record(*key)), counts.get(*key));
            }
            check_structure(&counts);
            let total = stream.len() as u64;
            prop_assert_eq!(counts.total(), total);
            for (key, count) in &truth {
                match counts.get(*key) {
                    Some(counter) => {
                        prop_assert!(*count <= counter.count, "{counter:?} for {count}");
                        prop_assert!(counter.sure() <= *count, "{counter:?} for {count}");
                        prop_assert!(counter.error * keys as u64 <= total, "{counter:?}");
                    }
                    None => {
                        prop_assert!(*count <= counts.unseen_max());
                        prop_assert!(*count * keys as u64 <= total, "{key} with {count} is missing");
                    }
                }
            }
            prop_assert!(counts.top().all(|counter| truth.contains_key(&counter.key)));
            prop_assert_eq!(counts.top().map(|counter| counter.count).sum::<u64>(), total);
        }

        #[test]
        fn bounds_hold_within_one_when_counts_fade(
            streams in proptest::collection::vec(any_stream(), 1..6),
            keys in 1_usize..24,
        ) {
            let mut counts = SpaceSaving::new(keys).unwrap();
            let mut truth: BTreeMap<u64, f64> = BTreeMap::new();
            let mut total = 0.0;
            for stream in &streams {
                for key in stream {
                    *truth.entry(*key).or_default() += 1.0;
                    counts.record(*key);
                    total += 1.0;
                }
                counts.fade();
                check_structure(&counts);
                truth.values_mut().for_each(|count| *count /= 2.0);
                total /= 2.0;
            }
            let bound = total / keys as f64 + 1.0;
            for (key, count) in &truth {
                match counts.get(*key) {
                    Some(counter) => {
                        prop_assert!(*count <= counter.count as f64);
                        prop_assert!(counter.sure() as f64 <= count + 1.0);
                        prop_assert!(counter.error as f64 <= bound);
                    }
                    None => prop_assert!(*count <= bound, "{key} with {count} is missing"),
                }
            }
        }
    }
}
