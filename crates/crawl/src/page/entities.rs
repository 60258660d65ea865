//! What `&amp;` means.
