//! Looks after crawls in the background: notes how a round ended, puts back shards whose workers were lost, and begins
//! another round if links came after the last shard had ended.
//!
//! A task that loses several workers is given up by the engine, because it may take them down. A shard lives for weeks
//! and meets many workers that go away, so it is put back.

use std::time::Duration;

use divvy::types::view::TaskSummary;
use divvy::types::{ErrorClass, TaskState};
use divvy_workload::files::write_json;
use divvy_workload::now_ms;
use tokio_util::sync::CancellationToken;

use super::{Crawls, CrawlsError};
use crate::folder::control::{CrawlState, Ended};
use crate::folder::inbox;
use crate::folder::status::ShardStatus;
use crate::settings::Spec;
use crate::web::metrics::Figures;

/// Between two looks.
const EVERY: Duration = Duration::from_secs(2);

impl Crawls {
    /// Looks after all crawls until the server stops, and keeps the figures.
    pub(crate) async fn keep(self, figures: Figures, shutdown: CancellationToken) {
        while shutdown.run_until_cancelled(tokio::time::sleep(EVERY)).await.is_some() {
            let ids = match self.ids() {
                Ok(ids) => ids,
                Err(error) => {
                    tracing::warn!("crawls cannot be looked after: {error}");
                    continue;
                }
            };
            let mut shown = Vec::new();
            for id in ids {
                match self.look(&id).await {
                    Ok(statuses) => shown.push((id, statuses)),
                    Err(error) => tracing::debug!("crawl {id} cannot be looked after: {error}"),
                }
            }
            figures.set(&shown);
        }
    }

    /// One look at one crawl.
    pub(super) async fn look(&self, id: &str) -> Result<Vec<ShardStatus>, CrawlsError> {
        let spec = self.spec(id)?;
        let statuses = self.statuses(&spec);
        let control = self.control(id)?;
        if control.ended.is_some() {
            return Ok(statuses);
        }
        let tasks = self.tasks(&spec, control.round).await?;
        if tasks.is_empty() {
            // The server stopped between the folder and the tasks.
            let _writing = self.writing.lock().await;
            self.submit(&spec, &self.control(id)?).await?;
            return Ok(statuses);
        }
        let is_lost = |task: &&TaskSummary| {
            let error = task.error.as_ref();
            task.state == TaskState::Dead
                && error.is_some_and(|error| error.class == ErrorClass::WorkerLost)
        };
        let lost: Vec<&TaskSummary> = tasks.iter().filter(is_lost).collect();
        for task in &lost {
            self.client.retry(task.id).await?;
        }
        if !lost.is_empty() {
            return Ok(statuses);
        }
        // Read after the tasks, so that what the last shard showed is seen.
        let statuses = self.statuses(&spec);
        if let Some((state, reason)) = super::view::end_of(&control, &statuses, &tasks) {
            self.end(&spec, control.round, state, reason, &statuses).await?;
        }
        Ok(statuses)
    }

    async fn end(
        &self,
        spec: &Spec,
        round: u32,
        state: CrawlState,
        reason: Option<String>,
        statuses: &[ShardStatus],
    ) -> Result<(), CrawlsError> {
        let _writing = self.writing.lock().await;
        let (folder, mut control) = (self.folder(&spec.id), self.control(&spec.id)?);
        if control.round != round || control.ended.is_some() {
            return Ok(());
        }
        let is_full = statuses.iter().any(|status| status.is_full);
        let has_late_links = state == CrawlState::Done
            && !is_full
            && (0..spec.rules.shards).any(|shard| {
                inbox::look(&folder.inbox(shard)).is_ok_and(|found| !found.is_empty())
            });
        control.version += 1;
        if has_late_links {
            control.round += 1;
        } else {
            control.ended = Some(Ended { at_ms: now_ms(), state, reason });
        }
        write_json(&folder.control(), &control)?;
        if has_late_links {
            self.submit(spec, &control).await?;
        }
        Ok(())
    }
}
