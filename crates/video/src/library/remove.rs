//! What goes with a video when it is removed: everything that no other video uses.
//!
//! Blobs and results are found by their names in plans, manifests and results, whatever these look like, so that a new
//! sort of result needs no change here. In doubt something stays: results of a source that another video is being made
//! from, and blobs that were written a short while ago as long as any video is being made, because a task may have
//! stored them and not yet recorded them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime};

use divvy::objects::{BlobId, ObjectError, Objects};
use serde_json::Value;

use super::records::{address_record, content_record};
use super::{Library, LibraryError, Video, VideoId, VideoState, records};
use crate::keys::results_of;

/// Blobs that were written so recently stay while a video is being made.
const FRESH: Duration = Duration::from_secs(600);
/// The record of blobs that nobody used when they were last looked at.
pub(super) const LEFT_OVER: &str = "video/left_over";

impl Library {
    /// Removes it with everything that no other video uses; returns how many bytes that were. Its tasks are stopped
    /// first.
    pub async fn remove(&self, id: &VideoId) -> Result<u64, LibraryError> {
        let video = self.video(id).await?;
        if video.state == VideoState::Processing {
            self.stop_tasks(&video, "the video was removed").await?;
        }
        self.release_claims(&video).await?;
        if !self.objects.remove_record(&id.record()).await? {
            return Err(LibraryError::NoVideo(id.0.clone()));
        }
        let others = self.videos().await?;
        let (mut mine, removed) = self.forget_results(&video, &others).await?;
        mine.extend(self.documents(&video).await?.0);
        mine.extend(blobs_of(&removed));
        let left = self.objects.record::<BTreeSet<BlobId>>(LEFT_OVER).await?;
        mine.extend(left.into_iter().flat_map(|record| record.value));
        for other in &others {
            for used in self.used_by(other).await? {
                mine.remove(&used);
            }
        }
        let busy = others.iter().any(|other| other.state == VideoState::Processing);
        self.sweep(mine, busy).await
    }

    /// Removes blobs; those that must wait are remembered for the next time.
    async fn sweep(&self, unused: BTreeSet<BlobId>, busy: bool) -> Result<u64, LibraryError> {
        let (mut bytes, mut kept) = (0, BTreeSet::new());
        for blob in unused {
            let Some(found) = self.objects.blob(blob).await? else { continue };
            if busy && is_fresh(&self.objects, blob).await {
                kept.insert(blob);
            } else if self.objects.remove_blob(blob).await? {
                bytes += found.size;
            }
        }
        if kept.is_empty() {
            self.objects.remove_record(LEFT_OVER).await?;
        } else {
            self.objects.put_record(LEFT_OVER, &kept).await?;
        }
        Ok(bytes)
    }

    /// All videos as they are recorded.
    pub(super) async fn videos(&self) -> Result<Vec<Video>, LibraryError> {
        let mut videos = Vec::new();
        for name in self.objects.record_names("video/library").await? {
            videos.extend(self.objects.record(name.as_str()).await?.map(|record| record.value));
        }
        Ok(videos)
    }

    /// Lets the content and the address be added anew.
    async fn release_claims(&self, video: &Video) -> Result<(), LibraryError> {
        let content = video.source.map(|source| content_record(source.id, &video.recipe));
        let address = video.url.as_deref().map(|url| address_record(url, &video.recipe));
        for name in content.into_iter().chain(address) {
            let claim = self.objects.record::<records::Claim>(&name).await?;
            if claim.is_some_and(|claim| claim.value.video == video.id) {
                self.objects.remove_record(&name).await?;
            }
        }
        Ok(())
    }

