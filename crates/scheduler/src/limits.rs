//! Limits on how often tasks may start and how many may run at once.
//!
//! A task names limits as `name` or `name/key`; what a name means is in the settings. Each key has a token bucket and
//! a count of what runs, and so has the total over all keys, shown as `name/*`. A stream whose limits let nothing
//! through is taken off its band and waits at the one that keeps it; when that lets something through again, streams
//! come back in the order in which they came, some at a time, and the usual order decides among them. So a limited
//! task keeps nobody else from running, and costs nothing while it waits.
//!
//! A limit that is defined starts with full buckets. Where a definition changes, each bucket goes on with the tokens
//! that it had, up to its new burst. A key is forgotten only when its bucket is full, which makes it as good as new.
//!
//! A restart never lets more through than the rate. A bucket that takes more than [`UNRECORDED`] to fill is recorded with
//! each start under it, in the group that lets the grant out, and goes on as it was. All others start empty with the
//! server, which costs no more than that time: recording each start of a fast limit would cost more than it is worth.

use std::collections::BTreeMap;
use std::time::Duration;

use divvy_guard::rate::{Limiter, Quota};
use divvy_types::settings::Rate;
use divvy_types::view::LimitView;
use divvy_types::{Fact, Name, Settings, Timestamp};

use crate::streams::NONE;

/// A bucket that is full after this time or less is not recorded.
const UNRECORDED: Duration = Duration::from_secs(10);
/// Under what the level of a key is recorded, and under what that of the total over all keys.
const LEVEL_KEYS: [&str; 2] = ["limit-level/", "limit-total/"];

/// Below this many keys nothing is swept.
const SWEEP_MIN: usize = 1_024;
/// Streams that come back at once when a limit lets something through; more follow if it still does.
const WAKE_AT_ONCE: usize = 16;

/// One key of a limit, or the total of one.
#[derive(Debug)]
pub(crate) struct LimitKey {
    /// As people see it.
    pub(crate) name: Name,
    /// Under what its level is recorded.
    record: Name,
    bucket: Option<Limiter>,
    /// How many may run at once.
    pub(crate) most: Option<u32>,
    pub(crate) running: u32,
    /// Sets that contain it.
    sets: u32,
    /// Streams that wait for it, by their tickets.
    waiting: BTreeMap<u64, u32>,
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
    by_name: BTreeMap<Which, u32>,
    /// What a key has that was never used, by the name of the limit.
    untouched: BTreeMap<Which, Untouched>,
    sets: Vec<Option<LimitSet>>,
    free_sets: Vec<u32>,
    by_names: BTreeMap<Vec<Name>, u32>,
    tickets: u64,
    /// Keys that may let something through again.
    freed: Vec<u32>,
    sweep_at: usize,
    /// When buckets were empty that were recorded before the start and not used since.
    recorded: BTreeMap<Which, Duration>,
    /// Records of buckets that are full.
    outdated: Vec<Name>,
}

/// A key of a limit by its name, or the total over all keys (`true`) by the name of the limit.
type Which = (Name, bool);

/// A bucket that nobody has taken from.
#[derive(Clone, Copy, Debug)]
struct Untouched {
    quota: Quota,
    /// When it was empty; nothing if it was full from the beginning.
    empty_at: Option<Duration>,
}

fn moment(at: Timestamp) -> Duration {
    Duration::from_micros(at.0)
}

impl Limits {
    /// The set of these limits, for one more user.
    pub(crate) fn intern(&mut self, names: &[Name], settings: &Settings, now: Timestamp) -> u32 {
        if names.is_empty() {
            return NONE;
        }
        let names = crate::classes::sorted(names);
        if let Some(index) = self.by_names.get(&names).copied() {
            self.set_mut(index).uses += 1;
            return index;
        }
        let keys = self.resolve(&names, settings, now);
        let index = self.free_sets.pop().unwrap_or_else(|| {
            self.sets.push(None);
            self.sets.len() as u32 - 1
        });
        self.by_names.insert(names.clone(), index);
        self.sets[index as usize] = Some(LimitSet { names, keys, uses: 1, running: 0 });
        index
    }

    /// The set of these limits, if anyone uses it.
    pub(crate) fn find(&self, names: &[Name]) -> Option<u32> {
        self.by_names.get(&crate::classes::sorted(names)).copied()
    }

