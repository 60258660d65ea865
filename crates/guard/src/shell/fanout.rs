//! Asks many at once and takes what comes in time.
