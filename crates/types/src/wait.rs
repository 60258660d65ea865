//! Why a task does not run, in the same words for the API, the CLI and the dashboard.
//!
//! Computed from the present state each time it is asked for, so it cannot go stale.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{Name, TaskId, Timestamp, need, shell};

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
    /// It was given to a worker, whose slots are all taken.
    AtWorker {
        /// The worker.
        worker: Name,
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
    Quarantined {
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

/// How times are told.
#[derive(Clone, Copy, Debug)]
pub enum Times {
    /// As they are, for programs and records.
    Absolute,
    /// As seen from a moment, for people who look now.
    From {
        /// The moment.
        now: Timestamp,
        /// The words for a span.
        span: fn(Duration) -> String,
    },
}

impl Times {
    fn at(self, time: Timestamp) -> String {
        match self {
            Self::Absolute => format!("at {time}"),
            Self::From { now, .. } if time <= now => "now".to_owned(),
            Self::From { now, span } => format!("in {}", span(time.since(now))),
        }
    }

    fn until(self, time: Timestamp) -> String {
        match self {
            Self::Absolute => format!("until {time}"),
            Self::From { now, span } => format!("for {}", span(time.since(now))),
        }
    }
}

impl fmt::Display for WaitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words(Times::Absolute))
    }
}

impl WaitReason {
    /// The reason as a sentence.
    pub fn words(&self, times: Times) -> String {
        match self {
            Self::Dependencies { missing, total, first } => {
                let such = first.map_or_else(String::new, |task| format!(" (such as {task})"));
                format!("waits for {missing} of {total} dependencies{such}")
            }
            Self::GroupOpen { group, open } => {
                format!("waits for the group `{group}`; {} in it", are_open(*open))
            }
            Self::Scheduled { until } => match times {
                Times::Absolute => format!("scheduled for {until}"),
                Times::From { .. } => format!("starts {}", times.at(*until)),
            },
            Self::Backoff { until, attempts, budget_spent } => {
                let attempts = counted(u64::from(*attempts), "attempt");
                let why = "; the retry budget of its kind is spent, so it waits its longest";
                let why = if *budget_spent { why } else { "" };
                format!("retries {}, after {attempts}{why}", times.at(*until))
            }
            Self::QueuePaused { queue } => {
                let word = shell::word(queue);
                format!("queue `{queue}` is paused; resume it: divvy queue resume {word}")
            }
            Self::NoWorker { .. } | Self::MissingCapability { .. } | Self::WorkersBusy { .. } => {
                self.workers_words()
            }
            Self::AtWorker { worker } => format!("given to `{worker}`, waits there for a slot"),
            Self::Limit { limit, running, concurrency: Some(most), .. } => {
                format!("limit `{limit}` is reached: {running} of {most} run")
            }
            Self::Limit { limit, until: Some(until), .. } => {
                format!("limit `{limit}` is reached: the next may start {}", times.at(*until))
            }
            Self::Limit { limit, .. } => format!("limit `{limit}` is reached"),
            Self::Quarantined { kind, workers, until } => {
                let (keep, rest) =
                    if *workers == 1 { ("keeps", "rests") } else { ("keep", "rest") };
                format!(
                    "{} {keep} failing `{kind}` and {rest} from it {}; the others are busy",
                    counted(u64::from(*workers), "free worker"),
                    times.until(*until)
                )
            }
            Self::Elsewhere { worker, until } => format!(
                "its last attempt failed on `{worker}`, which is free; {} it waits for another worker",
                times.until(*until)
            ),
            Self::WorkflowOpen { open } => {
                format!("runs when its workflow has ended; {} in it", are_open(*open))
            }
        }
    }

    /// The same for those that wait for a worker that is not there.
    fn workers_words(&self) -> String {
        match self {
            Self::NoWorker { kind, queue, workers: 0 } => {
                format!(
                    "no worker is connected; `{kind}` in queue `{queue}` waits for one: divvy work"
                )
            }
            Self::NoWorker { kind, queue, workers } => format!(
                "no connected worker (of {workers}) serves kind `{kind}` in queue `{queue}`"
            ),
            Self::MissingCapability { missing, nearest } => {
                format!("no worker has {}; nearest is `{nearest}`", need::spoken(missing))
            }
            Self::WorkersBusy { position, workers } => {
                let place = match position {
                    Some(before) => format!(", {before} before it"),
                    None => " in a long backlog".to_owned(),
                };
                let verb = if *workers == 1 { "serves" } else { "serve" };
                let workers = counted(u64::from(*workers), "worker");
                format!("waits for a slot{place}, {workers} {verb} it")
            }
            _ => String::new(),
        }
    }
}

fn counted(number: u64, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

fn are_open(tasks: u64) -> String {
    if tasks == 1 { "1 task is open".to_owned() } else { format!("{tasks} tasks are open") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_absolute_for_programs_and_relative_for_people() {
        let now = Timestamp(0);
        let people = Times::From { now, span: |span| format!("{}s", span.as_secs()) };
        let until = Timestamp(5_000_000);
        let backoff = WaitReason::Backoff { until, attempts: 1, budget_spent: false };
        assert_eq!(backoff.to_string(), format!("retries at {until}, after 1 attempt"));
        assert_eq!(backoff.words(people), "retries in 5s, after 1 attempt");
        let scheduled = WaitReason::Scheduled { until };
        assert_eq!(scheduled.to_string(), format!("scheduled for {until}"));
        assert_eq!(scheduled.words(people), "starts in 5s");
        let limit = |until| WaitReason::Limit {
            limit: "api".into(),
            running: 0,
            concurrency: None,
            until: Some(until),
        };
        let told = "limit `api` is reached: the next may start";
        assert_eq!(limit(until).words(people), format!("{told} in 5s"));
        assert_eq!(limit(now).words(people), format!("{told} now"));
        let quarantined = |workers| WaitReason::Quarantined { kind: "x".into(), workers, until };
        assert_eq!(
            quarantined(1).words(people),
            "1 free worker keeps failing `x` and rests from it for 5s; the others are busy"
        );
        assert!(quarantined(2).to_string().starts_with("2 free workers keep failing `x` and rest"));
        let busy = WaitReason::WorkersBusy { position: Some(0), workers: 1 };
        assert_eq!(busy.to_string(), "waits for a slot, 0 before it, 1 worker serves it");
        let open = WaitReason::WorkflowOpen { open: 1 };
        assert_eq!(open.to_string(), "runs when its workflow has ended; 1 task is open in it");
    }
}
