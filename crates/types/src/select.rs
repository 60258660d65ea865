//! Which tasks are meant: the one filter of lists, bulk actions and dead letters, in every interface and store.
//!
//! Decides what a filter may say and whether a task fits it. Does not know how tasks are found: a store may look along
//! any index that leaves out none that fits. A further filter is a field, its line in [`Select::matches`], and a flag.
//!
//! All parts that are given must fit. What only the engine knows of an open task, where it is and who holds it, cannot
//! be told from what is stored. A store therefore lets such tasks pass, and the engine asks once more.

use std::convert::Infallible;

use serde::{Deserialize, Serialize};

use crate::alike::normalise;
use crate::limits::{
    ERROR_BYTES_MAX, KIND_LEN_MAX, QUEUE_LEN_MAX, SELECT_WORKFLOWS_MAX, TAG_LEN_MAX,
    WORKER_NAME_LEN_MAX, WORKFLOW_NAME_LEN_MAX,
};
#[cfg(feature = "schema")]
use crate::schema::Label;
use crate::spec::check_name;
use crate::view::TaskDetail;
use crate::{ErrorClass, Name, SpecError, TaskError, TaskState, Timestamp, WorkflowId};

/// Which tasks; a part that is absent fits all.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Select {
    /// Only in one of these states.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub state: Vec<TaskState>,
    /// Only this kind; a trailing `*` matches any rest.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<Label<KIND_LEN_MAX>>"))]
    pub kind: Option<Name>,
    /// Only in this queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<Label<QUEUE_LEN_MAX>>"))]
    pub queue: Option<Name>,
    /// Only of one of these workflows.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(length(max = SELECT_WORKFLOWS_MAX)))]
    pub workflow: Vec<WorkflowId>,
    /// Only of workflows with this name; a trailing `*` matches any rest.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<Label<WORKFLOW_NAME_LEN_MAX>>"))]
    pub workflow_name: Option<Name>,
    /// Only with this tag.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<Label<TAG_LEN_MAX>>"))]
    pub tag: Option<Name>,
    /// Only what this worker runs or was the last to run.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<Label<WORKER_NAME_LEN_MAX>>"))]
    pub worker: Option<Name>,
    /// Only if the last error contains this text, as it is or with `#` for its numbers, as groups of dead letters show it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = ERROR_BYTES_MAX)))]
    pub error: Option<Name>,
    /// Only if the last error is of this class.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<ErrorClass>,
    /// Only submitted at this time or later.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Only submitted before this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// Only ended at this time or later.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_since: Option<Timestamp>,
    /// Only ended before this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_until: Option<Timestamp>,
    /// Only ended so long ago, or submitted if it is open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub older_than_ms: Option<u64>,
    /// What `older_than_ms` comes to; see [`Select::at`].
    #[serde(skip)]
    pub older_than: Option<Timestamp>,
}

/// A task as a filter looks at it. What costs more is asked later, and only if the filter speaks of it.
pub trait Candidate {
    /// Why it cannot be read.
    type Error;

    /// Where it is; nothing for an open task of which only the engine knows that.
    fn state(&self) -> Result<Option<TaskState>, Self::Error>;
    /// Its kind.
    fn kind(&self) -> Result<&str, Self::Error>;
    /// Its queue.
    fn queue(&self) -> Result<&str, Self::Error>;
    /// Its workflow.
    fn workflow(&self) -> Result<Option<WorkflowId>, Self::Error>;
    /// When it was submitted.
    fn submitted_at(&self) -> Result<Timestamp, Self::Error>;
    /// When it ended, if it did.
    fn ended_at(&self) -> Result<Option<Timestamp>, Self::Error>;
    /// Who holds it, or was the last to. Not asked while the state is unknown.
    fn worker(&self) -> Result<Option<Name>, Self::Error>;
    /// Whether a worker may be the last that is known to have had it. Asked while the state is unknown.
    fn may_be_with(&self, _worker: &str) -> Result<bool, Self::Error> {
        Ok(true)
    }
    /// Its last error.
    fn error(&self) -> Result<Option<TaskError>, Self::Error>;
    /// The name of its workflow.
    fn workflow_name(&self) -> Result<Option<Name>, Self::Error>;
    /// Whether it has a tag.
    fn has_tag(&self, tag: &str) -> Result<bool, Self::Error>;
}

