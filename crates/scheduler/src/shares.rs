//! Fair shares: how far each key of a queue, and each queue, has got with what is its due.
//!
//! Start-time fair queueing (Goyal, Vin, Cheng 1996): every key has a tag, its virtual time. Who is the furthest
//! behind goes next, and each start moves the tag on by its cost over the key's weight. A key that comes back after a
//! pause starts at the queue's virtual time, so it neither catches up for the time it was away nor pays for it. Tasks
//! without a fair key share one key of weight 1. Queues are handled alike, by their own weights.
//!
//! At first start all tags are zero. Nothing here is durable: after a restart everyone starts level.

use std::collections::BTreeMap;

use divvy_types::Name;

/// What the start of one task costs, where tasks are what is shared.
pub(crate) const TASK_COST: u64 = 1_000;
/// Costs are scaled by this before they are divided by a weight.
const SCALE: u64 = 1 << 10;
/// Below this many keys nothing is swept.
const SWEEP_MIN: usize = 1_024;

/// A key in a queue.
#[derive(Debug)]
pub(crate) struct Key {
    pub(crate) queue: u32,
    pub(crate) name: Option<Name>,
    pub(crate) tag: u64,
    /// What was charged too much, to be set off against what comes.
    credit: u64,
    weight: u32,
    /// Ready tasks in memory.
    waiting: u64,
    /// Streams that refer to it.
    streams: u32,
}

/// What is shared in one queue.
#[derive(Debug, Default)]
pub(crate) struct Pot {
    /// The tag of the last one served.
    virtual_time: u64,
    /// The greatest tag ever given.
    greatest: u64,
    /// Ready tasks in memory.
    waiting: u64,
    /// Keys with a name that have ready tasks.
    named: u32,
}

/// All keys of all queues.
#[derive(Debug, Default)]
pub(crate) struct Shares {
    keys: Vec<Option<Key>>,
    free: Vec<u32>,
    by_name: BTreeMap<(u32, Option<Name>), u32>,
    /// By the number of the queue.
    pots: Vec<Pot>,
    sweep_at: usize,
}

impl Shares {
    /// The key of this name in a queue, for one more stream.
    pub(crate) fn intern(&mut self, queue: u32, name: Option<&Name>, weight: u32) -> u32 {
        let found = self.find(queue, name);
        let index = found.unwrap_or_else(|| self.add(queue, name.cloned(), weight));
        self.get_mut(index).streams += 1;
        index
    }

    pub(crate) fn find(&self, queue: u32, name: Option<&Name>) -> Option<u32> {
        self.by_name.get(&(queue, name.cloned())).copied()
    }

    fn add(&mut self, queue: u32, name: Option<Name>, weight: u32) -> u32 {
        self.sweep();
        if self.pots.len() <= queue as usize {
            self.pots.resize_with(queue as usize + 1, Pot::default);
        }
        let pot = &self.pots[queue as usize];
        let key = Key {
            queue,
            name: name.clone(),
            tag: pot.virtual_time,
            credit: 0,
            weight: weight.max(1),
            waiting: 0,
            streams: 0,
        };
        let index = self.free.pop().unwrap_or_else(|| {
            self.keys.push(None);
            self.keys.len() as u32 - 1
        });
        self.keys[index as usize] = Some(key);
        self.by_name.insert((queue, name), index);
        index
    }

    /// One stream less refers to a key.
    pub(crate) fn release(&mut self, index: u32) {
        self.get_mut(index).streams -= 1;
    }

    /// Forgets keys that nobody refers to and that owe nothing.
    fn sweep(&mut self) {
        let count = self.by_name.len();
        if count < self.sweep_at.max(SWEEP_MIN) {
            return;
        }
        let (keys, pots, free) = (&mut self.keys, &self.pots, &mut self.free);
        self.by_name.retain(|(queue, _), index| {
            let key = keys[*index as usize].as_ref().expect("a key in use");
            let time = pots[*queue as usize].virtual_time;
            let keep = key.streams > 0 || key.tag > time;
            if !keep {
                keys[*index as usize] = None;
                free.push(*index);
            }
            keep
        });
        self.sweep_at = 2 * self.by_name.len();
    }

    /// Forgets a queue.
    pub(crate) fn forget_queue(&mut self, queue: u32) {
        if let Some(pot) = self.pots.get_mut(queue as usize) {
            *pot = Pot::default();
        }
        let (keys, free) = (&mut self.keys, &mut self.free);
        self.by_name.retain(|(of, _), index| {
            if *of == queue {
                keys[*index as usize] = None;
                free.push(*index);
            }
            *of != queue
        });
    }

    pub(crate) fn get(&self, index: u32) -> &Key {
        self.keys[index as usize].as_ref().expect("a key in use")
    }

    fn get_mut(&mut self, index: u32) -> &mut Key {
        self.keys[index as usize].as_mut().expect("a key in use")
    }

    /// Whether keys with names compete in a queue.
    pub(crate) fn is_shared(&self, queue: u32) -> bool {
        self.pots.get(queue as usize).is_some_and(|pot| pot.named > 0)
    }

