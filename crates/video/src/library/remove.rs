//! What goes with a video when it is removed: everything that no other video uses.
//!
//! In doubt something stays: results of a source that another video is being made from, and blobs that were written a
//! short while ago as long as any video is being made, because a task may have stored them and not yet recorded them.
//! The next [sweep](super::sweep) takes these.

use std::collections::HashSet;
use std::time::Duration;

use serde_json::Value;

use super::index::Entry;
use super::records::{address_record, content_record};
use super::references::Names;
use super::{Library, LibraryError, Video, VideoId, VideoState, records};
use crate::keys::results_of;

/// Blobs that were written so recently stay while a video is being made.
const FRESH: Duration = Duration::from_secs(600);

impl Library {
    /// Removes it with everything that no other video uses; returns how many bytes that were. Its tasks are stopped
    /// first.
    pub async fn remove(&self, id: &VideoId) -> Result<u64, LibraryError> {
        let _alone = self.order.write().await;
        let video = self.video(id).await?;
        if video.state == VideoState::Processing {
            self.stop_tasks(&video, "the video was removed").await?;
        }
        self.release_claims(&video).await?;
        let was_there = self.objects.remove_record(&id.record()).await?;
        self.index().forget(id);
        let _ = self.changed.send(id.clone());
        if !was_there {
            return Err(LibraryError::NoVideo(id.0.clone()));
        }
        let (video, others) = (Entry::of(&video), self.entries().await?);
        let mut mine = self.documents(&video).await?;
        mine.blobs.extend(video.blobs());
        let removed = self.forget_results(&video, &mine, &others).await?;
        mine.extend(removed);
        let used = self.named_by_records(&others, &HashSet::new()).await?;
        let is_busy = others.iter().any(Entry::is_made);
        let rest = if is_busy { FRESH } else { Duration::ZERO };
        let mut bytes = 0;
        for blob in mine.blobs.difference(&used.blobs) {
            let gone = self.objects.remove_rested_blob(*blob, rest).await?;
            bytes += gone.map_or(0, |blob| blob.size);
        }
        Ok(bytes)
    }

    /// Lets the content and the address be added anew.
    async fn release_claims(&self, video: &Video) -> Result<(), LibraryError> {
        let plan = match video.plan {
            Some(id) => self.plan(id).await,
            None => None,
        };
        let given = plan.and_then(|plan| plan.probe.copied_from);
        let content = video.source.into_iter().chain(given);
        let content = content.map(|source| content_record(source.id, &video.recipe));
        let address = video.url.as_deref().map(|url| address_record(url, &video.recipe));
        for name in content.chain(address) {
            let claim = self.objects.record::<records::Claim>(&name).await?;
            if claim.is_some_and(|claim| claim.value.video == video.id) {
                self.objects.remove_record(&name).await?;
            }
        }
        Ok(())
    }

    /// Removes the results that only this video used, which names those in `mine`; returns what they named.
    async fn forget_results(
        &self,
        video: &Entry,
        mine: &Names,
        others: &[Entry],
    ) -> Result<Names, LibraryError> {
        let mut removed = Names::default();
        let Some(source) = video.source else { return Ok(removed) };
        let of_source = |other: &&Entry| other.source == Some(source);
        let sharing: Vec<&Entry> = others.iter().filter(of_source).collect();
        if sharing.iter().any(|other| other.is_made()) {
            return Ok(removed);
        }
        let mut used = Names::default();
        for other in &sharing {
            used.extend(self.documents(other).await?);
        }
        for name in self.objects.record_names(&results_of(source)).await? {
            let key = name.as_str().rsplit('/').next().unwrap_or_default();
            let only_mine =
                sharing.is_empty() || (mine.keys.contains(key) && !used.keys.contains(key));
            if !only_mine {
                continue;
            }
            if let Some(record) = self.objects.record::<Value>(name.as_str()).await? {
                removed.read(&record.value);
            }
            self.objects.remove_record(name.as_str()).await?;
        }
        Ok(removed)
    }
}
