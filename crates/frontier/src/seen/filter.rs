//! One Bloom filter whose bits for a key lie in one cache line.
//!
//! The bits of a key are in one block of 512, so that a question costs one miss of the cache instead of one per bit (F.
//! Putze, P. Sanders and J. Singler, *Cache-, Hash- and Space-Efficient Bloom Filters*, 2007). Blocks are filled unevenly,
//! which costs about a tenth more memory at 1 %; [`expected_rate`] counts with that, and [`plan`] finds the smallest
//! filter that meets a rate.

/// Bits of a block: a cache line.
const BLOCK_BITS: u64 = 512;
const WORDS: usize = 8;
/// The most bits that are set for a key.
const HASHES_MAX: u32 = 14;
/// Positions that one 64-bit word gives, of 9 bits each.
const POSITIONS: u32 = 7;
/// The bits for each key that [`plan`] tries, in steps of [`BITS_STEP`].
const BITS_MIN: f64 = 4.0;
const BITS_MAX: f64 = 64.0;
const BITS_STEP: f64 = 0.25;

#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
struct Block([u64; WORDS]);

/// A filter of fixed size.
#[derive(Clone, Debug)]
pub struct Filter {
    blocks: Vec<Block>,
    hashes: u32,
    capacity: u64,
    len: u64,
}

impl Filter {
    /// A filter for so many keys, which at `capacity` takes this share of others for known.
    pub fn new(capacity: u64, rate: f64) -> Self {
        let (bits, hashes) = plan(rate);
        let capacity = capacity.max(1);
        let blocks = (capacity as f64 * bits / BLOCK_BITS as f64).ceil().max(1.0) as usize;
        Self { blocks: vec![Block::default(); blocks], hashes, capacity, len: 0 }
    }

    /// Adds a key.
    pub fn insert(&mut self, key: u64) {
        let place = self.place(key);
        let block = &mut self.blocks[place].0;
        for_each_bit(key, self.hashes, |word, mask| {
            block[word] |= mask;
            true
        });
        self.len += 1;
    }

    /// Whether the key may have been added; never no for one that was.
    pub fn contains(&self, key: u64) -> bool {
        let block = &self.blocks[self.place(key)].0;
        for_each_bit(key, self.hashes, |word, mask| block[word] & mask != 0)
    }

    /// Whether it holds as many keys as it was made for.
    pub fn is_full(&self) -> bool {
        self.len >= self.capacity
    }

    /// How many keys were added.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether no key was added.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many keys it was made for.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// How many bits are set for a key.
    pub fn hashes(&self) -> u32 {
        self.hashes
    }

    /// What it takes in memory.
    pub fn bytes(&self) -> u64 {
        (self.blocks.len() * size_of::<Block>()) as u64
    }

    /// The share of unknown keys that it takes for known, as full as it is.
    pub fn rate(&self) -> f64 {
        if self.len == 0 {
            return 0.0;
        }
        let bits = self.blocks.len() as f64 * BLOCK_BITS as f64;
        expected_rate(bits / self.len as f64, self.hashes)
    }

    fn place(&self, key: u64) -> usize {
        ((u128::from(key) * self.blocks.len() as u128) >> 64) as usize
    }
}

/// Goes through the bits of a key until `look` says that it is enough; whether it never did.
fn for_each_bit(key: u64, hashes: u32, mut look: impl FnMut(usize, u64) -> bool) -> bool {
    let mut source = mixed(key);
    for hash in 0..hashes {
        if hash == POSITIONS {
            source = mixed(source);
        }
        let position = source >> (9 * (hash % POSITIONS)) & (BLOCK_BITS - 1);
        if !look((position >> 6) as usize, 1 << (position & 63)) {
            return false;
        }
    }
    true
}

/// The finaliser of SplitMix64, so that the bits do not depend on what chooses the block.
fn mixed(key: u64) -> u64 {
    let mut word = key.wrapping_add(0x9e37_79b9_7f4a_7c15);
    word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}

/// The fewest bits for each key, and how many to set, that meet a rate.
pub fn plan(rate: f64) -> (f64, u32) {
    let rate = rate.clamp(1e-6, 0.5);
    let steps = ((BITS_MAX - BITS_MIN) / BITS_STEP) as u32;
    for step in 0..=steps {
        let bits = BITS_MIN + f64::from(step) * BITS_STEP;
        // The best number is near `bits * ln 2` and below it, because blocks are filled unevenly.
        let near = (bits * std::f64::consts::LN_2) as u32;
        let tried = near.saturating_sub(3).max(1)..=near.clamp(1, HASHES_MAX);
        if let Some(hashes) = tried.into_iter().find(|each| expected_rate(bits, *each) <= rate) {
            return (bits, hashes);
        }
    }
    (BITS_MAX, HASHES_MAX)
}

/// The share of unknown keys that are taken for known with so many bits for each key: the mean over blocks, whose
/// numbers of keys follow a Poisson distribution.
pub fn expected_rate(bits_per_key: f64, hashes: u32) -> f64 {
    let mean = BLOCK_BITS as f64 / bits_per_key;
    let most = (mean + 12.0 * mean.sqrt() + 12.0) as u32;
    let unset = (1.0 - 1.0 / BLOCK_BITS as f64).powi(hashes as i32);
    let (mut share, mut rate): (f64, f64) = ((-mean).exp(), 0.0);
    let mut empty: f64 = 1.0;
    for keys in 0..=most {
        rate += share * (1.0 - empty).powi(hashes as i32);
        share *= mean / f64::from(keys + 1);
        empty *= unset;
    }
    rate
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_forgotten_and_the_rate_is_what_was_planned() {
        for (rate, hashes_most) in [(0.01, 7), (0.001, 10)] {
            let mut filter = Filter::new(200_000, rate);
            let mut random = fastrand::Rng::with_seed(3);
            let keys: Vec<u64> = (0..200_000).map(|_| random.u64(..)).collect();
            keys.iter().for_each(|key| filter.insert(*key));
            assert!(filter.is_full() && filter.hashes() <= hashes_most);
            assert!(keys.iter().all(|key| filter.contains(*key)));
            let wrong = (0..400_000).filter(|_| filter.contains(random.u64(..))).count();
            let (measured, thought) = (wrong as f64 / 400_000.0, filter.rate());
            assert!((measured - thought).abs() < 0.15 * thought, "{measured} for {thought}");
            assert!(thought <= rate && thought > 0.5 * rate, "{thought} for {rate}");
        }
    }

    #[test]
    fn an_unblocked_filter_would_need_a_little_less() {
        let (bits, hashes) = plan(0.01);
        assert!((9.59..=10.75).contains(&bits), "{bits} bits, {hashes} hashes");
        let (bits, hashes) = plan(0.001);
        assert!((14.38..=16.75).contains(&bits), "{bits} bits, {hashes} hashes");
        assert_eq!(plan(0.0), plan(1e-6));
        assert!(plan(2.0).0 < 5.0);
    }
}
