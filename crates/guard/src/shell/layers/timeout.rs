//! A learned timeout around a service.
