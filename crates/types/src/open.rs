//! An open task as it is known from what was written down: what a store finds and a scheduler takes in.

use std::sync::Arc;

use crate::{Name, Seq, TaskSpec, Timestamp, Token};

/// An open task and what is known of its attempts.
#[derive(Clone, Debug)]
pub struct OpenTask {
    /// Its number.
    pub seq: Seq,
    /// When it was accepted.
    pub submitted_at: Timestamp,
    /// What it is.
    pub spec: Arc<TaskSpec>,
    /// The task whose finish spawned it.
    pub spawned_by: Option<Seq>,
    /// Attempts that count against the retry limit.
    pub attempts: u32,
    /// Workers that went away while they ran it, since it was last put back; each name once.
    pub lost: Vec<Name>,
    /// Whether an attempt saved data for a later one.
    pub checkpointed: bool,
    /// When the next attempt is due, if one failed.
    pub retry_at: Option<Timestamp>,
    /// The attempt that was running when the server stopped, if it had run for a while: leased to nobody in particular
    /// until its worker announces it or one lease time has passed. Its token, its worker, and when it began, which is zero if
    /// that was not seen.
    pub held: Option<(Token, Name, Timestamp)>,
    /// Whether it was dead or cancelled once and was put back without its dependencies: they count as met, and attempts
    /// from before this start are not gone on with, because they may have ended before the replay.
    pub replayed: bool,
}

impl OpenTask {
    /// A task that was never tried.
    pub fn new(seq: Seq, spec: Arc<TaskSpec>, submitted_at: Timestamp) -> Self {
        Self {
            seq,
            submitted_at,
            spec,
            spawned_by: None,
            attempts: 0,
            lost: Vec::new(),
            checkpointed: false,
            retry_at: None,
            held: None,
            replayed: false,
        }
    }
}
