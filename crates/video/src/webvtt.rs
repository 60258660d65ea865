//! Subtitles and thumbnail indexes as WebVTT.
