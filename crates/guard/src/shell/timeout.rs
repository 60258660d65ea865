//! Bounds a future by what was seen before.