impl Select {
    /// Checks what is given against the limits of tasks.
    pub fn check(&self) -> Result<(), SpecError> {
        for (field, name, len_max) in [
            ("kind", &self.kind, KIND_LEN_MAX),
            ("queue", &self.queue, QUEUE_LEN_MAX),
            ("workflow_name", &self.workflow_name, WORKFLOW_NAME_LEN_MAX),
            ("tag", &self.tag, TAG_LEN_MAX),
            ("worker", &self.worker, WORKER_NAME_LEN_MAX),
        ] {
            name.as_ref().map_or(Ok(()), |name| check_name(field, name, len_max))?;
        }
        let workflows = self.workflow.len();
        if workflows > SELECT_WORKFLOWS_MAX {
            let problem = format!("names {workflows} workflows, at most {SELECT_WORKFLOWS_MAX}");
            return Err(SpecError::field("workflow", problem));
        }
        let wrong = |text: &Name| text.is_empty() || text.len() > ERROR_BYTES_MAX;
        if self.error.as_ref().is_some_and(wrong) {
            let problem = format!("is empty or longer than {ERROR_BYTES_MAX} bytes");
            return Err(SpecError::field("error", problem));
        }
        Ok(())
    }

    /// Whether every task fits: it says nothing, or only that a kind is any and an age at least nothing.
    pub fn is_empty(&self) -> bool {
        let mut selects = self.clone();
        selects.kind = selects.kind.filter(|kind| *kind != "*");
        selects.older_than_ms = selects.older_than_ms.filter(|age| *age > 0);
        selects == Self::default()
    }

    /// The same with ages counted from `now`. Until then they are not looked at.
    #[must_use]
    pub fn at(mut self, now: Timestamp) -> Self {
        let ago = |ms: u64| Timestamp(now.0.saturating_sub(ms.saturating_mul(1_000)));
        self.older_than = self.older_than_ms.map(ago);
        self
    }

    /// Whether only tasks that are open can fit.
    pub fn is_open(&self) -> bool {
        !self.state.is_empty() && self.state.iter().all(|state| !state.is_final())
    }

    /// Whether only tasks that have ended can fit.
    pub fn is_ended(&self) -> bool {
        let ended = !self.state.is_empty() && self.state.iter().all(|state| state.is_final());
        ended || self.ended_since.is_some() || self.ended_until.is_some()
    }

    /// The part that a task's spec and state decide, which never lets a task go that fits the whole.
    #[must_use]
    pub fn of_spec(&self) -> Self {
        Self {
            state: self.state.clone(),
            kind: self.kind.clone(),
            queue: self.queue.clone(),
            workflow: self.workflow.clone(),
            workflow_name: self.workflow_name.clone(),
            tag: self.tag.clone(),
            ..Self::default()
        }
    }

    /// Whether a task fits.
    pub fn matches<T: Candidate>(&self, task: &T) -> Result<bool, T::Error> {
        let state = task.state()?;
        let wrong = !self.has_state(state)
            || is_other(&self.kind, |kind| Ok(fits(kind, task.kind()?)))?
            || is_other(&self.queue, |queue| Ok(queue == task.queue()?))?
            || !self.has_workflow(task)?
            || !self.has_times(task)?
            || is_other(&self.worker, |name| match state {
                Some(_) => Ok(task.worker()?.as_ref() == Some(name)),
                None => task.may_be_with(name),
            })?
            || ((self.error.is_some() || self.class.is_some()) && !self.has_error(task.error()?))
            || is_other(&self.workflow_name, |name| {
                Ok(task.workflow_name()?.is_some_and(|found| fits(name, &found)))
            })?
            || is_other(&self.tag, |tag| task.has_tag(tag))?;
        Ok(!wrong)
    }

