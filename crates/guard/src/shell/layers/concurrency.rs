//! A learned limit around a service.
