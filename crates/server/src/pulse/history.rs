//! What the last day looked like: figures of equal steps, fine for the last hour and coarse for the day, of the server and
//! of its queues.
//!
//! Time is an argument, and nothing is read or written here. The size is bounded: so many steps, so many queues, and of a
//! queue only steps in which something was there. A step that the server has lived through is known even if nothing
//! happened; a step that it did not run in is not.
//!
//! Counts are added up over a step; what waits, runs and is connected is what was seen last in it. Waits are kept as
//! buckets, so that percentiles of many steps together are as good as those of one.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use divvy_scheduler::{WAIT_BUCKETS, Waits, wait_bucket_end_us};
use divvy_types::pulse::{History as View, HistoryPoint, Series};
use divvy_types::{Name, Timestamp};

/// Seconds of a fine step, for how long they are told, and how many of them are kept: a minute more than that.
pub(super) const FINE_SEC: u64 = 5;
const FINE_FOR_SEC: u64 = 3_600;
const FINE_MAX: u64 = FINE_FOR_SEC / FINE_SEC + 12;
/// Seconds of a coarse step, and how many of them are kept: a day.
pub(super) const COARSE_SEC: u64 = 60;
const COARSE_MAX: u64 = 1_440;
/// Queues that have a history of their own.
const QUEUES_MAX: usize = 64;
/// Seconds without a task after which a queue makes place for another.
const QUIET_SEC: u64 = FINE_SEC * FINE_MAX;
const SECOND_US: u64 = 1_000_000;

/// What happened since the last look, and what is there now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Figures {
    pub(super) submitted: u64,
    pub(super) done: u64,
    pub(super) failed: u64,
    pub(super) retried: u64,
    pub(super) waiting: u64,
    pub(super) running: u64,
    pub(super) workers: u64,
    /// Buckets of waits that are not empty, by number.
    pub(super) waits: Vec<(u8, u64)>,
}

/// The history of a server.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct History {
    all: Track,
    queues: BTreeMap<Name, Track>,
    /// The last second that is known.
    latest: u64,
}

/// The history of the server or of one queue, by the number of the step since 1970.
#[derive(Clone, Debug, Default, PartialEq)]
struct Track {
    fine: BTreeMap<u64, Figures>,
    coarse: BTreeMap<u64, Figures>,
}

/// What is asked for.
#[derive(Clone, Debug)]
pub(super) struct Span {
    pub(super) from: Timestamp,
    pub(super) to: Timestamp,
    /// So many steps at most.
    pub(super) points: u64,
}

impl Figures {
    /// Whether nothing happened and nothing is there.
    pub(super) fn is_empty(&self) -> bool {
        self.total() == 0 && self.waiting + self.running + self.workers == 0
    }

    /// Everything that is counted, added up.
    fn total(&self) -> u64 {
        let waits: u64 = self.waits.iter().map(|(_, count)| count).sum();
        self.submitted + self.done + self.failed + self.retried + waits
    }

    /// Adds what came later.
    fn add(&mut self, later: &Self) {
        self.submitted += later.submitted;
        self.done += later.done;
        self.failed += later.failed;
        self.retried += later.retried;
        (self.waiting, self.running, self.workers) = (later.waiting, later.running, later.workers);
        for (bucket, count) in &later.waits {
            match self.waits.binary_search_by_key(bucket, |(known, _)| *known) {
                Ok(at) => self.waits[at].1 += count,
                Err(at) => self.waits.insert(at, (*bucket, *count)),
            }
        }
    }

    /// Takes away what was added before.
    fn take_away(&mut self, before: &Self) {
        self.submitted = self.submitted.saturating_sub(before.submitted);
        self.done = self.done.saturating_sub(before.done);
        self.failed = self.failed.saturating_sub(before.failed);
        self.retried = self.retried.saturating_sub(before.retried);
        for (bucket, count) in &before.waits {
            if let Some((_, known)) = self.waits.iter_mut().find(|(known, _)| known == bucket) {
                *known = known.saturating_sub(*count);
            }
        }
        self.waits.retain(|(_, count)| *count > 0);
    }

