//! A fingerprint of a text that is alike for texts that are alike, after Charikar, "Similarity estimation techniques from
//! rounding algorithms" (2002): each bit is the majority of that bit over the hashes of all runs of three words.
//!
//! A word is a run of letters and digits, whatever their case; bytes that are not ASCII count as letters, so that text
//! without blanks between its words has whole phrases for words.

/// Words of one run.
const SHINGLE: usize = 3;
/// How many hashes fit into counters of a byte.
const LANES_FULL: u32 = 255;

/// An odd number whose bits look like chance: 2^64 divided by the golden ratio.
const MIX: u64 = 0x9e37_79b9_7f4a_7c15;

/// Which bytes belong to words.
static LETTERS: [bool; 256] = letters();
/// For each byte its bits, each in a byte of its own, so that eight counters are raised at once.
static SPREAD: [u64; 256] = spread();

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
#[derive(Debug)]
pub(super) struct Shingles {
    /// How often each bit was set, in wide counters.
    counts: [u32; 64],
    /// The same for the last few hashes, a byte for each.
    lanes: [u64; 8],
    lanes_used: u32,
    /// Hashes in all.
    total: u32,
    words: usize,
    last: [u64; SHINGLE - 1],
}

impl Default for Shingles {
    fn default() -> Self {
        Self {
            counts: [0; 64],
            lanes: [0; 8],
            lanes_used: 0,
            total: 0,
            words: 0,
            last: [0; SHINGLE - 1],
        }
    }
}

impl Shingles {
    /// Adds a piece of text; no word goes on in the next piece.
    pub(super) fn add(&mut self, text: &str) {
        let bytes = text.as_bytes();
        let is_letter = |at: usize| bytes.get(at).is_some_and(|byte| LETTERS[usize::from(*byte)]);
        let mut at = 0;
        while at < bytes.len() {
            let start = at;
            while is_letter(at) {
                at += 1;
            }
            if at > start {
                self.add_word(hash_of_word(bytes, start, at));
            }
            at += 1;
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
        if self.total == 0 {
            // Too few words for a run: all of them are one.
            self.add_hash(mixed(self.last[0], self.last[1], 0));
        }
        self.empty_lanes();
        (0..64)
            .filter(|bit| self.counts[*bit] * 2 > self.total)
            .fold(0, |hash, bit| hash | (1 << bit))
    }

    fn add_word(&mut self, word: u64) {
        self.words += 1;
        if self.words >= SHINGLE {
            self.add_hash(mixed(self.last[0], self.last[1], word));
        }
        self.last = [self.last[1], word];
    }

    fn add_hash(&mut self, hash: u64) {
        for (lane, byte) in self.lanes.iter_mut().zip(hash.to_le_bytes()) {
            *lane += SPREAD[usize::from(byte)];
        }
        self.total += 1;
        self.lanes_used += 1;
        if self.lanes_used == LANES_FULL {
            self.empty_lanes();
        }
    }

    fn empty_lanes(&mut self) {
        for (at, lane) in self.lanes.iter_mut().enumerate() {
            for (bit, count) in lane.to_le_bytes().into_iter().enumerate() {
                self.counts[at * 8 + bit] += u32::from(count);
            }
            *lane = 0;
        }
        self.lanes_used = 0;
    }
}

/// Eight bytes at a time. Setting one bit of each turns capital letters into small ones.
fn hash_of_word(text: &[u8], start: usize, end: usize) -> u64 {
    let mut hash = (end - start) as u64;
    for at in (start..end).step_by(8) {
        hash = folded(hash.rotate_left(5) ^ eight_bytes(text, at, (end - at).min(8)), MIX);
    }
    hash
}

/// Up to eight bytes as a number, in lower case. Reading behind the word and cutting is quicker than reading bytes.
fn eight_bytes(text: &[u8], at: usize, count: usize) -> u64 {
    let number = match text.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        Some(eight) => u64::from_le_bytes(*eight) & (u64::MAX >> (64 - 8 * count)),
        None => {
            text[at..at + count].iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
        }
    };
    number | 0x2020_2020_2020_2020
}

fn mixed(one: u64, two: u64, three: u64) -> u64 {
    folded(one ^ two.rotate_left(23), three ^ two.wrapping_mul(MIX) ^ MIX)
}

/// The two halves of a product, laid over each other, so that each bit depends on all.
fn folded(one: u64, other: u64) -> u64 {
    let product = u128::from(one) * u128::from(other);
    (product >> 64) as u64 ^ product as u64
}

const fn letters() -> [bool; 256] {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = byte >= 0x80 || (byte as u8).is_ascii_alphanumeric();
        byte += 1;
    }
    table
}

const fn spread() -> [u64; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut bit = 0;
        while bit < 8 {
            if byte & (1 << bit) != 0 {
                table[byte] |= 1 << (8 * bit);
            }
            bit += 1;
        }
        byte += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(from: usize, to: usize) -> Vec<String> {
        (from..to).map(|number| format!("word{number}")).collect()
    }

    #[test]
    fn the_fast_counters_count_what_slow_ones_do() {
        let text = words(0, 1000).join(" ");
        let hashes: Vec<u64> =
            text.split(' ').map(|word| hash_of_word(word.as_bytes(), 0, word.len())).collect();
        let shingles: Vec<u64> =
            hashes.windows(3).map(|run| mixed(run[0], run[1], run[2])).collect();
        let expected = (0..64).fold(0, |hash, bit| {
            let set = shingles.iter().filter(|shingle| *shingle >> bit & 1 == 1).count();
            hash | (u64::from(set * 2 > shingles.len()) << bit)
        });
        assert_eq!(simhash(&text), expected);
        // Counters of a byte must not run over when all runs are the same.
        assert_eq!(simhash(&"one ".repeat(1000)), simhash("one one one"));
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
