//! What running attempts say of themselves, progress and fresh log text, and when the latest that ended began. Soft: gone
//! with a restart.

use std::collections::BTreeMap;

use divvy_types::cut::tail;
use divvy_types::limits::LOG_BYTES_MAX;
use divvy_types::view::Progress;
use divvy_types::{Seq, Timestamp, Token};

/// Attempts that are over and whose beginnings are remembered: one makes place for the one that was granted so many later.
const BEGINNINGS_MAX: usize = 1 << 16;

/// News of running attempts.
#[derive(Default)]
pub struct Live {
    attempts: BTreeMap<Seq, News>,
    /// By the last digits of the attempt's token; empty before the first.
    beginnings: Vec<(Token, Timestamp)>,
}

/// News of one attempt.
#[derive(Clone, Debug, Default)]
pub struct News {
    token: Token,
    /// How far it is.
    pub progress: Progress,
    /// The end of its log so far.
    pub log: String,
}

impl Live {
    /// Takes an update; an update of a newer attempt replaces what is known of an older one.
    pub(crate) fn update(&mut self, seq: Seq, token: Token, progress: Progress, log: &str) {
        let news = self.attempts.entry(seq).or_default();
        if news.token != token {
            *news = News { token, ..News::default() };
        }
        news.progress = progress;
        news.log.push_str(log);
        if news.log.len() > LOG_BYTES_MAX {
            let gone = news.log.len() - tail(&news.log, LOG_BYTES_MAX).len();
            news.log.drain(..gone);
        }
    }

    /// The attempt ended.
    pub(crate) fn forget(&mut self, seq: Seq) {
        if !self.attempts.is_empty() {
            self.attempts.remove(&seq);
        }
    }

    /// An attempt ended.
    pub(crate) fn ended(&mut self, token: Token, began: Timestamp) {
        if self.beginnings.is_empty() {
            self.beginnings = vec![Default::default(); BEGINNINGS_MAX];
        }
        self.beginnings[place(token)] = (token, began);
    }

    /// When an attempt began that is over, if that is remembered.
    pub fn began(&self, token: Token) -> Option<Timestamp> {
        let (known, began) = *self.beginnings.get(place(token))?;
        // No attempt has the token zero: that is what a place holds before the first.
        (known == token && token > Token(0)).then_some(began)
    }

    /// What is known of the running attempt of a task.
    pub fn of(&self, seq: Seq) -> Option<&News> {
        self.attempts.get(&seq)
    }
}

fn place(token: Token) -> usize {
    token.0 as usize % BEGINNINGS_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_of_an_attempt_that_ended_is_remembered_for_a_while() {
        let mut live = Live::default();
        assert_eq!(live.began(Token(5)), None);
        live.ended(Token(5), Timestamp(70));
        assert_eq!((live.began(Token(5)), live.began(Token(6))), (Some(Timestamp(70)), None));
        let later = Token(5 + BEGINNINGS_MAX as u64);
        live.ended(later, Timestamp(90));
        assert_eq!((live.began(Token(5)), live.began(later)), (None, Some(Timestamp(90))));
    }

    #[test]
    fn a_log_keeps_its_end_and_a_new_attempt_starts_afresh() {
        let mut live = Live::default();
        live.update(Seq(1), Token(1), Progress::default(), &"ä".repeat(LOG_BYTES_MAX));
        assert!(live.of(Seq(1)).unwrap().log.len() <= LOG_BYTES_MAX);
        live.update(Seq(1), Token(2), Progress { done: 1, total: 2, message: "x".into() }, "new");
        assert_eq!(live.of(Seq(1)).unwrap().log, "new");
        live.forget(Seq(1));
        assert!(live.of(Seq(1)).is_none());
    }
}
