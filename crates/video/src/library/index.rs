//! Which videos there are, in the order in which they are listed: what a page needs to know before it reads a record.
//!
//! The records are what holds; this is made from them when it is first needed, and told of every change that this
//! process makes. Tasks change records from elsewhere, but only of videos that are here, and neither their names nor when
//! they were added. So the order is always right, and the state of a video is right as of the last time that somebody
//! read its record, which whoever lists it does; those that are being made are read before states are asked for.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, RangeBounds as _};
use std::sync::{MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use divvy::objects::BlobId;
use divvy::types::TaskId;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};

use super::{Library, LibraryError, Video, VideoId, VideoState};

/// Records that are read at the same time.
pub(super) const READS_AT_ONCE: usize = 16;
/// A video in one of these states may be changed by its tasks.
const MAY_GO_ON: [VideoState; 2] = [VideoState::Processing, VideoState::Failed];
/// How long what was read of the videos that are being made is believed when states are asked for.
const BELIEVED_FOR: Duration = Duration::from_secs(1);

/// Where a part of the list begins: after the video that was added then and has this name, whether it is still there or
/// not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// When it was added, in microseconds since 1970.
    pub added_at: u64,
    /// Its name.
    pub id: VideoId,
}

/// Which videos are listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Only those in one of these states; all if there are none.
    pub states: Vec<VideoState>,
    /// Only those whose name begins with this.
    pub start: String,
}

impl Filter {
    fn wants(&self, state: VideoState) -> bool {
        self.states.is_empty() || self.states.contains(&state)
    }
}

/// How many videos are in each state.
pub(crate) type Counts = [(VideoState, usize); VideoState::ALL.len()];

/// What has to be known of every video without reading its record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) id: VideoId,
    pub(super) added_at: u64,
    pub(super) ended_at: Option<u64>,
    pub(super) state: VideoState,
    pub(super) workflow: String,
    pub(super) source: Option<BlobId>,
    pub(super) plan: Option<BlobId>,
    pub(super) manifest: Option<BlobId>,
    /// Files of subtitles that came with it.
    pub(super) files: Vec<BlobId>,
}

impl Entry {
    pub(super) fn of(video: &Video) -> Self {
        Self {
            id: video.id.clone(),
            added_at: video.added_at,
            ended_at: video.ended_at,
            state: video.state,
            workflow: video.workflow.clone(),
            source: video.source.map(|source| source.id),
            plan: video.plan,
            manifest: video.manifest,
            files: video.recipe.subtitle_files.iter().map(|file| file.file).collect(),
        }
    }

    pub(super) fn is_made(&self) -> bool {
        self.state == VideoState::Processing
    }

    /// Whether its tasks may change it, or rely on results: it is being made, or failed and may be resumed.
    pub(super) fn may_go_on(&self) -> bool {
        MAY_GO_ON.contains(&self.state)
    }

    /// The blobs that its record names.
    pub(super) fn blobs(&self) -> impl Iterator<Item = BlobId> {
        let named = [self.source, self.plan, self.manifest].into_iter().flatten();
        named.chain(self.files.iter().copied())
    }

    /// Its first tasks, of which one probes its source, and the one that writes its manifest.
    pub(super) fn tasks_with_names(&self) -> [TaskId; 3] {
        let first = |place: u32| format!("video/{}/{}/{place}", self.id.0, self.added_at);
        [first(0), first(1), format!("{}/package/0", self.workflow)]
            .map(|key| TaskId::from_key(&key))
    }

    fn place(&self) -> Place {
        (Reverse(self.added_at), Reverse(self.id.clone()))
    }
}

/// Latest first; of videos that were added at the same time, the one with the largest name.
type Place = (Reverse<u64>, Reverse<VideoId>);

/// Which videos there are.
#[derive(Debug, Default)]
pub(super) struct Index {
    is_whole: bool,
    entries: BTreeMap<VideoId, Entry>,
    /// The order of those in each state.
    order: [BTreeSet<Place>; VideoState::ALL.len()],
    /// When the videos that are being made were last read.
    read_at: Option<Instant>,
}

