//! The building blocks of [`crate::parking`]: those of the standard library here, those of loom in the model.

pub(crate) use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
pub(crate) use std::sync::{Mutex, MutexGuard};
pub(crate) use std::thread::{Thread, current, park};
