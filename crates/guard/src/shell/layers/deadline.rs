//! Deadlines handed on through a service.
