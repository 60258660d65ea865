//! Runs futures under a fixed limit.
