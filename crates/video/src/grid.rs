//! Time as whole frames: a constant frame rate that is fixed when a source is probed, and spans counted in its frames.
//! Never seconds as floating point, which neighbours would round differently.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Frames per second as a fraction, such as 30000/1001.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct FrameRate {
    /// Frames …
    pub frames: u32,
    /// … in so many seconds.
    pub seconds: u32,
}

/// The frames from one number up to another, which is not in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Span {
    /// The first frame.
    pub from: u64,
    /// The frame after the last one.
    pub to: u64,
}

impl Span {
    /// How many frames it has.
    pub fn frames(self) -> u64 {
        self.to - self.from
    }
}

impl FrameRate {
    /// The rate in its lowest terms; nothing if it is no rate.
    pub fn new(frames: u32, seconds: u32) -> Option<Self> {
        let divisor = greatest_common_divisor(frames, seconds);
        (frames > 0 && seconds > 0)
            .then(|| Self { frames: frames / divisor, seconds: seconds / divisor })
    }

    /// How many frames are in so many milliseconds, rounded, at least one.
    pub fn frames_in_ms(self, ms: u32) -> u32 {
        let frames = u64::from(ms) * u64::from(self.frames);
        let unit = u64::from(self.seconds) * 1_000;
        u32::try_from((frames + unit / 2) / unit).unwrap_or(u32::MAX).max(1)
    }

    /// The units per second in which a track of this rate is timed, so that each frame has a whole number of them:
    /// see [`FrameRate::frame_ticks`].
    pub fn timescale(self) -> u32 {
        self.frames * self.factor()
    }

    /// How long a frame is in units of the [`FrameRate::timescale`].
    pub fn frame_ticks(self) -> u32 {
        self.seconds * self.factor()
    }

    /// When a frame begins, in microseconds after the first one, rounded down.
    pub fn micros(self, frame: u64) -> u64 {
        let micros =
            u128::from(frame) * u128::from(self.seconds) * 1_000_000 / u128::from(self.frames);
        u64::try_from(micros).unwrap_or(u64::MAX)
    }

    /// Frames per second.
    pub fn per_second(self) -> f64 {
        f64::from(self.frames) / f64::from(self.seconds)
    }

    /// Players are known to be imprecise with fewer units per second.
    fn factor(self) -> u32 {
        10_000_u32.div_ceil(self.frames.max(1))
    }
}

fn greatest_common_divisor(one: u32, other: u32) -> u32 {
    if other == 0 { one } else { greatest_common_divisor(other, one % other) }
}

impl fmt::Display for FrameRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.frames, self.seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_frame_has_a_whole_number_of_ticks() {
        for (frames, seconds, timescale, ticks) in [
            (30, 1, 10_020, 334),
            (30_000, 1_001, 30_000, 1_001),
            (24, 1, 10_008, 417),
            (1, 1, 10_000, 10_000),
        ] {
            let rate = FrameRate { frames, seconds };
            assert_eq!((rate.timescale(), rate.frame_ticks()), (timescale, ticks));
        }
        assert_eq!(FrameRate { frames: 30_000, seconds: 1_001 }.micros(30_000), 1_001_000_000);
    }

    #[test]
    fn rates_are_in_their_lowest_terms_and_spans_are_whole_frames() {
        let ntsc = FrameRate::new(60_000, 2_002).unwrap();
        assert_eq!(ntsc, FrameRate { frames: 30_000, seconds: 1_001 });
        assert_eq!(ntsc.frames_in_ms(2_000), 60);
        assert_eq!(ntsc.frames_in_ms(1), 1);
        assert_eq!(FrameRate::new(0, 1), None);
        assert_eq!(FrameRate::new(25, 0), None);
    }
}