    /// The same without what is counted: nothing happened after it.
    fn rest(&self) -> Self {
        let Self { waiting, running, workers, .. } = *self;
        Self { waiting, running, workers, ..Self::default() }
    }

    /// What this share of the waits stayed below, in milliseconds.
    pub(super) fn wait_ms(&self, share: f64) -> Option<f64> {
        let all: u64 = self.waits.iter().map(|(_, count)| count).sum();
        let mut left = (all as f64 * share).max(1.0);
        let last = self.waits.last()?;
        for (bucket, count) in &self.waits {
            let count = *count as f64;
            if left <= count || bucket == &last.0 {
                let end = wait_bucket_end_us((*bucket).into()) as f64;
                let start = match bucket.checked_sub(1) {
                    Some(before) => wait_bucket_end_us(before.into()) as f64,
                    None => 0.0,
                };
                // Waits are taken to lie evenly in their bucket.
                let us = start + (end - start) * (left / count).min(1.0);
                return Some((us / 10.0).round() / 100.0);
            }
            left -= count;
        }
        None
    }
}

/// The buckets that have grown.
pub(super) fn waits_since(now: &Waits, before: &Waits) -> Vec<(u8, u64)> {
    let grown = |bucket: usize| {
        let (now, before) = (now.0[bucket], before.0[bucket]);
        // A queue that was forgotten begins anew.
        if now >= before { now - before } else { now }
    };
    (0..WAIT_BUCKETS)
        .map(|bucket| (bucket as u8, grown(bucket)))
        .filter(|(_, count)| *count > 0)
        .collect()
}

impl History {
    /// Notes what was seen at a time, of the server and of queues.
    pub(super) fn add(&mut self, at: Timestamp, all: &Figures, queues: Vec<(Name, Figures)>) {
        let second = at.0 / SECOND_US;
        self.latest = self.latest.max(second);
        self.all.add(second, all);
        for (name, figures) in queues {
            let known = self.queues.get(&name);
            let has_news = !figures.is_empty() || known.is_some_and(|track| track.is_open(second));
            if has_news && let Some(track) = self.track(&name, second) {
                track.add(second, &figures);
            }
        }
        self.queues.values_mut().for_each(|track| track.trim(second));
        self.queues.retain(|_, track| !track.coarse.is_empty());
    }

    /// Nothing has happened since the last look: what was there is there.
    pub(super) fn rest(&mut self, at: Timestamp) {
        let Some(last) = self.all.fine.values().next_back().map(Figures::rest) else { return };
        let rests = self.queues.iter().filter_map(|(name, track)| {
            let figures = track.fine.values().next_back()?.rest();
            Some((name.clone(), figures))
        });
        let rests = rests.collect();
        self.add(at, &last, rests);
    }

    /// Takes back a step that was kept. Fine ones count for the coarse ones too; one that is told twice was gone on with
    /// after a restart, and the last word counts.
    pub(super) fn restore(
        &mut self,
        queue: Option<&Name>,
        step_sec: u64,
        number: u64,
        kept: &Figures,
    ) {
        let second = number.saturating_mul(step_sec);
        self.latest = self.latest.max(second.saturating_add(step_sec - 1));
        let track = match queue {
            None => &mut self.all,
            Some(name) => match self.track(name, second) {
                Some(track) => track,
                None => return,
            },
        };
        if step_sec == FINE_SEC {
            if let Some(before) = track.fine.remove(&number)
                && let Some(minute) = track.coarse.get_mut(&(second / COARSE_SEC))
            {
                minute.take_away(&before);
            }
            track.add(second, kept);
        } else {
            note(&mut track.coarse, second / COARSE_SEC, kept, COARSE_MAX);
        }
    }

    /// The fine step with this number, of the server and of each queue that has one.
    pub(super) fn step(&self, number: u64) -> Option<(Figures, Vec<(Name, Figures)>)> {
        let all = self.all.fine.get(&number)?.clone();
        let of = |(name, track): (&Name, &Track)| {
            let figures = track.fine.get(&number).filter(|figures| !figures.is_empty())?;
            Some((name.clone(), figures.clone()))
        };
        Some((all, self.queues.iter().filter_map(of).collect()))
    }

