//! Tests of the frontier.
