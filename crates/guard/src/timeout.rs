//! How long to wait, learned from what was seen.
