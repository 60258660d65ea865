//! Consistent hashing: equal keys stay together, and few of them move when targets come and go.

/// The hash of a key, the same in every run, version and machine: XXH3, 64 bits.
pub fn hash_of(key: impl AsRef<[u8]>) -> u64 {
    xxhash_rust::xxh3::xxh3_64(key.as_ref())
}
