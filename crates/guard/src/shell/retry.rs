//! Tries a future again.
