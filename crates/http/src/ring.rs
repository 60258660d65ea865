//! The latest events of something, in memory: a bounded ring from which every watcher reads at its own pace.
//!
//! Each event has an id, `RING-NUMBER`. A watcher that comes back with the id that it saw last goes on behind it while
//! the event is still in the ring; else it is told how many it missed, or only that it missed some if the id is from
//! another ring (the server was started anew, or nobody listened for a while). A slow watcher costs nothing: the ring
//! goes over it, and it is told.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use tokio::sync::watch;

/// Events that one watcher is given at once.
const BATCH_MAX: usize = 256;

/// A bounded ring of events; a clone is cheap and shares them.
#[derive(Debug)]
pub struct Ring<T>(Arc<Shared<T>>);

#[derive(Debug)]
struct Shared<T> {
    kept: Mutex<Kept<T>>,
    /// The number of the next event: wakes watchers.
    next: watch::Sender<u64>,
    capacity: usize,
}

#[derive(Debug)]
struct Kept<T> {
    /// Which ring it is; another one after each [`Ring::renew`].
    name: u64,
    items: VecDeque<T>,
    /// The number of the next event.
    next: u64,
}

/// What a watcher hears.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News<T> {
    /// An event and its id.
    Event {
        /// The id.
        id: String,
        /// The event.
        event: T,
    },
    /// Events are gone: so many, if that is known.
    Missed(Option<u64>),
}

/// One watcher's place in a ring.
#[derive(Debug)]
pub struct Following<T> {
    shared: Arc<Shared<T>>,
    woken: watch::Receiver<u64>,
    name: u64,
    /// The number of the event that comes next for this watcher.
    next: u64,
    /// Whether it must be told first that it missed something.
    gap: bool,
    ready: VecDeque<News<T>>,
}

impl<T> Clone for Ring<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: Clone> Ring<T> {
    /// A ring that keeps so many events, at least one.
    pub fn new(capacity: usize) -> Self {
        let kept = Kept { name: fresh_name(0), items: VecDeque::new(), next: 0 };
        let (next, _) = watch::channel(0);
        Self(Arc::new(Shared { kept: Mutex::new(kept), next, capacity: capacity.max(1) }))
    }

    /// Adds events; the oldest go.
    pub fn extend(&self, events: impl IntoIterator<Item = T>) {
        let mut kept = self.0.lock();
        for event in events {
            if kept.items.len() == self.0.capacity {
                kept.items.pop_front();
            }
            kept.items.push_back(event);
            kept.next += 1;
        }
        self.0.next.send_replace(kept.next);
    }

    /// Notes that so many events were lost on their way to the ring: watchers are told.
    pub fn skip(&self, count: u64) {
        let mut kept = self.0.lock();
        kept.items.clear();
        kept.next += count;
        self.0.next.send_replace(kept.next);
    }

    /// Begins anew after a time in which nothing was recorded: ids from before lead nowhere.
    pub fn renew(&self) {
        let mut kept = self.0.lock();
        kept.name = fresh_name(kept.name);
        kept.items.clear();
        kept.next = 0;
        self.0.next.send_replace(0);
    }

    /// A place behind the event with this id, or at the end.
    pub fn follow(&self, last: Option<&str>) -> Following<T> {
        let woken = self.0.next.subscribe();
        let kept = self.0.lock();
        let seen = last.map(|last| {
            place(last).filter(|(name, number)| *name == kept.name && *number < kept.next)
        });
        let (next, gap) = match seen {
            None => (kept.next, false),
            Some(None) => (kept.next, true),
            Some(Some((_, number))) => (number + 1, false),
        };
        let (name, shared) = (kept.name, Arc::clone(&self.0));
        Following { shared, woken, name, next, gap, ready: VecDeque::new() }
    }

    /// How many watch.
    pub fn followers(&self) -> usize {
        self.0.next.receiver_count()
    }
}

