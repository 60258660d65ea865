//! Decides what is to be done and spawns it.
