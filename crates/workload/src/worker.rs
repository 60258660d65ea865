//! What a worker gives to a workload, and what it gets: the kinds that it can serve on this machine.

use std::path::PathBuf;

use anyhow::Result;
use clap::ArgMatches;
use divvy::api::Patience;
use divvy::{Client, Registry, Shutdown, Target};

use crate::settings::Sources;

/// What a worker that starts knows.
#[derive(Debug)]
pub struct WorkerContext<'a> {
    /// What was typed, with the flags of [`Workload::worker_flags`](crate::Workload::worker_flags).
    pub matches: &'a ArgMatches,
    /// Where settings come from.
    pub sources: &'a Sources,
    /// The server that it works for.
    pub target: Target,
    /// The server's own folder of objects, if it is on this machine.
    pub objects: Option<PathBuf>,
    /// Whether tasks may call private addresses.
    pub allow_private: bool,
    /// Asked when the worker shall stop.
    pub shutdown: &'a Shutdown,
}

impl WorkerContext<'_> {
    /// A client of the server, which may come later than its workers. Nothing if the worker is asked to stop before.
    ///
    /// # Errors
    /// If trying again would not help, such as for a wrong address.
    pub async fn connect(&self) -> Result<Option<Client>> {
        let connecting = async {
            let mut patience = Patience::endless();
            loop {
                match Client::connect(self.target.clone()).await {
                    Ok(client) => return Ok(Some(client)),
                    Err(error) => {
                        if error.is_temporary() && !patience.is_used() {
                            tracing::warn!("waits for the server: {error}");
                        }
                        patience.bear(error).await?;
                    }
                }
            }
        };
        tokio::select! {
            client = connecting => client,
            () = self.shutdown.asked() => Ok(None),
        }
    }

    /// A folder of the server's data that this worker can reach: the one that it was told, or else the one of this name
    /// beside the server's objects. Nothing if it knows of none, or the folder cannot be there.
    pub fn shared_folder(&self, told: Option<PathBuf>, name: &str) -> Option<PathBuf> {
        let beside = || Some(self.objects.as_deref()?.parent()?.join(name));
        // A server that comes later makes it.
        let is_usable = |folder: &PathBuf| {
            folder.is_dir() || folder.parent().is_some_and(|parent| parent.is_dir())
        };
        told.or_else(beside).filter(is_usable)
    }
}

/// What a workload brings to a worker.
#[derive(Default)]
pub struct WorkerPart {
    /// The kinds that it serves.
    pub registry: Registry,
    /// What tasks may ask for, such as `ffmpeg=7.1`.
    pub capabilities: Vec<String>,
}
