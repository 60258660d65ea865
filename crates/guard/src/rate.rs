//! How often something may happen.
