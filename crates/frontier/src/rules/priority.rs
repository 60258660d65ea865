//! Into which band an address goes: what is new and near comes first, what failed or is known comes last.
//!
//! | band | addresses |
//! |---|---|
//! | 0 | seeds, and the first page of a host that was not known |
//! | 1 | two links from a seed at most, or short |
//! | 2 | the rest; pages that are looked at again and change often |
//! | 3 | retries, other pages that are looked at again, everything of a host that repeats itself |
//!
//! Lower bands do not starve: [`turn`] gives each its share of the turns.

/// How many bands there are.
pub const BANDS: usize = 4;
/// The lowest band.
pub const LAST: u8 = BANDS as u8 - 1;

/// A path of at most so many bytes is short.
const SHORT_BYTES: usize = 32;
/// So many links from a seed are near.
const NEAR_DEPTH: u8 = 2;
/// A page that is looked at again within so long changes often.
const OFTEN_MS: u64 = 24 * 3_600_000;

/// The band of a new address.
pub fn of_new(depth: u8, path: &str, is_host_new: bool) -> u8 {
    match () {
        () if depth == 0 || is_host_new => 0,
        () if depth <= NEAR_DEPTH || path.len() <= SHORT_BYTES => 1,
        () => 2,
    }
}

/// The band of an address that is fetched again: as a retry, or after this interval.
pub fn of_known(interval_ms: Option<u64>) -> u8 {
    match interval_ms {
        Some(interval) if interval <= OFTEN_MS => 2,
        Some(_) | None => LAST,
    }
}

/// The band that goes first in the `n`-th turn: the lowest gets one turn in 16, the next one in 16, then one in eight.
pub fn turn(n: u32) -> u8 {
    match n % 16 {
        15 => 3,
        7 => 2,
        3 | 11 => 1,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_and_near_come_first_and_every_band_gets_its_turn() {
        assert_eq!(of_new(0, "/a/long/path/that/is/no/longer/short", false), 0);
        assert_eq!(of_new(9, "/x", true), 0);
        assert_eq!(of_new(2, "/a/long/path/that/is/no/longer/short", false), 1);
        assert_eq!(of_new(9, "/short", false), 1);
        assert_eq!(of_new(9, "/a/long/path/that/is/no/longer/short", false), 2);
        assert_eq!(
            (of_known(None), of_known(Some(3_600_000)), of_known(Some(u64::MAX))),
            (3, 2, 3)
        );
        let mut turns = [0; BANDS];
        (0..16).for_each(|n| turns[usize::from(turn(n))] += 1);
        assert_eq!(turns, [12, 2, 1, 1]);
    }
}
