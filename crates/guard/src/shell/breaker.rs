//! Runs functions and futures under a breaker.
