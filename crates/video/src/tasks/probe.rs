//! Finds out what a source holds, and refuses what cannot be processed.
