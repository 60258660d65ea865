//! What nobody uses goes when someone asks for it: at once what removed and cancelled videos left, which goes by itself
//! [later](super::collect), and, besides, blobs that nothing names, such as an upload that was never added, or what a task
//! stored and did not record. These do not go by themselves, because a blob may be of a program that keeps its name
//! elsewhere. The server sees to uploads that nobody went on with.
//!
//! A blob stays if a record, a plan, a manifest or a task that may still run names it, or if it was stored or asked for
//! within the rest. The rest covers what is not written down yet: an upload that is about to be added, a result between
//! its blob and its record. Whoever adds a video asks for its source first, so additions need not wait.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use divvy::objects::{Blob, BlobId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::collect::Collected;
use super::index::Entry;
use super::references::Candidates;
use super::{Library, LibraryError, Video, VideoState, bad, now};

/// How long things rest before they go, unless someone says otherwise.
pub const REST: Duration = Duration::from_secs(86_400);
/// Between a blob and its record there may be this much.
pub(super) const REST_MIN: Duration = Duration::from_secs(600);
/// Blobs that an answer lists.
const LISTED_MAX: usize = 100;

/// What to sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Sweep {
    /// Only tell what would go.
    pub dry_run: bool,
    /// How long things must have rested, in milliseconds.
    #[schemars(range(min = 600_000))]
    pub older_than_ms: u64,
}

impl Default for Sweep {
    fn default() -> Self {
        Self { dry_run: false, older_than_ms: millis(REST) }
    }
}

/// What went, or would go.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Swept {
    /// Whether all of it is still there.
    pub dry_run: bool,
    /// Bytes in all.
    pub bytes: u64,
    /// Blobs that nothing uses.
    pub blobs: u64,
    /// Uploads that nobody went on with.
    pub uploads: u64,
    /// Results of videos that were cancelled or removed.
    pub results: u64,
    /// Videos that were removed and of which nothing is left now.
    #[serde(default)]
    pub removed: u64,
    /// Videos that were removed and of which something stays for now: it was stored or asked for within the last ten
    /// minutes, or a video of the same source is being made or has failed.
    #[serde(default)]
    pub waiting: u64,
    /// The largest blobs, at most 100.
    pub items: Vec<Blob>,
}

impl Library {
    /// Removes what nobody uses and has rested long enough.
    pub async fn sweep(&self, sweep: Sweep) -> Result<Swept, LibraryError> {
        let rest = Duration::from_millis(sweep.older_than_ms);
        if rest < REST_MIN {
            let (given, least) = (sweep.older_than_ms, millis(REST_MIN));
            let problem = format!(
                "is {given}, at least {least}: a task may not have recorded yet what it stored"
            );
            return Err(bad("older_than_ms", problem));
        }
        let mut left = self.leftovers(rest).await?;
        if !sweep.dry_run {
            self.note_leftovers(std::mem::take(&mut left)).await?;
        }
        let mut collected = self.collect(left, sweep.dry_run).await?;
        collected.gone.extend(self.sweep_unnamed(rest, sweep.dry_run).await?);
        let uploads = self.objects.expire_uploads(rest, sweep.dry_run).await?;
        Ok(swept(sweep.dry_run, collected, &uploads))
    }

    /// Removes the blobs that nothing names, or tells which they are. What is noted is named by its note.
    async fn sweep_unnamed(
        &self,
        rest: Duration,
        dry_run: bool,
    ) -> Result<Vec<Blob>, LibraryError> {
        let began = Instant::now();
        let mut rested = self.objects.rested_blobs(rest).await?;
        if rested.is_empty() {
            // Nothing can go, so nothing needs to be read.
            return Ok(rested);
        }
        let candidates = Arc::new(Candidates::new(rested.iter().map(|blob| blob.id).collect()));
        for id in self.named_by_tasks().await?.blobs {
            candidates.strike(id);
        }
        self.strike_named(&candidates, &self.entries().await?, HashSet::new()).await?;
        rested.retain(|blob| !candidates.is_struck(blob.id));
        if dry_run {
            return Ok(rested);
        }
        let mut gone = Vec::new();
        for blob in rested {
            // What was asked for since this began may have been named since as well.
            let rest = rest + began.elapsed();
            gone.extend(self.objects.remove_rested_blob(blob.id, rest).await?);
        }
        Ok(gone)
    }

    pub(super) async fn forget_plan(&self, cancelled: &Entry) -> Result<(), LibraryError> {
        let forget = |video: &mut Video| {
            if video.state == VideoState::Cancelled && video.workflow == cancelled.workflow {
                video.plan = None;
            }
            Ok(())
        };
        match self.transit(&cancelled.id, forget).await {
            Ok(_) | Err(LibraryError::NoVideo(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// Takes the plans from videos that were cancelled longer ago than that, unless their source is in use; returns which.
/// A video without a plan is made anew when it is added again.
pub(super) fn forget_cancelled(videos: &mut [Entry], rest: Duration) -> Vec<Entry> {
    let busy: HashSet<Option<BlobId>> =
        videos.iter().filter(|one| one.is_made()).map(|one| one.source).collect();
    let since = now().saturating_sub(millis(rest).saturating_mul(1_000));
    let mut forgotten = Vec::new();
    for video in videos {
        let is_old = video.ended_at.is_some_and(|at| at <= since);
        let is_free = !busy.contains(&video.source);
        if video.state == VideoState::Cancelled && video.plan.is_some() && is_old && is_free {
            forgotten.push(video.clone());
            video.plan = None;
        }
    }
    forgotten
}

fn swept(dry_run: bool, collected: Collected, uploads: &[u64]) -> Swept {
    let Collected { mut gone, results, removed, waiting, .. } = collected;
    gone.sort_by_key(|blob| (std::cmp::Reverse(blob.size), blob.id));
    let bytes = gone.iter().map(|blob| blob.size).chain(uploads.iter().copied());
    Swept {
        dry_run,
        bytes: bytes.sum(),
        blobs: gone.len() as u64,
        uploads: uploads.len() as u64,
        results: results as u64,
        removed,
        waiting,
        items: gone.into_iter().take(LISTED_MAX).collect(),
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
