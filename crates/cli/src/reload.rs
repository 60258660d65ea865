//! Follows the settings file of a running server: on SIGHUP, and when the file changes.
//!
//! A file that cannot be read or makes no sense changes nothing: it is logged, shown by `divvy status` and the API, and
//! read again when it changes. Only the sections about scheduling are taken over; the others need a new start.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use divvy_engine::Handle;
use divvy_server::{FileSections, SettingsFile};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Interval, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use crate::config::file;
use crate::output::words;
use crate::workloads::Workloads;

/// How often the file is looked at for a change.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// A file, the server that follows it, and what it said last.
pub(crate) struct Follower {
    /// The file.
    pub(crate) path: PathBuf,
    /// What the server knows of it.
    pub(crate) shown: SettingsFile,
    /// The engine whose settings it sets.
    pub(crate) handle: Handle,
    /// What it said when the server started.
    pub(crate) said: FileSections,
    /// Whose sections are checked too.
    pub(crate) workloads: Workloads,
}

/// What changes when a file is written.
type Stamp = Option<(SystemTime, u64)>;

impl Follower {
    /// Follows the file until `stop`.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        let mut hangup = match signal(SignalKind::hangup()) {
            Ok(hangup) => hangup,
            Err(error) => {
                tracing::warn!(%error, "cannot listen for SIGHUP; changes of the file are followed");
                return self.look_only(stop).await;
            }
        };
        let mut seen: Stamp = None;
        let mut looks = looks();
        loop {
            let asked = tokio::select! {
                () = stop.cancelled() => return,
                _ = hangup.recv() => true,
                _ = looks.tick() => false,
            };
            self.look(&mut seen, asked).await;
        }
    }

    async fn look_only(mut self, stop: CancellationToken) {
        let mut seen: Stamp = None;
        let mut looks = looks();
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = looks.tick() => self.look(&mut seen, false).await,
            }
        }
    }

    /// Reads the file if it changed since it was `seen`, or if someone asks.
    async fn look(&mut self, seen: &mut Stamp, asked: bool) {
        let stamp = stamp(&self.path).await;
        if stamp == *seen && !asked {
            return;
        }
        *seen = stamp;
        let (path, workloads) = (self.path.clone(), self.workloads.clone());
        let read = tokio::task::spawn_blocking(move || file::scheduling(&path, &workloads)).await;
        let sections = match read {
            Ok(Ok(sections)) => sections,
            Ok(Err(error)) => return self.refuse(&error.to_string()),
            Err(_) => return self.refuse("reading it failed"),
        };
        let as_before = sections == self.said && self.shown.reload_error().is_none();
        if as_before && !asked {
            return;
        }
        match self.shown.apply(&self.handle, sections.clone(), words::now()).await {
            Ok(_) => {
                self.said = sections;
                tracing::info!(file = %self.path.display(), "settings reloaded");
            }
            Err(error) => self.refuse(&error.to_string()),
        }
    }

    fn refuse(&self, error: &str) {
        self.shown.failed(error.to_owned());
        tracing::error!("settings not reloaded, the old ones hold: {error}");
    }
}

fn looks() -> Interval {
    let mut looks = tokio::time::interval(LOOK_EVERY);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    looks
}

async fn stamp(path: &Path) -> Stamp {
    let metadata = tokio::fs::metadata(path).await.ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}
