//! A fingerprint of a text that is alike for texts that are alike, after Charikar, "Similarity estimation techniques from
//! rounding algorithms" (2002): each bit is the majority of that bit over the hashes of all runs of three words.
//!
//! A word is a run of letters and digits, whatever their case; bytes that are not ASCII count as letters, so that text
//! without blanks between its words has whole phrases for words.

/// Words of one run.
const SHINGLE: usize = 3;
/// Hashes that are counted together.
const TOGETHER: usize = 8;
/// Digits of a counter.
const DIGITS: usize = u32::BITS as usize;
/// Bytes that are looked at together for where words begin and end.
const BLOCK: usize = 64;

/// An odd number whose bits look like chance: 2^64 divided by the golden ratio.
const MIX: u64 = 0x9e37_79b9_7f4a_7c15;
/// The lowest bit of each byte, and the highest.
const LOW: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = LOW << 7;

/// The fingerprint of a text; zero if it has no words.
pub fn simhash(text: &str) -> u64 {
    let mut shingles = Shingles::default();
    shingles.add(text);
    shingles.finish()
}

/// In how many of 64 bits two fingerprints differ.
pub fn distance(one: u64, other: u64) -> u32 {
    (one ^ other).count_ones()
}

/// A fingerprint that is being made of a text that comes in pieces.
#[derive(Debug, Default)]
pub(super) struct Shingles {
    /// How often each bit was set. Bit `n` of these is the counter of bit `n`, its lowest digit first, so that all counters
    /// are raised at once.
    digits: [u64; DIGITS],
    /// Hashes of runs that are not counted yet.
    waiting: [u64; TOGETHER],
    words: usize,
    last: [u64; SHINGLE - 1],
}

impl Shingles {
    /// Adds a piece of text; no word goes on in the next piece.
    pub(super) fn add(&mut self, text: &str) {
        let bytes = text.as_bytes();
        let mut open = None;
        let mut first = 0;
        while let Some(block) = bytes.get(first..first + BLOCK) {
            self.add_words(bytes, first, letters_of(block), &mut open);
            first += BLOCK;
        }
        self.add_words(bytes, first, letters_of(&bytes[first..]), &mut open);
        if let Some(start) = open {
            self.add_word(hash_of_word(bytes, start, bytes.len()));
        }
    }

    /// Adds the words that end in a block. `open` is where the one began that is being read.
    fn add_words(&mut self, text: &[u8], first: usize, letters: u64, open: &mut Option<usize>) {
        // Where a letter follows none, or none a letter.
        let mut edges = letters ^ (letters << 1 | u64::from(open.is_some()));
        while edges != 0 {
            let at = first + edges.trailing_zeros() as usize;
            edges &= edges - 1;
            match open.take() {
                None => *open = Some(at),
                Some(start) => self.add_word(hash_of_word(text, start, at)),
            }
        }
    }

    /// Words so far.
    pub(super) fn words(&self) -> usize {
        self.words
    }

    /// The fingerprint.
    pub(super) fn finish(mut self) -> u64 {
        if self.words == 0 {
            return 0;
        }
        let mut runs = (self.words + 1).saturating_sub(SHINGLE);
        if runs == 0 {
            // Too few words for a run: all of them are one.
            runs = 1;
            self.waiting[0] = mixed(self.last[0], self.last[1], 0);
        }
        self.count_waiting();
        // Compares each counter with half of all runs, from the highest digit on.
        let half = runs / 2;
        let (mut more, mut same) = (0, u64::MAX);
        for (at, digit) in self.digits.iter().enumerate().rev() {
            if half >> at & 1 == 1 {
                same &= digit;
            } else {
                more |= same & digit;
                same &= !digit;
            }
        }
        more
    }

