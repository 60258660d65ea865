//! Reads what ffmpeg says about its progress: lines of `key=value`, in blocks that end with `progress=…`.

use std::time::{Duration, Instant};

use super::Step;

/// Steps are told at most this often.
pub(super) const TOLD_EVERY: Duration = Duration::from_secs(1);
/// A line that is longer is none of ffmpeg's.
const LINE_BYTES_MAX: usize = 4 << 10;

/// Turns what ffmpeg prints into steps, told seldom enough. Steps never go back.
#[derive(Debug, Default)]
pub(super) struct Meter {
    line: Vec<u8>,
    block: Block,
    furthest: Block,
    waiting: Option<Step>,
    told_at: Option<Instant>,
}

/// What one block says, as far as it is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Block {
    step: Step,
    bytes: u64,
}

impl Meter {
    /// Takes what was printed; says whether there was an advance in it. `tell` gets a step if one is due.
    pub(super) fn take(
        &mut self,
        printed: &[u8],
        now: Instant,
        tell: &mut dyn FnMut(Step),
    ) -> bool {
        let mut advanced = false;
        for &byte in printed {
            if byte == b'\n' {
                let line = std::mem::take(&mut self.line);
                advanced |= self.take_line(&String::from_utf8_lossy(&line));
            } else if self.line.len() < LINE_BYTES_MAX {
                self.line.push(byte);
            }
        }
        let due = self.told_at.is_none_or(|at| now.duration_since(at) >= TOLD_EVERY);
        if let Some(step) = self.waiting.take_if(|_| due) {
            self.told_at = Some(now);
            tell(step);
        }
        advanced
    }

    /// The end: the last step is always told.
    pub(super) fn end(&mut self, tell: &mut dyn FnMut(Step)) {
        if let Some(step) = self.waiting.take() {
            tell(step);
        }
    }

    fn take_line(&mut self, line: &str) -> bool {
        let Some((key, value)) = line.trim().split_once('=') else { return false };
        // Before the first frame, values are `N/A` or below zero: no advance either way.
        let number = || value.trim().parse::<u64>().unwrap_or(0);
        match key {
            "frame" => self.block.step.frames = number(),
            "out_time_us" => self.block.step.out_us = number(),
            "total_size" => self.block.bytes = number(),
            "progress" => return self.end_block(),
            _ => {}
        }
        false
    }

    fn end_block(&mut self) -> bool {
        let (block, before) = (std::mem::take(&mut self.block), self.furthest);
        self.furthest = Block {
            step: Step {
                frames: before.step.frames.max(block.step.frames),
                out_us: before.step.out_us.max(block.step.out_us),
            },
            bytes: before.bytes.max(block.bytes),
        };
        if self.furthest.step != before.step {
            self.waiting = Some(self.furthest.step);
        }
        self.furthest != before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(frames: u64, out_us: &str) -> String {
        format!("frame={frames}\nfps=1\nout_time_us={out_us}\nspeed=1x\nprogress=continue\n")
    }

    #[test]
    fn steps_come_at_most_once_a_second_and_the_last_one_always() {
        let (mut meter, mut told) = (Meter::default(), Vec::new());
        let start = Instant::now();
        for (at_ms, frames) in [(0, 1), (400, 2), (900, 3), (1_000, 4), (1_500, 5)] {
            let now = start + Duration::from_millis(at_ms);
            let text = block(frames, "7");
            assert!(meter.take(text.as_bytes(), now, &mut |step: Step| told.push(step.frames)));
        }
        assert_eq!(told, [1, 4]);
        meter.end(&mut |step: Step| told.push(step.frames));
        meter.end(&mut |step: Step| told.push(step.frames));
        assert_eq!(told, [1, 4, 5]);
    }

    #[test]
    fn a_block_may_come_in_pieces_and_never_goes_back() {
        let (mut meter, mut told) = (Meter::default(), Vec::new());
        let text = [block(5, "N/A"), block(6, "200"), block(4, "-100")].concat();
        let mut advances = 0;
        for (index, piece) in text.as_bytes().chunks(3).enumerate() {
            let now = Instant::now() + Duration::from_secs(2 * index as u64);
            advances += u32::from(meter.take(piece, now, &mut |step| told.push(step)));
        }
        meter.end(&mut |step| told.push(step));
        assert_eq!(told, [Step { frames: 5, out_us: 0 }, Step { frames: 6, out_us: 200 }]);
        assert_eq!(advances, 2);
    }

    #[test]
    fn an_endless_line_takes_no_memory() {
        let mut meter = Meter::default();
        for _ in 0..100 {
            assert!(!meter.take(&[b'x'; 1_000], Instant::now(), &mut |_| panic!("no step")));
        }
        assert!(meter.line.len() <= LINE_BYTES_MAX);
    }
}