impl Index {
    /// Takes in a video as it is recorded.
    pub(super) fn note(&mut self, video: &Video) {
        let entry = Entry::of(video);
        if self.entries.get(&entry.id) == Some(&entry) {
            return;
        }
        self.forget(&entry.id);
        self.order[entry.state as usize].insert(entry.place());
        self.entries.insert(entry.id.clone(), entry);
    }

    pub(super) fn forget(&mut self, id: &VideoId) {
        if let Some(entry) = self.entries.remove(id) {
            self.order[entry.state as usize].remove(&entry.place());
        }
    }

    /// So many videos after this one.
    fn after(&self, cursor: Option<&Cursor>, filter: &Filter, limit: usize) -> Vec<Cursor> {
        let from = match cursor {
            None => Bound::Unbounded,
            Some(Cursor { added_at, id }) => {
                Bound::Excluded((Reverse(*added_at), Reverse(id.clone())))
            }
        };
        let range = (from, Bound::Unbounded);
        let mut found: Vec<Place> = match filter.start.as_str() {
            "" => {
                let wanted = VideoState::ALL.into_iter().filter(|state| filter.wants(*state));
                let places = wanted.map(|state| &self.order[state as usize]);
                places.flat_map(|order| order.range(range.clone()).take(limit).cloned()).collect()
            }
            start => {
                let named = self.entries.range(VideoId(start.to_owned())..);
                let named = named.take_while(|(id, _)| id.0.starts_with(start));
                let wanted = named.filter(|(_, entry)| filter.wants(entry.state));
                wanted.map(|(_, entry)| entry.place()).filter(|at| range.contains(at)).collect()
            }
        };
        found.sort_unstable();
        let found = found.into_iter().take(limit);
        found.map(|(Reverse(added_at), Reverse(id))| Cursor { added_at, id }).collect()
    }

    /// The videos of these sources, by their names.
    pub(super) fn of_sources(&self, sources: &[BlobId]) -> Vec<Entry> {
        let is_of = |entry: &&Entry| entry.source.is_some_and(|source| sources.contains(&source));
        self.entries.values().filter(is_of).cloned().collect()
    }

    /// Those in one of these states.
    fn names(&self, states: &[VideoState]) -> Vec<VideoId> {
        let places = states.iter().flat_map(|state| &self.order[*state as usize]);
        places.map(|(_, Reverse(id))| id.clone()).collect()
    }
}

impl Library {
    /// The next videos of the list, as they are recorded, and whether there may be more.
    pub(super) async fn listed(
        &self,
        cursor: Option<&Cursor>,
        filter: &Filter,
        limit: usize,
    ) -> Result<(Vec<Video>, bool), LibraryError> {
        self.ensure_index().await?;
        if !filter.states.is_empty() {
            self.read_open().await?;
        }
        let (mut found, mut from) = (Vec::new(), cursor.cloned());
        loop {
            let wanted = limit - found.len();
            let mut places = self.index().after(from.as_ref(), filter, wanted.saturating_add(1));
            let more = places.len() > wanted;
            places.truncate(wanted);
            from = places.last().cloned().or(from);
            let read = self.read_all(places.into_iter().map(|place| place.id).collect()).await?;
            // What was read may be in another state by now, and is none of these then.
            found.extend(read.into_iter().filter(|video| filter.wants(video.state)));
            if !more || found.len() == limit {
                return Ok((found, more));
            }
        }
    }

    /// The videos that are being made, as they are recorded.
    pub(super) async fn open_videos(&self) -> Result<Vec<Video>, LibraryError> {
        self.ensure_index().await?;
        let ids = self.index().names(&[VideoState::Processing]);
        let mut videos = self.read_all(ids).await?;
        self.index().read_at = Some(Instant::now());
        videos.retain(|video| video.state == VideoState::Processing);
        Ok(videos)
    }

