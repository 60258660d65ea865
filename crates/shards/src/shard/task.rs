//! A shard of a crawl as a task: it works in turns. At the end of a turn the task is put to sleep until there is work
//! again, which gives its slot back and counts as no attempt; so a crawl may have more shards than there are slots.
//!
//! A turn runs on a thread of its own, with everything of the shard on it: the state, the connections, the parsing.

use std::path::PathBuf;
use std::time::Duration;

use divvy::extract::{Attempt, Cancel, Progress, State};
use divvy::types::{RetryPolicy, Token};
use divvy::{Failure, Outcome, Task, TaskOptions};
use divvy_workload::files;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::{Owner, Place, ShardError, TurnEnd};
use crate::folder::status::Totals;
use crate::render;
use crate::settings::Spec;

/// The capability of a worker that can read the folder of crawls.
pub const CAPABILITY: &str = "crawl";
/// Workers that may be lost while they hold a shard, before somebody has to look.
const LOSSES_MAX: u32 = 1_000;

/// One shard of a crawl.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Shard {
    /// The crawl.
    pub crawl: String,
    /// Its folder.
    pub folder: PathBuf,
    /// Which shard.
    pub shard: u32,
    /// Which start of the crawl.
    pub round: u32,
}

/// What a shard says at its end.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Summary {
    /// Its counters.
    pub totals: Totals,
    /// What stays queued.
    pub queued: u64,
}

impl Task for Shard {
    const KIND: &'static str = "crawl.shard";
    type Output = Summary;

    fn options() -> TaskOptions {
        let policy = RetryPolicy {
            limit: LOSSES_MAX,
            base_ms: 1_000,
            cap_ms: 60_000,
            ..RetryPolicy::default()
        };
        TaskOptions::new().queue("crawl").needs([CAPABILITY]).retry(policy)
    }
}

impl Shard {
    /// What a worker must have for the shards of a crawl.
    pub fn needs(spec: &Spec) -> Vec<&'static str> {
        match spec.rules.render {
            render::Mode::Off => vec![CAPABILITY],
            render::Mode::Auto | render::Mode::Always => vec![CAPABILITY, render::CAPABILITY],
        }
    }
}

/// What a worker knows that serves shards.
#[derive(Clone, Debug, Default)]
pub struct Site {
    /// The server's folder of crawls, as this worker sees it.
    pub folder: PathBuf,
    /// Whether private addresses may be reached where a crawl asks for it.
    pub allow_private: bool,
    /// The browser, if there is one.
    pub chromium: Option<PathBuf>,
}

/// Works one turn of a shard.
pub async fn work(
    task: Shard,
    State(site): State<Site>,
    cancel: Cancel,
    progress: Progress,
    Attempt { token, .. }: Attempt,
) -> Outcome<Summary> {
    let Token(epoch) = token;
    // The server may have the folder elsewhere.
    let folder = files::found(&site.folder, &task.folder);
    let place = Place { folder, shard: task.shard, round: task.round, epoch, site };
    let stop = CancellationToken::new();
    // Whoever drops this future drops the guard, and the thread ends at once.
    let guard = stop.clone().drop_guard();
    let (tell, ended) = oneshot::channel();
    let name = format!("crawl-shard-{}", place.shard);
    std::thread::Builder::new()
        .name(name)
        .spawn(move || {
            // Nobody who listens any more is no reason to do otherwise.
            let progress = move |pages, queued| progress.set(pages, pages + queued);
            let _ = tell.send(on_this_thread(place, stop, Box::new(progress)));
        })
        .map_err(|error| Failure::retry(format_args!("cannot start a thread: {error}")))?;
    let ended = cancel.guard(ended).await?;
    drop(guard);
    match ended {
        Ok(Ok(TurnEnd::Done(summary))) => Ok(summary),
        Ok(Ok(TurnEnd::Later(span, why))) => Err(Failure::snooze(span).because(why)),
        Ok(Err(error)) if error.is_hopeless() => Err(Failure::dead(error)),
        Ok(Err(error)) => Err(Failure::retry(error)),
        Err(_) => Err(Failure::retry("the thread of the shard ended without a word")),
    }
}

/// Works a turn of a shard on this very thread.
///
/// # Errors
/// If the turn breaks off.
pub fn on_this_thread(
    place: Place,
    stop: CancellationToken,
    progress: Box<dyn Fn(u64, u64)>,
) -> Result<TurnEnd, ShardError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| ShardError::system("start a runtime", &error))?;
    let ended = runtime.block_on(async {
        let Some(owner) = Owner::open(place, &stop).await? else {
            return Ok(TurnEnd::Later(Duration::from_secs(1), "another process has it".to_owned()));
        };
        owner.run(stop, progress).await
    });
    runtime.shutdown_background();
    ended
}