impl<T: Clone> Following<T> {
    /// What comes next; waits for it. Nothing is lost if the wait is given up.
    pub async fn next(&mut self) -> News<T> {
        loop {
            if let Some(news) = self.ready.pop_front() {
                return news;
            }
            // Marked as seen first, so that what comes while the ring is read wakes again.
            self.woken.borrow_and_update();
            self.read();
            if self.ready.is_empty() && self.woken.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }

    fn read(&mut self) {
        let kept = self.shared.lock();
        if kept.name != self.name {
            (self.name, self.next, self.gap) = (kept.name, kept.next, true);
        }
        if std::mem::take(&mut self.gap) {
            self.ready.push_back(News::Missed(None));
        }
        let first = kept.next - kept.items.len() as u64;
        if self.next < first {
            self.ready.push_back(News::Missed(Some(first - self.next)));
            self.next = first;
        }
        let from = usize::try_from(self.next - first).unwrap_or(usize::MAX);
        for event in kept.items.iter().skip(from).take(BATCH_MAX) {
            let id = format!("{:x}-{}", self.name, self.next);
            self.ready.push_back(News::Event { id, event: event.clone() });
            self.next += 1;
        }
    }
}

impl<T> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, Kept<T>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Another name than all before it, also those of servers that ran earlier.
fn fresh_name(before: u64) -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_micros()).unwrap_or(0).max(before + 1)
}

fn place(id: &str) -> Option<(u64, u64)> {
    let (name, number) = id.trim().split_once('-')?;
    Some((u64::from_str_radix(name, 16).ok()?, number.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    fn hear(following: &mut Following<u32>) -> Vec<News<u32>> {
        let mut heard = Vec::new();
        while let Some(news) = following.next().now_or_never() {
            heard.push(news);
        }
        heard
    }

    fn events(news: &[News<u32>]) -> Vec<u32> {
        let event = |news: &News<u32>| match news {
            News::Event { event, .. } => Some(*event),
            News::Missed(_) => None,
        };
        news.iter().filter_map(event).collect()
    }

    fn last_id(news: &[News<u32>]) -> String {
        match news.last() {
            Some(News::Event { id, .. }) => id.clone(),
            other => panic!("no event: {other:?}"),
        }
    }

    #[test]
    fn a_watcher_that_comes_back_goes_on_behind_what_it_saw() {
        let ring = Ring::new(8);
        ring.extend([0]);
        let mut watcher = ring.follow(None);
        assert_eq!(hear(&mut watcher), [], "it hears of nothing from before");
        ring.extend([1, 2]);
        let heard = hear(&mut watcher);
        assert_eq!(events(&heard), [1, 2]);
        drop(watcher);
        assert_eq!(ring.followers(), 0);
        ring.extend([3, 4]);
        let mut back = ring.follow(Some(&last_id(&heard)));
        assert_eq!(events(&hear(&mut back)), [3, 4]);
        ring.extend([5]);
        assert_eq!(events(&hear(&mut back)), [5]);
    }

    #[test]
    fn what_is_gone_is_told_with_its_number_where_that_is_known() {
        let ring = Ring::new(4);
        let mut slow = ring.follow(None);
        ring.extend(0..10);
        let heard = hear(&mut slow);
        assert_eq!((&heard[0], events(&heard)), (&News::Missed(Some(6)), vec![6, 7, 8, 9]));
        ring.skip(3);
        ring.extend([13]);
        let heard = hear(&mut slow);
        assert_eq!((&heard[0], events(&heard)), (&News::Missed(Some(3)), vec![13]));
        let id = last_id(&heard);
        ring.renew();
        ring.extend([1]);
        for stranger in [id.as_str(), "1-0", "x", "", "ffffffffffffffffff-1"] {
            assert_eq!(hear(&mut ring.follow(Some(stranger))), [News::Missed(None)], "{stranger}");
        }
        assert_eq!(hear(&mut slow), [News::Missed(None)]);
        ring.extend([2]);
        assert_eq!(events(&hear(&mut slow)), [2]);
    }

    #[test]
    fn an_id_that_is_not_given_yet_is_not_believed() {
        let ring = Ring::new(4);
        let mut watcher = ring.follow(None);
        ring.extend([1]);
        let id = last_id(&hear(&mut watcher));
        let ahead = id.replace("-0", "-7");
        assert_eq!(hear(&mut ring.follow(Some(&ahead))), [News::Missed(None)]);
    }

    #[tokio::test]
    async fn a_watcher_sleeps_until_something_comes() {
        let ring = Ring::new(4);
        let mut watcher = ring.follow(None);
        let waiting = tokio::spawn(async move { watcher.next().await });
        tokio::task::yield_now().await;
        ring.extend([7]);
        assert!(matches!(waiting.await.unwrap(), News::Event { event: 7, .. }));
    }
}
