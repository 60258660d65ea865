//! Which videos there are: one record each, from the moment that they were added.
//!
//! A video is found again by its content and recipe: a record below `video/content/` names it. Adding is in `add`,
//! their order in `index`, how far a video is in `view`, how long the rest takes among the others in `queue`, what goes with a video in `remove`
//! and `notes`, when it goes in `collect`, what goes if someone asks for it in `sweep`, what is used in `references`, and how handlers change a
//! video's record in `records`.

mod add;
mod collect;
mod index;
mod notes;
mod queue;
pub(crate) mod records;
mod references;
mod remove;
mod sweep;
#[cfg(test)]
pub(crate) mod tests;
mod view;

use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use divvy::Client;
use divvy::api::Frames;
use divvy::objects::{Blob, BlobId, ObjectError, Objects, Record};
use divvy::types::WorkflowId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::{RwLock, broadcast};

use crate::manifest::Manifest;
use crate::recipe::{Recipe, RecipeError};
use crate::tasks::QUEUE;
pub(crate) use add::{TITLE_LEN_MAX, check_title};
pub use collect::FIRST_AFTER;
pub(crate) use index::Counts;
use index::Index;
pub use index::{Cursor, Filter};
pub use sweep::{REST, Sweep, Swept};
use view::Memory;

/// Names a video: 12 letters and digits.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct VideoId(pub String);

impl VideoId {
    /// The name of the video's record.
    pub fn record(&self) -> String {
        format!("video/library/{}", self.0)
    }
}

/// A video as it is recorded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Video {
    /// Its name.
    pub id: VideoId,
    /// What people call it.
    pub title: String,
    /// When it was added, in microseconds since 1970.
    pub added_at: u64,
    /// Where it came from, if it was fetched.
    pub url: Option<String>,
    /// The source, once it is here.
    pub source: Option<Blob>,
    /// What is wanted.
    pub recipe: Recipe,
    /// From 1 to 5; 5 goes first.
    pub priority: u8,
    /// When it should be done, in microseconds since 1970.
    pub deadline: Option<u64>,
    /// The workflow that makes it, as its id is written.
    pub workflow: String,
    /// Where it is.
    pub state: VideoState,
    /// Why it failed, or what is missing.
    pub reason: Option<String>,
    /// Its plan, once there is one.
    pub plan: Option<BlobId>,
    /// Its manifest, once it is published.
    pub manifest: Option<BlobId>,
    /// Whether it has a picture to show before it plays, once it is published.
    #[serde(default = "yes")]
    pub has_poster: bool,
    /// When it was published or failed, in microseconds since 1970.
    pub ended_at: Option<u64>,
    /// Length of the picture in milliseconds, once it is planned.
    #[serde(default)]
    pub length_ms: Option<u64>,
    /// Estimated time on processors of all its tasks, as it was known when it was planned.
    pub estimated_cpu_ms: Option<u64>,
}

/// Videos that were published before this was noted have one, with few exceptions.
fn yes() -> bool {
    true
}

impl Video {
    /// The workflow that makes it.
    pub fn workflow_id(&self) -> Option<WorkflowId> {
        self.workflow.parse().ok()
    }
}

/// Where a video is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum VideoState {
    /// Its tasks wait or run.
    Processing,
    /// It can be watched.
    Ready,
    /// It can be watched, but an optional part failed.
    Degraded,
    /// The scan flagged it: a person must look at it.
    NeedsReview,
    /// It could not be made.
    Failed,
    /// Someone stopped it.
    Cancelled,
}

impl VideoState {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Processing,
        Self::Ready,
        Self::Degraded,
        Self::NeedsReview,
        Self::Failed,
        Self::Cancelled,
    ];

    /// Its name in every interface.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Processing => "processing",
            Self::Ready => "ready",
            Self::Degraded => "degraded",
            Self::NeedsReview => "needs_review",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// Whether nothing more happens to it by itself.
    pub fn is_final(self) -> bool {
        self != Self::Processing
    }
}

