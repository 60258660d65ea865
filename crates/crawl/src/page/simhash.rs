//! A fingerprint that is alike for texts that are alike.

/// The fingerprint of a text.
pub fn simhash(text: &str) -> u64 {
    unimplemented!("{text}")
}

/// In how many of 64 bits two fingerprints differ.
pub fn distance(one: u64, other: u64) -> u32 {
    (one ^ other).count_ones()
}
