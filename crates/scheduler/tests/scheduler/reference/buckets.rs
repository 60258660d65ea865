//! Token buckets, as plain as they come: a level that grows with time up to the burst, and falls by one with each start.

use std::collections::BTreeMap;

use divvy_types::settings::{Limit, Rate};
use divvy_types::{Name, Settings};

/// A key of a limit (`false`), or the total over all of its keys (`true`).
pub(crate) type Which = (String, bool);

#[derive(Clone, Debug)]
pub(crate) struct Bucket {
    /// The time that one token takes.
    interval_ns: u64,
    burst: u64,
    /// A token counts as much as its time.
    level_ns: u64,
    at_us: u64,
}

impl Bucket {
    fn empty(rate: Rate, burst: Option<u32>, now: u64) -> Self {
        let interval_ns = (rate.per_ms * 1_000_000).div_ceil(u64::from(rate.count));
        let second = u64::from(rate.count) * 1_000 / rate.per_ms;
        let burst = burst.map_or_else(|| second.max(1), u64::from);
        Self { interval_ns, burst, level_ns: 0, at_us: now }
    }

    fn pass(&mut self, now: u64) {
        let gathered = (now - self.at_us) * 1_000;
        self.level_ns = (self.level_ns + gathered).min(self.burst * self.interval_ns);
        self.at_us = now;
    }

    /// The same number of tokens under another definition, as far as they fit.
    fn keep(&self, mut new: Self, now: u64) -> Self {
        let mut old = self.clone();
        old.pass(now);
        let scaled =
            u128::from(old.level_ns) * u128::from(new.interval_ns) / u128::from(old.interval_ns);
        new.level_ns = (scaled as u64).min(new.burst * new.interval_ns);
        new
    }
}

/// All buckets. A key that was never used has what a bucket holds that nobody takes from.
#[derive(Debug, Default)]
pub(crate) struct Buckets {
    untouched: BTreeMap<Which, Bucket>,
    used: BTreeMap<Which, Bucket>,
}

fn base(name: &str) -> &str {
    name.split('/').next().unwrap_or(name)
}

fn rate_of(limit: &Limit, total: bool) -> Option<Rate> {
    if total { limit.total_rate } else { limit.rate }
}

impl Buckets {
    pub(crate) fn redefine(&mut self, settings: &Settings, now: u64) {
        let new = |name: &str, total: bool| {
            let limit = settings.limits.get(&Name::from(base(name)))?;
            Some(Bucket::empty(rate_of(limit, total)?, limit.burst, now))
        };
        for list in [&mut self.untouched, &mut self.used] {
            let old = std::mem::take(list);
            let kept = old.into_iter().filter_map(|(which, bucket)| {
                let new = new(&which.0, which.1)?;
                Some((which, bucket.keep(new, now)))
            });
            *list = kept.collect();
        }
        for name in settings.limits.keys() {
            for total in [false, true] {
                if let Some(new) = new(name, total) {
                    // What is defined while the server runs starts full.
                    let level_ns = new.burst * new.interval_ns;
                    let full = Bucket { level_ns, ..new };
                    self.untouched.entry((name.to_string(), total)).or_insert(full);
                }
            }
        }
    }

    fn bucket(&mut self, which: &Which, now: u64) -> Option<&mut Bucket> {
        if !self.used.contains_key(which) {
            let untouched = self.untouched.get(&(base(&which.0).to_owned(), which.1))?.clone();
            self.used.insert(which.clone(), untouched);
        }
        let bucket = self.used.get_mut(which)?;
        bucket.pass(now);
        Some(bucket)
    }

    pub(crate) fn has_token(&mut self, which: &Which, now: u64) -> bool {
        self.bucket(which, now).is_none_or(|bucket| bucket.level_ns >= bucket.interval_ns)
    }

    pub(crate) fn take(&mut self, which: &Which, now: u64) {
        if let Some(bucket) = self.bucket(which, now) {
            bucket.level_ns -= bucket.interval_ns;
        }
    }
}
