//! Who is turned away under load.
