//! A set of small numbers as bits, so that two sets are intersected 64 members at a time.

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Bits {
    words: Vec<u64>,
}

impl Bits {
    pub(crate) fn set(&mut self, index: u32, value: bool) {
        let (word, bit) = (index as usize / 64, index % 64);
        if value {
            if self.words.len() <= word {
                self.words.resize(word + 1, 0);
            }
            self.words[word] |= 1 << bit;
        } else if let Some(word) = self.words.get_mut(word) {
            *word &= !(1 << bit);
        }
    }

    pub(crate) fn contains(&self, index: u32) -> bool {
        self.words.get(index as usize / 64).is_some_and(|word| word >> (index % 64) & 1 == 1)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.words.iter().enumerate().flat_map(|(at, word)| ones(at, *word))
    }

    /// Members of both sets, in order.
    pub(crate) fn common<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = u32> + 'a {
        self.words.iter().zip(&other.words).enumerate().flat_map(|(at, (a, b))| ones(at, a & b))
    }

    /// Whether the sets have a member in common.
    pub(crate) fn intersects(&self, other: &Self) -> bool {
        self.words.iter().zip(&other.words).any(|(a, b)| a & b != 0)
    }
}

fn ones(block: usize, word: u64) -> Ones {
    Ones { base: block as u32 * 64, word }
}

/// The members of one block.
pub(crate) struct Ones {
    base: u32,
    word: u64,
}

impl Iterator for Ones {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        if self.word == 0 {
            return None;
        }
        let bit = self.word.trailing_zeros();
        self.word &= self.word - 1;
        Some(self.base + bit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_come_in_order_and_an_intersection_has_only_common_ones() {
        let (mut a, mut b) = (Bits::default(), Bits::default());
        for index in [0, 63, 64, 200] {
            a.set(index, true);
        }
        for index in [63, 64, 65, 1_000] {
            b.set(index, true);
        }
        assert_eq!(a.common(&b).collect::<Vec<_>>(), [63, 64]);
        a.set(63, false);
        assert_eq!(a.iter().collect::<Vec<_>>(), [0, 64, 200]);
        assert!(!a.contains(63) && !a.contains(9_999) && a.contains(200));
        assert!(a.intersects(&b));
        a.set(64, false);
        assert!(!a.intersects(&b));
    }
}