    fn add_word(&mut self, word: u64) {
        let run = mixed(self.last[0], self.last[1], word);
        self.last = [self.last[1], word];
        self.words += 1;
        if let Some(at) = self.words.checked_sub(SHINGLE) {
            self.waiting[at % TOGETHER] = run;
            if at % TOGETHER == TOGETHER - 1 {
                self.count_waiting();
            }
        }
    }

    /// Adds up the hashes that wait, pairs of them at first, then the pairs of what they carry, as additions on paper do.
    fn count_waiting(&mut self) {
        let [a, b, c, d, e, f, g, h] = std::mem::take(&mut self.waiting);
        let [ones, twos, fours, higher @ ..] = &mut self.digits;
        let (ab, cd) = (carried(ones, a, b), carried(ones, c, d));
        let (ef, gh) = (carried(ones, e, f), carried(ones, g, h));
        let (abcd, efgh) = (carried(twos, ab, cd), carried(twos, ef, gh));
        let mut carry = carried(fours, abcd, efgh);
        for digit in higher {
            if carry == 0 {
                return;
            }
            (*digit, carry) = (*digit ^ carry, *digit & carry);
        }
    }
}

/// Adds two numbers of one binary digit to a third one, 64 times at once; what is carried to the next digit.
fn carried(sum: &mut u64, one: u64, other: u64) -> u64 {
    let half = *sum ^ one;
    let carry = *sum & one | half & other;
    *sum = half ^ other;
    carry
}

/// Which bytes of a block belong to words, a bit for each.
fn letters_of(block: &[u8]) -> u64 {
    let (eights, rest) = block.as_chunks::<8>();
    let mut letters = 0;
    for (at, eight) in eights.iter().enumerate() {
        letters |= letters_of_eight(u64::from_le_bytes(*eight)) << (8 * at);
    }
    if !rest.is_empty() {
        letters |= letters_of_eight(few_bytes(rest)) << (8 * eights.len());
    }
    letters
}

/// The same of eight bytes: adding to a byte of seven bits sets its highest bit if it is at least so large.
fn letters_of_eight(bytes: u64) -> u64 {
    let seven = bytes & !HIGH;
    let small = seven | (LOW << 5);
    let is_from = |bytes: u64, first: u8| bytes + LOW * u64::from(0x80 - first);
    let is_letter = is_from(small, b'a') & !is_from(small, b'z' + 1);
    let is_digit = is_from(seven, b'0') & !is_from(seven, b'9' + 1);
    let marks = (is_letter | is_digit | bytes) & HIGH;
    // Moves the bits of the eight bytes into the highest one.
    (marks >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56
}

/// Eight bytes at a time. Setting one bit of each turns capital letters into small ones.
fn hash_of_word(text: &[u8], start: usize, end: usize) -> u64 {
    let (mut hash, mut at) = ((end - start) as u64, start);
    loop {
        let eight = eight_bytes(text, at, (end - at).min(8)) | (LOW << 5);
        hash = folded(hash.rotate_left(5) ^ eight, MIX);
        at += 8;
        if at >= end {
            return hash;
        }
    }
}

/// Up to eight bytes as a number. Reading behind the word and cutting is quicker than reading bytes.
fn eight_bytes(text: &[u8], at: usize, count: usize) -> u64 {
    match text.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        Some(eight) => u64::from_le_bytes(*eight) & (u64::MAX >> (64 - 8 * count)),
        None => few_bytes(&text[at..at + count]),
    }
}

