//! Where and how a task runs, as its author and its submitter say it.
//!
//! Decides how options become a [`TaskSpec`]. What is acceptable is decided by `divvy-types`, before anything is sent.

use std::time::Duration;

use divvy_types::{
    Dependency, GroupDependency, Matching, Name, OnConflict, Payload, RetryPolicy, RetryRule,
    SpecError, TaskId, TaskSpec, Terms, Timestamp, Unique, Workflow,
};

use crate::client::Error;
use crate::task::{Task, fresh_id};

/// Where and how a task runs. What is not set has the server's default.
///
/// ```
/// use divvy::prelude::*;
///
/// let options = TaskOptions::new()
///     .needs(["ffmpeg", "gpu>=2", "region=eu"])              // presence, minimum, equality
///     .deadline(Duration::from_secs(600))                    // the one with the least time to spare goes first
///     .fair_key("acme")                                      // acme's share of the queue
///     .limit("api/acme")                                     // a limit that the server knows
///     .unique_for("report/acme", Duration::from_secs(3_600)) // one per hour
///     .give_up_on("404");                                    // no retry for errors that say so
/// # let _ = options;
/// ```
#[derive(Clone, Debug, Default)]
pub struct TaskOptions {
    id: Option<TaskId>,
    queue: Option<Name>,
    priority: Option<u8>,
    start: Option<When>,
    deadline: Option<When>,
    on_conflict: Option<OnConflict>,
    /// What is said as it will be in the spec.
    terms: Terms,
}

#[derive(Clone, Copy, Debug)]
enum When {
    At(Timestamp),
    In(Duration),
}

impl When {
    fn after(self, now: Timestamp) -> Timestamp {
        match self {
            Self::At(at) => at,
            Self::In(span) => now + span,
        }
    }
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

    /// Runs only on workers that have all of this: `ffmpeg` (there at all), `region=eu` (that value), `gpu>=2` (a number,
    /// at least so much). Replaces what was set before.
    pub fn needs<N: Into<Name>>(mut self, needs: impl IntoIterator<Item = N>) -> Self {
        self.terms.needs = needs.into_iter().map(Into::into).collect();
        self
    }

    /// What to do when no worker has all that is needed, instead of what the server is set to.
    pub fn matching(mut self, matching: Matching) -> Self {
        self.terms.matching = Some(matching);
        self
    }

    /// Attempts after the first one; the waits between them keep their defaults.
    pub fn retries(mut self, limit: u32) -> Self {
        self.terms.retry.limit = limit;
        self
    }

