//! Which renditions a source gets.
