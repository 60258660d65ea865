//! When to ask a second time.
