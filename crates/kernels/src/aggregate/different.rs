//! Different texts, and nothing about them but that they were there.
//!
//! One of up to seven bytes is a single word with its length, so that eight of them are in a line of cache: most of the time
//! of a large group goes into waiting for memory. Open addressing with linear probing; a longer text is in a [`Table`].

use super::bytes::{Damaged, put_bytes, put_number, take_bytes, take_number};
use super::hash::hash_word;
use super::table::Table;

/// Bytes of a text that a word holds besides its length.
const SHORT: usize = 7;
/// Words of the smallest list that holds something.
const WORDS_MIN: usize = 8;

/// Different texts.
#[derive(Clone, Debug, Default)]
pub(super) struct Different {
    /// Short texts, each where its hash says or behind that; 0 is a free place.
    words: Vec<u64>,
    shorts: usize,
    /// The others; most columns have none.
    long: Option<Box<Table>>,
}

impl Different {
    /// No texts, without memory.
    pub(super) const fn new() -> Self {
        Self { words: Vec::new(), shorts: 0, long: None }
    }

    /// Takes a text, whether it was there or not.
    #[inline]
    pub(super) fn add(&mut self, text: &[u8]) {
        match word(text) {
            Some(word) => self.add_word(word),
            None => _ = self.long.get_or_insert_default().value(text),
        }
    }

    /// Looks at the place of a word. What is far away in memory is near when the word is added: unlike whoever adds
    /// several, whoever looks at several waits for all of them at once.
    #[inline]
    pub(super) fn look(&self, word: u64) -> u64 {
        let place = hash_word(word) as usize & self.words.len().wrapping_sub(1);
        self.words.get(place).copied().unwrap_or_default()
    }

    /// Takes a text that [`word`] has made a word.
    #[inline]
    pub(super) fn add_word(&mut self, word: u64) {
        // A list is at most three quarters full.
        if self.shorts * 4 >= self.words.len() * 3 {
            self.grow((self.words.len() * 2).max(WORDS_MIN));
        }
        self.shorts += usize::from(put(&mut self.words, word));
    }

    #[cold]
    fn grow(&mut self, size: usize) {
        let old = std::mem::replace(&mut self.words, vec![0; size]);
        for word in old.into_iter().filter(|word| *word != 0) {
            put(&mut self.words, word);
        }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.shorts + self.long.as_ref().map_or(0, |long| long.len())
    }

    /// Whether a text is there.
    pub(super) fn has(&self, text: &[u8]) -> bool {
        let Some(word) = word(text) else {
            return self.long.as_ref().is_some_and(|long| long.has(text));
        };
        let mask = self.words.len().wrapping_sub(1);
        let mut at = hash_word(word) as usize & mask;
        while let Some(held) = self.words.get(at)
            && *held != 0
        {
            if *held == word {
                return true;
            }
            at = (at + 1) & mask;
        }
        false
    }

    /// Hands every text to `take`, in no order that means anything.
    pub(super) fn for_each(&self, mut take: impl FnMut(&[u8])) {
        for word in self.words.iter().filter(|word| **word != 0) {
            let bytes = word.to_le_bytes();
            take(&bytes[..bytes[SHORT] as usize - 1]);
        }
        if let Some(long) = &self.long {
            long.for_each(|text, _| take(text));
        }
    }

    /// Bytes of memory.
    pub(super) fn memory(&self) -> usize {
        let long = self.long.as_ref().map_or(0, |long| long.memory());
        self.words.capacity() * size_of::<u64>() + long
    }

