//! Short ids: the fewest last digits that tell the rows of one list apart.
//!
//! A UUIDv7 begins with the time, so ids of one moment are alike at their start; their ends are random, or made of a key.
//! The server accepts an end that fits one task only, and a start too.

use divvy_types::{IdEnd, TaskId};
use uuid::{NoContext, Timestamp, Uuid};

const DIGITS_MAX: usize = 32;

/// A new id. Random after the time, where a counter would make the ids of one batch differ in few digits.
pub fn fresh() -> u128 {
    Uuid::new_v7(Timestamp::now(NoContext)).as_u128()
}

/// Shortens ids to one common length.
#[derive(Clone, Copy, Debug)]
pub struct Shortener {
    digits: usize,
}

impl Shortener {
    /// Long enough to tell all of `ids` apart.
    pub fn new(ids: impl IntoIterator<Item = TaskId>) -> Self {
        let mut sorted: Vec<u128> = ids.into_iter().map(|id| id.0.reverse_bits()).collect();
        sorted.sort_unstable();
        sorted.dedup();
        let alike = sorted
            .windows(2)
            .map(|pair| (pair[0] ^ pair[1]).leading_zeros() as usize / 4)
            .max()
            .unwrap_or(0);
        Self { digits: (alike + 1).clamp(IdEnd::DIGITS_MIN, DIGITS_MAX) }
    }

    /// The end of this id.
    pub fn short(&self, id: TaskId) -> String {
        let whole = format!("{:032x}", id.0);
        whole[DIGITS_MAX - self.digits..].to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_one_moment_stay_apart_and_each_end_is_of_its_own() {
        let ids: Vec<TaskId> =
            ["0198c0de-7a3b-7cc1-9e55-3f2a1b0c9d8e", "0198c0de-7a3b-7cc1-9e55-3f2a1b0c9d8f"]
                .map(|text| text.parse().unwrap())
                .to_vec();
        let short = Shortener::new(ids.iter().copied());
        assert_eq!(short.short(ids[0]), "1b0c9d8e");
        assert_eq!(short.short(ids[1]), "1b0c9d8f");
        assert_eq!(Shortener::new([]).short(ids[0]), "1b0c9d8e");
        for id in &ids {
            let end = IdEnd::parse(&short.short(*id)).unwrap();
            assert_eq!(ids.iter().filter(|id| end.is_of(id.0)).count(), 1);
        }
    }

    #[test]
    fn fresh_ids_of_one_moment_are_short() {
        let ids: Vec<TaskId> = (0..100).map(|_| TaskId(fresh())).collect();
        assert!(Shortener::new(ids.iter().copied()).short(ids[0]).len() < 12, "{}", ids[0]);
    }

    #[test]
    fn ids_that_differ_in_their_first_digit_are_shown_whole() {
        let ids = [TaskId(1 << 124), TaskId(2 << 124)];
        assert_eq!(Shortener::new(ids).short(ids[0]), "1".to_owned() + &"0".repeat(31));
    }
}
