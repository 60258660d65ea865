//! Limits on how often tasks may start and how many may run at once.