    /// Appends them: the short ones in order, then the others.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        put_number(self.len() as u64, out);
        let mut words = Vec::with_capacity(self.shorts);
        words.extend(self.words.iter().filter(|word| **word != 0).map(|word| word.swap_bytes()));
        // With the first byte uppermost and the length lowest, words are ordered as their texts are. That it is not the order
        // of places keeps whoever merges them from filling one end of a list first.
        words.sort_unstable();
        for word in words {
            let length = (word as u8 - 1) as usize;
            put_bytes(&word.to_be_bytes()[..length], out);
        }
        if let Some(long) = &self.long {
            long.sorted(1).iter().for_each(|(_, text, _)| put_bytes(text, out));
        }
    }

    /// Takes in what others wrote, from the front of `from`.
    ///
    /// # Errors
    /// If that is not what was written.
    pub(super) fn merge(&mut self, from: &mut &[u8]) -> Result<(), Damaged> {
        let count = take_number(from)?;
        // Whatever is there takes at least a byte.
        if count > from.len() as u64 {
            return Err(Damaged);
        }
        let room = (count as usize).max(self.shorts) * 4 / 3 + 1;
        if self.words.len() < room && count > 0 {
            self.grow(room.next_power_of_two().max(WORDS_MIN));
        }
        for _ in 0..count {
            self.add(take_bytes(from)?);
        }
        Ok(())
    }
}

/// Puts a word into its place; whether it is new.
#[inline]
fn put(words: &mut [u64], word: u64) -> bool {
    let mask = words.len() - 1;
    let mut at = hash_word(word) as usize & mask;
    loop {
        let held = &mut words[at];
        if *held == word {
            return false;
        }
        if *held == 0 {
            *held = word;
            return true;
        }
        at = (at + 1) & mask;
    }
}

/// A short text as a word that is never 0: its bytes, the first one lowest, and above them one more than its length.
#[inline]
pub(super) fn word(text: &[u8]) -> Option<u64> {
    let length = text.len();
    let bytes = match length {
        0 => 0,
        1..4 => {
            let byte = |at: usize| u64::from(text[at]) << (8 * at);
            byte(0) | byte(length / 2) | byte(length - 1)
        }
        4..=SHORT => {
            let four = |at: usize| {
                let four = text.get(at..at + 4).and_then(|four| four.first_chunk::<4>());
                u64::from(u32::from_le_bytes(four.copied().unwrap_or_default())) << (8 * at)
            };
            four(0) | four(length - 4)
        }
        _ => return None,
    };
    Some(bytes | (length as u64 + 1) << (8 * SHORT))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn texts() -> impl Strategy<Value = Vec<Vec<u8>>> {
        let byte = prop_oneof![Just(0_u8), Just(b'a'), Just(0xff), any::<u8>()];
        prop::collection::vec(prop::collection::vec(byte, 0..12), 0..300)
    }

    fn of(texts: &[Vec<u8>]) -> Different {
        let mut different = Different::new();
        texts.iter().for_each(|text| different.add(text));
        different
    }

    /// What is written, text by text.
    fn written(different: &Different) -> Vec<Vec<u8>> {
        let mut out = Vec::new();
        different.write(&mut out);
        let mut rest = &out[..];
        let count = take_number(&mut rest).unwrap();
        let texts = (0..count).map(|_| take_bytes(&mut rest).unwrap().to_vec()).collect();
        assert!(rest.is_empty());
        texts
    }

    proptest! {
        #[test]
        fn each_text_is_there_once_whatever_its_bytes(texts in texts(), cut in 0_usize..300) {
            let expected: BTreeSet<_> = texts.iter().cloned().collect();
            let whole = of(&texts);
            prop_assert_eq!(whole.len(), expected.len());
            let (short, long): (Vec<_>, Vec<_>) =
                expected.iter().cloned().partition(|text| text.len() <= SHORT);
            prop_assert_eq!(written(&whole), [short, long].concat());
            // The same in two pieces, the second one merged into the first.
            let (first, second) = texts.split_at(cut.min(texts.len()));
            let (mut first, mut out) = (of(first), Vec::new());
            of(second).write(&mut out);
            let mut rest = &out[..];
            first.merge(&mut rest).unwrap();
            prop_assert!(rest.is_empty());
            prop_assert_eq!(written(&first), written(&whole));
        }
    }

    #[test]
    fn what_was_cut_is_refused() {
        let mut out = Vec::new();
        of(&[b"one".to_vec(), b"a longer one".to_vec()]).write(&mut out);
        for cut in 0..out.len() {
            assert_eq!(Different::new().merge(&mut &out[..cut]), Err(Damaged), "cut at {cut}");
        }
        let mut many = Vec::new();
        put_number(u64::MAX, &mut many);
        assert_eq!(Different::new().merge(&mut &many[..]), Err(Damaged));
    }
}
