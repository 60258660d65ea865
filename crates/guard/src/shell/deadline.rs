//! Hands deadlines on.
