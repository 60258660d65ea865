//! Fragments of MP4 files: finds them, checks them, and moves them in time.
