//! Streams: ready tasks of one class, priority, fair key and set of limits.
//!
//! Tasks of a stream are alike in everything that decides whose turn it is, except for their deadlines: those without
//! leave first in, first out; those with one leave by the latest moment at which they can start and be in time. A
//! stream is what one lane of the store holds when it does not fit into memory. Which stream is served next is decided
//! in `pick`; a stream does not know the others.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use divvy_types::{Lane, Seq, TaskState, Timestamp};

use crate::table::{Row, Tasks};

/// Stands for no stream, no limit and the like.
pub(crate) const NONE: u32 = u32::MAX;
/// A list is not worth tidying below this length.
const TIDY_MIN: usize = 64;

/// A ready task in a stream. It is void when the task has left by another way, or is in another stream by now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Entry {
    pub(crate) ready_at: Timestamp,
    pub(crate) seq: Seq,
    pub(crate) row: Row,
}

impl Entry {
    fn holds(&self, tasks: &Tasks, stream: u32) -> bool {
        tasks.at(self.row).is_some_and(|task| {
            task.seq == self.seq
                && task.state == TaskState::Ready
                && task.ready_at == self.ready_at
                && task.stream == stream
        })
    }
}

/// Tasks with deadlines.
#[derive(Debug, Default)]
struct Timed {
    /// By the latest moment at which they can start and be in time.
    by_slack: BinaryHeap<Reverse<(Timestamp, Entry)>>,
    /// By age.
    by_age: VecDeque<Entry>,
}

/// What tells streams apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StreamKey {
    pub(crate) class: u32,
    pub(crate) band: u8,
    /// The fair key in the class's queue.
    pub(crate) key: u32,
    /// The set of limits, or [`NONE`].
    pub(crate) limits: u32,
}

#[derive(Debug)]
pub(crate) struct Stream {
    /// Its place among all streams.
    index: u32,
    pub(crate) id: StreamKey,
    pub(crate) lane: Lane,
    plain: VecDeque<Entry>,
    timed: Option<Box<Timed>>,
    /// Tasks in it, without entries that are void.
    pub(crate) live: usize,
    /// Whether more of it waits in the store.
    pub(crate) spilled: bool,
    /// Under what it stands in its band, while it may be served.
    pub(crate) listed: Option<Listing>,
    /// The limit that keeps it from being served, or [`NONE`].
    pub(crate) waits_on: u32,
    /// Its place among those who wait there.
    pub(crate) ticket: u64,
}

/// What decides when a stream is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Listing {
    /// When its oldest task without a deadline became ready.
    pub(crate) plain: Option<Timestamp>,
    /// The same of those with deadlines, and the latest start of the most urgent.
    pub(crate) timed: Option<(Timestamp, Timestamp)>,
    /// The virtual time of its fair key, as last seen.
    pub(crate) tag: u64,
}

impl Listing {
    /// When its oldest task became ready.
    pub(crate) fn oldest(&self) -> Timestamp {
        let timed = self.timed.map(|(oldest, _)| oldest);
        self.plain.into_iter().chain(timed).min().unwrap_or_default()
    }
}

impl Stream {
    fn new(index: u32, id: StreamKey, lane: Lane) -> Self {
        Self {
            index,
            id,
            lane,
            plain: VecDeque::new(),
            timed: None,
            live: 0,
            spilled: false,
            listed: None,
            waits_on: NONE,
            ticket: 0,
        }
    }

    /// Adds a task at the back.
    pub(crate) fn push_back(&mut self, entry: Entry, latest_start: Option<Timestamp>) {
        self.list_for(entry, latest_start).push_back(entry);
    }

    /// Adds a task that has waited its turn once: before the younger ones.
    pub(crate) fn push_front(&mut self, entry: Entry, latest_start: Option<Timestamp>) {
        let list = self.list_for(entry, latest_start);
        list.insert(list.partition_point(|other| *other < entry), entry);
    }

    /// Whether a task is the first of those without deadlines.
    pub(crate) fn is_first(&self, entry: Entry) -> bool {
        self.plain.front() == Some(&entry)
    }

