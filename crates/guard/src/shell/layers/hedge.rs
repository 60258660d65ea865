//! Hedged requests to a service.
