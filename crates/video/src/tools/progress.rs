//! Reads what ffmpeg says about its progress.
