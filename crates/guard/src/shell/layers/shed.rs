//! Shedding by priority in front of a service.
