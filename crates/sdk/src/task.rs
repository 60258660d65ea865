//! What a task is to its author: a type with a kind, an output and options.
//!
//! Decides how a typed value and its options become a [`TaskSpec`]. It does not know where the spec goes.
//!
//! There is no derive macro: three lines by hand say the same, need no second crate at compile time, and keep the
//! kind in sight, which is stored for as long as the task is and must not change when a type is renamed.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use divvy_types::{Dependency, Name, Payload, RetryPolicy, TaskId, TaskSpec, Timestamp};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::client::Error;

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

/// Where and how a task runs. What is not set has the server's default.
#[derive(Clone, Debug, Default)]
pub struct TaskOptions {
    id: Option<TaskId>,
    queue: Option<Name>,
    priority: Option<u8>,
    needs: Vec<Name>,
    after: Vec<Dependency>,
    start: Option<Start>,
    timeout: Option<Duration>,
    retry: Option<RetryPolicy>,
}

#[derive(Clone, Copy, Debug)]
enum Start {
    At(Timestamp),
    In(Duration),
}

impl TaskOptions {
    /// Everything at its default.
    pub fn new() -> Self {
        Self::default()
    }

    /// Waits in this queue instead of `default`.
    pub fn queue(mut self, queue: impl Into<Name>) -> Self {
        self.queue = Some(queue.into());
        self
    }

    /// From 1 to 5; 5 goes first, 3 is the default.
    pub fn priority(mut self, priority: u8) -> Self {
        self.priority = Some(priority);
        self
    }

    /// Runs only on workers that have all of these capabilities. Replaces what was set before.
    pub fn needs<N: Into<Name>>(mut self, needs: impl IntoIterator<Item = N>) -> Self {
        self.needs = needs.into_iter().map(Into::into).collect();
        self
    }

    /// Attempts after the first one; the waits between them keep their defaults.
    pub fn retries(mut self, limit: u32) -> Self {
        self.retry = Some(RetryPolicy { limit, ..self.retry.unwrap_or_default() });
        self
    }

    /// What happens after a failed attempt, in full.
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.retry = Some(policy);
        self
    }

    /// How long one attempt may take.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Runs not before this long after its submission.
    pub fn delay(mut self, delay: Duration) -> Self {
        self.start = Some(Start::In(delay));
        self
    }

    /// Runs not before this time.
    pub fn run_at(mut self, at: Timestamp) -> Self {
        self.start = Some(Start::At(at));
        self
    }

    /// Names the task. A second submission with the same id and the same spec is the same task.
    pub fn id(mut self, id: TaskId) -> Self {
        self.id = Some(id);
        self
    }

    /// Names the task by a key of yours: the same key is always the same task, however often it is submitted.
    /// A different spec under a used key is refused, so do not combine it with [`TaskOptions::delay`].
    pub fn key(self, key: &str) -> Self {
        self.id(TaskId::from_key(key))
    }

    /// Runs after this task is done; is cancelled if that one fails for good.
    pub fn after(mut self, task: TaskId) -> Self {
        self.after.push(Dependency { task, optional: false });
        self
    }

    /// Runs after this task ended in any way.
    pub fn after_optional(mut self, task: TaskId) -> Self {
        self.after.push(Dependency { task, optional: true });
        self
    }

    /// The spec of `task` under these options, submitted at `now`.
    pub(crate) fn spec<T: Task>(self, task: &T, now: Timestamp) -> Result<TaskSpec, Error> {
        let payload = serde_json::to_vec(task)
            .map_err(|e| Error::Encode { kind: T::KIND, problem: e.to_string() })?;
        let payload = Payload::json(payload)
            .map_err(|e| Error::Encode { kind: T::KIND, problem: format!("the JSON {e}") })?;
        let mut spec = TaskSpec::new(self.id.unwrap_or_else(fresh_id), T::KIND);
        spec.payload = payload;
        if let Some(queue) = self.queue {
            spec.queue = queue;
        }
        if let Some(priority) = self.priority {
            spec.priority = priority;
        }
        spec.needs = self.needs;
        spec.after = self.after;
        spec.run_at = self.start.map(|start| match start {
            Start::At(at) => at,
            Start::In(delay) => now + delay,
        });
        // A span below a millisecond would become zero, which is refused: round up.
        spec.timeout_ms = self
            .timeout
            .map(|span| u64::try_from(span.as_micros().div_ceil(1_000)).unwrap_or(u64::MAX));
        if let Some(retry) = self.retry {
            spec.retry = retry;
        }
        spec.validate()?;
        Ok(spec)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(serde::Serialize, serde::Deserialize)]
    struct Probe {
        url: String,
    }

    impl Task for Probe {
        const KIND: &'static str = "video.probe";
        type Output = ();
        fn options() -> TaskOptions {
            TaskOptions::new().queue("video").needs(["ffmpeg"]).retries(2)
        }
    }

    #[test]
    fn options_of_the_type_and_of_the_submission_meet_in_the_spec() {
        let options = Probe::options()
            .priority(5)
            .delay(Duration::from_secs(2))
            .timeout(Duration::from_micros(1));
        let spec = options.key("clip").spec(&Probe { url: "a".into() }, Timestamp(1)).unwrap();
        assert_eq!(
            (spec.kind.as_str(), spec.queue.as_str(), spec.priority),
            ("video.probe", "video", 5)
        );
        assert_eq!(spec.retry, RetryPolicy { limit: 2, ..RetryPolicy::default() });
        assert_eq!((spec.run_at, spec.timeout_ms), (Some(Timestamp(2_000_001)), Some(1)));
        assert_eq!(spec.id, TaskId::from_key("clip"));
        assert_eq!(spec.payload.json_text(), Some(r#"{"url":"a"}"#));
    }

    #[test]
    fn a_bad_option_is_refused_before_anything_is_sent() {
        let error = Probe::options()
            .priority(9)
            .spec(&Probe { url: "a".into() }, Timestamp(1))
            .unwrap_err();
        assert_eq!(error.to_string(), "priority is 9, expected 1 to 5");
    }
}
