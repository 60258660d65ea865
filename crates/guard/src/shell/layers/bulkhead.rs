//! A fixed limit around a service.
