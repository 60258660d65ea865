//! How the record of a video is read and changed by the tasks that make it.
//!
//! A video that failed may be added again under the same id, with a new workflow. A task that is left over from the old
//! one must not touch the record any more, so every change names the workflow that it comes from.

use divvy::objects::{BlobId, ObjectError, Objects, Record};
use divvy::prelude::*;
use divvy::types::WorkflowId;

use super::{Video, VideoId, VideoState};
use crate::keys::Key;
use crate::recipe::Recipe;
use crate::studio::failure;

/// Says which video has this content and recipe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Claim {
    pub(super) video: VideoId,
}

/// The name of the record that says which video is made from this source with this recipe.
pub(super) fn content_record(source: BlobId, recipe: &Recipe) -> String {
    format!("video/content/{}", Key::of("video", source, recipe))
}

/// The name of the record that says which video is made from this address with this recipe.
pub(super) fn address_record(url: &str, recipe: &Recipe) -> String {
    format!("video/content/{}", Key::of("address", BlobId::of(url.as_bytes()), recipe))
}

/// The record of a video.
pub(super) async fn read(
    objects: &Objects,
    id: &VideoId,
) -> Result<Option<Record<Video>>, ObjectError> {
    // What is no name of a record is no video either; the error would speak of records.
    if id.0.is_empty() || !id.0.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return Ok(None);
    }
    objects.record(&id.record()).await
}

/// A video that this workflow is to make, as it is recorded.
pub(crate) async fn current(
    objects: &Objects,
    id: &VideoId,
    workflow: Option<WorkflowId>,
) -> Outcome<Video> {
    let record = read(objects, id).await.map_err(failure)?;
    match record.map(|record| record.value) {
        Some(video) if is_of(&video, workflow) => Ok(video),
        Some(_) => {
            Err(Failure::dead(format_args!("video {} is not made by this workflow any more", id.0)))
        }
        None => Err(Failure::dead(format_args!("video {} was removed", id.0))),
    }
}

/// Changes a video that this workflow still makes; says whether it does.
pub(crate) async fn change(
    objects: &Objects,
    id: &VideoId,
    workflow: Option<WorkflowId>,
    change: impl Fn(&mut Video),
) -> Outcome<bool> {
    loop {
        let Some(Record { mut value, version }) = read(objects, id).await.map_err(failure)? else {
            return Ok(false);
        };
        if !is_of(&value, workflow) {
            return Ok(false);
        }
        change(&mut value);
        if objects.replace_record(&id.record(), version, &value).await.map_err(failure)? {
            return Ok(true);
        }
    }
}

/// Makes a video that was fetched known by its content too, if no other one is.
pub(crate) async fn claim_content(objects: &Objects, source: BlobId, video: &Video) -> Outcome<()> {
    let name = content_record(source, &video.recipe);
    objects.create_record(&name, &Claim { video: video.id.clone() }).await.map_err(failure)?;
    Ok(())
}

/// A video that failed is still its workflow's: people may resume that. One that was cancelled is nobody's.
fn is_of(video: &Video, workflow: Option<WorkflowId>) -> bool {
    matches!(video.state, VideoState::Processing | VideoState::Failed)
        && workflow.is_some()
        && video.workflow_id() == workflow
}
