//! Whether a failed call is tried again, and when.