/// Up to eight bytes at the end of a text as a number.
#[cold]
fn few_bytes(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

fn mixed(one: u64, two: u64, three: u64) -> u64 {
    folded(one ^ two.rotate_left(23), three ^ two.wrapping_mul(MIX) ^ MIX)
}

/// The two halves of a product, laid over each other, so that each bit depends on all.
fn folded(one: u64, other: u64) -> u64 {
    let product = u128::from(one) * u128::from(other);
    (product >> 64) as u64 ^ product as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(from: usize, to: usize) -> Vec<String> {
        (from..to).map(|number| format!("word{number}")).collect()
    }

    /// What the fingerprint is by definition, a byte and a bit at a time.
    fn slow(pieces: &[&str]) -> (usize, u64) {
        let is_letter = |byte: &u8| *byte >= 0x80 || byte.is_ascii_alphanumeric();
        let words: Vec<&[u8]> = pieces
            .iter()
            .flat_map(|piece| piece.as_bytes().split(|byte| !is_letter(byte)))
            .filter(|word| !word.is_empty())
            .collect();
        let hashes: Vec<u64> = words.iter().map(|word| hash_of_word(word, 0, word.len())).collect();
        let mut runs: Vec<u64> =
            hashes.windows(SHINGLE).map(|run| mixed(run[0], run[1], run[2])).collect();
        if runs.is_empty() && !hashes.is_empty() {
            let before = hashes.len().checked_sub(2).map_or(0, |at| hashes[at]);
            runs.push(mixed(before, hashes[hashes.len() - 1], 0));
        }
        let hash = (0..64).fold(0, |hash, bit| {
            let set = runs.iter().filter(|run| *run >> bit & 1 == 1).count();
            hash | (u64::from(set * 2 > runs.len()) << bit)
        });
        (words.len(), hash)
    }

    fn fast(pieces: &[&str]) -> (usize, u64) {
        let mut shingles = Shingles::default();
        pieces.iter().for_each(|piece| shingles.add(piece));
        (shingles.words(), shingles.finish())
    }

    #[test]
    fn the_fast_counters_count_what_slow_ones_do() {
        for count in [0, 1, 2, 3, 9, 10, 11, 257, 1_000, 5_000] {
            let text = words(0, count).join(" ");
            assert_eq!(fast(&[&text]), slow(&[&text]), "{count} words");
        }
        // Counters carry as far as they have to when all runs are the same.
        assert_eq!(simhash(&"one ".repeat(70_000)), simhash("one one one"));
    }

    #[test]
    fn every_byte_is_a_letter_or_not_wherever_it_stands() {
        for byte in 0..=u8::MAX {
            let expected = byte >= 0x80 || byte.is_ascii_alphanumeric();
            for at in 0..BLOCK {
                let (mut few, mut all) = (vec![b' '; at + 1], [b'x'; BLOCK]);
                few[at] = byte;
                all[at] = byte;
                assert_eq!(letters_of(&few) == 1 << at, expected, "{byte:#x} at {at}");
                assert_eq!(letters_of(&all) == u64::MAX, expected, "{byte:#x} at {at}");
            }
        }
    }

    proptest::proptest! {
        #[test]
        fn the_fast_way_finds_the_words_of_the_slow_one(
            pieces in proptest::collection::vec("([a-c]{1,9}|[ .,<0-9A-Z\u{0}]|é|語語|\\PC|[a-z]{60,70} ){0,50}", 0..4)
        ) {
            let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
            proptest::prop_assert_eq!(fast(&pieces), slow(&pieces));
        }
    }

    #[test]
    fn texts_that_are_alike_have_fingerprints_that_are_alike() {
        let text = words(0, 400);
        let mut changed = text.clone();
        changed[200] = "other".to_owned();
        let near = distance(simhash(&text.join(" ")), simhash(&changed.join(" ")));
        let far = distance(simhash(&text.join(" ")), simhash(&words(400, 800).join(" ")));
        assert!(near <= 6, "{near}");
        assert!(far >= 16, "{far}");
    }

    #[test]
    fn case_and_punctuation_do_not_matter_but_order_does() {
        assert_eq!(simhash("One two, three! FOUR"), simhash("one TWO three -- four."));
        assert_ne!(simhash("one two three four"), simhash("four three two one"));
        assert_eq!(simhash(" ... "), 0);
        assert_ne!(simhash("one"), 0);
        assert_ne!(simhash("one"), simhash("two"));
    }
}