/// A video to be added.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewVideo {
    /// The source, if it was uploaded.
    #[serde(default)]
    pub source: Option<BlobId>,
    /// Where the source is, if it is to be fetched. One of the two must be given.
    #[serde(default)]
    #[schemars(regex(pattern = r"^https?://[^/\s]+"))]
    pub url: Option<String>,
    /// What people call it; otherwise the end of the address, or of the source's name.
    #[serde(default)]
    pub title: Option<String>,
    /// What is wanted.
    #[serde(default)]
    pub recipe: Recipe,
    /// From 1 to 5; 5 goes first.
    #[serde(default)]
    #[schemars(range(min = 1, max = 5))]
    pub priority: Option<u8>,
    /// When it should be done, in milliseconds from now.
    #[serde(default)]
    pub deadline_ms: Option<u64>,
}

/// What became of an addition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Added {
    /// The video.
    pub video: Video,
    /// Whether it was there already: the same content with the same recipe.
    pub known: bool,
    /// How long it is expected to take from now, by its size alone until it is probed, with what is ahead of it.
    pub estimated_ms: Option<u64>,
}

/// A video as people see it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VideoView {
    /// What is recorded.
    #[serde(flatten)]
    pub video: Video,
    /// How much is done, from 0 to 1; never less than before.
    pub progress: f64,
    /// The stages, in their order.
    pub stages: Vec<Stage>,
    /// How long the rest is expected to take, with the work of other videos that is ahead of it.
    pub remaining_ms: Option<u64>,
    /// Length of the picture, once it is known.
    pub duration_ms: Option<u64>,
}

/// One sort of tasks of a video.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stage {
    /// Its name, such as `encode`.
    pub name: String,
    /// What people call it, such as `Encode the picture`.
    #[serde(default)]
    pub about: String,
    /// Tasks of it.
    pub total: u32,
    /// Tasks that are done.
    pub done: u32,
    /// Tasks that run.
    pub running: u32,
    /// Tasks that failed for good.
    pub failed: u32,
    /// How much is done, from 0 to 1, running tasks included.
    pub progress: f64,
}

