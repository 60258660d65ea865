//! What those who watch a video, or the whole library, see, made once for all of them.
//!
//! The engine tells when a task of the video changes and how far the running ones are, and then the library is asked, at
//! most once a second. What other videos take is not told; how long the rest takes because of them is worked out anew
//! each minute. A feed ends with the video, or when nobody watches any more.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use axum::response::Response;
use divvy::api::Frames;
use divvy_http::ApiError;
use divvy_http::feed::{self, Place, Shown};
use futures_util::FutureExt as _;
use tokio::sync::{broadcast, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::library::{Library, LibraryError, VideoId, VideoView};

/// What is shown is at least so old before it is made anew …
const REST: Duration = Duration::from_secs(1);
/// … and so old at most, because the remaining time depends on other videos too.
const REFRESH: Duration = Duration::from_secs(60);
/// A list costs more than a video: between two rings there is at least so much time.
const BELL_REST: Duration = Duration::from_secs(2);
/// How often it is tried to hear an engine that cannot be heard; the video is looked at meanwhile.
const DEAF: Duration = Duration::from_secs(5);

/// The feeds of all videos that are watched.
#[derive(Debug)]
pub(super) struct Feeds {
    videos: feed::Feeds<VideoView>,
    bell: Mutex<Weak<Bell>>,
}

/// Rings when any video has changed, at most every two seconds; who holds it keeps it going.
#[derive(Debug)]
pub(super) struct Bell {
    rung: watch::Receiver<u64>,
    _work: AbortOnDropHandle<()>,
}

impl Bell {
    /// How often it rang.
    pub(super) fn watch(&self) -> watch::Receiver<u64> {
        self.rung.clone()
    }
}

impl Feeds {
    /// No feeds, and at most so many watchers.
    pub(super) fn new(watchers_max: usize) -> Self {
        Self { videos: feed::Feeds::new(watchers_max), bell: Mutex::default() }
    }

    /// A place for one more watcher.
    pub(super) fn place(&self, instead: &str) -> Result<Place, ApiError> {
        self.videos.place(instead)
    }

    /// Answers with a video, which was just seen like this, and how it changes.
    pub(super) fn answer(
        &self,
        place: Place,
        library: &Library,
        seen: VideoView,
        shutdown: CancellationToken,
    ) -> Response {
        let (id, library) = (seen.video.id.0.clone(), library.clone());
        self.videos.answer(place, &id, seen, shutdown, |shown| follow(library, shown))
    }

    /// The bell of the library.
    pub(super) fn bell(&self, library: &Library) -> Arc<Bell> {
        let mut bell = self.bell.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bell) = bell.upgrade() {
            return bell;
        }
        let (sender, rung) = watch::channel(0);
        let work = tokio::spawn(ring(library.clone(), sender));
        let new = Arc::new(Bell { rung, _work: AbortOnDropHandle::new(work) });
        *bell = Arc::downgrade(&new);
        new
    }
}

/// Rings for whatever happens to a video.
async fn ring(library: Library, bell: watch::Sender<u64>) {
    let mut ears = Ears { changed: library.changed(), tasks: library.changes(None).await.ok() };
    loop {
        tokio::select! {
            () = ears.hear(None) => (),
            () = tokio::time::sleep(DEAF), if ears.tasks.is_none() => {
                ears.tasks = library.changes(None).await.ok();
            }
        }
        let mut heard = true;
        while std::mem::take(&mut heard) {
            bell.send_modify(|count| *count += 1);
            tokio::time::sleep(BELL_REST).await;
            while ears.hear(None).now_or_never().is_some() {
                heard = true;
            }
        }
    }
}

/// Shows a video until it is final or gone.
async fn follow(library: Library, shown: Shown<VideoView>) {
    let mut last = shown.borrow().clone();
    // Listens before it looks, so that what happens after the look is heard.
    let workflow = Some(last.video.workflow.clone());
    let mut ears =
        Ears { changed: library.changed(), tasks: library.changes(workflow.as_deref()).await.ok() };
    let mut looked = Instant::now();
    let mut is_first = true;
    while !last.video.state.is_final() {
        if !std::mem::take(&mut is_first) {
            let patience = if ears.tasks.is_none() { DEAF } else { REFRESH };
            tokio::select! {
                () = ears.hear(Some(&last.video.id)) => (),
                () = tokio::time::sleep_until(looked + patience) => (),
            }
        }
        tokio::time::sleep_until(looked + REST).await;
        // One look answers all that was heard until now.
        while ears.hear(Some(&last.video.id)).now_or_never().is_some() {}
        if ears.tasks.is_none() {
            ears.tasks = library.changes(workflow.as_deref()).await.ok();
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
    /// Tasks of the video, or of all, unless the engine cannot be heard.
    tasks: Option<Frames>,
}

impl Ears {
    /// Returns when something was heard that concerns the video, or any if none is named, or may.
    async fn hear(&mut self, id: Option<&VideoId>) {
        let Self { changed, tasks } = self;
        let task = async {
            match tasks {
                // Whatever it says, even that something was left out: look. That it is alive is nothing to look at.
                Some(frames) => loop {
                    match frames.next().await {
                        Ok(Some(frame)) if frame.data.is_empty() => (),
                        Ok(Some(_)) => break,
                        Ok(None) | Err(_) => break *tasks = None,
                    }
                },
                None => std::future::pending().await,
            }
        };
        let record = async {
            loop {
                match changed.recv().await {
                    Ok(other) if id.is_some_and(|id| other != *id) => (),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::library::Stage;
    use crate::library::tests::stage::{Theatre, new_video};
    use crate::recipe::Recipe;

    fn encode(view: &VideoView) -> Option<&Stage> {
        view.stages.iter().find(|stage| stage.name == "encode")
    }

    #[tokio::test]
    async fn how_far_a_running_task_is_reaches_those_who_watch_without_being_asked_for() {
        let theatre = Theatre::open().await;
        let library = &theatre.library;
        theatre.stage.hold_encodes();
        let source = theatre.upload(b"watched").await;
        let video = library.add(new_video(source, Recipe::default())).await.unwrap().video;
        let feeds = feed::Feeds::new(1);
        let seen = library.view(&video.id).await.unwrap();
        let feed = feeds.of("watched", seen, |shown| follow(library.clone(), shown));
        let mut seen = feed.watch();
        let mut until = async |fits: fn(&VideoView) -> bool| {
            // The next look by the clock would come later.
            let shown = tokio::time::timeout(REFRESH / 2, seen.wait_for(|view| fits(view))).await;
            drop(shown.unwrap().unwrap());
        };
        until(|view| encode(view).is_some_and(|stage| stage.running > 0)).await;
        // No task changes its state now: the one that runs is held.
        theatre.stage.be_half_way();
        until(|view| encode(view).is_some_and(|stage| stage.progress > 0.0)).await;
        theatre.stage.release_encodes(100);
        until(|view| view.video.state.is_final()).await;
        theatre.close().await;
    }
}
