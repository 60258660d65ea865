//! What an attempt saves, so that a later attempt of the same task can go on from there.
//!
//! The value travels as JSON. Nobody answers a save, and one that was made right before a crash may be missing: a
//! handler must be right without it, only slower. For the same reason a value that cannot be read any more, because its
//! type has changed since, is left out and told in the log, instead of failing the task.

use std::fmt;
use std::marker::PhantomData;

use divvy_types::Payload;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Extract;
use crate::context::Context;
use crate::failure::Failure;

/// What an earlier attempt saved, and the way to save more.
///
/// ```
/// use divvy::prelude::*;
/// # #[derive(Serialize, Deserialize)] struct Import { pages: u32 }
/// # impl Task for Import { const KIND: &'static str = "import"; type Output = u32; }
///
/// async fn import(task: Import, mut checkpoint: Checkpoint<u32>) -> Outcome<u32> {
///     let first = checkpoint.take().unwrap_or(0);      // nothing at the first attempt
///     for page in first..task.pages {
///         // … the work of one page …
///         checkpoint.save(&(page + 1))?;
///     }
///     Ok(task.pages)
/// }
/// ```
pub struct Checkpoint<T> {
    resumed: Option<T>,
    context: Context,
    saves: PhantomData<fn(&T)>,
}

impl<T: Serialize> Checkpoint<T> {
    /// What an earlier attempt saved last; nothing at the first attempt.
    pub fn resume_point(&self) -> Option<&T> {
        self.resumed.as_ref()
    }

    /// The same, by value. It is not there a second time.
    pub fn take(&mut self) -> Option<T> {
        self.resumed.take()
    }

    /// Saves a value in place of the one before. Cheap: it is sent within a second, and before the end of the attempt is
    /// reported.
    ///
    /// # Errors
    /// A value that is not JSON or larger than 256 KiB is dead with that reason, if it is passed on with `?`: no retry
    /// would change it.
    pub fn save(&self, value: &T) -> Result<(), Failure> {
        let data = Payload::from_value(value).map_err(|error| {
            Failure::dead(format_args!("the checkpoint cannot be written as JSON: {error}"))
        })?;
        self.context.checkpoint(data)
    }
}

impl<T: Serialize + DeserializeOwned + Send + 'static> Extract for Checkpoint<T> {
    fn extract(context: &Context) -> Result<Self, Failure> {
        let resumed = context.resume_point().and_then(|saved| match saved.parse() {
            Ok(value) => Some(value),
            Err(error) => {
                let line = format!("starts anew: what was saved before cannot be read: {error}");
                context.reporter().log(&line);
                None
            }
        });
        Ok(Self { resumed, context: context.clone(), saves: PhantomData })
    }
}

impl<T: fmt::Debug> fmt::Debug for Checkpoint<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Checkpoint").field("resumed", &self.resumed).finish_non_exhaustive()
    }
}