    /// How many videos are in each state.
    pub(crate) async fn count(&self) -> Result<Counts, LibraryError> {
        self.ensure_index().await?;
        self.read_open().await?;
        let index = self.index();
        Ok(VideoState::ALL.map(|state| (state, index.order[state as usize].len())))
    }

    /// What is known of all videos. Only what a task may have changed is read: a video that is being made, and one that
    /// failed, whose workflow people may have resumed.
    pub(super) async fn entries(&self) -> Result<Vec<Entry>, LibraryError> {
        self.ensure_index().await?;
        let ids = self.index().names(&MAY_GO_ON);
        self.read_all(ids).await?;
        Ok(self.index().entries.values().cloned().collect())
    }

    pub(super) fn index(&self) -> MutexGuard<'_, Index> {
        // A panic while it was held left sets that are whole.
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets the index know the states of what is being made.
    async fn read_open(&self) -> Result<(), LibraryError> {
        let read_at = self.index().read_at;
        if read_at.is_none_or(|at| at.elapsed() > BELIEVED_FOR) {
            self.open_videos().await?;
        }
        Ok(())
    }

    /// Reads every record, once in the life of a process.
    async fn ensure_index(&self) -> Result<(), LibraryError> {
        if self.index().is_whole {
            return Ok(());
        }
        let names = self.objects.record_names("video/library").await?;
        let reads = names
            .into_iter()
            .map(|name| async move { self.objects.record::<Video>(name.as_str()).await });
        let mut found = stream::iter(reads).buffer_unordered(READS_AT_ONCE);
        while let Some(record) = found.try_next().await? {
            // What was noted meanwhile is newer.
            let video = record.map(|record| record.value);
            let mut index = self.index();
            if let Some(video) = video.filter(|video| !index.entries.contains_key(&video.id)) {
                index.note(&video);
            }
        }
        self.index().is_whole = true;
        Ok(())
    }

    /// The records of these videos, in their order, as far as they are there.
    async fn read_all(&self, ids: Vec<VideoId>) -> Result<Vec<Video>, LibraryError> {
        let reads = ids.into_iter().map(|id| async move {
            match self.video(&id).await {
                Ok(video) => Ok(Some(video)),
                Err(LibraryError::NoVideo(_)) => Ok(None),
                Err(error) => Err(error),
            }
        });
        let found = stream::iter(reads).buffered(READS_AT_ONCE);
        found.try_filter_map(|video| std::future::ready(Ok(video))).try_collect().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::words::tests::view;

    fn video(id: &str, added_at: u64, state: VideoState) -> Video {
        Video { id: VideoId(id.to_owned()), added_at, state, ..view(state).video }
    }

    fn names(found: Vec<Cursor>) -> String {
        found.into_iter().map(|place| place.id.0).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn pages_go_on_after_a_video_that_is_gone() {
        let (mut index, all) = (Index::default(), Filter::default());
        for (id, added_at) in [("a", 3), ("b", 1), ("c", 2), ("d", 2)] {
            index.note(&video(id, added_at, VideoState::Processing));
        }
        assert_eq!(names(index.after(None, &all, 9)), "a d c b");
        let cursor = Cursor { added_at: 2, id: VideoId("d".into()) };
        index.forget(&cursor.id);
        assert_eq!(names(index.after(Some(&cursor), &all, 1)), "c");
        assert_eq!(names(index.after(Some(&cursor), &all, 9)), "c b");
        // One that is added again moves to the front, and is there once.
        index.note(&video("b", 4, VideoState::Ready));
        assert_eq!(names(index.after(None, &all, 9)), "b a c");
        let open = Filter { states: vec![VideoState::Processing], ..Filter::default() };
        assert_eq!(names(index.after(None, &open, 9)), "a c");
        let two = Filter { states: VideoState::ALL.to_vec(), start: "b".to_owned() };
        assert_eq!(names(index.after(None, &two, 9)), "b");
    }
}