    /// Counts a new task; returns the list by age that it goes into.
    fn list_for(&mut self, entry: Entry, latest: Option<Timestamp>) -> &mut VecDeque<Entry> {
        self.live += 1;
        let Some(latest) = latest else { return &mut self.plain };
        let timed = self.timed.get_or_insert_default();
        timed.by_slack.push(Reverse((latest, entry)));
        &mut timed.by_age
    }

    /// What decides when it is served, after void entries were dropped; nothing if it is empty.
    pub(crate) fn listing(&mut self, tasks: &Tasks, tag: u64) -> Option<Listing> {
        while self.plain.front().is_some_and(|entry| !entry.holds(tasks, self.index)) {
            self.plain.pop_front();
        }
        let plain = self.plain.front().map(|entry| entry.ready_at);
        let Some(timed) = self.timed.as_mut() else {
            return plain.map(|oldest| Listing { plain: Some(oldest), timed: None, tag });
        };
        while timed
            .by_slack
            .peek()
            .is_some_and(|Reverse((_, entry))| !entry.holds(tasks, self.index))
        {
            timed.by_slack.pop();
        }
        while timed.by_age.front().is_some_and(|entry| !entry.holds(tasks, self.index)) {
            timed.by_age.pop_front();
        }
        let latest = timed.by_slack.peek().map(|Reverse((latest, _))| *latest);
        let oldest = timed.by_age.front().map(|entry| entry.ready_at);
        if latest.is_none() {
            self.timed = None;
        }
        (latest.is_some() || plain.is_some()).then(|| Listing {
            plain,
            timed: oldest.zip(latest),
            tag,
        })
    }

    /// The next task. The caller has just asked for [`Stream::listing`], so neither head is void.
    pub(crate) fn head(&self, patience_us: u64) -> Option<(Entry, bool)> {
        let plain = self.plain.front().copied();
        let timed = self.timed.as_ref().and_then(|timed| timed.by_slack.peek());
        match (plain, timed) {
            (Some(plain), Some(Reverse((latest, entry)))) => {
                let urgent = latest.0 <= plain.ready_at.0.saturating_add(patience_us);
                Some(if urgent { (*entry, true) } else { (plain, false) })
            }
            (Some(plain), None) => Some((plain, false)),
            (None, Some(Reverse((_, entry)))) => Some((*entry, true)),
            (None, None) => None,
        }
    }

    /// Takes the task off that [`Stream::head`] showed.
    pub(crate) fn pop(&mut self, is_timed: bool) {
        self.live -= 1;
        if !is_timed {
            self.plain.pop_front();
            if self.plain.is_empty() && self.plain.capacity() > TIDY_MIN {
                self.plain = VecDeque::new();
            }
        } else if let Some(timed) = self.timed.as_mut() {
            timed.by_slack.pop();
            // Its place by age is void as soon as the task is leased.
            if timed.by_age.len() > TIDY_MIN && timed.by_age.len() > 2 * timed.by_slack.len() {
                timed.by_age.drain(..timed.by_age.len() / 2).for_each(drop);
                let left = timed.by_slack.iter().map(|Reverse((_, entry))| *entry);
                timed.by_age = left.collect();
                timed.by_age.make_contiguous().sort_unstable();
            }
        }
    }

    /// Notes that a task somewhere in it left by another way; its entry is void from now on.
    pub(crate) fn left(&mut self, tasks: &Tasks) {
        self.live -= 1;
        if self.plain.len() > TIDY_MIN && self.plain.len() > 2 * self.live {
            self.plain.retain(|entry| entry.holds(tasks, self.index));
            self.plain.shrink_to(2 * self.live);
        }
        if let Some(timed) = &mut self.timed
            && timed.by_slack.len() > TIDY_MIN
            && timed.by_slack.len() > 2 * self.live
        {
            timed.by_slack.retain(|Reverse((_, entry))| entry.holds(tasks, self.index));
            timed.by_age.retain(|entry| entry.holds(tasks, self.index));
        }
    }