/// Why the library says no.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LibraryError {
    /// No such video.
    #[error("there is no video `{0}`; divvy video list shows which there are")]
    NoVideo(String),
    /// Nobody asked for a review of this video, which is in another state.
    #[error("the video is {} and needs no review", .0.as_str())]
    NoReview(VideoState),
    /// A setting that cannot be.
    #[error(transparent)]
    Recipe(#[from] RecipeError),
    /// Something else that was said wrong.
    #[error("{field} {problem}")]
    Bad {
        /// What.
        field: &'static str,
        /// What is wrong, and what would be right.
        problem: String,
    },
    /// The objects.
    #[error(transparent)]
    Objects(#[from] ObjectError),
    /// The server.
    #[error(transparent)]
    Server(#[from] divvy::Error),
}

/// All videos of a server; a clone is cheap.
#[derive(Clone, Debug)]
pub struct Library {
    client: Client,
    objects: Objects,
    memory: Arc<Mutex<Memory>>,
    index: Arc<Mutex<Index>>,
    /// Tells which records this process has changed.
    changed: broadcast::Sender<VideoId>,
    /// Many may add at once; who removes a video, or results, is alone.
    order: Arc<RwLock<()>>,
    /// Held by who removes what was noted.
    collecting: Arc<tokio::sync::Mutex<()>>,
}

impl Library {
    /// The library of this server, with its objects.
    pub fn new(client: Client, objects: Objects) -> Self {
        let (changed, _) = broadcast::channel(CHANGES_KEPT);
        Self {
            client,
            objects,
            memory: Arc::default(),
            index: Arc::default(),
            changed,
            order: Arc::default(),
            collecting: Arc::default(),
        }
    }

    /// Where the files are.
    pub fn objects(&self) -> &Objects {
        &self.objects
    }

    /// Its manifest, once it is published.
    pub async fn manifest(&self, id: &VideoId) -> Result<Option<Manifest>, LibraryError> {
        let Some(blob) = self.video(id).await?.manifest else { return Ok(None) };
        let bytes = self.objects.get(blob).await?;
        let manifest = serde_json::from_slice(&bytes).map_err(|error| ObjectError::Record {
            name: format!("manifest of {}", id.0),
            problem: error.to_string(),
        })?;
        Ok(Some(manifest))
    }

    /// Stops its tasks. A video that was stopped already stays so.
    pub async fn cancel(&self, id: &VideoId) -> Result<Video, LibraryError> {
        let (video, _) = self
            .transit(id, |video| {
                match video.state {
                    VideoState::Cancelled => return Ok(()),
                    VideoState::Processing => (),
                    other => {
                        return Err(bad(
                            "video",
                            format!("is {} and has no tasks to stop", other.as_str()),
                        ));
                    }
                }
                video.state = VideoState::Cancelled;
                video.reason = Some("someone cancelled it".to_owned());
                video.ended_at = Some(now());
                Ok(())
            })
            .await?;
        self.stop_tasks(&video, "the video was cancelled").await?;
        self.forget_open();
        Ok(video)
    }

    /// Says that a person has looked at it and that it may be shown.
    pub async fn approve(&self, id: &VideoId) -> Result<Video, LibraryError> {
        let approved = self.transit(id, |video| match video.state {
            VideoState::NeedsReview => {
                video.state = VideoState::Ready;
                video.reason = None;
                Ok(())
            }
            VideoState::Ready => Ok(()),
            other => Err(LibraryError::NoReview(other)),
        });
        Ok(approved.await?.0)
    }

    /// The videos whose records this process changes, from now on.
    pub(crate) fn changed(&self) -> broadcast::Receiver<VideoId> {
        self.changed.subscribe()
    }

    /// Takes note of a record that this process has written.
    fn note(&self, video: &Video) {
        self.index().note(video);
        // It is no error that nobody listens.
        let _ = self.changed.send(video.id.clone());
    }

    /// Changes of the tasks of a workflow, or of all videos, and how far they are, from now on, as the server tells them.
    pub(crate) async fn changes(&self, workflow: Option<&str>) -> Result<Frames, LibraryError> {
        let of = workflow.map_or(("queue", QUEUE), |workflow| ("workflow", workflow));
        let query = [of, ("progress", "true")].map(|(name, value)| (name, value.to_owned()));
        Ok(Frames::open(self.client.api(), &["events"], &query).await?)
    }

    /// What is recorded of a video.
    async fn video(&self, id: &VideoId) -> Result<Video, LibraryError> {
        match records::read(&self.objects, id).await? {
            Some(record) => {
                self.index().note(&record.value);
                Ok(record.value)
            }
            None => {
                self.index().forget(id);
                Err(LibraryError::NoVideo(id.0.clone()))
            }
        }
    }

    /// Changes a video, however many do so at once, or says why it cannot be; returns it with what it was before.
    async fn transit(
        &self,
        id: &VideoId,
        change: impl Fn(&mut Video) -> Result<(), LibraryError>,
    ) -> Result<(Video, Video), LibraryError> {
        loop {
            let Some(Record { value: before, version }) = records::read(&self.objects, id).await?
            else {
                return Err(LibraryError::NoVideo(id.0.clone()));
            };
            let mut after = before.clone();
            change(&mut after)?;
            if after == before || self.objects.replace_record(&id.record(), version, &after).await?
            {
                self.note(&after);
                return Ok((after, before));
            }
        }
    }

    async fn stop_tasks(&self, video: &Video, reason: &str) -> Result<(), LibraryError> {
        let Some(workflow) = video.workflow_id() else { return Ok(()) };
        match self.client.cancel_workflow(workflow, Some(reason)).await {
            Err(error) if error.code() != NO_WORKFLOW => Err(error.into()),
            _ => Ok(()),
        }
    }
}

/// Changes that one who listens may be behind; then it looks at its video in any case.
const CHANGES_KEPT: usize = 256;
/// The code of the server's error for a workflow that it does not know.
const NO_WORKFLOW: &str = "no_such_workflow";

fn bad(field: &'static str, problem: impl Into<String>) -> LibraryError {
    LibraryError::Bad { field, problem: problem.into() }
}

/// Microseconds since 1970.
pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}
