//! How far a provider is while it runs, from what it prints: progress lines, and the answers themselves, since what was
//! said ends somewhere in the sound and every score is one frame more. Decides how often that is told. Believes
//! nothing: what is wrong with an answer is found when all of them are read at the end.

use std::collections::BTreeSet;
use std::time::Instant;

use super::protocol::{ANSWER_BYTES_MAX, Line, Request, parse};
use crate::tools::progress::TOLD_EVERY;

/// Turns what a provider prints into how much it has done, told seldom enough. It never goes back.
pub(super) struct Live<'a, F> {
    request: &'a Request<'a>,
    /// Milliseconds of sound, or frames.
    total: u64,
    tell: F,
    line: Vec<u8>,
    /// Frames that have a score.
    seen: BTreeSet<u64>,
    furthest: u64,
    told: Option<(Instant, u64)>,
}

impl<'a, F: FnMut(u64, u64)> Live<'a, F> {
    /// Begins with nothing of `total` done; `tell` gets what is done and the total.
    pub(super) fn new(request: &'a Request<'a>, total: u64, tell: F) -> Self {
        let (line, seen) = (Vec::new(), BTreeSet::new());
        Self { request, total, tell, line, seen, furthest: 0, told: None }
    }

    /// Takes what was printed, cut anywhere.
    pub(super) fn take(&mut self, printed: &[u8], now: Instant) {
        for &byte in printed {
            if byte == b'\n' {
                let line = std::mem::take(&mut self.line);
                self.take_line(&line);
            } else if self.line.len() <= ANSWER_BYTES_MAX {
                self.line.push(byte);
            }
        }
        let due = self.told.is_none_or(|(at, _)| now.duration_since(at) >= TOLD_EVERY);
        if due && self.furthest > self.told.map_or(0, |(_, done)| done) {
            self.told = Some((now, self.furthest));
            (self.tell)(self.furthest, self.total);
        }
    }

    fn take_line(&mut self, line: &[u8]) {
        let Some(line) = std::str::from_utf8(line).ok().and_then(|line| parse(line).ok()) else {
            return;
        };
        let done = match (line, self.request) {
            (Line::Progress { progress }, _) => share(progress, self.total),
            (Line::Heard { heard_ms }, Request::Transcribe { .. }) => heard_ms,
            (Line::Segment(segment), Request::Transcribe { .. }) => segment.end_ms,
            (Line::Seen { seen_frames }, Request::Scan { .. }) => seen_frames,
            (Line::Score(score), Request::Scan { frames }) => {
                // A provider may score a frame several times, but never more frames than it was given.
                if self.seen.len() < frames.len() {
                    self.seen.insert(score.at_ms);
                }
                self.seen.len() as u64
            }
            _ => return,
        };
        self.furthest = self.furthest.max(done.min(self.total));
    }
}

/// A share of the whole; nothing if it is none.
fn share(share: f64, total: u64) -> u64 {
    if !(0.0..=1.0).contains(&share) {
        return 0;
    }
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "progress needs no 53 bits, and the share is from 0 to 1"
    )]
    let done = (share * total as f64) as u64;
    done
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::protocol::Frame;
    use super::*;

    fn told(request: &Request<'_>, total: u64, printed: &[(u64, &str)]) -> Vec<u64> {
        let (start, mut told) = (Instant::now(), Vec::new());
        let mut live = Live::new(request, total, |done, of| {
            assert_eq!(of, total);
            told.push(done);
        });
        for (at_ms, text) in printed {
            live.take(text.as_bytes(), start + Duration::from_millis(*at_ms));
        }
        told
    }

    #[test]
    fn sound_advances_by_progress_lines_and_by_what_was_said() {
        let hear = Request::Transcribe { audio: "a.wav".into(), language: "en" };
        let printed = [
            (0, "{\"provider\":\"e\",\"version\":\"1\",\"model\":\"m\"}\n"),
            (10, "{\"heard_ms\":1000}\n"),
            (1_010, "{\"start_ms\":1000,\"end_ms\":2500,\"te"),
            (1_020, "xt\":\"hi\"}\n"),
            (2_020, "{\"progress\":0.5}\n"),
            (3_020, "{\"heard_ms\":400}\nnonsense\n{\"progress\":7}\n{\"seen_frames\":9000}\n"),
            (4_020, "{\"heard_ms\":99999}\n"),
        ];
        assert_eq!(told(&hear, 10_000, &printed), [1_000, 2_500, 5_000, 10_000]);
    }

    #[test]
    fn pictures_advance_by_their_scores_however_many_each_gets() {
        let frames: Vec<Frame> =
            (0..4).map(|at_ms| Frame { at_ms, path: "still.jpg".into() }).collect();
        let scan = Request::Scan { frames: &frames };
        let score = |at_ms| format!("{{\"at_ms\":{at_ms},\"label\":\"x\",\"score\":0}}\n");
        let (first, again, second) = (score(0), score(0), score(1));
        let printed = [
            (0, first.as_str()),
            (1_000, again.as_str()),
            (2_000, second.as_str()),
            (3_000, "{\"seen_frames\":3}\n"),
        ];
        assert_eq!(told(&scan, 4, &printed), [1, 2, 3]);
    }

    #[test]
    fn it_is_told_at_most_once_a_second_and_takes_no_memory() {
        let hear = Request::Transcribe { audio: "a.wav".into(), language: "en" };
        let lines: Vec<(u64, String)> =
            (1..=30).map(|n| (n * 100, format!("{{\"heard_ms\":{n}}}\n"))).collect();
        let printed: Vec<(u64, &str)> = lines.iter().map(|(at, text)| (*at, &**text)).collect();
        assert_eq!(told(&hear, 100, &printed), [1, 11, 21]);
        let mut live = Live::new(&hear, 100, |_, _| panic!("no progress"));
        for _ in 0..100 {
            live.take(&[b'x'; 1_000], Instant::now());
        }
        assert!(live.line.len() <= ANSWER_BYTES_MAX + 1);
    }
}
