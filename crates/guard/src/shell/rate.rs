//! Waits for a rate limiter.