    /// What happens after a failed attempt, in full. Replaces rules that were added before.
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.terms.retry = policy;
        self
    }

    /// Treats one sort of error otherwise. Of several rules that fit an error, the one that was added first holds.
    pub fn retry_rule(mut self, rule: RetryRule) -> Self {
        self.terms.retry.rules.push(rule);
        self
    }

    /// Does not retry after an error whose message contains `text`.
    pub fn give_up_on(self, text: impl Into<Name>) -> Self {
        let contains = Some(text.into());
        self.retry_rule(RetryRule { contains, limit: Some(0), ..RetryRule::default() })
    }

    /// How long one attempt may take.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.terms.timeout_ms = Some(millis(timeout));
        self
    }

    /// Runs not before this long after its submission.
    pub fn delay(mut self, delay: Duration) -> Self {
        self.start = Some(When::In(delay));
        self
    }

    /// Runs not before this time.
    pub fn run_at(mut self, at: Timestamp) -> Self {
        self.start = Some(When::At(at));
        self
    }

    /// Should be done this long after its submission. Of tasks with equal priority, the one with the least time to
    /// spare goes first; a deadline that is missed does not stop the task.
    pub fn deadline(mut self, span: Duration) -> Self {
        self.deadline = Some(When::In(span));
        self
    }

    /// Should be done at this time.
    pub fn deadline_at(mut self, at: Timestamp) -> Self {
        self.deadline = Some(When::At(at));
        self
    }

    /// Uses this one's share of its queue, such as a tenant's: queues are shared fairly between keys.
    pub fn fair_key(mut self, key: impl Into<Name>) -> Self {
        self.terms.fair_key = Some(key.into());
        self
    }

    /// Runs under these limits of the server: `name` or `name/key`; `{field}` in a key stands for that field of the
    /// task. Replaces what was set before.
    pub fn limits<N: Into<Name>>(mut self, limits: impl IntoIterator<Item = N>) -> Self {
        self.terms.limits = limits.into_iter().map(Into::into).collect();
        self
    }

    /// Runs under one more limit.
    pub fn limit(mut self, limit: impl Into<Name>) -> Self {
        self.terms.limits.push(limit.into());
        self
    }

    /// Only one task with this key may be open at a time. Other than [`TaskOptions::key`], the key is free again when
    /// the task has ended.
    pub fn unique(mut self, key: impl Into<Name>) -> Self {
        let (key, on_conflict) = (key.into(), OnConflict::default());
        self.terms.unique = Some(Unique { key, window_ms: None, on_conflict });
        self
    }

    /// Only one task with this key may be submitted within this span, even if the first one ends sooner.
    pub fn unique_for(mut self, key: impl Into<Name>, window: Duration) -> Self {
        let (key, on_conflict) = (key.into(), OnConflict::default());
        self.terms.unique = Some(Unique { key, window_ms: Some(millis(window)), on_conflict });
        self
    }

    /// What becomes of a second task with the same unique key, which is skipped otherwise.
    pub fn on_conflict(mut self, policy: OnConflict) -> Self {
        self.on_conflict = Some(policy);
        self
    }

    /// Runs on the same worker as others with this key, where that costs no waiting.
    pub fn affinity(mut self, key: impl Into<Name>) -> Self {
        self.terms.affinity = Some(key.into());
        self
    }

    /// How large it is, in any unit that grows with its run time (bytes, frames); makes estimates better.
    pub fn cost_hint(mut self, size: u64) -> Self {
        self.terms.cost_hint = Some(size);
        self
    }

    /// Labels to find it by, in lists and bulk actions. Replaces what was set before.
    pub fn tags<N: Into<Name>>(mut self, tags: impl IntoIterator<Item = N>) -> Self {
        self.terms.tags = tags.into_iter().map(Into::into).collect();
        self
    }

    /// Names the task. A second submission with the same id and the same spec is the same task.
    pub fn id(mut self, id: TaskId) -> Self {
        self.id = Some(id);
        self
    }

    /// Names the task by a key of yours: the same key is always the same task, however often it is submitted.
    /// A different spec under a used key is refused, so do not combine it with [`TaskOptions::delay`] or
    /// [`TaskOptions::deadline`].
    pub fn key(self, key: &str) -> Self {
        self.id(TaskId::from_key(key))
    }

    /// Runs after this task is done; is cancelled if that one fails for good.
    pub fn after(mut self, task: TaskId) -> Self {
        self.terms.after.push(Dependency { task, optional: false });
        self
    }

    /// Runs after this task ended in any way.
    pub fn after_optional(mut self, task: TaskId) -> Self {
        self.terms.after.push(Dependency { task, optional: true });
        self
    }

    /// Puts it into a group of its workflow, for others to wait for as a whole: [`TaskOptions::after_group`]. A task
    /// outside of any workflow has no group.
    pub fn group(mut self, group: impl Into<Name>) -> Self {
        self.terms.group = Some(group.into());
        self
    }

    /// Runs when every task of this group of its workflow is done, with all that they spawned, however many there are;
    /// is cancelled if one of them fails for good. Tasks that join the group while it waits count too, and a group
    /// without tasks keeps nobody waiting. Their results are not handed on: let them write what is needed where it can
    /// be found.
    pub fn after_group(self, group: impl Into<Name>) -> Self {
        self.wait_for_group(group.into(), false)
    }

    /// Runs when every task of this group has ended, in whichever way.
    pub fn after_group_optional(self, group: impl Into<Name>) -> Self {
        self.wait_for_group(group.into(), true)
    }

    fn wait_for_group(mut self, group: Name, optional: bool) -> Self {
        self.terms.after_groups.push(GroupDependency { group, optional });
        self
    }

    /// Makes it a part of this workflow, if there is one.
    pub(crate) fn labelled(mut self, workflow: Option<Box<Workflow>>) -> Self {
        self.terms.workflow = workflow.or(self.terms.workflow);
        self
    }

    /// The spec of `task` under these options, submitted at `now`.
    pub(crate) fn spec<T: Task>(self, task: &T, now: Timestamp) -> Result<TaskSpec, Error> {
        self.spec_of(T::KIND, serde_json::to_vec(task), now)
    }

    /// The same of a task that is JSON already: compiled once, not for every kind.
    fn spec_of(
        self,
        kind: &'static str,
        payload: serde_json::Result<Vec<u8>>,
        now: Timestamp,
    ) -> Result<TaskSpec, Error> {
        let payload = payload.map_err(|e| Error::Encode { kind, problem: e.to_string() })?;
        let payload = Payload::json(payload)
            .map_err(|e| Error::Encode { kind, problem: format!("the JSON {e}") })?;
        let mut terms = self.terms;
        terms.run_at = self.start.map(|start| start.after(now));
        terms.deadline = self.deadline.map(|deadline| deadline.after(now));
        if let Some(policy) = self.on_conflict {
            let Some(unique) = &mut terms.unique else {
                let problem = "is set without a key; call unique(key) too".to_owned();
                return Err(SpecError::field("unique.on_conflict", problem).into());
            };
            unique.on_conflict = policy;
        }
        let mut spec = TaskSpec::new(self.id.unwrap_or_else(fresh_id), kind);
        spec.payload = payload;
        spec.queue = self.queue.unwrap_or(spec.queue);
        spec.priority = self.priority.unwrap_or(spec.priority);
        spec.terms = terms.into();
        spec.validate()?;
        Ok(spec)
    }
}

