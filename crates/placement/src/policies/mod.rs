//! One file per policy.
