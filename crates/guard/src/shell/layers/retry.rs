//! Retries around a service.
