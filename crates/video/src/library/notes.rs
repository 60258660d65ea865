//! Notes of what may go: what a removed video named, or what a cancelled one left. A note is durable before anything of
//! it goes, and stays until all of it is gone or found to be used, so that a crash in between loses nothing of either.
//!
//! Decides nothing about what is used: that is `collect`. A note lists names and never changes.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use divvy::objects::BlobId;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use serde::{Deserialize, Serialize};

use super::index::{Entry, READS_AT_ONCE};
use super::references::{Names, RESULTS};
use super::sweep::forget_cancelled;
use super::{Library, LibraryError, VideoId};
use crate::keys::results_of;

/// The names of notes have this before them.
pub(super) const NOTES: &str = "video/removed";
/// Keys, and blobs, that one note lists: half of what a record may hold.
const LISTED_MAX: usize = 5_000;
/// Names in all notes of one round; the rest has its turn in the next. They take 40 MB.
const ROUND_MAX: usize = 1_000_000;

/// What may go.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Note {
    /// The video that was removed; none for what a cancelled one left.
    pub(super) video: Option<VideoId>,
    /// Results of these sources may go: all, or those below if another video has a plan for the source.
    pub(super) sources: Vec<BlobId>,
    /// Keys of results.
    pub(super) keys: Vec<String>,
    /// Blobs.
    pub(super) blobs: Vec<BlobId>,
}

/// What cancelled videos left, and nobody has noted yet.
#[derive(Debug, Default)]
pub(super) struct Leftovers {
    /// Cancelled videos that lose their plans.
    pub(super) cancelled: Vec<Entry>,
    /// What may go then.
    pub(super) notes: Vec<Note>,
}

impl Note {
    /// What a video, or a part of it, names.
    pub(super) fn of(video: Option<VideoId>, sources: Vec<BlobId>, names: Names) -> Self {
        let mut blobs: Vec<BlobId> = names.blobs.into_iter().collect();
        blobs.sort_unstable();
        Self { video, sources, keys: names.keys.into_iter().collect(), blobs }
    }

    /// The same in notes that are records.
    fn parts(self) -> Vec<Self> {
        let count = self.keys.len().max(self.blobs.len()).div_ceil(LISTED_MAX).max(1);
        let mut keys = self.keys.chunks(LISTED_MAX);
        let mut blobs = self.blobs.chunks(LISTED_MAX);
        let part = |_| Self {
            video: self.video.clone(),
            sources: self.sources.clone(),
            keys: keys.next().unwrap_or_default().to_vec(),
            blobs: blobs.next().unwrap_or_default().to_vec(),
        };
        (0..count).map(part).collect()
    }
}

impl Library {
    /// Makes a note last; returns it as it is recorded, with the names of the records.
    pub(super) async fn write_note(&self, note: Note) -> Result<Vec<(String, Note)>, LibraryError> {
        let mut written = Vec::new();
        for part in note.parts() {
            // Each has a name of its own and is later in the list than those before it.
            let name = format!("{NOTES}/{}", uuid::Uuid::now_v7().simple());
            self.objects.put_record(&name, &part).await?;
            written.push((name, part));
        }
        Ok(written)
    }

    /// The oldest notes, as many as fit into a round.
    pub(super) async fn notes(&self) -> Result<Vec<(String, Note)>, LibraryError> {
        let names = self.objects.record_names(NOTES).await?;
        let reads = names.into_iter().map(|name| async move {
            let record = self.objects.record::<Note>(name.as_str()).await;
            record.map(|record| record.map(|record| (String::from(name), record.value)))
        });
        let mut reads = stream::iter(reads).buffered(READS_AT_ONCE);
        let (mut notes, mut listed) = (Vec::new(), 0);
        while let Some(note) = reads.try_next().await? {
            listed += note.as_ref().map_or(0, |(_, note)| note.keys.len() + note.blobs.len());
            notes.extend(note);
            if listed > ROUND_MAX {
                break;
            }
        }
        Ok(notes)
    }

    /// What videos left that were cancelled longer ago than `rest`, and the results of sources that no video has a plan
    /// for, which a task recorded after its video was removed.
    pub(super) async fn leftovers(&self, rest: Duration) -> Result<Leftovers, LibraryError> {
        let mut videos = self.entries().await?;
        let cancelled = forget_cancelled(&mut videos, rest);
        let mut notes = Vec::new();
        for video in &cancelled {
            let mut names = self.documents(video).await?;
            names.blobs.extend(video.plan);
            notes.push(Note::of(None, video.source.into_iter().collect(), names));
        }
        let is_planned = |video: &&Entry| video.may_go_on() || video.plan.is_some();
        let mut known: BTreeSet<BlobId> =
            videos.iter().filter(is_planned).filter_map(|video| video.source).collect();
        let noted = self.notes().await?;
        known.extend(
            notes.iter().chain(noted.iter().map(|(_, note)| note)).flat_map(|note| &note.sources),
        );
        for source in self.sources_of_results(known).await? {
            notes.push(Note { sources: vec![source], ..Note::default() });
        }
        Ok(Leftovers { cancelled, notes })
    }

    /// Notes what cancelled videos left. The note comes first: a plan that is forgotten cannot be read again.
    pub(super) async fn note_leftovers(&self, left: Leftovers) -> Result<(), LibraryError> {
        for note in left.notes {
            self.write_note(note).await?;
        }
        for video in &left.cancelled {
            self.forget_plan(video).await?;
        }
        Ok(())
    }

    /// The sources that have results, but for those that are known.
    async fn sources_of_results(
        &self,
        known: BTreeSet<BlobId>,
    ) -> Result<BTreeSet<BlobId>, LibraryError> {
        let found = Arc::new(Mutex::new(BTreeSet::new()));
        let into = Arc::clone(&found);
        let look = move |name: &divvy::objects::RecordName| {
            let source = name.as_str().split('/').nth(2).and_then(|source| source.parse().ok());
            if let Some(source) = source.filter(|source| !known.contains(source)) {
                into.lock().unwrap_or_else(PoisonError::into_inner).insert(source);
            }
            // The name says it all.
            false
        };
        self.objects.each_record(RESULTS, look, |_, _| ()).await?;
        let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(std::mem::take(&mut *found))
    }

    /// The names of the results of a source.
    pub(super) async fn results_of(&self, source: BlobId) -> Result<Vec<String>, LibraryError> {
        let names = self.objects.record_names(&results_of(source)).await?;
        Ok(names.into_iter().map(String::from).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_note_is_written_in_parts_that_fit_into_records() {
        let ids = (0..12_000_u32).map(|number| BlobId::of(&number.to_le_bytes()));
        let keys = (0..6_000_u32).map(|number| format!("{number:032x}"));
        let names = Names { blobs: ids.collect(), keys: keys.collect() };
        let note = Note::of(Some(VideoId("abc".into())), vec![BlobId::of(b"source")], names);
        let parts = note.clone().parts();
        assert_eq!(parts.len(), 3);
        for part in &parts {
            assert_eq!((&part.video, &part.sources), (&note.video, &note.sources));
            assert!(serde_json::to_vec(part).unwrap().len() < 1 << 20);
        }
        let blobs: Vec<BlobId> = parts.iter().flat_map(|part| part.blobs.clone()).collect();
        let keys: Vec<String> = parts.iter().flat_map(|part| part.keys.clone()).collect();
        assert_eq!((blobs, keys), (note.blobs, note.keys));
        assert_eq!(Note::default().parts(), [Note::default()]);
    }
}