    fn has_workflow<T: Candidate>(&self, task: &T) -> Result<bool, T::Error> {
        if self.workflow.is_empty() {
            return Ok(true);
        }
        Ok(task.workflow()?.is_some_and(|workflow| self.workflow.contains(&workflow)))
    }

    fn has_times<T: Candidate>(&self, task: &T) -> Result<bool, T::Error> {
        let of_end = self.ended_since.or(self.ended_until).is_some();
        if !of_end && self.since.or(self.until).or(self.older_than).is_none() {
            return Ok(true);
        }
        let within = |since: Option<Timestamp>, until: Option<Timestamp>, at: Timestamp| {
            since.is_none_or(|since| at >= since) && until.is_none_or(|until| at < until)
        };
        let (submitted, ended) = (task.submitted_at()?, task.ended_at()?);
        Ok(within(self.since, self.until, submitted)
            && within(None, self.older_than, ended.unwrap_or(submitted))
            && ended.map_or(!of_end, |at| within(self.ended_since, self.ended_until, at)))
    }

    fn has_state(&self, state: Option<TaskState>) -> bool {
        let wanted = |wanted: &TaskState| match state {
            Some(state) => state == *wanted,
            None => !wanted.is_final(),
        };
        self.state.is_empty() || self.state.iter().any(wanted)
    }

    fn has_error(&self, error: Option<TaskError>) -> bool {
        let Some(error) = error else { return false };
        let alike = |text: &Name| {
            error.message.contains(text.as_str())
                || normalise(&error.message).contains(text.as_str())
        };
        self.class.is_none_or(|class| class == error.class) && self.error.as_ref().is_none_or(alike)
    }
}

/// Whether something is wanted, and the task has another.
fn is_other<T, E>(wanted: &Option<T>, has: impl FnOnce(&T) -> Result<bool, E>) -> Result<bool, E> {
    wanted.as_ref().map_or(Ok(false), |wanted| Ok(!has(wanted)?))
}

/// Whether a name is the wanted one, or starts as it does up to its trailing star.
pub(crate) fn fits(wanted: &str, name: &str) -> bool {
    wanted.strip_suffix('*').map_or(wanted == name, |start| name.starts_with(start))
}

impl Candidate for TaskDetail {
    type Error = Infallible;

    fn state(&self) -> Result<Option<TaskState>, Infallible> {
        Ok(Some(self.summary.state))
    }

    fn kind(&self) -> Result<&str, Infallible> {
        Ok(&self.summary.kind)
    }

    fn queue(&self) -> Result<&str, Infallible> {
        Ok(&self.summary.queue)
    }

    fn workflow(&self) -> Result<Option<WorkflowId>, Infallible> {
        Ok(self.summary.workflow.as_ref().map(|workflow| workflow.id))
    }

    fn submitted_at(&self) -> Result<Timestamp, Infallible> {
        Ok(self.summary.submitted_at)
    }

    fn ended_at(&self) -> Result<Option<Timestamp>, Infallible> {
        Ok(self.summary.ended_at)
    }

    fn worker(&self) -> Result<Option<Name>, Infallible> {
        Ok(self.summary.worker.clone())
    }

    fn error(&self) -> Result<Option<TaskError>, Infallible> {
        Ok(self.summary.error.clone())
    }

    fn workflow_name(&self) -> Result<Option<Name>, Infallible> {
        Ok(self.summary.workflow.as_ref().map(|workflow| workflow.name.clone()))
    }

