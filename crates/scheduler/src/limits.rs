//! Limits on how often tasks may start and how many may run at once.
//!
//! A task names limits as `name` or `name/key`; what a name means is in the settings. Each key has a token bucket and
//! a count of what runs, and so has the total over all keys, shown as `name/*`. A stream whose limits let nothing
//! through is taken off its band and waits at the one that keeps it; when that lets something through again, streams
//! come back in the order in which they came. So a limited task keeps nobody else from running, and costs nothing
//! while it waits.
//!
//! Buckets are not durable. They start empty at the start of the server, so that a restart never lets more through
//! than the rate; a key that is first seen later starts with what it would have gathered since.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use divvy_guard::rate::{Limiter, Quota};
use divvy_types::settings::{Limit, Rate};
use divvy_types::view::LimitView;
use divvy_types::{Name, Settings, Timestamp};

use crate::streams::NONE;

/// Below this many keys nothing is swept.
const SWEEP_MIN: usize = 1_024;
/// Streams that come back at once when a limit lets something through; more follow if it still does.
const WAKE_AT_ONCE: usize = 16;

/// One key of a limit, or the total of one.
#[derive(Debug)]
pub(crate) struct LimitKey {
    /// As people see it.
    pub(crate) name: Name,
    bucket: Option<Limiter>,
    /// How many may run at once.
    pub(crate) most: Option<u32>,
    pub(crate) running: u32,
    /// Sets that contain it.
    sets: u32,
    /// Streams that wait for it, in order.
    waiting: VecDeque<u32>,
    /// Whether a timer is set.
    timer: bool,
    /// Whether it is to be looked at before the step ends.
    freed: bool,
}

/// Limits that tasks name together.
#[derive(Debug)]
struct LimitSet {
    names: Vec<Name>,
    keys: Vec<u32>,
    /// Streams and leases that refer to it.
    uses: u64,
    /// Tasks that run under it.
    running: u32,
}

#[derive(Debug, Default)]
pub(crate) struct Limits {
    keys: Vec<Option<LimitKey>>,
    free_keys: Vec<u32>,
    by_name: BTreeMap<Name, u32>,
    sets: Vec<Option<LimitSet>>,
    free_sets: Vec<u32>,
    by_names: BTreeMap<Vec<Name>, u32>,
    started: Option<Timestamp>,
    /// Keys that may let something through again.
    freed: Vec<u32>,
    sweep_at: usize,
}

fn moment(at: Timestamp) -> Duration {
    Duration::from_micros(at.0)
}

impl Limits {
    /// Time begins: buckets are empty now.
    pub(crate) fn start(&mut self, now: Timestamp) {
        self.started.get_or_insert(now);
    }

    /// The set of these limits, for one more user.
    pub(crate) fn intern(&mut self, names: &[Name], settings: &Settings, now: Timestamp) -> u32 {
        if names.is_empty() {
            return NONE;
        }
        self.start(now);
        let names = crate::classes::sorted(names);
        if let Some(index) = self.by_names.get(&names).copied() {
            self.set_mut(index).uses += 1;
            return index;
        }
        let keys = self.resolve(&names, settings);
        let index = self.free_sets.pop().unwrap_or_else(|| {
            self.sets.push(None);
            self.sets.len() as u32 - 1
        });
        self.by_names.insert(names.clone(), index);
        self.sets[index as usize] = Some(LimitSet { names, keys, uses: 1, running: 0 });
        index
    }

    /// One user less of a set.
    pub(crate) fn release(&mut self, set: u32) {
        if set == NONE {
            return;
        }
        let uses = &mut self.set_mut(set).uses;
        *uses -= 1;
        if *uses > 0 {
            return;
        }
        if let Some(set) = self.sets[set as usize].take() {
            self.by_names.remove(&set.names);
            for key in set.keys {
                self.get_mut(key).sets -= 1;
            }
        }
        self.free_sets.push(set);
    }

    /// The keys that a set of names stands for. A name without a definition limits nothing.
    fn resolve(&mut self, names: &[Name], settings: &Settings) -> Vec<u32> {
        let mut keys = Vec::new();
        for name in names {
            let base = name.split_once('/').map_or(name.as_str(), |(base, _)| base);
            let Some(limit) = settings.limits.get(base) else { continue };
            if limit.rate.is_some() || limit.concurrency.is_some() {
                keys.push(self.key(name.clone(), limit.rate, limit.concurrency, limit));
            }
            if limit.total_rate.is_some() || limit.total_concurrency.is_some() {
                let total = Name::from(format!("{base}/*"));
                keys.push(self.key(total, limit.total_rate, limit.total_concurrency, limit));
            }
        }
        keys.sort_unstable();
        keys.dedup();
        for key in &keys {
            self.get_mut(*key).sets += 1;
        }
        keys
    }

