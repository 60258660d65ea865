//! Whether a body comes fast enough: so many bytes within any window, looked at ten times a window. A host that sends a byte
//! now and then would otherwise hold its place for the whole time that a page may take.

use std::time::Duration;

/// Parts of a window.
const PARTS: usize = 10;

/// The bytes of the last window.
#[derive(Debug)]
pub(super) struct Speed {
    window: Duration,
    bytes_min: u64,
    parts: [u64; PARTS],
    part: usize,
    ticks: usize,
}

impl Speed {
    pub(super) fn new(window: Duration, bytes_min: u64) -> Self {
        Self { window, bytes_min, parts: [0; PARTS], part: 0, ticks: 0 }
    }

    /// The time between two ticks.
    pub(super) fn tick_length(&self) -> Duration {
        self.window / PARTS as u32
    }

    /// So many bytes have come.
    pub(super) fn add(&mut self, bytes: usize) {
        self.parts[self.part] += bytes as u64;
    }

    /// A part of the window is over: was the last window fast enough? The first one is not over before its last part.
    pub(super) fn tick(&mut self) -> bool {
        self.ticks += 1;
        let is_fast = self.ticks < PARTS || self.parts.iter().sum::<u64>() >= self.bytes_min;
        self.part = (self.part + 1) % PARTS;
        self.parts[self.part] = 0;
        is_fast
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_window_must_hold_enough() {
        let mut speed = Speed::new(Duration::from_secs(10), 1_000);
        assert_eq!(speed.tick_length(), Duration::from_secs(1));
        speed.add(1_000);
        for second in 1..=10 {
            assert!(speed.tick(), "second {second} of the first window");
        }
        assert!(!speed.tick(), "the bytes of the first second have left the window");

        let mut steady = Speed::new(Duration::from_secs(10), 1_000);
        for second in 0..100 {
            steady.add(100);
            assert!(steady.tick(), "second {second}");
        }
        steady.add(99);
        assert!(!steady.tick());
    }
}
