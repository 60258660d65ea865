//! Tests of the file of a shard.
