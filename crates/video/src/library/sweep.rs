//! What nobody uses goes: by itself what a cancelled video left (the server sees to uploads that nobody went on with); if
//! someone asks for it, also blobs that nothing names, such as an upload that was never added, or what a task stored and
//! did not record. These do not go by themselves, because a blob may be of a program that keeps its name elsewhere.
//!
//! A blob stays if a record, a plan, a manifest or a task that may still run names it, or if it was stored or asked for
//! within the rest. The rest covers what is not written down yet: an upload that is about to be added, a result between
//! its blob and its record. Additions and removals wait while a sweep is at work, so that no video is added on a source
//! that goes.

use std::collections::HashSet;
use std::time::Duration;

use divvy::objects::{Blob, BlobId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::index::Entry;
use super::references::{Names, RESULTS};
use super::{Library, LibraryError, Video, VideoState, bad, now};

/// How long things rest before they go, unless someone says otherwise.
pub const REST: Duration = Duration::from_secs(86_400);
/// Between a blob and its record there may be this much.
const REST_MIN: Duration = Duration::from_secs(600);
/// How often a server sweeps by itself.
const EVERY: Duration = Duration::from_secs(86_400);
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
    /// The largest blobs, at most 100.
    pub items: Vec<Blob>,
}

/// Which blobs may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    /// All that nothing names.
    All,
    /// Those that were made for videos which were cancelled.
    Made,
}

impl Library {
    /// Removes what nobody uses and has rested long enough.
    pub async fn sweep(&self, sweep: Sweep) -> Result<Swept, LibraryError> {
        self.sweep_some(sweep, Reach::All).await
    }

    async fn sweep_some(&self, sweep: Sweep, reach: Reach) -> Result<Swept, LibraryError> {
        let rest = Duration::from_millis(sweep.older_than_ms);
        if rest < REST_MIN {
            let (given, least) = (sweep.older_than_ms, millis(REST_MIN));
            let problem = format!(
                "is {given}, at least {least}: a task may not have recorded yet what it stored"
            );
            return Err(bad("older_than_ms", problem));
        }
        let rested = self.objects.rested_blobs(rest).await?;
        if rested.is_empty() {
            // Nothing can go, so nothing needs to be read.
            let uploads = self.objects.expire_uploads(rest, sweep.dry_run).await?;
            return Ok(swept(sweep.dry_run, Vec::new(), &uploads, 0));
        }
        // What a task begins to name after this was named elsewhere, or stored, a moment ago.
        let mut used = self.named_by_tasks().await?;
        let _alone = self.order.write().await;
        let mut videos = self.entries().await?;
        let forgotten = forget_cancelled(&mut videos, rest);
        let results = self.results_of_nobody(&videos).await?;
        used.extend(self.named_by_records(&videos, &results).await?);
        let made = match reach {
            Reach::All => None,
            Reach::Made => Some(self.made_for(&forgotten, &results).await?),
        };
        if !sweep.dry_run {
            for video in &forgotten {
                self.forget_plan(video).await?;
            }
            for name in &results {
                self.objects.remove_record(name).await?;
            }
        }
        let mut gone = Vec::new();
        for blob in rested {
            let is_reached = made.as_ref().is_none_or(|made| made.blobs.contains(&blob.id));
            if !is_reached || used.blobs.contains(&blob.id) {
                continue;
            }
            if sweep.dry_run {
                gone.push(blob);
            } else {
                gone.extend(self.objects.remove_rested_blob(blob.id, rest).await?);
            }
        }
        let uploads = self.objects.expire_uploads(rest, sweep.dry_run).await?;
        Ok(swept(sweep.dry_run, gone, &uploads, results.len()))
    }

    /// Removes what cancelled videos left, now and each day, until the server stops.
    pub async fn sweep_daily(self, shutdown: CancellationToken) {
        loop {
            let round = async {
                match self.sweep_made().await {
                    Ok(swept) if swept == Swept::default() => (),
                    Ok(Swept { bytes, blobs, uploads, results, .. }) => {
                        tracing::info!(bytes, blobs, uploads, results, "removed what nobody uses");
                    }
                    Err(error) => tracing::warn!(%error, "cannot look for what nobody uses"),
                }
                tokio::time::sleep(EVERY).await;
            };
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = round => (),
            }
        }
    }

    /// Removes what cancelled videos left. Mostly there is nothing, and then no task is read.
    async fn sweep_made(&self) -> Result<Swept, LibraryError> {
        let mut videos = self.entries().await?;
        let forgotten = forget_cancelled(&mut videos, REST);
        if forgotten.is_empty() && self.results_of_nobody(&videos).await?.is_empty() {
            return Ok(Swept::default());
        }
        self.sweep_some(Sweep::default(), Reach::Made).await
    }

    /// The records of results of sources that no video has a plan for.
    async fn results_of_nobody(&self, videos: &[Entry]) -> Result<HashSet<String>, LibraryError> {
        // An address that is fetched again may turn out to be any source.
        if videos.iter().any(|one| one.is_made() && one.source.is_none()) {
            return Ok(HashSet::new());
        }
        let planned = |video: &&Entry| video.is_made() || video.plan.is_some();
        let sources: HashSet<BlobId> =
            videos.iter().filter(planned).filter_map(|one| one.source).collect();
        let names = self.objects.record_names(RESULTS).await?;
        let of_nobody = |name: &String| {
            let source = name.split('/').nth(2).and_then(|source| source.parse().ok());
            source.is_some_and(|source| !sources.contains(&source))
        };
        Ok(names.into_iter().map(String::from).filter(of_nobody).collect())
    }

    /// What was made for these videos, and is named by these results.
    async fn made_for(
        &self,
        videos: &[Entry],
        results: &HashSet<String>,
    ) -> Result<Names, LibraryError> {
        let mut made = Names::default();
        for video in videos {
            made.extend(self.documents(video).await?);
            made.blobs.extend(video.plan);
        }
        for name in results {
            if let Some(record) = self.objects.record::<Value>(name).await? {
                made.read(&record.value);
            }
        }
        Ok(made)
    }

    async fn forget_plan(&self, cancelled: &Entry) -> Result<(), LibraryError> {
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
fn forget_cancelled(videos: &mut [Entry], rest: Duration) -> Vec<Entry> {
    let busy: HashSet<Option<BlobId>> =
        videos.iter().filter(|one| one.is_made()).map(|one| one.source).collect();
    let since = now().saturating_sub(millis(rest).saturating_mul(1_000));
    let mut forgotten = Vec::new();
    for video in videos {
        let is_old = video.ended_at.is_some_and(|at| at <= since);
        let is_free = !busy.contains(&None) && !busy.contains(&video.source);
        if video.state == VideoState::Cancelled && video.plan.is_some() && is_old && is_free {
            forgotten.push(video.clone());
            video.plan = None;
        }
    }
    forgotten
}

fn swept(dry_run: bool, mut gone: Vec<Blob>, uploads: &[u64], results: usize) -> Swept {
    gone.sort_by_key(|blob| (std::cmp::Reverse(blob.size), blob.id));
    let bytes = gone.iter().map(|blob| blob.size).chain(uploads.iter().copied());
    Swept {
        dry_run,
        bytes: bytes.sum(),
        blobs: gone.len() as u64,
        uploads: uploads.len() as u64,
        results: results as u64,
        items: gone.into_iter().take(LISTED_MAX).collect(),
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
