//! Lets futures in by priority.