    /// Everything that is kept, in an order in which [`History::restore`] takes it.
    pub(super) fn kept(&self) -> impl Iterator<Item = (Option<&Name>, u64, u64, &Figures)> {
        let tracks = std::iter::once((None, &self.all));
        let tracks = tracks.chain(self.queues.iter().map(|(name, track)| (Some(name), track)));
        tracks.flat_map(|(name, track)| {
            // From a whole minute on the fine steps tell everything.
            let first = track.fine.keys().next().copied().unwrap_or(u64::MAX / COARSE_SEC);
            let whole = (first * FINE_SEC).div_ceil(COARSE_SEC);
            let coarse = track.coarse.range(..whole);
            let fine = track.fine.range(whole * COARSE_SEC / FINE_SEC..);
            let coarse = coarse.map(move |(number, it)| (name, COARSE_SEC, *number, it));
            coarse.chain(fine.map(move |(number, it)| (name, FINE_SEC, *number, it)))
        })
    }

    /// The last fine step that is over at this time.
    pub(super) fn newest(&self, at: Timestamp) -> Option<HistoryPoint> {
        let current = at.0 / SECOND_US / FINE_SEC;
        let (number, figures) = self.all.fine.range(..current).next_back()?;
        Some(point(*number, figures))
    }

    /// Everything that is counted in the last so many seconds before a time, in full steps and the present one.
    pub(super) fn sum(&self, at: Timestamp, seconds: u64) -> Figures {
        let current = at.0 / SECOND_US / FINE_SEC;
        let mut sum = Figures::default();
        let steps = self.all.fine.range(current.saturating_sub(seconds / FINE_SEC - 1)..=current);
        steps.for_each(|(_, figures)| sum.add(figures));
        sum
    }

    /// The figures of a time in equal steps. Rates are those of the part of a step that the server lived through; the last
    /// step is left out while that is less than the shortest one.
    pub(super) fn view(&self, queue: Option<&Name>, span: &Span) -> View {
        let (from, to) = (span.from.0 / SECOND_US, span.to.0 / SECOND_US);
        let is_fine = from >= self.latest.saturating_sub(FINE_FOR_SEC);
        let base = if is_fine { FINE_SEC } else { COARSE_SEC };
        let wanted = to.saturating_sub(from).div_ceil(span.points.max(1)).max(1);
        let step = wanted.div_ceil(base) * base;
        let (first, last) = (from / step, to.div_ceil(step));
        let within = |track: &Track, number: u64| -> Option<(Figures, u64)> {
            let steps = if is_fine { &track.fine } else { &track.coarse };
            let mut sum: Option<(Figures, u64)> = None;
            for (_, figures) in steps.range(number * step / base..(number + 1) * step / base) {
                let (sum, known_sec) = sum.get_or_insert_default();
                sum.add(figures);
                *known_sec += base;
            }
            sum
        };
        let own = queue.map(|name| self.queues.get(name));
        let mut series = Series::default();
        for number in first..last.max(first + 1) {
            let lived = (self.latest + 1).saturating_sub(number * step);
            if (1..base).contains(&lived) {
                break;
            }
            let all = within(&self.all, number);
            let known_sec = all.as_ref().map_or(base, |(_, known_sec)| (*known_sec).min(lived));
            let figures = match own {
                None => all.map(|(figures, _)| figures),
                // While the server ran and knew nothing of the queue, nothing was in it.
                Some(own) => all.map(|_| {
                    let found = own.and_then(|own| within(own, number));
                    found.map(|(figures, _)| figures).unwrap_or_default()
                }),
            };
            push(&mut series, figures.as_ref(), known_sec, queue.is_none());
        }
        let from = Timestamp(first.saturating_mul(step).saturating_mul(SECOND_US));
        View { step_ms: step * 1_000, from, queue: queue.cloned(), series }
    }

