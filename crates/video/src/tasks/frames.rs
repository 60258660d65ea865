//! Thumbnails at equal distances.
