//! How many calls of one part may run at once.
