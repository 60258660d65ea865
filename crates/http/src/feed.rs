//! Things that people watch while they change: looked at once for all who watch the same one, and told to each as
//! server-sent events until it is final.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use axum::response::Response;
use futures_util::{StreamExt as _, stream};
use http::StatusCode;
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::error::ApiError;
use crate::events::{self, Event};

/// The code of the refusal when too many watch.
pub const TOO_MANY_WATCHERS: &str = "too_many_watchers";

/// What people watch, as they see it.
pub trait Watched: Serialize + PartialEq + Send + Sync + 'static {
    /// The name of its events.
    const EVENT: &'static str;

    /// Whether nothing of it will change.
    fn is_final(&self) -> bool;
}

/// Where whoever looks shows what was seen.
pub type Shown<V> = watch::Sender<Arc<V>>;

/// A place among those who may watch at once, held while someone watches.
pub type Place = OwnedSemaphorePermit;

/// What a look found.
#[derive(Debug)]
pub enum Look<V> {
    /// This.
    Seen(V),
    /// It is not there any more.
    Gone,
    /// Why it cannot be read just now. A server in trouble may recover; those who watch stay.
    Unreadable(String),
}

/// The feeds of all things of one sort that are watched.
#[derive(Debug)]
pub struct Feeds<V> {
    open: Mutex<HashMap<String, Weak<Feed<V>>>>,
    places: Arc<Semaphore>,
}

/// One thing as all who watch it see it; who holds it keeps it going.
#[derive(Debug)]
pub struct Feed<V> {
    seen: watch::Receiver<Arc<V>>,
    _work: AbortOnDropHandle<()>,
}

struct Watcher<V> {
    _feed: Arc<Feed<V>>,
    seen: watch::Receiver<Arc<V>>,
    is_over: bool,
    _place: Place,
}

impl<V: Watched> Feeds<V> {
    /// No feeds, and at most so many watchers.
    pub fn new(watchers_max: usize) -> Self {
        Self { open: Mutex::default(), places: Arc::new(Semaphore::new(watchers_max)) }
    }

    /// A place for one more watcher.
    ///
    /// # Errors
    /// If too many watch; the message says which address to ask now and then instead.
    pub fn place(&self, instead: &str) -> Result<Place, ApiError> {
        let places = Arc::clone(&self.places);
        places.try_acquire_owned().map_err(|_| {
            let message = format!("too many others watch; ask for GET {instead} now and then");
            ApiError::new(StatusCode::SERVICE_UNAVAILABLE, TOO_MANY_WATCHERS, message)
        })
    }

    /// The feed of a thing, which was just seen like this. `work` shows how it changes, if nobody does so far, and ends
    /// when it is final or gone.
    pub fn of<F>(&self, id: &str, seen: V, work: impl FnOnce(Shown<V>) -> F) -> Arc<Feed<V>>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|_, feed| feed.strong_count() > 0);
        let going = open.get(id).and_then(Weak::upgrade);
        // One that has ended tells nothing of what begins again.
        if let Some(feed) = going.filter(|feed| feed.seen.has_changed().is_ok()) {
            return feed;
        }
        let (sender, receiver) = watch::channel(Arc::new(seen));
        let work = AbortOnDropHandle::new(tokio::spawn(work(sender)));
        let feed = Arc::new(Feed { seen: receiver, _work: work });
        open.insert(id.to_owned(), Arc::downgrade(&feed));
        feed
    }

    /// Answers with a thing as it is, which was just seen, and as it changes, until it is final, the caller leaves or
    /// `shutdown` is cancelled. See [`of`](Self::of) for `work`.
    pub fn answer<F>(
        &self,
        place: Place,
        id: &str,
        seen: V,
        shutdown: CancellationToken,
        work: impl FnOnce(Shown<V>) -> F,
    ) -> Response
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (now, is_over) = (event(&seen), seen.is_final());
        let feed = self.of(id, seen, work);
        let watcher = Watcher { seen: feed.watch(), _feed: feed, is_over, _place: place };
        let changes = stream::unfold(watcher, |mut watcher| async move {
            let event = watcher.next().await?;
            Some((event, watcher))
        });
        events::answer(stream::iter([now]).chain(changes), shutdown)
    }
}

impl<V> Feed<V> {
    /// What is seen now, and how it changes. The sender goes when the thing is final or gone.
    pub fn watch(&self) -> watch::Receiver<Arc<V>> {
        self.seen.clone()
    }
}

impl<V: Watched> Watcher<V> {
    /// The next change; nothing after the last one.
    async fn next(&mut self) -> Option<Event> {
        if self.is_over || self.seen.changed().await.is_err() {
            return None;
        }
        let seen = self.seen.borrow_and_update().clone();
        self.is_over = seen.is_final();
        Some(event(&*seen))
    }
}

/// Looks again and again, with a rest between, and shows what has changed, until that is final or gone.
pub async fn look_again<V: Watched, F: Future<Output = Look<V>>>(
    shown: Shown<V>,
    rest: Duration,
    look: impl Fn() -> F,
) {
    while !shown.borrow().is_final() {
        tokio::time::sleep(rest).await;
        match look().await {
            Look::Seen(now) if now == **shown.borrow() => {}
            Look::Seen(now) => drop(shown.send_replace(Arc::new(now))),
            Look::Gone => return,
            Look::Unreadable(why) => tracing::debug!(why, "what is watched cannot be read"),
        }
    }
}

fn event<V: Watched>(seen: &V) -> Event {
    events::event(V::EVENT, seen)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use axum::body::Body;
    use http_body_util::BodyExt as _;

    use super::*;

    #[derive(Debug, PartialEq, Serialize)]
    struct Count(u32);

    impl Watched for Count {
        const EVENT: &'static str = "count";

        fn is_final(&self) -> bool {
            self.0 >= 3
        }
    }

    /// Counts its looks.
    fn watch(feeds: &Feeds<Count>, looks: &Arc<AtomicU32>) -> Body {
        let (place, looks) = (feeds.place("/count").unwrap(), Arc::clone(looks));
        let answer = feeds.answer(place, "a", Count(0), CancellationToken::new(), |shown| {
            look_again(shown, Duration::from_millis(1), move || {
                let count = looks.fetch_add(1, Ordering::Relaxed) + 1;
                std::future::ready(match count {
                    2 => Look::Unreadable("busy".to_owned()),
                    count => Look::Seen(Count(count)),
                })
            })
        });
        answer.into_body()
    }

    #[tokio::test]
    async fn all_who_watch_share_one_look_and_hear_the_end() {
        let (feeds, looks) = (Feeds::new(2), Arc::new(AtomicU32::new(0)));
        let (first, second) = (watch(&feeds, &looks), watch(&feeds, &looks));
        assert_eq!(feeds.place("/count").unwrap_err().code(), TOO_MANY_WATCHERS);
        for body in [first, second] {
            let text = body.collect().await.unwrap().to_bytes();
            let text = String::from_utf8(text.to_vec()).unwrap();
            assert!(text.contains("event: count\ndata: 0"), "{text}");
            assert!(text.trim_end().ends_with("data: 3"), "{text}");
        }
        assert_eq!(looks.load(Ordering::Relaxed), 3);
        assert!(feeds.place("/count").is_ok(), "those who are gone give their places back");
    }
}