    fn key(&mut self, name: Name, rate: Option<Rate>, most: Option<u32>, limit: &Limit) -> u32 {
        if let Some(index) = self.by_name.get(&name) {
            return *index;
        }
        self.sweep();
        let bucket = rate.and_then(|rate| quota(rate, limit.burst)).map(|quota| self.bucket(quota));
        let key = LimitKey {
            name: name.clone(),
            bucket,
            most,
            running: 0,
            sets: 0,
            waiting: VecDeque::new(),
            timer: false,
            freed: false,
        };
        let index = self.free_keys.pop().unwrap_or_else(|| {
            self.keys.push(None);
            self.keys.len() as u32 - 1
        });
        self.keys[index as usize] = Some(key);
        self.by_name.insert(name, index);
        index
    }

    /// A bucket that was empty when the server started.
    fn bucket(&self, quota: Quota) -> Limiter {
        let bucket = Limiter::new(quota);
        let empty_at = moment(self.started.unwrap_or_default());
        // A full bucket holds a burst, so this cannot fail.
        let _ = bucket.check_cost(quota.burst_size(), empty_at);
        bucket
    }

    /// Forgets keys that no set refers to.
    fn sweep(&mut self) {
        let count = self.by_name.len();
        if count < self.sweep_at.max(SWEEP_MIN) {
            return;
        }
        let (keys, free) = (&mut self.keys, &mut self.free_keys);
        self.by_name.retain(|_, index| {
            let key = keys[*index as usize].as_ref().expect("a limit in use");
            let keep = key.sets > 0 || key.timer || key.freed;
            if !keep {
                keys[*index as usize] = None;
                free.push(*index);
            }
            keep
        });
        self.sweep_at = 2 * self.by_name.len();
    }

    pub(crate) fn get(&self, index: u32) -> &LimitKey {
        self.keys[index as usize].as_ref().expect("a limit in use")
    }

    fn get_mut(&mut self, index: u32) -> &mut LimitKey {
        self.keys[index as usize].as_mut().expect("a limit in use")
    }

    fn set_mut(&mut self, index: u32) -> &mut LimitSet {
        self.sets[index as usize].as_mut().expect("a set in use")
    }

    fn set(&self, index: u32) -> &LimitSet {
        self.sets[index as usize].as_ref().expect("a set in use")
    }

    /// Which limit of a set keeps a task from starting, if one does.
    pub(crate) fn blocker(&self, set: u32, now: Timestamp) -> Option<u32> {
        if set == NONE {
            return None;
        }
        self.set(set).keys.iter().copied().find(|key| !self.get(*key).lets_through(now))
    }

    /// A task starts under a set that lets it.
    pub(crate) fn take(&mut self, set: u32, now: Timestamp) {
        for place in 0..self.set(set).keys.len() {
            let key = self.set(set).keys[place];
            if let Some(bucket) = &self.get(key).bucket {
                // It was asked just before.
                let _ = bucket.check(moment(now));
            }
        }
    }

    /// A task runs under a set, for one more user of it.
    pub(crate) fn begin(&mut self, names: &[Name], settings: &Settings, now: Timestamp) {
        let set = self.intern(names, settings, now);
        self.set_mut(set).running += 1;
        for place in 0..self.set(set).keys.len() {
            let key = self.set(set).keys[place];
            self.get_mut(key).running += 1;
        }
    }

    /// A task does not run any more.
    pub(crate) fn end(&mut self, names: &[Name]) {
        let names = crate::classes::sorted(names);
        let Some(set) = self.by_names.get(&names).copied() else { return };
        self.set_mut(set).running -= 1;
        for place in 0..self.set(set).keys.len() {
            let key = self.set(set).keys[place];
            self.get_mut(key).running -= 1;
            self.free(key);
        }
        self.release(set);
    }

    /// Lets a stream wait for a limit; says when to look again, if the limit itself does not hear of it.
    pub(crate) fn wait(&mut self, key: u32, stream: u32, now: Timestamp) -> Option<Timestamp> {
        let limit = self.get_mut(key);
        limit.waiting.push_back(stream);
        if limit.timer {
            return None;
        }
        let next = limit.next(now)?;
        limit.timer = true;
        Some(next)
    }

    /// The time that [`Limits::wait`] gave has come.
    pub(crate) fn timer_fired(&mut self, key: u32) {
        if let Some(Some(limit)) = self.keys.get_mut(key as usize) {
            limit.timer = false;
            self.free(key);
        }
    }

    fn free(&mut self, key: u32) {
        let limit = self.get_mut(key);
        if !limit.waiting.is_empty() && !std::mem::replace(&mut limit.freed, true) {
            self.freed.push(key);
        }
    }

    /// Whether a limit may let something through again.
    pub(crate) fn any_freed(&self) -> bool {
        !self.freed.is_empty()
    }

