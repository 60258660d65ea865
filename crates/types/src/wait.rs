//! Why a task does not run, in the same words for the API, the CLI and the dashboard.
//!
//! Computed from the present state each time it is asked for, so it cannot go stale.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Name, TaskId, Timestamp, need};

/// What a task that is not running waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "reason", rename_all = "snake_case")]
#[non_exhaustive]
pub enum WaitReason {
    /// Tasks that have not settled yet.
    Dependencies {
        /// How many are missing.
        missing: u32,
        /// How many there are in all.
        total: u32,
        /// One that is missing, where it is at hand.
        first: Option<TaskId>,
    },
    /// Tasks of a group that it waits for have not settled yet.
    GroupOpen {
        /// The group.
        group: Name,
        /// How many.
        open: u64,
    },
    /// Its `run_at` lies ahead.
    Scheduled {
        /// When it becomes ready.
        until: Timestamp,
    },
    /// An attempt failed or was put off, and the next is not due yet.
    Backoff {
        /// When it becomes ready.
        until: Timestamp,
        /// How many attempts were made.
        attempts: u32,
        /// Whether it waits for as long as its policy allows, because the retries of its kind are spent.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        budget_spent: bool,
    },
    /// Its queue is paused.
    QueuePaused {
        /// The queue.
        queue: Name,
    },
    /// No connected worker serves its kind and queue.
    NoWorker {
        /// The kind.
        kind: Name,
        /// The queue.
        queue: Name,
        /// Workers that are connected, whatever they serve.
        workers: u32,
    },
    /// Workers serve its kind, but none has all that it needs.
    MissingCapability {
        /// What the nearest worker lacks.
        missing: Vec<Name>,
        /// The nearest worker.
        nearest: Name,
    },
    /// Every worker that could run it is busy.
    WorkersBusy {
        /// How many tasks of its priority and class are before it, where that is known.
        position: Option<u64>,
        /// How many workers could run it.
        workers: u32,
    },
    /// A limit lets no more of these start now.
    Limit {
        /// The limit with its key, such as `api/acme`.
        limit: Name,
        /// Tasks that run under it.
        running: u32,
        /// Tasks that may run under it at once, if that is what keeps it.
        concurrency: Option<u32>,
        /// When the next may start, if its rate keeps it.
        until: Option<Timestamp>,
    },
    /// The workers with a place free keep failing this kind and are not given it for a while; the others that could
    /// run it are busy.
    Benched {
        /// The kind.
        kind: Name,
        /// Workers with a place free that rest from the kind.
        workers: u32,
        /// When the first of them is tried again.
        until: Timestamp,
    },
    /// Its last attempt failed on the worker that has a place free. It is kept for others that could run it, which are
    /// busy, for a while.
    Elsewhere {
        /// The worker that it failed on.
        worker: Name,
        /// From when on that one may have it too.
        until: Timestamp,
    },
    /// It is to run when its workflow has ended, and members of that are open.
    WorkflowOpen {
        /// How many.
        open: u64,
    },
}

impl fmt::Display for WaitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dependencies { missing, total, first } => {
                write!(f, "waits for {missing} of {total} dependencies")?;
                first.map_or(Ok(()), |task| write!(f, " (such as {task})"))
            }
            Self::GroupOpen { group, open } => {
                write!(f, "waits for the group `{group}`; {open} task(s) of it are open")
            }
            Self::Scheduled { until } => write!(f, "scheduled for {until}"),
            Self::Backoff { until, attempts, budget_spent } => {
                write!(f, "retries at {until}, after {attempts} attempt(s)")?;
                let why = "; the retry budget of its kind is spent, so it waits its longest";
                if *budget_spent { f.write_str(why) } else { Ok(()) }
            }
            Self::QueuePaused { queue } => {
                write!(f, "queue `{queue}` is paused; resume it: divvy queue resume {queue}")
            }
            Self::NoWorker { kind, queue, workers: 0 } => {
                write!(
                    f,
                    "no worker is connected; `{kind}` in queue `{queue}` waits for one: divvy work"
                )
            }
            Self::NoWorker { kind, queue, workers } => {
                write!(
                    f,
                    "none of the {workers} connected workers serves kind `{kind}` in queue `{queue}`"
                )
            }
            Self::MissingCapability { missing, nearest } => {
                write!(f, "no worker has {}; nearest is `{nearest}`", need::spoken(missing))
            }
            Self::WorkersBusy { position: Some(n), workers } => {
                write!(f, "waits for a slot, {n} before it, {workers} worker(s) serve it")
            }
            Self::WorkersBusy { position: None, workers } => {
                write!(f, "waits for a slot in a long backlog, {workers} worker(s) serve it")
            }
            Self::Limit { limit, running, concurrency: Some(most), .. } => {
                write!(f, "limit `{limit}` is reached: {running} of {most} run")
            }
            Self::Limit { limit, until: Some(until), .. } => {
                write!(f, "limit `{limit}` is reached: the next may start at {until}")
            }
            Self::Limit { limit, .. } => write!(f, "limit `{limit}` is reached"),
            Self::Benched { kind, workers, until } => write!(
                f,
                "{workers} free worker(s) keep failing `{kind}` and rest from it until {until}; the others are busy"
            ),
            Self::Elsewhere { worker, until } => write!(
                f,
                "its last attempt failed on `{worker}`, which is free; until {until} it waits for another worker"
            ),
            Self::WorkflowOpen { open } => {
                write!(f, "runs when its workflow has ended; {open} task(s) of it are open")
            }
        }
    }
}
