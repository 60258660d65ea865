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
        ones(self.words.iter().copied())
    }

    /// Members of both sets, in order.
    pub(crate) fn common<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = u32> + 'a {
        ones(self.words.iter().zip(&other.words).map(|(a, b)| a & b))
    }

    /// Whether the sets have a member in common.
    pub(crate) fn intersects(&self, other: &Self) -> bool {
        self.words.iter().zip(&other.words).any(|(a, b)| a & b != 0)
    }
}

fn ones<W: Iterator<Item = u64>>(words: W) -> Ones<W> {
    Ones { words, blocks: 0, word: 0 }
}

/// Members, block by block. Every pick goes through some, so this is no `flat_map`, which would keep two ends.
struct Ones<W> {
    words: W,
    /// Blocks that were begun.
    blocks: u32,
    /// What is left of the last one.
    word: u64,
}

impl<W: Iterator<Item = u64>> Iterator for Ones<W> {
    type Item = u32;

    #[inline]
    fn next(&mut self) -> Option<u32> {
        while self.word == 0 {
            self.word = self.words.next()?;
            self.blocks += 1;
        }
        let bit = self.word.trailing_zeros();
        self.word &= self.word - 1;
        Some((self.blocks - 1) * 64 + bit)
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
