//! A rate limit in front of a service.
