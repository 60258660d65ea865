//! What an attempt says of itself while it runs: how far it is, its log, and what it saves. Decides how much of it is kept and how
//! often it may be sent: one update per attempt and second, with at most 8 KiB of new log text.
//!
//! Does not know who sends it. The [`Noticeboard`] lists attempts with something new and wakes the sender.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use divvy_types::cut::{head, tail};
use divvy_types::limits::LOG_BYTES_MAX;
use divvy_types::view::Progress;
use divvy_types::{Name, Payload};
use tokio::sync::Notify;

use crate::attempt::Context;
use crate::checkpoint::Saved;

/// The least time between two updates of one attempt.
pub(crate) const UPDATE_EVERY: Duration = Duration::from_secs(1);
/// Bytes of new log text in one update.
const UPDATE_LOG_BYTES_MAX: usize = 8 << 10;
/// Bytes of a progress message that are kept.
const MESSAGE_BYTES_MAX: usize = 1 << 10;

/// What one attempt has said.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    progress: Progress,
    /// The log, at most twice as long as what is kept: cutting it rarely keeps each line cheap.
    log: String,
    /// How many bytes of `log` were sent.
    log_sent: usize,
    /// Whether the progress or the log is new.
    has_news: bool,
    pub(crate) saved: Saved,
    /// Whether something is new and the noticeboard knows.
    dirty: bool,
    updated_at: Option<Instant>,
}

impl Notes {
    pub(crate) fn set_progress(&mut self, done: u64, total: u64) {
        (self.progress.done, self.progress.total) = (done, total);
        self.has_news = true;
    }

    pub(crate) fn set_message(&mut self, text: &str) {
        self.progress.message = Name::from(head(text, MESSAGE_BYTES_MAX));
        self.has_news = true;
    }

    pub(crate) fn push_line(&mut self, line: &str) {
        self.log.push_str(tail(line, LOG_BYTES_MAX - 1));
        self.log.push('\n');
        self.has_news = true;
        if self.log.len() > 2 * LOG_BYTES_MAX {
            let cut = self.log.len() - tail(&self.log, LOG_BYTES_MAX).len();
            self.log.drain(..cut);
            self.log_sent = self.log_sent.saturating_sub(cut);
        }
    }

    pub(crate) fn progress(&self) -> Progress {
        self.progress.clone()
    }

    /// The end of the log, as much as is kept.
    pub(crate) fn log_tail(&self) -> &str {
        tail(&self.log, LOG_BYTES_MAX)
    }

    /// Says whether the noticeboard has to be told.
    pub(crate) fn mark_dirty(&mut self) -> bool {
        !std::mem::replace(&mut self.dirty, true)
    }

    /// When the next update may be sent; nothing if at once.
    pub(crate) fn due_at(&self) -> Option<Instant> {
        self.updated_at.map(|at| at + UPDATE_EVERY)
    }

    /// What is new since the last update.
    pub(crate) fn take_update(&mut self, now: Instant) -> Update {
        self.dirty = false;
        self.updated_at = Some(now);
        let news = std::mem::take(&mut self.has_news).then(|| {
            let new = tail(&self.log[self.log_sent..], UPDATE_LOG_BYTES_MAX).to_owned();
            self.log_sent = self.log.len();
            (self.progress.clone(), new)
        });
        Update { news, saved: self.saved.take() }
    }

    /// A new connection begins, which has to carry the last save; says whether the noticeboard has to be told.
    pub(crate) fn send_again(&mut self) -> bool {
        if !self.saved.send_again() {
            return false;
        }
        self.updated_at = None;
        self.mark_dirty()
    }
}

/// What is new of one attempt.
pub(crate) struct Update {
    /// The progress, and the end of the new log text.
    pub(crate) news: Option<(Progress, String)>,
    /// What it saved.
    pub(crate) saved: Option<Payload>,
}

/// Attempts that have something new to tell, and the bell of the one who sends it.
#[derive(Debug, Default)]
pub(crate) struct Noticeboard {
    /// Rings when there may be something to send.
    pub(crate) bell: Notify,
    /// Each running attempt is here at most once, so the slots bound it.
    dirty: Mutex<Vec<Arc<Context>>>,
}

impl Noticeboard {
    pub(crate) fn announce(&self, context: Arc<Context>) {
        let first = {
            let mut dirty = self.dirty.lock().unwrap_or_else(PoisonError::into_inner);
            dirty.push(context);
            dirty.len() == 1
        };
        if first {
            self.bell.notify_one();
        }
    }

    /// Takes the attempts whose update is due, and says when the next of the others is.
    pub(crate) fn take_due(&self, now: Instant) -> (Vec<Arc<Context>>, Option<Instant>) {
        let mut dirty = self.dirty.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut due, mut next) = (Vec::new(), None::<Instant>);
        dirty.retain(|context| match context.notes().due_at() {
            Some(at) if at > now => {
                next = Some(next.map_or(at, |next| next.min(at)));
                true
            }
            _ => {
                due.push(Arc::clone(context));
                false
            }
        });
        (due, next)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.dirty.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_log_keeps_its_end_and_an_update_has_only_what_is_new() {
        let mut notes = Notes::default();
        let new_log = |notes: &mut Notes| {
            notes.take_update(Instant::now()).news.map(|(_, log)| log).unwrap_or_default()
        };
        notes.push_line("first");
        assert_eq!(new_log(&mut notes), "first\n");
        notes.push_line("second");
        assert_eq!(new_log(&mut notes), "second\n");
        assert_eq!(new_log(&mut notes), "");
        for number in 0..20_000 {
            notes.push_line(&format!("zeile ä {number}"));
        }
        assert!(notes.log.len() <= 2 * LOG_BYTES_MAX + 64);
        assert!(
            notes.log_tail().len() <= LOG_BYTES_MAX && notes.log_tail().len() > LOG_BYTES_MAX - 64
        );
        assert!(notes.log_tail().ends_with("zeile ä 19999\n"));
        let update = new_log(&mut notes);
        assert!(update.len() <= UPDATE_LOG_BYTES_MAX && update.ends_with("19999\n"));
    }

    #[test]
    fn a_line_longer_than_the_log_is_cut() {
        let mut notes = Notes::default();
        notes.push_line(&"ä".repeat(LOG_BYTES_MAX));
        assert!(notes.log.len() <= LOG_BYTES_MAX);
        notes.set_message(&"ö".repeat(MESSAGE_BYTES_MAX));
        assert!(notes.progress().message.len() <= MESSAGE_BYTES_MAX);
    }
}
