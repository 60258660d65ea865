//! Sound: one track whole, never in chunks, because every join would add samples.
