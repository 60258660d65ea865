//! Which videos there are: one record each, from the moment that they were added.

use divvy::Client;
use divvy::objects::{Blob, BlobId, ObjectError, Objects};
use serde::{Deserialize, Serialize};

use crate::manifest::Manifest;
use crate::recipe::{Recipe, RecipeError};

/// Names a video: 12 letters and digits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct VideoId(pub String);

impl VideoId {
    /// The name of the video's record.
    pub fn record(&self) -> String {
        format!("video/library/{}", self.0)
    }
}

/// A video as it is recorded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
    /// When it was published or failed, in microseconds since 1970.
    pub ended_at: Option<u64>,
    /// Estimated time on processors of all its tasks, as it was known when it was planned.
    pub estimated_cpu_ms: Option<u64>,
}

/// Where a video is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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

/// A video to be added.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewVideo {
    /// The source, if it was uploaded.
    #[serde(default)]
    pub source: Option<BlobId>,
    /// Where the source is, if it is to be fetched. One of the two must be given.
    #[serde(default)]
    pub url: Option<String>,
    /// What people call it; otherwise the end of the address, or of the source's name.
    #[serde(default)]
    pub title: Option<String>,
    /// What is wanted.
    #[serde(default)]
    pub recipe: Recipe,
    /// From 1 to 5; 5 goes first.
    #[serde(default)]
    pub priority: Option<u8>,
    /// When it should be done, in milliseconds from now.
    #[serde(default)]
    pub deadline_ms: Option<u64>,
}

/// What became of an addition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Added {
    /// The video.
    pub video: Video,
    /// Whether it was there already: the same content with the same recipe.
    pub known: bool,
    /// How long it is expected to take from now, by its size alone until it is probed.
    pub estimated_ms: Option<u64>,
}

/// A video as people see it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VideoView {
    /// What is recorded.
    #[serde(flatten)]
    pub video: Video,
    /// How much is done, from 0 to 1; never less than before.
    pub progress: f64,
    /// The stages, in their order.
    pub stages: Vec<Stage>,
    /// How long the rest is expected to take.
    pub remaining_ms: Option<u64>,
    /// Length of the picture, once it is known.
    pub duration_ms: Option<u64>,
}

/// One sort of tasks of a video.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stage {
    /// Its name, such as `encode`.
    pub name: String,
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
}

#[expect(clippy::unused_async, unused_variables, reason = "not written yet")]
impl Library {
    /// The library of this server, with its objects.
    pub fn new(client: Client, objects: Objects) -> Self {
        Self { client, objects }
    }

    /// Where the files are.
    pub fn objects(&self) -> &Objects {
        &self.objects
    }

    /// Adds a video, or finds the one that is there already.
    pub async fn add(&self, new: NewVideo) -> Result<Added, LibraryError> {
        let _ = &self.client;
        Err(LibraryError::NoVideo(String::new()))
    }

    /// All videos, latest first.
    pub async fn list(&self) -> Result<Vec<VideoView>, LibraryError> {
        let mut videos = Vec::new();
        for name in self.objects.record_names("video/library/").await? {
            if let Some(record) = self.objects.record::<Video>(&name.to_string()).await? {
                videos.push(self.view(&record.value.id).await?);
            }
        }
        videos.sort_by_key(|view| std::cmp::Reverse(view.video.added_at));
        Ok(videos)
    }

    /// One video.
    pub async fn view(&self, id: &VideoId) -> Result<VideoView, LibraryError> {
        let Some(record) = self.objects.record::<Video>(&id.record()).await? else {
            return Err(LibraryError::NoVideo(id.0.clone()));
        };
        let manifest = self.manifest(id).await?;
        Ok(VideoView {
            progress: f64::from(u8::from(manifest.is_some())),
            stages: Vec::new(),
            remaining_ms: None,
            duration_ms: manifest.map(|manifest| manifest.duration_ms),
            video: record.value,
        })
    }

    /// Its manifest, once it is published.
    pub async fn manifest(&self, id: &VideoId) -> Result<Option<Manifest>, LibraryError> {
        let Some(record) = self.objects.record::<Video>(&id.record()).await? else {
            return Err(LibraryError::NoVideo(id.0.clone()));
        };
        let Some(blob) = record.value.manifest else { return Ok(None) };
        let bytes = self.objects.get(blob).await?;
        let manifest = serde_json::from_slice(&bytes).map_err(|error| ObjectError::Record {
            name: id.record(),
            problem: error.to_string(),
        })?;
        Ok(Some(manifest))
    }

    /// Stops its tasks.
    pub async fn cancel(&self, id: &VideoId) -> Result<Video, LibraryError> {
        Err(LibraryError::NoVideo(id.0.clone()))
    }

    /// Says that a person has looked at it and that it may be shown.
    pub async fn approve(&self, id: &VideoId) -> Result<Video, LibraryError> {
        Err(LibraryError::NoVideo(id.0.clone()))
    }

    /// Removes it with everything that no other video uses; returns how many bytes that were.
    pub async fn remove(&self, id: &VideoId) -> Result<u64, LibraryError> {
        Err(LibraryError::NoVideo(id.0.clone()))
    }
}