/// A span below a millisecond would become zero, which is refused: round up.
fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_micros().div_ceil(1_000)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use divvy_types::ErrorClass;

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

    fn spec_of(options: TaskOptions) -> Result<TaskSpec, String> {
        options.spec(&Probe { url: "a".into() }, Timestamp(1)).map_err(|error| error.to_string())
    }

    #[test]
    fn options_of_the_type_and_of_the_submission_meet_in_the_spec() {
        let options = Probe::options()
            .priority(5)
            .delay(Duration::from_secs(2))
            .timeout(Duration::from_micros(1));
        let spec = spec_of(options.key("clip")).unwrap();
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
    fn every_option_reaches_the_spec() {
        let rule = RetryRule {
            class: Some(ErrorClass::Timeout),
            base_ms: Some(9),
            ..RetryRule::default()
        };
        let id = divvy_types::WorkflowId(1);
        let label = Box::new(Workflow { id, name: "clip".into(), role: Default::default() });
        let options = TaskOptions::new()
            .needs(["gpu>=2", "region=eu"])
            .matching(Matching::Fallback)
            .after(TaskId(1))
            .after_optional(TaskId(2))
            .run_at(Timestamp(5))
            .deadline(Duration::from_millis(1))
            .timeout(Duration::from_secs(1))
            .retries(7)
            .give_up_on("404")
            .retry_rule(rule.clone())
            .on_conflict(OnConflict::Replace)
            .unique_for("report", Duration::from_secs(3))
            .limits(["api/acme"])
            .limit("disk")
            .fair_key("acme")
            .affinity("clip-42")
            .cost_hint(0)
            .tags(["nightly"])
            .labelled(Some(label.clone()))
            .group("films")
            .after_group("parts")
            .after_group_optional("sound");
        let give_up =
            RetryRule { contains: Some("404".into()), limit: Some(0), ..RetryRule::default() };
        let (key, on_conflict) = ("report".into(), OnConflict::Replace);
        // A term that is added and not written here does not compile.
        let expected = Terms {
            needs: vec!["gpu>=2".into(), "region=eu".into()],
            matching: Some(Matching::Fallback),
            after: vec![
                Dependency { task: TaskId(1), optional: false },
                Dependency { task: TaskId(2), optional: true },
            ],
            run_at: Some(Timestamp(5)),
            deadline: Some(Timestamp(1_001)),
            timeout_ms: Some(1_000),
            retry: RetryPolicy { limit: 7, rules: vec![give_up, rule], ..RetryPolicy::default() },
            workflow: Some(label),
            group: Some("films".into()),
            after_groups: vec![
                GroupDependency { group: "parts".into(), optional: false },
                GroupDependency { group: "sound".into(), optional: true },
            ],
            unique: Some(Unique { key, window_ms: Some(3_000), on_conflict }),
            limits: vec!["api/acme".into(), "disk".into()],
            fair_key: Some("acme".into()),
            affinity: Some("clip-42".into()),
            cost_hint: Some(0),
            tags: vec!["nightly".into()],
        };
        assert_eq!(*spec_of(options).unwrap().terms, expected);
        let options = TaskOptions::new().unique("open").deadline_at(Timestamp(8));
        let spec = spec_of(options).unwrap();
        assert_eq!((spec.unique.as_ref().unwrap().window_ms, spec.deadline.unwrap().0), (None, 8));
        assert!(spec_of(TaskOptions::new()).unwrap().terms.is_untouched(), "no box for defaults");
    }

    #[test]
    fn a_bad_option_is_refused_before_anything_is_sent() {
        let cases = [
            (TaskOptions::new().priority(9), "priority is 9, expected 1 to 5"),
            (
                TaskOptions::new().on_conflict(OnConflict::Refuse),
                "unique.on_conflict is set without a key; call unique(key) too",
            ),
            (TaskOptions::new().fair_key(" a"), "fair_key has white space at an end"),
            (TaskOptions::new().limits(["a"; 9]), "limits lists 9, at most 8"),
            (TaskOptions::new().unique(""), "unique.key is empty"),
            (
                TaskOptions::new().needs(["gpu>2"]),
                "needs has `gpu>2`: only `=` and `>=` can be asked for; write `gpu`, `region=eu` or `memory_gb>=16`",
            ),
        ];
        for (options, problem) in cases {
            assert_eq!(spec_of(options).unwrap_err(), problem);
        }
    }
}