    /// Removes the results that only this video used; returns its own blobs and what the removed results held.
    async fn forget_results(
        &self,
        video: &Video,
        others: &[Video],
    ) -> Result<(BTreeSet<BlobId>, Vec<Value>), LibraryError> {
        let mut mine: BTreeSet<BlobId> =
            [video.plan, video.manifest].into_iter().flatten().collect();
        let Some(source) = video.source else { return Ok((mine, Vec::new())) };
        mine.insert(source.id);
        let of_source = |other: &&Video| other.source.is_some_and(|other| other.id == source.id);
        let sharing: Vec<&Video> = others.iter().filter(of_source).collect();
        if sharing.iter().any(|other| other.state == VideoState::Processing) {
            return Ok((mine, Vec::new()));
        }
        let own_keys = self.documents(video).await?.1;
        let mut used = BTreeSet::new();
        for other in &sharing {
            used.extend(self.documents(other).await?.1);
        }
        let mut removed = Vec::new();
        for name in self.objects.record_names(&results_of(source.id)).await? {
            let key = name.as_str().rsplit('/').next().unwrap_or_default();
            let only_mine = sharing.is_empty() || (own_keys.contains(key) && !used.contains(key));
            if !only_mine {
                continue;
            }
            if let Some(record) = self.objects.record::<Value>(name.as_str()).await? {
                removed.push(record.value);
            }
            self.objects.remove_record(name.as_str()).await?;
        }
        Ok((mine, removed))
    }

    /// All blobs that a video uses: its own, and those of all results of its source.
    async fn used_by(&self, video: &Video) -> Result<BTreeSet<BlobId>, LibraryError> {
        let mut used = self.documents(video).await?.0;
        used.extend([video.plan, video.manifest].into_iter().flatten());
        let Some(source) = video.source else { return Ok(used) };
        used.insert(source.id);
        for name in self.objects.record_names(&results_of(source.id)).await? {
            if let Some(record) = self.objects.record::<Value>(name.as_str()).await? {
                used.extend(blobs_of(&[record.value]));
            }
        }
        Ok(used)
    }

    /// The names of blobs and of results in the plan and the manifest of a video.
    async fn documents(
        &self,
        video: &Video,
    ) -> Result<(BTreeSet<BlobId>, BTreeSet<String>), LibraryError> {
        let mut found: BTreeMap<usize, BTreeSet<String>> = BTreeMap::new();
        for id in [video.plan, video.manifest].into_iter().flatten() {
            // One that is gone or cannot be read names nothing; the video can still be removed.
            let Ok(bytes) = self.objects.get(id).await else { continue };
            if let Ok(value) = serde_json::from_slice::<Value>(&bytes) {
                collect(&value, &mut found);
            }
        }
        let blobs = found.remove(&64).unwrap_or_default();
        let blobs = blobs.iter().filter_map(|text| text.parse().ok()).collect();
        Ok((blobs, found.remove(&32).unwrap_or_default()))
    }
}

fn blobs_of(values: &[Value]) -> BTreeSet<BlobId> {
    let mut found = BTreeMap::new();
    for value in values {
        collect(value, &mut found);
    }
    found.remove(&64).unwrap_or_default().iter().filter_map(|text| text.parse().ok()).collect()
}

/// All texts of hexadecimal digits, by their length: names of blobs have 64, keys of results 32.
fn collect(value: &Value, found: &mut BTreeMap<usize, BTreeSet<String>>) {
    match value {
        Value::String(text) => {
            let is_hash = matches!(text.len(), 32 | 64)
                && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
            if is_hash {
                found.entry(text.len()).or_default().insert(text.clone());
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, found)),
        Value::Object(fields) => fields.values().for_each(|field| collect(field, found)),
        _ => (),
    }
}

/// Whether a blob was written a short while ago; one whose time is not known counts as such.
async fn is_fresh(objects: &Objects, blob: BlobId) -> bool {
    let written = async {
        let file = objects.local_file(blob).await?;
        let path = file.path().to_owned();
        let read = |source| ObjectError::File { path: path.clone(), source };
        let found = tokio::fs::metadata(&path).await.map_err(read)?;
        found.modified().map_err(read)
    };
    match written.await {
        Ok(written) => SystemTime::now().duration_since(written).map_or(true, |age| age < FRESH),
        Err(_) => true,
    }
}
