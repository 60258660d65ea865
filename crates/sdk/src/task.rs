//! What a task is to its author: a type with a kind, an output and options. How these become a spec is decided in
//! [`crate::options`].
//!
//! There is no derive macro: three lines by hand say the same, need no second crate at compile time, and keep the
//! kind in sight, which is stored for as long as the task is and must not change when a type is renamed.

use std::time::{SystemTime, UNIX_EPOCH};

use divvy_types::{TaskId, Timestamp};
use serde::Serialize;
use serde::de::DeserializeOwned;

pub use crate::options::TaskOptions;

/// One unit of work: the value that its handler gets.
///
/// The value travels as JSON and may wait for days, so give fields that you add later `#[serde(default)]`.
///
/// ```
/// use divvy::prelude::*;
///
/// #[derive(Serialize, Deserialize)]
/// struct Probe { url: String }
///
/// impl Task for Probe {
///     const KIND: &'static str = "video.probe";
///     type Output = u64;
///     fn options() -> TaskOptions { TaskOptions::new().queue("video").needs(["ffmpeg"]).retries(5) }
/// }
/// ```
pub trait Task: Serialize + DeserializeOwned + Send + 'static {
    /// The stable name by which workers know the task, such as `video.probe`.
    const KIND: &'static str;

    /// What its handler returns.
    type Output: Serialize + DeserializeOwned + Send + 'static;

    /// Where and how tasks of this type run, unless a submission says otherwise.
    fn options() -> TaskOptions {
        TaskOptions::new()
    }
}

/// A new id that sorts by time.
pub(crate) fn fresh_id() -> TaskId {
    TaskId(uuid::Uuid::now_v7().as_u128())
}

/// The time of this machine's clock.
pub(crate) fn clock() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(u64::try_from(since.as_micros()).unwrap_or(Timestamp::MAX.0))
}
