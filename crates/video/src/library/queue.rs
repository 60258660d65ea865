//! When a video will be done among the others: its own open work and what is ahead of it, over the slots that are there.
//!
//! Ahead is the open work of every other video of the same or a higher priority, except one whose deadline is later
//! than the deadline of this one. An equal one that was added later counts too: tasks of one priority run in the order
//! in which they become ready, so the last tasks of a video come after the chunks that others had in the queue by then.
//! Lower priorities and what is not a video are left out, as are retries and workers that come and go.

use std::sync::Arc;
use std::time::{Duration, Instant};

use divvy::types::WorkflowId;

use super::view::Rest;
use super::{Library, LibraryError, Video};
use crate::fleet::Fleet;

/// How long what is open is remembered: all videos of a page ask for it, and all pages every second.
const REMEMBERED_FOR: Duration = Duration::from_secs(5);
/// Videos whose tasks are asked for. What stands behind so many is far away, whatever its time.
const VIDEOS_MAX: usize = 200;

/// What is left to do for one video.
#[derive(Debug)]
pub(super) struct Open {
    workflow: Option<WorkflowId>,
    priority: u8,
    deadline: Option<u64>,
    /// Time on processors.
    seconds: f64,
}

/// What is left to do for all videos and how many tasks run at once, as it was then.
#[derive(Debug)]
pub(super) struct Snapshot {
    at: Instant,
    open: Arc<Vec<Open>>,
    /// Tasks that run at once.
    slots: u32,
}

impl Open {
    /// Whether its tasks are before those of a video.
    fn is_ahead_of(&self, video: &Video) -> bool {
        let later = matches!((self.deadline, video.deadline), (Some(own), Some(its)) if own > its);
        match self.priority.cmp(&video.priority) {
            std::cmp::Ordering::Greater => true,
            std::cmp::Ordering::Equal => !later,
            std::cmp::Ordering::Less => false,
        }
    }
}

impl Library {
    /// How long it takes until a video of which this is left is done, in milliseconds; not less than its longest task
    /// takes, which no number of workers makes shorter.
    pub(super) async fn on_the_clock(&self, video: &Video, rest: Rest) -> u64 {
        let (open, slots) = self.open().await;
        let slots = f64::from(slots.max(1));
        let own = video.workflow_id();
        let others = open.iter().filter(|open| open.workflow != own && open.is_ahead_of(video));
        let ahead: f64 = others.map(|open| open.seconds).sum();
        let seconds = ((rest.sum + ahead) / slots).max(rest.longest).clamp(0.0, 1e9);
        u64::try_from(Duration::from_secs_f64(seconds).as_millis()).unwrap_or(u64::MAX)
    }

    /// Forgets what is open, because this process has just changed it.
    pub(super) fn forget_open(&self) {
        self.memory().open = None;
    }

    /// What is left to do for all videos, and how many tasks run at once. A problem with it costs precision only.
    pub(super) async fn open(&self) -> (Arc<Vec<Open>>, u32) {
        if let Some(known) = &self.memory().open
            && known.at.elapsed() < REMEMBERED_FOR
        {
            return (Arc::clone(&known.open), known.slots);
        }
        let workers = self.client.workers().await.unwrap_or_default();
        let slots = Fleet::of(&workers).slots;
        let at = Instant::now();
        let open = match self.look_at_open().await {
            Ok(open) => Arc::new(open),
            Err(problem) => {
                tracing::debug!(%problem, "what other videos need is not known");
                Arc::default()
            }
        };
        self.memory().open = Some(Snapshot { at, open: Arc::clone(&open), slots });
        (open, slots)
    }

    async fn look_at_open(&self) -> Result<Vec<Open>, LibraryError> {
        let mut videos = self.open_videos().await?;
        videos.sort_by_key(|video| (std::cmp::Reverse(video.priority), video.added_at));
        videos.truncate(VIDEOS_MAX);
        let estimates = self.estimates().await;
        let workflows: Vec<WorkflowId> = videos.iter().filter_map(Video::workflow_id).collect();
        let tasks = self.client.tasks_of_workflows(&workflows).await?;
        let mut all = Vec::new();
        for video in videos {
            let Some(workflow) = video.workflow_id() else { continue };
            // One that ended or was removed meanwhile is in nobody's way.
            let Some(tasks) = tasks.get(&workflow) else { continue };
            let known = self.known(&video, tasks, &estimates).await;
            let rest = self.rest(&video, &known, tasks, &estimates).await;
            all.push(Open {
                workflow: Some(workflow),
                priority: video.priority,
                deadline: video.deadline,
                seconds: rest.map_or(0.0, |rest| rest.sum),
            });
        }
        Ok(all)
    }
}