    /// Streams that may come back, and when to look at a limit again that still lets nothing through.
    pub(crate) fn wake(&mut self, now: Timestamp, again: &mut Vec<(u32, Timestamp)>) -> Vec<u32> {
        let mut woken = Vec::new();
        let freed = std::mem::take(&mut self.freed);
        for key in freed {
            let Some(Some(limit)) = self.keys.get_mut(key as usize) else { continue };
            limit.freed = false;
            if limit.waiting.is_empty() {
                continue;
            }
            if limit.lets_through(now) {
                let count = limit.waiting.len().min(WAKE_AT_ONCE);
                woken.extend(limit.waiting.drain(..count));
                // If none of these uses what is free, others must get their chance within this step.
                self.free(key);
            } else if !limit.timer
                && let Some(next) = limit.next(now)
            {
                limit.timer = true;
                again.push((key, next));
            }
        }
        woken
    }

    /// Uses other definitions from now on; says which streams may have to be looked at.
    pub(crate) fn redefine(&mut self, settings: &Settings, now: Timestamp) -> Vec<u32> {
        self.start(now);
        let mut streams = Vec::new();
        let old = std::mem::take(&mut self.by_name);
        let mut levels: BTreeMap<Name, u32> = BTreeMap::new();
        for (name, index) in old {
            if let Some(mut key) = self.keys[index as usize].take() {
                streams.extend(key.waiting.drain(..));
                if let Some(bucket) = &key.bucket {
                    levels.insert(name, bucket.available(moment(now)));
                }
            }
        }
        self.keys.clear();
        self.free_keys.clear();
        self.freed.clear();
        for index in 0..self.sets.len() {
            let Some(names) = self.sets[index].as_ref().map(|set| set.names.clone()) else {
                continue;
            };
            let keys = self.resolve(&names, settings);
            let set = self.set_mut(index as u32);
            set.keys.clone_from(&keys);
            let running = set.running;
            for key in keys {
                self.get_mut(key).running += running;
            }
        }
        self.keep_levels(&levels, now);
        streams
    }

    /// A bucket whose definition changed keeps what it held, up to its new burst; a new one starts empty.
    fn keep_levels(&mut self, levels: &BTreeMap<Name, u32>, now: Timestamp) {
        for key in self.keys.iter_mut().flatten() {
            let Some(bucket) = &mut key.bucket else { continue };
            let quota = *bucket.quota();
            let level = levels.get(&key.name).copied().unwrap_or(0).min(quota.burst_size());
            *bucket = Limiter::new(quota);
            let missing = quota.burst_size() - level;
            if missing > 0 {
                // A full bucket holds a burst, so this cannot fail.
                let _ = bucket.check_cost(missing, moment(now));
            }
        }
    }

    /// How full each key is, by its index.
    pub(crate) fn views(&self, now: Timestamp) -> BTreeMap<u32, LimitView> {
        let keys = self.by_name.values().map(|index| (*index, self.get(*index)));
        let view = |limit: &LimitKey| LimitView {
            name: limit.base().into(),
            key: limit.name.split_once('/').map(|(_, key)| key.into()),
            running: limit.running.into(),
            concurrency: limit.most,
            waiting: 0,
            tokens: limit.bucket.as_ref().map(|bucket| bucket.available(moment(now))),
            next_at: limit.next(now).filter(|_| !limit.lets_through(now)),
        };
        keys.map(|(index, limit)| (index, view(limit))).collect()
    }
}

impl LimitKey {
    /// The name of the limit, without its key.
    fn base(&self) -> &str {
        self.name.split_once('/').map_or(self.name.as_str(), |(base, _)| base)
    }

    pub(crate) fn lets_through(&self, now: Timestamp) -> bool {
        self.most.is_none_or(|most| self.running < most)
            && self.bucket.as_ref().is_none_or(|bucket| bucket.peek(1, moment(now)).is_ok())
    }

    /// Whether only its rate keeps tasks from starting, and until when.
    pub(crate) fn next(&self, now: Timestamp) -> Option<Timestamp> {
        if self.most.is_some_and(|most| self.running >= most) {
            return None;
        }
        let wait = self.bucket.as_ref()?.peek(1, moment(now)).err()?.wait()?;
        // Rounded up to whole microseconds, so that the token is there when the timer fires.
        Some(Timestamp(now.0.saturating_add(wait.as_nanos().div_ceil(1_000) as u64)))
    }
}

fn quota(rate: Rate, burst: Option<u32>) -> Option<Quota> {
    let quota = Quota::new(rate.count, Duration::from_millis(rate.per_ms)).ok()?;
    let second = (u64::from(rate.count) * 1_000 / rate.per_ms).max(1) as u32;
    quota.burst(burst.unwrap_or(second)).ok()
}