    /// A task of this key became ready.
    pub(crate) fn arrived(&mut self, index: u32) {
        let key = self.keys[index as usize].as_mut().expect("a key in use");
        let pot = &mut self.pots[key.queue as usize];
        if key.waiting == 0 {
            key.tag = key.tag.max(pot.virtual_time);
            pot.named += u32::from(key.name.is_some());
        }
        key.waiting += 1;
        pot.waiting += 1;
    }

    /// A ready task of this key is not waiting any more.
    pub(crate) fn left(&mut self, index: u32) {
        let key = self.keys[index as usize].as_mut().expect("a key in use");
        let pot = &mut self.pots[key.queue as usize];
        key.waiting -= 1;
        pot.waiting -= 1;
        if key.waiting == 0 {
            pot.named -= u32::from(key.name.is_some());
        }
        if pot.waiting == 0 {
            // Nobody waits: whoever comes next starts level with all.
            pot.virtual_time = pot.virtual_time.max(pot.greatest);
        }
    }

    /// A task of this key starts and costs so much.
    pub(crate) fn charge(&mut self, index: u32, cost: u64) {
        let key = self.keys[index as usize].as_mut().expect("a key in use");
        let pot = &mut self.pots[key.queue as usize];
        if pot.named == 0 && key.name.is_none() {
            return;
        }
        pot.virtual_time = pot.virtual_time.max(key.tag);
        let scaled = cost.saturating_mul(SCALE) / u64::from(key.weight);
        let set_off = scaled.min(key.credit);
        key.credit -= set_off;
        key.tag = key.tag.saturating_add(scaled - set_off);
        pot.greatest = pot.greatest.max(key.tag);
    }

    /// A task turned out to cost more or less than was charged. A tag never goes back: streams stand under it in their
    /// bands, and one that grew behind their back is noticed when they come up, one that fell would not be.
    pub(crate) fn correct(&mut self, index: u32, charged: u64, actual: u64) {
        let key = self.get_mut(index);
        let weight = u64::from(key.weight);
        let scaled = |cost: u64| cost.saturating_mul(SCALE) / weight;
        key.tag = key.tag.saturating_add(scaled(actual.saturating_sub(charged)));
        key.credit = key.credit.saturating_add(scaled(charged.saturating_sub(actual)));
    }

    /// Uses other weights from now on.
    pub(crate) fn reweigh(&mut self, weight: impl Fn(u32, &Name) -> u32) {
        for key in self.keys.iter_mut().flatten() {
            if let Some(name) = &key.name {
                key.weight = weight(key.queue, name).max(1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn serve(shares: &mut Shares, keys: &[u32], times: usize) -> Vec<usize> {
        let mut served = vec![0; keys.len()];
        for _ in 0..times {
            let next = (0..keys.len()).min_by_key(|n| shares.get(keys[*n]).tag).unwrap();
            shares.charge(keys[next], TASK_COST);
            served[next] += 1;
        }
        served
    }

    fn key(shares: &mut Shares, name: &str, weight: u32) -> u32 {
        let key = shares.intern(0, Some(&name.into()), weight);
        shares.arrived(key);
        key
    }

    #[test]
    fn keys_are_served_by_their_weights() {
        let mut shares = Shares::default();
        let keys = [key(&mut shares, "a", 1), key(&mut shares, "b", 3)];
        assert_eq!(serve(&mut shares, &keys, 400), [100, 300]);
    }

    #[test]
    fn a_key_that_was_away_neither_catches_up_nor_pays() {
        let mut shares = Shares::default();
        let a = key(&mut shares, "a", 1);
        serve(&mut shares, &[a], 1_000);
        let b = key(&mut shares, "b", 1);
        assert_eq!(serve(&mut shares, &[a, b], 100), [50, 50]);
    }

    #[test]
    fn what_was_charged_too_much_is_set_off_and_no_tag_goes_back() {
        let mut shares = Shares::default();
        let keys = [key(&mut shares, "a", 1), key(&mut shares, "b", 1)];
        let mut served = [0u32, 0];
        for _ in 0..300 {
            let next = usize::from(shares.get(keys[1]).tag < shares.get(keys[0]).tag);
            shares.charge(keys[next], 10 * TASK_COST);
            let before = shares.get(keys[next]).tag;
            // Those of the second key take half of what was expected.
            let actual = [10 * TASK_COST, 5 * TASK_COST][next];
            shares.correct(keys[next], 10 * TASK_COST, actual);
            assert!(shares.get(keys[next]).tag >= before);
            served[next] += 1;
        }
        assert!(served[0].abs_diff(100) <= 1, "{served:?}");
    }

    #[test]
    fn keys_that_nobody_uses_are_forgotten() {
        let mut shares = Shares::default();
        for number in 0..10_000 {
            let key = key(&mut shares, &format!("tenant-{number}"), 1);
            shares.charge(key, TASK_COST);
            shares.left(key);
            shares.release(key);
        }
        assert!(shares.by_name.len() <= 2 * SWEEP_MIN, "{}", shares.by_name.len());
    }
}
