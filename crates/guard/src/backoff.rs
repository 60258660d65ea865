//! How long to wait before the next try.