    /// The track of a queue, if there is place for it.
    fn track(&mut self, name: &Name, second: u64) -> Option<&mut Track> {
        if !self.queues.contains_key(name) && self.queues.len() >= QUEUES_MAX {
            let quiet = self.queues.iter().min_by_key(|(_, track)| track.last_busy())?;
            if quiet.1.last_busy() + QUIET_SEC > second {
                return None;
            }
            let quiet = quiet.0.clone();
            self.queues.remove(&quiet);
        }
        match self.queues.entry(name.clone()) {
            Entry::Occupied(track) => Some(track.into_mut()),
            Entry::Vacant(place) => Some(place.insert(Track::default())),
        }
    }
}

impl Track {
    fn add(&mut self, second: u64, figures: &Figures) {
        note(&mut self.fine, second / FINE_SEC, figures, FINE_MAX);
        note(&mut self.coarse, second / COARSE_SEC, figures, COARSE_MAX);
    }

    /// Forgets what is too old.
    fn trim(&mut self, second: u64) {
        trim(&mut self.fine, second / FINE_SEC, FINE_MAX);
        trim(&mut self.coarse, second / COARSE_SEC, COARSE_MAX);
    }

    /// Whether an end has to be noted: something is told of this minute, or something was there when it was last looked at.
    fn is_open(&self, second: u64) -> bool {
        let last = self.fine.values().next_back();
        self.coarse.contains_key(&(second / COARSE_SEC))
            || last.is_some_and(|last| !last.rest().is_empty())
    }

    /// The last second in which something was there.
    fn last_busy(&self) -> u64 {
        let busy = self.coarse.iter().rev().find(|(_, figures)| !figures.is_empty());
        busy.map_or(0, |(number, _)| (number + 1) * COARSE_SEC)
    }
}

fn note(steps: &mut BTreeMap<u64, Figures>, number: u64, figures: &Figures, most: u64) {
    steps.entry(number).or_default().add(figures);
    if let Some(newest) = steps.keys().next_back().copied() {
        trim(steps, newest, most);
    }
}

fn trim(steps: &mut BTreeMap<u64, Figures>, newest: u64, most: u64) {
    while let Some(first) = steps.first_entry().filter(|first| first.key() + most <= newest) {
        first.remove();
    }
}

fn point(number: u64, figures: &Figures) -> HistoryPoint {
    let per_minute = |count: u64| rate(count, FINE_SEC);
    HistoryPoint {
        at: Timestamp(number * FINE_SEC * SECOND_US),
        step_ms: FINE_SEC * 1_000,
        done: per_minute(figures.done),
        failed: per_minute(figures.failed),
        retried: per_minute(figures.retried),
        submitted: per_minute(figures.submitted),
        wait_p50_ms: figures.wait_ms(0.5),
        wait_p95_ms: figures.wait_ms(0.95),
        wait_p99_ms: figures.wait_ms(0.99),
        waiting: figures.waiting as f64,
        running: figures.running as f64,
        workers: Some(figures.workers as f64),
    }
}

fn push(series: &mut Series, figures: Option<&Figures>, known_sec: u64, has_workers: bool) {
    let count = |of: fn(&Figures) -> u64| figures.map(|figures| of(figures) as f64);
    let per_minute = |of: fn(&Figures) -> u64| figures.map(|figures| rate(of(figures), known_sec));
    let wait = |share: f64| figures.and_then(|figures| figures.wait_ms(share));
    series.done.push(per_minute(|it| it.done));
    series.failed.push(per_minute(|it| it.failed));
    series.retried.push(per_minute(|it| it.retried));
    series.submitted.push(per_minute(|it| it.submitted));
    series.wait_p50_ms.push(wait(0.5));
    series.wait_p95_ms.push(wait(0.95));
    series.wait_p99_ms.push(wait(0.99));
    series.waiting.push(count(|it| it.waiting));
    series.running.push(count(|it| it.running));
    series.workers.push(count(|it| it.workers).filter(|_| has_workers));
}

/// So many in a minute, to two digits.
fn rate(count: u64, step_sec: u64) -> f64 {
    (count as f64 * 60.0 / step_sec as f64 * 100.0).round() / 100.0
}

#[cfg(test)]
mod tests;
