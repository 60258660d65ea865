//! The dashboard: its pages as they were built from `ui`, embedded, and the addresses that serve them.
