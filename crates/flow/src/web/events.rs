//! `GET /api/v1/flows/{id}/events`: the job as server-sent events, once a second while something changes, until it has
//! ended. All who watch a job see what was looked up once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use divvy_http::ApiError;
use divvy_http::events::{self, Event};
use futures_util::{StreamExt as _, stream};
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio_util::task::AbortOnDropHandle;

use super::Site;
use super::error::Named;
use crate::jobs::view::JobView;
use crate::jobs::{Jobs, JobsError};

/// Between two looks.
const REST: Duration = Duration::from_millis(500);

/// The feeds of all jobs that are watched.
#[derive(Debug, Default)]
pub(super) struct Feeds {
    open: Mutex<HashMap<String, Weak<Feed>>>,
}

/// One job as all who watch it see it; who holds it keeps it going.
#[derive(Debug)]
struct Feed {
    seen: watch::Receiver<Arc<JobView>>,
    _work: AbortOnDropHandle<()>,
}

struct Watcher {
    seen: watch::Receiver<Arc<JobView>>,
    is_over: bool,
    _feed: Arc<Feed>,
    _place: OwnedSemaphorePermit,
}

/// Streams until the job has ended, the caller leaves or the server stops.
pub(super) async fn stream(
    State(site): State<Site>,
    Named(id): Named,
) -> Result<Response, ApiError> {
    let place = site.watchers.clone().try_acquire_owned().map_err(|_| {
        ApiError::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "too_many_watchers",
            "too many others watch jobs; ask for GET /api/v1/flows/{id} now and then",
        )
    })?;
    // Asked before the answer begins, so that an unknown job is a 404.
    let first = site.jobs.view(&id)?;
    let (now, is_over) = (event(&first), first.state.is_final());
    let feed = site.feeds.of(&site.jobs, first);
    let watcher = Watcher { seen: feed.seen.clone(), is_over, _feed: feed, _place: place };
    let changes = stream::unfold(watcher, |mut watcher| async move {
        let event = watcher.next().await?;
        Some((event, watcher))
    });
    Ok(events::answer(stream::iter([now]).chain(changes), site.shutdown))
}

impl Watcher {
    /// The next change; nothing after the last one.
    async fn next(&mut self) -> Option<Event> {
        if self.is_over || self.seen.changed().await.is_err() {
            return None;
        }
        let seen = self.seen.borrow_and_update().clone();
        self.is_over = seen.state.is_final();
        Some(event(&seen))
    }
}

impl Feeds {
    /// The feed of a job, which was just seen like this.
    fn of(&self, jobs: &Jobs, seen: JobView) -> Arc<Feed> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|_, feed| feed.strong_count() > 0);
        let id = seen.id.clone();
        if let Some(feed) = open.get(&id).and_then(Weak::upgrade) {
            return feed;
        }
        let (sender, receiver) = watch::channel(Arc::new(seen));
        let work = tokio::spawn(follow(jobs.clone(), id.clone(), sender));
        let feed = Arc::new(Feed { seen: receiver, _work: AbortOnDropHandle::new(work) });
        open.insert(id, Arc::downgrade(&feed));
        feed
    }
}

/// Shows a job until it has ended or is gone.
async fn follow(jobs: Jobs, id: String, shown: watch::Sender<Arc<JobView>>) {
    while !shown.borrow().state.is_final() {
        tokio::time::sleep(REST).await;
        match jobs.view(&id) {
            Ok(view) if view == **shown.borrow() => {}
            Ok(view) => drop(shown.send_replace(Arc::new(view))),
            Err(JobsError::None(_)) => return,
            // A server in trouble may recover; those who watch stay.
            Err(error) => tracing::debug!(%error, "a watched job cannot be read"),
        }
    }
}

fn event(view: &JobView) -> Event {
    events::event("flow", view)
}
