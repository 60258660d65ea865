//! Asks a second time when the first is slow.
