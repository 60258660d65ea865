//! A breaker around a service.
