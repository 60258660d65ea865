//! Choices of a test that must be repeatable: the seed is printed, and can be given.

use std::time::{SystemTime, UNIX_EPOCH};

/// A small generator (xorshift64*).
pub struct Random(u64);

impl Random {
    /// Seeded by `DIVVY_TEST_SEED`, or by the clock; says which.
    #[expect(clippy::print_stderr, reason = "the seed belongs into the output of a failed test")]
    pub fn announced() -> Self {
        let given = std::env::var("DIVVY_TEST_SEED").ok().and_then(|text| text.parse().ok());
        let clock = || {
            SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_nanos() as u64)
        };
        let seed = given.unwrap_or_else(clock).max(1);
        eprintln!("seed: DIVVY_TEST_SEED={seed}");
        Self(seed)
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % bound
    }
}

/// How much of something a test does: as the variable says, for a long run by hand, or as usual.
pub fn from_environment(variable: &str, usual: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}
