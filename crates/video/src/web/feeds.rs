//! What those who watch a video see, made once for all of them.
//!
//! The engine tells when a task of the video changes, and then the library is asked, at most once a second. How far a
//! running task is nobody tells, so while one runs the library is asked now and then; while all of them wait, hardly ever.
//! A feed ends with the video, or when nobody watches any more.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use divvy::api::Frames;
use tokio::sync::{broadcast, watch};
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use crate::library::{Library, LibraryError, VideoId, VideoView};

/// What is shown is at least so old before it is made anew …
const REST: Duration = Duration::from_secs(1);
/// … and so old at most while a task runs, or while the engine cannot be heard …
const GLANCE: Duration = Duration::from_secs(2);
/// … or otherwise, in case that something was changed behind the back of this server.
const IDLE_GLANCE: Duration = Duration::from_secs(60);

/// The feeds of all videos that are watched.
#[derive(Debug, Default)]
pub(super) struct Feeds {
    open: Mutex<HashMap<VideoId, Weak<Feed>>>,
}

/// One video as all who watch it see it; who holds it keeps it going.
#[derive(Debug)]
pub(super) struct Feed {
    seen: watch::Receiver<Arc<VideoView>>,
    _work: AbortOnDropHandle<()>,
}

impl Feed {
    /// What is seen now, and how it changes. The sender goes when the video is final or gone.
    pub(super) fn watch(&self) -> watch::Receiver<Arc<VideoView>> {
        self.seen.clone()
    }
}

impl Feeds {
    /// The feed of a video, which was just seen like this.
    pub(super) fn of(&self, library: &Library, seen: VideoView) -> Arc<Feed> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|_, feed| feed.strong_count() > 0);
        let id = seen.video.id.clone();
        let going = open.get(&id).and_then(Weak::upgrade);
        // One whose video has ended tells nothing of a video that is made again.
        if let Some(feed) = going.filter(|feed| feed.seen.has_changed().is_ok()) {
            return feed;
        }
        let (sender, receiver) = watch::channel(Arc::new(seen));
        let work = tokio::spawn(follow(library.clone(), sender));
        let feed = Arc::new(Feed { seen: receiver, _work: AbortOnDropHandle::new(work) });
        open.insert(id, Arc::downgrade(&feed));
        feed
    }
}

/// Shows a video until it is final or gone.
async fn follow(library: Library, shown: watch::Sender<Arc<VideoView>>) {
    let mut last = shown.borrow().clone();
    // Listens before it looks, so that what happens after the look is heard.
    let mut ears =
        Ears { changed: library.changed(), tasks: library.changes(&last.video).await.ok() };
    let mut looked = Instant::now();
    let mut is_first = true;
    while !last.video.state.is_final() {
        if !std::mem::take(&mut is_first) {
            let runs = last.stages.iter().any(|stage| stage.running > 0);
            let glance = if runs || ears.tasks.is_none() { GLANCE } else { IDLE_GLANCE };
            tokio::select! {
                () = ears.hear(&last.video.id) => (),
                () = tokio::time::sleep_until(looked + glance) => (),
            }
        }
        tokio::time::sleep_until(looked + REST).await;
        if ears.tasks.is_none() {
            ears.tasks = library.changes(&last.video).await.ok();
        }
        looked = Instant::now();
        match library.view(&last.video.id).await {
            Ok(view) if view == *last => (),
            Ok(view) => {
                last = Arc::new(view);
                shown.send_replace(last.clone());
            }
            Err(LibraryError::NoVideo(_)) => return,
            // A server in trouble may recover; those who watch stay.
            Err(error) => tracing::debug!(%error, "a watched video cannot be read"),
        }
    }
}

/// Where changes are heard.
struct Ears {
    /// Videos whose records this process changed.
    changed: broadcast::Receiver<VideoId>,
    /// Tasks of the video, unless the engine cannot be heard.
    tasks: Option<Frames>,
}

impl Ears {
    /// Returns when something was heard that concerns the video, or may.
    async fn hear(&mut self, id: &VideoId) {
        let Self { changed, tasks } = self;
        let task = async {
            match tasks {
                // Whatever it says, even that something was left out: look.
                Some(frames) => match frames.next().await {
                    Ok(Some(_)) => (),
                    Ok(None) | Err(_) => *tasks = None,
                },
                None => std::future::pending().await,
            }
        };
        let record = async {
            loop {
                match changed.recv().await {
                    Ok(other) if other != *id => (),
                    Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => return,
                    Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
                }
            }
        };
        tokio::select! {
            () = task => (),
            () = record => (),
        }
    }
}
