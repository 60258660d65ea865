//! What is written down, and only appended. The open tasks, their order and their counts are derived from facts.
//!
//! Leases, heartbeats, progress and the worker registry are *not* facts, with one exception: an attempt that has
//! run for a while is noted as [`Fact::Held`], so that a restart of the server leaves it alone.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{Name, Payload, Seq, TaskError, TaskSpec, Timestamp, Token};

/// One thing that happened and must not be forgotten.
#[derive(Clone, Debug, PartialEq)]
pub enum Fact {
    /// A task was accepted.
    Submitted {
        /// Its number; greater than any earlier one.
        seq: Seq,
        /// When.
        at: Timestamp,
        /// What it is.
        spec: Arc<TaskSpec>,
        /// The task whose finish spawned it.
        spawned_by: Option<Seq>,
        /// Set when it is ready but did not fit the scheduler's window: it waits in the store.
        spilled: Option<Lane>,
    },
    /// An attempt ended without finishing the task; another will follow.
    AttemptFailed {
        /// The task.
        seq: Seq,
        /// The attempt.
        token: Token,
        /// When.
        at: Timestamp,
        /// Who ran it.
        worker: Name,
        /// What went wrong.
        error: TaskError,
        /// The end of its log.
        log: Option<Name>,
        /// When the next attempt is due.
        retry_at: Timestamp,
        /// Whether it counts against the retry limit (a snooze does not).
        counted: bool,
    },
    /// The task finished.
    Finished {
        /// The task.
        seq: Seq,
        /// The attempt.
        token: Token,
        /// When.
        at: Timestamp,
        /// Who ran it.
        worker: Name,
        /// What it returned.
        result: Payload,
        /// The end of its log.
        log: Option<Name>,
    },
    /// The task failed for good.
    Dead {
        /// The task.
        seq: Seq,
        /// The last attempt.
        token: Token,
        /// When.
        at: Timestamp,
        /// Who ran it.
        worker: Name,
        /// What went wrong.
        error: TaskError,
        /// The end of its log.
        log: Option<Name>,
    },
    /// The task will not run.
    Cancelled {
        /// The task.
        seq: Seq,
        /// When.
        at: Timestamp,
        /// Why, in words for people.
        reason: Name,
        /// Where it waited in the store, if it did: that row goes too.
        spilled: Option<Lane>,
    },
    /// A dead or cancelled task was put back to run again, with a fresh count of attempts.
    Replayed {
        /// The task.
        seq: Seq,
        /// When.
        at: Timestamp,
        /// How.
        replay: Replay,
    },
    /// A task that waits has another priority from now on.
    Reprioritised {
        /// The task.
        seq: Seq,
        /// When.
        at: Timestamp,
        /// Its priority.
        priority: u8,
    },
    /// A dead letter was given up: it counts as cancelled from now on.
    Dropped {
        /// The task.
        seq: Seq,
        /// When.
        at: Timestamp,
    },
    /// An attempt has been running for a while: after a restart, wait for its worker before granting it anew. Or one was
    /// granted after another that was given back: after a restart, no earlier one may be gone on with.
    Held {
        /// The task.
        seq: Seq,
        /// The attempt.
        token: Token,
        /// When it began; zero if that was not seen, because it waits at its worker for a slot or was taken over.
        began: Timestamp,
        /// Who runs it; empty if it was only granted, so that nobody need be waited for.
        worker: Name,
    },
    /// Tasks that waited in the store were taken into the scheduler's window.
    Unspilled {
        /// The lane they waited in.
        lane: Lane,
        /// All of the lane up to and including this one.
        upto: Seq,
    },
    /// A running attempt saved data that a later attempt shall get. Only the last of a task counts.
    Checkpoint {
        /// The task.
        seq: Seq,
        /// The attempt.
        token: Token,
        /// When.
        at: Timestamp,
        /// The data.
        data: Payload,
    },
    /// Something that was set: settings, schedules. The store does not look inside.
    Setting {
        /// What, such as `schedule/nightly`.
        key: Name,
        /// JSON, or nothing if it was removed.
        value: Option<Name>,
    },
    /// A queue was paused or resumed.
    QueuePaused {
        /// The queue.
        queue: Name,
        /// Whether it is paused now.
        paused: bool,
    },
}

impl Fact {
    /// The task that the fact is about, if it is about one.
    pub fn seq(&self) -> Option<Seq> {
        match self {
            Self::Submitted { seq, .. }
            | Self::AttemptFailed { seq, .. }
            | Self::Finished { seq, .. }
            | Self::Dead { seq, .. }
            | Self::Cancelled { seq, .. }
            | Self::Replayed { seq, .. }
            | Self::Reprioritised { seq, .. }
            | Self::Dropped { seq, .. }
            | Self::Checkpoint { seq, .. }
            | Self::Held { seq, .. } => Some(*seq),
            Self::Unspilled { .. } | Self::QueuePaused { .. } | Self::Setting { .. } => None,
        }
    }
}

/// How a dead or cancelled task is put back.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Replay {
    /// Not before this time, so that many replays can be spread.
    pub due: Option<Timestamp>,
    /// A payload instead of its own.
    pub payload: Option<Payload>,
    /// Whether it waits for its dependencies again; otherwise they count as met.
    pub keep_edges: bool,
}

/// Where a ready task waits in the store: tasks of one lane have equal class, fair key, limits
/// and priority, and leave in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Lane {
    /// A stable hash of everything but the priority; see [`Lane::of`].
    pub class: u64,
    /// The priority.
    pub priority: u8,
}

impl Lane {
    /// The lane of a task. The hash is FNV-1a, which must never change: it is in stores.
    pub fn of(spec: &TaskSpec) -> Self {
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        let mut feed = |text: &str| {
            for byte in text.bytes().chain([0xff]) {
                hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            }
        };
        feed(&spec.queue);
        feed(&spec.kind);
        let mut needs: Vec<&Name> = spec.needs.iter().collect();
        needs.sort_unstable();
        needs.dedup();
        needs.into_iter().for_each(|need| feed(need));
        if let Some(key) = &spec.fair_key {
            feed("\u{1}fair");
            feed(key);
        }
        for limit in &spec.limits {
            feed("\u{1}limit");
            feed(limit);
        }
        if let Some(matching) = spec.matching {
            feed("\u{1}matching");
            feed(matching.as_str());
        }
        Self { class: hash, priority: spec.priority }
    }
}

/// What the store says of a fact that it was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is written.
    Applied,
    /// It speaks of an attempt that a later one has replaced, or of a task in a state that it does not fit.
    Stale,
    /// It was written before.
    Duplicate,
}
