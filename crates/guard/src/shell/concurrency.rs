//! Runs futures under a learned limit.
