//! Which videos there are, in the order in which they are listed: what a page needs to know before it reads a record.
//!
//! The records are what holds; this is made from them when it is first needed, and told of every change that this
//! process makes. Tasks change records from elsewhere, but only of videos that are here, and neither their names nor when
//! they were added. So the order is always right, and whether a video is still being made is right as of the last time
//! that somebody read its record, which whoever lists it does.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{MutexGuard, PoisonError};

use futures_util::{StreamExt as _, TryStreamExt as _, stream};

use super::{Library, LibraryError, Video, VideoId, VideoState};

/// Records that are read at the same time.
pub(super) const READS_AT_ONCE: usize = 16;

/// Where a part of the list begins: after the video that was added then and has this name, whether it is still there or
/// not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// When it was added, in microseconds since 1970.
    pub added_at: u64,
    /// Its name.
    pub id: VideoId,
}

/// Latest first; of videos that were added at the same time, the one with the largest name.
type Place = (Reverse<u64>, Reverse<VideoId>);

/// Which videos there are.
#[derive(Debug, Default)]
pub(super) struct Index {
    is_whole: bool,
    order: BTreeSet<Place>,
    added_at: HashMap<VideoId, u64>,
    /// Videos that are being made.
    open: HashSet<VideoId>,
}

impl Index {
    /// Takes in a video as it is recorded.
    pub(super) fn note(&mut self, video: &Video) {
        let id = &video.id;
        match self.added_at.insert(id.clone(), video.added_at) {
            Some(before) if before == video.added_at => (),
            before => {
                if let Some(before) = before {
                    self.order.remove(&(Reverse(before), Reverse(id.clone())));
                }
                self.order.insert((Reverse(video.added_at), Reverse(id.clone())));
            }
        }
        match video.state {
            VideoState::Processing => self.open.insert(id.clone()),
            _ => self.open.remove(id),
        };
    }

    pub(super) fn forget(&mut self, id: &VideoId) {
        if let Some(added_at) = self.added_at.remove(id) {
            self.order.remove(&(Reverse(added_at), Reverse(id.clone())));
        }
        self.open.remove(id);
    }

    /// So many videos after this one.
    fn after(&self, cursor: Option<&Cursor>, limit: usize) -> Vec<VideoId> {
        use std::ops::Bound;
        let from = match cursor {
            None => Bound::Unbounded,
            Some(Cursor { added_at, id }) => {
                Bound::Excluded((Reverse(*added_at), Reverse(id.clone())))
            }
        };
        let rest = self.order.range((from, Bound::Unbounded));
        rest.take(limit).map(|(_, Reverse(id))| id.clone()).collect()
    }
}

impl Library {
    /// The next videos of the list, as they are recorded, and whether there are more.
    pub(super) async fn listed(
        &self,
        cursor: Option<&Cursor>,
        limit: usize,
    ) -> Result<(Vec<Video>, bool), LibraryError> {
        self.ensure_index().await?;
        let mut ids = self.index().after(cursor, limit.saturating_add(1));
        let more = ids.len() > limit;
        ids.truncate(limit);
        Ok((self.read_all(ids).await?, more))
    }

    /// The videos that are being made, as they are recorded.
    pub(super) async fn open_videos(&self) -> Result<Vec<Video>, LibraryError> {
        self.ensure_index().await?;
        let ids = self.index().open.iter().cloned().collect();
        let mut videos = self.read_all(ids).await?;
        videos.retain(|video| video.state == VideoState::Processing);
        Ok(videos)
    }

    /// All videos as they are recorded.
    pub(super) async fn videos(&self) -> Result<Vec<Video>, LibraryError> {
        let names = self.objects.record_names("video/library").await?;
        let reads = names
            .into_iter()
            .map(|name| async move { self.objects.record::<Video>(name.as_str()).await });
        let found = stream::iter(reads).buffered(READS_AT_ONCE);
        let videos: Vec<Video> = found
            .try_filter_map(|record| std::future::ready(Ok(record.map(|record| record.value))))
            .try_collect()
            .await?;
        let mut index = self.index();
        if !index.is_whole {
            videos.iter().for_each(|video| index.note(video));
            index.is_whole = true;
        }
        drop(index);
        Ok(videos)
    }

    pub(super) fn index(&self) -> MutexGuard<'_, Index> {
        // A panic while it was held left sets that are whole.
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn ensure_index(&self) -> Result<(), LibraryError> {
        if !self.index().is_whole {
            self.videos().await?;
        }
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

    fn names(ids: Vec<VideoId>) -> String {
        ids.into_iter().map(|id| id.0).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn pages_go_on_after_a_video_that_is_gone() {
        let mut index = Index::default();
        for (id, added_at) in [("a", 3), ("b", 1), ("c", 2), ("d", 2)] {
            index.note(&video(id, added_at, VideoState::Processing));
        }
        assert_eq!(names(index.after(None, 9)), "a d c b");
        let cursor = Cursor { added_at: 2, id: VideoId("d".into()) };
        index.forget(&cursor.id);
        assert_eq!(names(index.after(Some(&cursor), 1)), "c");
        assert_eq!(names(index.after(Some(&cursor), 9)), "c b");
        // One that is added again moves to the front, and is there once.
        index.note(&video("b", 4, VideoState::Ready));
        assert_eq!(names(index.after(None, 9)), "b a c");
        assert!(!index.open.contains(&VideoId("b".into())) && index.open.len() == 2);
    }
}
