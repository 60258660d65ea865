//! Short ids: the shortest prefix that tells the rows of one list apart.
//!
//! Ids of one moment are alike at their start, because a UUIDv7 begins with the time; so the length is computed over
//! the rows shown. The server accepts any prefix that fits one task only.

use divvy_types::TaskId;
use uuid::{NoContext, Timestamp, Uuid};

/// Shorter prefixes soon fit several tasks of a growing store.
const DIGITS_MIN: usize = 8;
const DIGITS_MAX: usize = 32;

/// A new id. Random after the time, where a counter would make the ids of one batch differ in their last digits only.
pub fn fresh() -> u128 {
    Uuid::new_v7(Timestamp::now(NoContext)).as_u128()
}

/// Shortens ids to one common length.
pub struct Shortener {
    digits: usize,
}

impl Shortener {
    /// Long enough to tell all of `ids` apart.
    pub fn new(ids: impl IntoIterator<Item = TaskId>) -> Self {
        let mut sorted: Vec<u128> = ids.into_iter().map(|id| id.0).collect();
        sorted.sort_unstable();
        sorted.dedup();
        let alike = sorted
            .windows(2)
            .map(|pair| (pair[0] ^ pair[1]).leading_zeros() as usize / 4)
            .max()
            .unwrap_or(0);
        Self { digits: (alike + 1).clamp(DIGITS_MIN, DIGITS_MAX) }
    }

    /// The start of this id.
    pub fn short(&self, id: TaskId) -> String {
        let mut left = self.digits;
        let keep = id.to_string();
        let end = keep.char_indices().find_map(|(index, c)| {
            if left == 0 {
                return Some(index);
            }
            left -= usize::from(c != '-');
            None
        });
        keep[..end.unwrap_or(keep.len())].trim_end_matches('-').to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_one_moment_stay_apart_and_each_prefix_finds_its_own() {
        let ids: Vec<TaskId> =
            ["0198c0de-7a3b-7cc1-9e55-3f2a1b0c9d8e", "0198c0de-7a3b-7cc4-8e55-3f2a1b0c9d8e"]
                .map(|text| text.parse().unwrap())
                .to_vec();
        let short = Shortener::new(ids.iter().copied());
        assert_eq!(short.short(ids[0]), "0198c0de-7a3b-7cc1");
        assert_eq!(short.short(ids[1]), "0198c0de-7a3b-7cc4");
        assert_eq!(Shortener::new([ids[0]]).short(ids[0]), "0198c0de");
        assert_eq!(Shortener::new([]).short(ids[0]), "0198c0de");
    }

    #[test]
    fn fresh_ids_of_one_moment_are_short() {
        let ids: Vec<TaskId> = (0..1_000).map(|_| TaskId(fresh())).collect();
        assert!(Shortener::new(ids.iter().copied()).short(ids[0]).len() < 28, "{}", ids[0]);
    }

    #[test]
    fn ids_that_differ_in_their_last_digit_are_shown_whole() {
        let ids = [TaskId(0x10), TaskId(0x11)];
        assert_eq!(Shortener::new(ids).short(ids[0]), ids[0].to_string());
    }
}
