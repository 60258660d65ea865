//! Checks the whole before anyone sees it.
