//! What the tools of this machine can do, found out once at start.
