//! What came back from many at once, and what did not.
