//! One hash for tables, partitions and sketches: fixed for ever, so that every attempt and every machine agrees.
//!
//! Up to 16 bytes are two words, which together with the length hold the whole key, mixed by two multiplications as in
//! wyhash; longer keys go through XXH3 first.

const SEEDS: [u64; 3] = [0xa076_1d64_78bd_642f, 0xe703_7ed1_a0b4_28db, 0x8ebc_6af0_9c88_c6e3];

/// Bytes of a key that two words hold.
pub(super) const SHORT: usize = 16;

/// The hash of a key.
#[inline]
pub fn hash(key: &[u8]) -> u64 {
    match words(key) {
        Some((first, second)) => mix(first, second, key.len()),
        None => mix(xxhash_rust::xxh3::xxh3_64(key), 0, key.len()),
    }
}

/// Which of so many partitions a key belongs to.
#[inline]
pub fn partition(key: &[u8], partitions: u32) -> u32 {
    // The upper half of a product spreads evenly without a division; tables use the lower bits of the hash.
    ((u128::from(hash(key)) * u128::from(partitions)) >> 64) as u32
}

/// A key of at most 16 bytes as two words; with its length they are the key.
#[inline]
pub(super) fn words(key: &[u8]) -> Option<(u64, u64)> {
    let eight = |at: usize| {
        let bytes = key.get(at..at + 8).and_then(|bytes| <[u8; 8]>::try_from(bytes).ok());
        u64::from_le_bytes(bytes.unwrap_or_default())
    };
    let four = |at: usize| {
        let bytes = key.get(at..at + 4).and_then(|bytes| <[u8; 4]>::try_from(bytes).ok());
        u64::from(u32::from_le_bytes(bytes.unwrap_or_default()))
    };
    match key.len() {
        0 => Some((0, 0)),
        length @ 1..4 => {
            let byte = |at: usize| u64::from(key[at]);
            Some((byte(0) | byte(length / 2) << 8 | byte(length - 1) << 16, 0))
        }
        length @ 4..8 => Some((four(0), four(length - 4))),
        length @ 8..=SHORT => Some((eight(0), eight(length - 8))),
        _ => None,
    }
}

/// Appends the key that two words and a length are.
pub(super) fn unwords(first: u64, second: u64, length: usize, out: &mut Vec<u8>) {
    let (first, second) = (first.to_le_bytes(), second.to_le_bytes());
    match length {
        0 => {}
        1 => out.push(first[0]),
        2 => out.extend_from_slice(&[first[0], first[1]]),
        3 => out.extend_from_slice(&first[..3]),
        4..8 => {
            out.extend_from_slice(&first[..4]);
            out.extend_from_slice(&second[8 - length..4]);
        }
        _ => {
            out.extend_from_slice(&first);
            out.extend_from_slice(&second[SHORT - length..]);
        }
    }
}

#[inline]
pub(super) fn mix(first: u64, second: u64, length: usize) -> u64 {
    let folded = fold(first ^ SEEDS[0], second ^ SEEDS[1]);
    fold(folded ^ SEEDS[2], length as u64 ^ SEEDS[1])
}

/// The hash of a word, for tables only.
#[inline]
pub(super) fn hash_word(word: u64) -> u64 {
    fold(word ^ SEEDS[0], SEEDS[1])
}

#[inline]
fn fold(left: u64, right: u64) -> u64 {
    let product = u128::from(left) * u128::from(right);
    product as u64 ^ (product >> 64) as u64
}
