//! How many calls may run at once, learned from their latency.