    /// When these limits let one more task through, as far as rates keep it.
    pub(crate) fn until(&self, names: &[Name], now: Timestamp) -> Option<Timestamp> {
        let keys = names.iter().flat_map(|name| {
            let total = (Name::from(base_of(name)), true);
            [(name.clone(), false), total].map(|which| self.by_name.get(&which))
        });
        let closed = keys.flatten().map(|key| self.get(*key)).filter(|key| !key.lets_through(now));
        closed.filter_map(|key| key.next(now)).max()
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
    fn resolve(&mut self, names: &[Name], settings: &Settings, now: Timestamp) -> Vec<u32> {
        let mut keys = Vec::new();
        for name in names {
            let base = base_of(name);
            let Some(limit) = settings.limits.get(base) else { continue };
            if limit.rate.is_some() || limit.concurrency.is_some() {
                keys.push(self.key((name.clone(), false), limit.concurrency, now));
            }
            if limit.total_rate.is_some() || limit.total_concurrency.is_some() {
                keys.push(self.key((base.into(), true), limit.total_concurrency, now));
            }
        }
        keys.sort_unstable();
        keys.dedup();
        for key in &keys {
            self.get_mut(*key).sets += 1;
        }
        keys
    }

    fn key(&mut self, which: Which, most: Option<u32>, now: Timestamp) -> u32 {
        if let Some(index) = self.by_name.get(&which) {
            return *index;
        }
        self.sweep(now);
        let recorded = self.recorded.remove(&which).map(|at| at.min(moment(now)));
        let untouched = self.untouched.get(&(Name::from(base_of(&which.0)), which.1));
        let name = if which.1 { Name::from(format!("{}/*", which.0)) } else { which.0.clone() };
        let key = LimitKey {
            name,
            record: record_of(&which),
            bucket: untouched.map(|new| bucket(new.quota, recorded.or(new.empty_at))),
            most,
            running: 0,
            sets: 0,
            waiting: BTreeMap::new(),
            timer: false,
            freed: false,
        };
        let index = self.free_keys.pop().unwrap_or_else(|| {
            self.keys.push(None);
            self.keys.len() as u32 - 1
        });
        self.keys[index as usize] = Some(key);
        self.by_name.insert(which, index);
        index
    }

    /// Forgets keys that no set refers to and that are as good as never used.
    fn sweep(&mut self, now: Timestamp) {
        let count = self.by_name.len();
        if count < self.sweep_at.max(SWEEP_MIN) {
            return;
        }
        let (keys, free, outdated) = (&mut self.keys, &mut self.free_keys, &mut self.outdated);
        self.by_name.retain(|_, index| {
            let key = keys[*index as usize].as_ref().expect("a limit in use");
            let keep = key.sets > 0 || key.timer || key.freed || !key.is_full(now);
            if !keep {
                outdated.extend(key.is_recorded().then(|| key.record.clone()));
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

    /// A task starts under a set that lets it. Returns what is to be recorded before that is known outside.
    pub(crate) fn take(&mut self, set: u32, now: Timestamp) -> Vec<Fact> {
        let mut facts = Vec::new();
        for key in self.set(set).keys.iter().map(|key| self.get(*key)) {
            let Some(bucket) = &key.bucket else { continue };
            // It was asked just before.
            let _ = bucket.check(moment(now));
            if key.is_recorded() {
                let at = empty_at(bucket, *bucket.quota(), now).as_micros().to_string();
                facts.push(Fact::Setting { key: key.record.clone(), value: Some(at.into()) });
            }
        }
        if !facts.is_empty() {
            let outdated = self.outdated.drain(..);
            facts.extend(outdated.map(|key| Fact::Setting { key, value: None }));
        }
        facts
    }

    /// Takes what was recorded of a bucket before the start; says whether it is that.
    pub(crate) fn recover(&mut self, key: &str, value: &str) -> bool {
        for (prefix, is_total) in LEVEL_KEYS.into_iter().zip([false, true]) {
            let Some(name) = key.strip_prefix(prefix) else { continue };
            // One that cannot be read counts as empty now.
            let at = value.parse().map_or(Duration::MAX, Duration::from_micros);
            self.recorded.insert((name.into(), is_total), at);
            return true;
        }
        false
    }

    /// All has been recovered: what was recorded of buckets that are full by now can go.
    pub(crate) fn recovery_ended(&mut self, settings: &Settings, now: Timestamp) {
        let outdated = &mut self.outdated;
        self.recorded.retain(|which, at| {
            let keep = quota_of(settings, which).is_some_and(|quota| {
                let bucket = bucket(quota, Some((*at).min(moment(now))));
                bucket.peek(quota.burst_size(), moment(now)).is_err()
            });
            outdated.extend((!keep).then(|| record_of(which)));
            keep
        });
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

    /// Lets a stream wait for a limit under a ticket; says when to look again, if the limit itself does not hear of it.
    pub(crate) fn wait(
        &mut self,
        key: u32,
        stream: u32,
        now: Timestamp,
    ) -> (u64, Option<Timestamp>) {
        self.tickets += 1;
        let ticket = self.tickets;
        let limit = self.get_mut(key);
        limit.waiting.insert(ticket, stream);
        let next = if limit.timer { None } else { limit.next(now) };
        limit.timer |= next.is_some();
        (ticket, next)
    }

    /// A stream that waited for a limit is gone.
    pub(crate) fn stop_waiting(&mut self, key: u32, ticket: u64) {
        if let Some(Some(limit)) = self.keys.get_mut(key as usize) {
            limit.waiting.remove(&ticket);
        }
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
        let mut woken: Vec<(u64, u32)> = Vec::new();
        let freed = std::mem::take(&mut self.freed);
        for key in freed {
            let Some(Some(limit)) = self.keys.get_mut(key as usize) else { continue };
            limit.freed = false;
            if limit.waiting.is_empty() {
                continue;
            }
            if limit.lets_through(now) {
                woken.extend((0..WAKE_AT_ONCE).map_while(|_| limit.waiting.pop_first()));
                // If none of these uses what is free, others must get their chance within this step.
                self.free(key);
            } else if !limit.timer
                && let Some(next) = limit.next(now)
            {
                limit.timer = true;
                again.push((key, next));
            }
        }
        woken.into_iter().map(|(_, stream)| stream).collect()
    }

    /// Uses other definitions from now on; says which streams may have to be looked at.
    pub(crate) fn redefine(
        &mut self,
        settings: &Settings,
        is_start: bool,
        now: Timestamp,
    ) -> Vec<u32> {
        self.redefine_untouched(settings, is_start, now);
        let mut waiting: BTreeMap<u64, u32> = BTreeMap::new();
        let mut levels: Vec<(Which, Duration)> = Vec::new();
        for (which, index) in std::mem::take(&mut self.by_name) {
            let Some(key) = self.keys[index as usize].take() else { continue };
            waiting.extend(key.waiting);
            if let Some(old) = &key.bucket
                && let Some(quota) = quota_of(settings, &which)
                && old.peek(old.quota().burst_size(), moment(now)).is_err()
            {
                levels.push((which, empty_at(old, quota, now)));
            }
        }
        self.keys.clear();
        self.free_keys.clear();
        self.freed.clear();
        for index in 0..self.sets.len() {
            let Some(names) = self.sets[index].as_ref().map(|set| set.names.clone()) else {
                continue;
            };
            let keys = self.resolve(&names, settings, now);
            let set = self.set_mut(index as u32);
            set.keys.clone_from(&keys);
            let running = set.running;
            for key in keys {
                self.get_mut(key).running += running;
            }
        }
        for (which, empty_at) in levels {
            let limit = settings.limits.get(base_of(&which.0));
            let most =
                limit.and_then(|l| if which.1 { l.total_concurrency } else { l.concurrency });
            let index = self.key(which, most, now);
            let key = self.get_mut(index);
            key.bucket = key.bucket.as_ref().map(|new| bucket(*new.quota(), Some(empty_at)));
        }
        waiting.into_values().collect()
    }

    /// A limit that is new starts full, or empty if it may have been used before the start without a record. One that
    /// changed goes on with what it had.
    fn redefine_untouched(&mut self, settings: &Settings, is_start: bool, now: Timestamp) {
        let old = std::mem::take(&mut self.untouched);
        for which in
            settings.limits.keys().flat_map(|name| [false, true].map(|t| (name.clone(), t)))
        {
            let Some(quota) = quota_of(settings, &which) else { continue };
            let empty_at = match old.get(&which) {
                Some(old) => Some(empty_at(&bucket(old.quota, old.empty_at), quota, now)),
                None => (is_start && !is_recorded(&quota)).then(|| moment(now)),
            };
            self.untouched.insert(which, Untouched { quota, empty_at });
        }
    }

    /// All of them, given how many tasks wait for each.
    pub(crate) fn views(&self, now: Timestamp, waiting: &BTreeMap<u32, u64>) -> Vec<LimitView> {
        let keys = self.by_name.values().map(|index| (index, self.get(*index)));
        let views = keys.map(|(index, limit)| LimitView {
            name: base_of(&limit.name).into(),
            key: limit.name.split_once('/').map(|(_, key)| key.into()),
            running: limit.running.into(),
            concurrency: limit.most,
            waiting: waiting.get(index).copied().unwrap_or_default(),
            tokens: limit.bucket.as_ref().map(|bucket| bucket.available(moment(now))),
            next_at: limit.next(now).filter(|_| !limit.lets_through(now)),
        });
        views.collect()
    }
}

impl LimitKey {
    pub(crate) fn lets_through(&self, now: Timestamp) -> bool {
        self.most.is_none_or(|most| self.running < most)
            && self.bucket.as_ref().is_none_or(|bucket| bucket.peek(1, moment(now)).is_ok())
    }

    /// Whether each start under it is recorded.
    fn is_recorded(&self) -> bool {
        self.bucket.as_ref().is_some_and(|bucket| is_recorded(bucket.quota()))
    }

    /// Whether it has as many tokens as one that was never used.
    fn is_full(&self, now: Timestamp) -> bool {
        let full = |bucket: &Limiter| bucket.peek(bucket.quota().burst_size(), moment(now)).is_ok();
        self.bucket.as_ref().is_none_or(full)
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

/// The name of a limit without the key.
fn base_of(name: &Name) -> &str {
    name.split_once('/').map_or(name.as_str(), |(base, _)| base)
}

fn quota_of(settings: &Settings, which: &Which) -> Option<Quota> {
    let limit = settings.limits.get(base_of(&which.0))?;
    let rate = if which.1 { limit.total_rate } else { limit.rate }?;
    quota(rate, limit.burst)
}

/// Under what the level of a key is recorded.
fn record_of(which: &Which) -> Name {
    Name::from(format!("{}{}", LEVEL_KEYS[usize::from(which.1)], which.0))
}

fn is_recorded(quota: &Quota) -> bool {
    fill(quota) > UNRECORDED
}

/// How long an empty bucket takes to be full.
fn fill(quota: &Quota) -> Duration {
    quota.interval() * quota.burst_size()
}

/// A bucket that was empty at a point in time, or is full.
fn bucket(quota: Quota, empty_at: Option<Duration>) -> Limiter {
    let bucket = Limiter::new(quota);
    if let Some(empty_at) = empty_at {
        // A full bucket holds a burst, so this cannot fail.
        let _ = bucket.check_cost(quota.burst_size(), empty_at);
    }
    bucket
}

/// When a bucket must have been empty to hold now, under another quota, the tokens of this one, as far as they fit.
fn empty_at(old: &Limiter, quota: Quota, now: Timestamp) -> Duration {
    let missing = old.peek(old.quota().burst_size(), moment(now)).err().and_then(|e| e.wait());
    let level = fill(old.quota()).saturating_sub(missing.unwrap_or_default());
    let scaled =
        level.as_nanos() * quota.interval().as_nanos() / old.quota().interval().as_nanos().max(1);
    let level = Duration::from_nanos(u64::try_from(scaled).unwrap_or(u64::MAX)).min(fill(&quota));
    moment(now).saturating_sub(level)
}

fn quota(rate: Rate, burst: Option<u32>) -> Option<Quota> {
    let quota = Quota::new(rate.count, Duration::from_millis(rate.per_ms)).ok()?;
    let second = (u64::from(rate.count) * 1_000 / rate.per_ms).max(1) as u32;
    quota.burst(burst.unwrap_or(second)).ok()
}
