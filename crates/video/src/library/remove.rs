//! What goes with a video when it is removed: everything that no other video uses, a little later.
//!
//! Who else uses something is known only to who has read the whole library, so that is not asked here: what the video
//! named is [noted](super::notes), and one [round](super::collect) looks for the others for many removals at once. The
//! note is there before the record goes. After a crash in between, the video is still there and the note says nothing
//! that the record does not say as well.

use futures_util::{StreamExt as _, TryStreamExt as _, stream};

use super::index::{Entry, READS_AT_ONCE};
use super::notes::Note;
use super::records::{address_record, content_record};
use super::{Library, LibraryError, Video, VideoId, VideoState, records};

impl Library {
    /// Removes it. Its tasks are stopped first; its files go later, as far as no other video uses them. Returns how many
    /// bytes that may be at most. However large the library is, this takes as long as the video has parts.
    pub async fn remove(&self, id: &VideoId) -> Result<u64, LibraryError> {
        let _alone = self.order.write().await;
        let video = self.video(id).await?;
        if video.state == VideoState::Processing {
            self.stop_tasks(&video, "the video was removed").await?;
        }
        let plan = match video.plan {
            Some(id) => self.plan(id).await,
            None => None,
        };
        let given = plan.and_then(|plan| plan.probe.copied_from);
        let sources = video.source.into_iter().chain(given).map(|source| source.id).collect();
        let note = self.note_of(&video, sources).await?;
        let bytes = self.bytes_of(&note).await?;
        let sources = note.sources.clone();
        self.write_note(note).await?;
        let content = sources.iter().map(|source| content_record(*source, &video.recipe));
        let address = video.url.as_deref().map(|url| address_record(url, &video.recipe));
        self.release_claims(id, content.chain(address).collect()).await?;
        let was_there = self.objects.remove_record(&id.record()).await?;
        self.index().forget(id);
        let _ = self.changed.send(id.clone());
        match was_there {
            true => Ok(bytes),
            false => Err(LibraryError::NoVideo(id.0.clone())),
        }
    }

    /// Everything that a video names: in its record, in its documents, and in the results of its sources.
    pub(super) async fn note_of(
        &self,
        video: &Video,
        sources: Vec<divvy::objects::BlobId>,
    ) -> Result<Note, LibraryError> {
        let entry = Entry::of(video);
        let mut names = self.documents(&entry).await?;
        names.blobs.extend(entry.blobs());
        for source in &sources {
            // Of a source that others have too, this is more than its own. Those who use it keep it.
            let results = self.results_of(*source).await?;
            names.blobs.extend(self.named_by_results(&results).await?);
        }
        Ok(Note::of(Some(video.id.clone()), sources, names))
    }

    /// The size of all that a note lists.
    async fn bytes_of(&self, note: &Note) -> Result<u64, LibraryError> {
        let looks = note.blobs.iter().copied().map(|id| self.objects.look_at(id));
        let mut found = stream::iter(looks).buffer_unordered(READS_AT_ONCE);
        let mut bytes = 0_u64;
        while let Some(blob) = found.try_next().await? {
            bytes = bytes.saturating_add(blob.map_or(0, |blob| blob.size));
        }
        Ok(bytes)
    }

    /// Lets the content and the address be added anew.
    async fn release_claims(&self, id: &VideoId, names: Vec<String>) -> Result<(), LibraryError> {
        for name in names {
            let claim = self.objects.record::<records::Claim>(&name).await?;
            if claim.is_some_and(|claim| claim.value.video == *id) {
                self.objects.remove_record(&name).await?;
            }
        }
        Ok(())
    }
}