    /// How many tasks leave before this one, if nothing changes; looks at so many of either sort at most.
    pub(crate) fn ahead_of(
        &self,
        seq: Seq,
        tasks: &Tasks,
        most: usize,
        patience_us: u64,
    ) -> Option<u64> {
        let slack = self.timed.iter().flat_map(|timed| timed.by_slack.iter());
        let timed = slack.filter(|Reverse((_, entry))| entry.holds(tasks, self.index));
        let plain = self.plain.iter().take(most).filter(|entry| entry.holds(tasks, self.index));
        let by = |entry: &Entry| Timestamp(entry.ready_at.0.saturating_add(patience_us));
        let own = timed.clone().find(|Reverse((_, entry))| entry.seq == seq);
        if let Some(Reverse(own)) = own {
            let urgent = timed.take(most).filter(|Reverse(other)| other < own).count();
            return Some((urgent + plain.take_while(|entry| by(entry) < own.0).count()) as u64);
        }
        let (place, own) = plain.enumerate().find(|(_, entry)| entry.seq == seq)?;
        let urgent = timed.take(most).filter(|Reverse((latest, _))| *latest <= by(own)).count();
        Some((urgent + place) as u64)
    }

    /// When its tasks must start at the latest, where those without a deadline have so much patience. Looks at so many
    /// of either sort at most; each comes with the number of tasks that it stands for.
    pub(crate) fn sample<'a>(
        &'a self,
        tasks: &'a Tasks,
        most: usize,
        patience_us: u64,
    ) -> impl Iterator<Item = (Timestamp, u64)> + 'a {
        let timed = self.timed.as_ref().map_or(&[][..], |timed| timed.by_slack.as_slice());
        let timed = some_of(timed.iter(), most).map(|(Reverse(entry), step)| (*entry, step));
        let plain = some_of(self.plain.iter(), most).map(move |(entry, step)| {
            ((Timestamp(entry.ready_at.0.saturating_add(patience_us)), *entry), step)
        });
        let all = timed.chain(plain).filter(|((_, entry), _)| entry.holds(tasks, self.index));
        all.map(|((latest, _), step)| (latest, step))
    }

    /// When its oldest task became ready.
    pub(crate) fn oldest(&self, tasks: &Tasks) -> Option<Timestamp> {
        let first = |list: &VecDeque<Entry>| {
            list.iter().find(|entry| entry.holds(tasks, self.index)).map(|entry| entry.ready_at)
        };
        let timed = self.timed.as_ref().and_then(|timed| first(&timed.by_age));
        first(&self.plain).into_iter().chain(timed).min()
    }

    fn is_unused(&self) -> bool {
        self.live == 0 && !self.spilled
    }
}

/// All streams.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    list: Vec<Option<Stream>>,
    free: Vec<u32>,
    by_key: BTreeMap<StreamKey, u32>,
}

impl Streams {
    pub(crate) fn find(&self, key: &StreamKey) -> Option<u32> {
        self.by_key.get(key).copied()
    }

    pub(crate) fn add(&mut self, key: StreamKey, lane: Lane) -> u32 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.list.push(None);
            self.list.len() as u32 - 1
        });
        self.list[index as usize] = Some(Stream::new(index, key, lane));
        self.by_key.insert(key, index);
        index
    }

    pub(crate) fn get(&self, index: u32) -> &Stream {
        self.list[index as usize].as_ref().expect("a stream in use")
    }

    pub(crate) fn get_mut(&mut self, index: u32) -> &mut Stream {
        self.list[index as usize].as_mut().expect("a stream in use")
    }

    /// The stream with an index that was noted earlier, if there is one now.
    pub(crate) fn at(&self, index: u32) -> Option<&Stream> {
        self.list.get(index as usize)?.as_ref()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Stream)> {
        self.by_key.values().map(|index| (*index, self.get(*index)))
    }

    /// Takes a stream out that holds nothing, here or in the store.
    pub(crate) fn remove_unused(&mut self, index: u32) -> Option<Stream> {
        let unused = self.get(index).is_unused();
        let stream = if unused { self.list[index as usize].take() } else { None }?;
        self.by_key.remove(&stream.id);
        self.free.push(index);
        Some(stream)
    }
}

/// At most so many of a list, spread over it, each with the number that it stands for.
fn some_of<T>(
    list: impl ExactSizeIterator<Item = T>,
    most: usize,
) -> impl Iterator<Item = (T, u64)> {
    let step = list.len().div_ceil(most.max(1)).max(1);
    list.skip(step / 2).step_by(step).map(move |entry| (entry, step as u64))
}