    fn has_tag(&self, tag: &str) -> Result<bool, Infallible> {
        Ok(self.terms.tags.iter().any(|found| found == tag))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::TaskSummary;
    use crate::{Payload, TaskId, Workflow, WorkflowRole};

    fn dead() -> TaskDetail {
        let workflow =
            Workflow { id: WorkflowId(7), name: "nightly-3".into(), role: WorkflowRole::Member };
        let terms = crate::Terms { tags: vec!["red".into()], ..Default::default() };
        let summary = TaskSummary {
            id: TaskId(1),
            kind: "video.encode".into(),
            queue: "late".into(),
            priority: 3,
            state: TaskState::Dead,
            wait: None,
            wait_text: None,
            attempts: 1,
            worker: Some("w-1".into()),
            progress: None,
            error: Some(TaskError::new(ErrorClass::Timeout, "status 503 from 10.0.0.1")),
            submitted_at: Timestamp(10_000),
            ended_at: Some(Timestamp(20_000)),
            workflow: Some(workflow),
        };
        TaskDetail {
            summary,
            payload: Payload::null(),
            result: None,
            terms: terms.into(),
            spawned_by: None,
            history: Vec::new(),
            started: None,
        }
    }

    fn select(json: &str) -> Select {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn every_part_lets_go_what_does_not_fit_it() {
        let early = Timestamp(10_000);
        let late = Timestamp(20_000);
        for (fitting, other) in [
            (r#"{"state":["done","dead"]}"#.to_owned(), r#"{"state":["ready"]}"#.to_owned()),
            (r#"{"kind":"video.*"}"#.into(), r#"{"kind":"video"}"#.into()),
            (r#"{"queue":"late"}"#.into(), r#"{"queue":"lat"}"#.into()),
            (
                format!(r#"{{"workflow":["{}","{}"]}}"#, WorkflowId(6), WorkflowId(7)),
                format!(r#"{{"workflow":["{}","{}"]}}"#, WorkflowId(6), WorkflowId(8)),
            ),
            (r#"{"workflow_name":"nightly*"}"#.into(), r#"{"workflow_name":"nightly"}"#.into()),
            (r#"{"tag":"red"}"#.into(), r#"{"tag":"re"}"#.into()),
            (r#"{"worker":"w-1"}"#.into(), r#"{"worker":"w"}"#.into()),
            (r#"{"error":"status 503"}"#.into(), r#"{"error":"status 504"}"#.into()),
            (r##"{"error":"status # from"}"##.into(), r##"{"error":"status # to"}"##.into()),
            (r#"{"class":"timeout"}"#.into(), r#"{"class":"crashed"}"#.into()),
            (format!(r#"{{"since":"{early}"}}"#), format!(r#"{{"until":"{early}"}}"#)),
            (format!(r#"{{"until":"{late}"}}"#), format!(r#"{{"since":"{late}"}}"#)),
            (format!(r#"{{"ended_since":"{late}"}}"#), format!(r#"{{"ended_until":"{late}"}}"#)),
            (r#"{"older_than_ms":29}"#.into(), r#"{"older_than_ms":30}"#.into()),
        ] {
            let at = |json: &str| select(json).at(Timestamp(50_000));
            assert_eq!(at(&fitting).matches(&dead()), Ok(true), "{fitting}");
            assert_eq!(at(&other).matches(&dead()), Ok(false), "{other}");
            let text = serde_json::to_string(&select(&fitting)).unwrap();
            assert_eq!(select(&text), select(&fitting), "{text}");
        }
        assert_eq!(select("{}").matches(&dead()), Ok(true));
        assert_eq!(select(r#"{"kind":"video.*","queue":"q"}"#).matches(&dead()), Ok(false));
    }

    #[test]
    fn what_no_task_can_have_is_refused() {
        for (json, field) in [
            (r#"{"kind":""}"#, "kind"),
            (r#"{"tag":" a"}"#, "tag"),
            (r#"{"worker":""}"#, "worker"),
            (r#"{"error":""}"#, "error"),
        ] {
            let problem = select(json).check().unwrap_err().to_string();
            assert!(problem.contains(field), "{json}: {problem}");
        }
        assert!(serde_json::from_str::<Select>(r#"{"colour":"red"}"#).is_err());
        let of = |count| Select { workflow: vec![WorkflowId(7); count], ..Select::default() };
        assert_eq!(of(SELECT_WORKFLOWS_MAX).check(), Ok(()));
        let problem = of(SELECT_WORKFLOWS_MAX + 1).check().unwrap_err().to_string();
        assert!(problem.contains("workflow"), "{problem}");
    }
}
