//! What an attempt saves while it runs, so that a later attempt of the task can go on from there.
//!
//! Decides what may be saved. Only the last save counts; it is sent with the attempt's next update, at the latest before
//! its report, and again over each new connection for as long as the server has not answered that report. Nobody
//! answers a save: one that was made right before a crash may be missing, so a later attempt must be able to do without.

use std::sync::Arc;

use divvy_types::Payload;
use divvy_types::limits::CHECKPOINT_BYTES_MAX;
use divvy_types::payload::InvalidPayload;

use crate::attempt::Context;

/// Saves data of an attempt for a later one; cheap to clone and to call often, from async code and from threads.
#[derive(Clone, Debug)]
pub struct Checkpointer {
    pub(crate) context: Arc<Context>,
}

impl Checkpointer {
    /// Saves this, in place of what was saved before. Returns at once: the data leaves with the attempt's next update,
    /// of which there is at most one per second.
    pub fn save(&self, data: Payload) -> Result<(), CheckpointError> {
        let bytes = data.data().len();
        if bytes > CHECKPOINT_BYTES_MAX {
            return Err(CheckpointError::TooLarge { bytes });
        }
        // The server would close the connection on what is not what it says it is, again and again.
        let data = Payload::new(data.content_type(), data.data().clone())?;
        self.context.note(|notes| notes.saved.put(data));
        Ok(())
    }
}

/// Why data cannot be saved. Nothing changed: what was saved before still holds.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// It is over the limit.
    #[error(
        "the checkpoint is {bytes} bytes, at most {CHECKPOINT_BYTES_MAX}; keep large data in a file or an object store and save its address"
    )]
    TooLarge {
        /// Its size.
        bytes: usize,
    },
    /// It is not what its content type says.
    #[error("the checkpoint {0}")]
    Invalid(#[from] InvalidPayload),
}

/// The last save of an attempt, and whether the present connection still has to carry it.
#[derive(Debug, Default)]
pub(crate) struct Saved {
    data: Option<Payload>,
    unsent: bool,
}

impl Saved {
    fn put(&mut self, data: Payload) {
        *self = Self { data: Some(data), unsent: true };
    }

    /// What is to be sent now; from then on it counts as sent.
    pub(crate) fn take(&mut self) -> Option<Payload> {
        if std::mem::take(&mut self.unsent) { self.data.clone() } else { None }
    }

    /// A new connection begins; says whether there is something to send again.
    pub(crate) fn send_again(&mut self) -> bool {
        self.unsent = self.data.is_some();
        self.unsent
    }

    pub(crate) fn is_unsent(&self) -> bool {
        self.unsent
    }

    pub(crate) fn data(&self) -> Option<&Payload> {
        self.data.as_ref()
    }
}
