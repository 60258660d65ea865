//! One MP4 file per rung, by joining what was encoded.
