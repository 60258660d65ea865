//! What a task is, as its submitter says it, and what makes a spec unacceptable.
//!
//! A spec is data and never changes after it was accepted. A bad one is refused whole, with the field named.

use std::ops::{Deref, DerefMut};

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use crate::hidden::hides;
use crate::limits::*;
use crate::terms::{Sparse, Terms};
use crate::{Name, Payload, TaskId, Timestamp, WorkflowId, flat};

/// One unit of work. What most tasks leave alone is in its [`Terms`], whose fields are read and set like its own.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(transform = crate::schema::as_sent)
)]
pub struct TaskSpec {
    /// Names the task; the same id with the same spec is the same task.
    pub id: TaskId,
    /// Which handler runs it, such as `video.probe`.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Label<KIND_LEN_MAX>"))]
    pub kind: Name,
    /// Which queue it waits in.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Label<QUEUE_LEN_MAX>"))]
    pub queue: Name,
    /// What the handler gets.
    pub payload: Payload,
    /// 1 to 5; 5 goes first.
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 5)))]
    pub priority: u8,
    /// Everything else.
    #[serde(flatten)]
    pub terms: Sparse<Terms>,
}

impl Deref for TaskSpec {
    type Target = Terms;
    #[inline]
    fn deref(&self) -> &Terms {
        &self.terms
    }
}

impl DerefMut for TaskSpec {
    #[inline]
    fn deref_mut(&mut self) -> &mut Terms {
        &mut self.terms
    }
}

/// A task as it is sent: a [`TaskSpec`] whose id may be left out, in which case whoever takes it makes one.
#[derive(Clone, Debug, PartialEq)]
pub struct NewTask {
    /// Names the task, if its submitter does.
    pub id: Option<TaskId>,
    /// The rest, with an id that means nothing.
    rest: TaskSpec,
}

impl NewTask {
    /// The task, with an id that is made if it has none.
    pub fn into_spec(self, make_id: impl FnOnce() -> TaskId) -> TaskSpec {
        TaskSpec { id: self.id.unwrap_or_else(make_id), ..self.rest }
    }
}

/// What a task says besides its terms.
#[derive(Default)]
struct Head {
    id: Option<TaskId>,
    kind: Option<Name>,
    queue: Option<Name>,
    payload: Payload,
    priority: Option<u8>,
}
crate::beside_terms!(Head { id, kind, queue, payload, priority } without {});

impl<'de> Deserialize<'de> for NewTask {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (head, terms): (Head, Terms) = flat::read(deserializer)?;
        let rest = TaskSpec {
            id: TaskId(0),
            kind: head.kind.ok_or_else(|| D::Error::missing_field("kind"))?,
            queue: head.queue.unwrap_or_else(default_queue),
            payload: head.payload,
            priority: head.priority.unwrap_or(DEFAULT_PRIORITY),
            terms: terms.into(),
        };
        Ok(Self { id: head.id, rest })
    }
}

impl<'de> Deserialize<'de> for TaskSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let NewTask { id, rest } = NewTask::deserialize(deserializer)?;
        Ok(Self { id: id.ok_or_else(|| D::Error::missing_field("id"))?, ..rest })
    }
}

/// The queue of a task that names none.
pub const DEFAULT_QUEUE: &str = "default";
/// The priority of a task that names none.
pub const DEFAULT_PRIORITY: u8 = 3;
/// The highest priority.
pub const PRIORITY_MAX: u8 = 5;

pub(crate) fn default_queue() -> Name {
    Name::const_new(DEFAULT_QUEUE)
}

impl TaskSpec {
    /// A task of this kind with every other field at its default.
    pub fn new(id: TaskId, kind: impl Into<Name>) -> Self {
        Self {
            id,
            kind: kind.into(),
            queue: default_queue(),
            payload: Payload::null(),
            priority: DEFAULT_PRIORITY,
            terms: Sparse::default(),
        }
    }

    /// Checks every field against its limit.
    pub fn validate(&self) -> Result<(), SpecError> {
        check_name("kind", &self.kind, KIND_LEN_MAX)?;
        check_name("queue", &self.queue, QUEUE_LEN_MAX)?;
        if self.payload.data().len() > PAYLOAD_BYTES_MAX {
            return Err(SpecError::PayloadTooLarge { bytes: self.payload.data().len() });
        }
        check_priority(self.priority)?;
        if self.terms.is_untouched() {
            return Ok(());
        }
        self.terms.validate()?;
        self.validate_edges()?;
        if let Some(workflow) = &self.workflow {
            check_text("workflow.name", &workflow.name, WORKFLOW_NAME_LEN_MAX)?;
        }
        Ok(())
    }

    fn validate_edges(&self) -> Result<(), SpecError> {
        if self.after.len() > AFTER_MAX {
            return Err(SpecError::TooManyEdges { count: self.after.len(), max: AFTER_MAX });
        }
        if self.after.iter().any(|edge| edge.task == self.id) {
            return Err(SpecError::SelfDependency { task: self.id });
        }
        Ok(())
    }
}

/// Refuses what is no priority.
///
/// # Errors
/// If it is none.
pub fn check_priority(priority: u8) -> Result<(), SpecError> {
    if (1..=PRIORITY_MAX).contains(&priority) {
        return Ok(());
    }
    Err(SpecError::field("priority", format!("is {priority}, expected 1 to {PRIORITY_MAX}")))
}

/// An edge to a task that must settle before this one may run.
///
/// In JSON either an id, or an object with `task` and `optional`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(from = "DependencyForm")]
pub struct Dependency {
    /// The task to wait for, together with the children that it spawns.
    pub task: TaskId,
    /// Whether to run even if that task fails. A failed required dependency cancels its dependents.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub optional: bool,
}

#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged, expecting = "expected a task id, or an object with `task` and `optional`")]
enum DependencyForm {
    Id(TaskId),
    Full(DependencyFields),
}

#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
struct DependencyFields {
    task: TaskId,
    #[serde(default)]
    optional: bool,
}

impl From<DependencyForm> for Dependency {
    fn from(form: DependencyForm) -> Self {
        match form {
            DependencyForm::Id(task) => Self { task, optional: false },
            DependencyForm::Full(fields) => Self { task: fields.task, optional: fields.optional },
        }
    }
}

/// What a task is a member of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Member {
    /// The workflow.
    pub workflow: WorkflowId,
    /// The group of it, if it is in one.
    pub group: Option<Name>,
}

/// An edge to all tasks of a group, whenever they come: while one of them has not settled, this one does not run.
///
/// In JSON either the name of the group, or an object with `group` and `optional`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(from = "GroupForm")]
pub struct GroupDependency {
    /// The group of the task's own workflow.
    pub group: Name,
    /// Whether to run even if tasks of the group fail. A failed one cancels whoever requires the group.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub optional: bool,
}

#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged, expecting = "expected a group, or an object with `group` and `optional`")]
enum GroupForm {
    Name(
        #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Label<GROUP_LEN_MAX>"))]
        Name,
    ),
    Full(GroupFields),
}

#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
struct GroupFields {
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Label<GROUP_LEN_MAX>"))]
    group: Name,
    #[serde(default)]
    optional: bool,
}

impl From<GroupForm> for GroupDependency {
    fn from(form: GroupForm) -> Self {
        match form {
            GroupForm::Name(group) => Self { group, optional: false },
            GroupForm::Full(fields) => Self { group: fields.group, optional: fields.optional },
        }
    }
}

/// A label that ties tasks together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Workflow {
    /// Names the workflow.
    pub id: WorkflowId,
    /// What people call it.
    #[serde(default)]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "crate::schema::Visible<WORKFLOW_NAME_LEN_MAX>")
    )]
    pub name: Name,
    /// What the task is to the workflow.
    #[serde(default, skip_serializing_if = "WorkflowRole::is_member")]
    pub role: WorkflowRole,
}

/// What a task is to its workflow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum WorkflowRole {
    /// Part of the work.
    #[default]
    Member,
    /// Runs when every member has settled and none has failed; cancelled if one has.
    OnSuccess,
    /// Runs when every member has settled and one has failed; cancelled if none has.
    OnFailure,
}

impl WorkflowRole {
    /// Whether it is part of the work.
    pub fn is_member(&self) -> bool {
        *self == Self::Member
    }
}

/// Why a spec or a batch of specs is refused. Nothing of a refused batch is kept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpecError {
    /// A field is outside its limits.
    #[error("{field} {problem}")]
    Field {
        /// Which field.
        field: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// The payload is over its limit.
    #[error(
        "payload is {bytes} bytes, at most {PAYLOAD_BYTES_MAX}; keep large data in files or an object store and send its address"
    )]
    PayloadTooLarge {
        /// Its size.
        bytes: usize,
    },
    /// A task waits for itself.
    #[error("after: task {task} depends on itself")]
    SelfDependency {
        /// The task.
        task: TaskId,
    },
    /// Tasks of one batch wait for each other.
    #[error("after: tasks {task} and {other} wait for each other (a dependency cycle)")]
    Cycle {
        /// A task on the cycle.
        task: TaskId,
        /// The one it waits for.
        other: TaskId,
    },
    /// A task waits for one that waits for the group of the task.
    #[error(
        "after: task {task} would wait for itself, because what it depends on waits for its group `{group}`; use another group"
    )]
    GroupCycle {
        /// The task.
        task: TaskId,
        /// Its group.
        group: Name,
    },
    /// A dependency that is neither in the batch nor known.
    #[error(
        "after: task {task} depends on {missing}, which is not known; submit it first or in the same batch"
    )]
    UnknownDependency {
        /// The task.
        task: TaskId,
        /// What it names.
        missing: TaskId,
    },
    /// More dependencies than allowed.
    #[error(
        "after: {count} dependencies, at most {max}; put the tasks into a group and wait for that"
    )]
    TooManyEdges {
        /// How many there are.
        count: usize,
        /// How many there may be.
        max: usize,
    },
    /// More tasks in a batch than allowed.
    #[error("the batch has {count} tasks, at most {BATCH_TASKS_MAX}; split it")]
    BatchTooLarge {
        /// How many there are.
        count: usize,
    },
    /// One id twice in a batch with different specs, or an id that is taken by another task.
    #[error("id {task} is taken by a task with another spec; use a new id")]
    IdTaken {
        /// The id.
        task: TaskId,
    },
    /// Another task has the unique key, and the spec says that it is refused then.
    #[error(
        "unique.key: task {task} cannot have `{key}`, which task {holder} has; wait for that, or say on_conflict skip or replace"
    )]
    NotUnique {
        /// The task.
        task: TaskId,
        /// The key.
        key: Name,
        /// The task that has it.
        holder: TaskId,
    },
    /// A task waits for one of its batch that is not taken, because another has its unique key.
    #[error(
        "after: task {task} depends on {skipped}, which is skipped because task {holder} has its unique key; depend on that"
    )]
    SkippedDependency {
        /// The task.
        task: TaskId,
        /// What it names.
        skipped: TaskId,
        /// The task that has the key.
        holder: TaskId,
    },
    /// A task is expected to be done after its deadline, and the submission is strict.
    #[error(
        "deadline: task {task} is due at {deadline} but expected to be done at {expected_end}; give it more time or a higher priority, add workers, or submit without strict"
    )]
    TooLate {
        /// The task.
        task: TaskId,
        /// When it should be done.
        deadline: Timestamp,
        /// When it is expected to be.
        expected_end: Timestamp,
    },
}

impl SpecError {
    /// A field outside its limits.
    pub fn field(field: &'static str, problem: String) -> Self {
        Self::Field { field, problem }
    }

    /// A stable name for programs: the `code` of API errors.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Field { .. } => "invalid_field",
            Self::PayloadTooLarge { .. } => "payload_too_large",
            Self::SelfDependency { .. } => "self_dependency",
            Self::Cycle { .. } | Self::GroupCycle { .. } => "dependency_cycle",
            Self::UnknownDependency { .. } => "unknown_dependency",
            Self::TooManyEdges { .. } => "too_many_dependencies",
            Self::BatchTooLarge { .. } => "batch_too_large",
            Self::IdTaken { .. } => "id_taken",
            Self::NotUnique { .. } => "not_unique",
            Self::SkippedDependency { .. } => "skipped_dependency",
            Self::TooLate { .. } => "deadline_unmeetable",
        }
    }
}

/// Names are shown everywhere and matched exactly: visible characters without spaces at the ends, no controls.
pub fn check_name(field: &'static str, name: &str, len_max: usize) -> Result<(), SpecError> {
    if name.is_empty() {
        return Err(SpecError::field(field, "is empty".into()));
    }
    check_text(field, name, len_max)?;
    if name.trim() != name {
        return Err(SpecError::field(field, "has white space at an end".into()));
    }
    if matches!(name, "." | "..") {
        return Err(SpecError::field(field, "is only dots, which no address can carry".into()));
    }
    Ok(())
}

fn check_text(field: &'static str, text: &str, len_max: usize) -> Result<(), SpecError> {
    let count = text.chars().count();
    if count > len_max {
        return Err(SpecError::field(field, format!("has {count} characters, at most {len_max}")));
    }
    if let Some(bad) = text.chars().find(|c| hides(*c)) {
        return Err(SpecError::field(
            field,
            format!("contains the invisible character U+{:04X}", bad as u32),
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> TaskSpec {
        TaskSpec::new(TaskId(7), "noop")
    }

    fn labelled(role: WorkflowRole) -> Option<Box<Workflow>> {
        Some(Box::new(Workflow { id: WorkflowId(1), name: Name::default(), role }))
    }

    fn group(name: &str) -> GroupDependency {
        GroupDependency { group: name.into(), optional: false }
    }

    type Spoil = Box<dyn Fn(&mut TaskSpec)>;

    #[test]
    fn each_bad_field_is_named() {
        let cases: Vec<(&str, Spoil)> = vec![
            ("kind is empty", Box::new(|s| s.kind = "".into())),
            ("kind has 129 characters, at most 128", Box::new(|s| s.kind = "k".repeat(129).into())),
            (
                "kind contains the invisible character U+2028",
                Box::new(|s| s.kind = "a\u{2028}b".into()),
            ),
            ("queue is only dots, which no address can carry", Box::new(|s| s.queue = "..".into())),
            ("kind contains the invisible character U+0000", Box::new(|s| s.kind = "a\0b".into())),
            (
                "queue contains the invisible character U+202E",
                Box::new(|s| s.queue = "a\u{202e}b".into()),
            ),
            ("queue has white space at an end", Box::new(|s| s.queue = " a".into())),
            ("priority is 6, expected 1 to 5", Box::new(|s| s.priority = 6)),
            ("priority is 0, expected 1 to 5", Box::new(|s| s.priority = 0)),
            ("needs lists 17, at most 16", Box::new(|s| s.needs = vec!["gpu".into(); 17])),
            ("tags lists 17, at most 16", Box::new(|s| s.tags = vec!["a".into(); 17])),
            (
                "tags has 65 characters, at most 64",
                Box::new(|s| s.tags = vec!["a".repeat(65).into()]),
            ),
            ("tags has white space at an end", Box::new(|s| s.tags = vec!["a ".into()])),
            ("timeout_ms is 0, expected 1 to 2592000000", Box::new(|s| s.timeout_ms = Some(0))),
            ("retry.limit is 1001, at most 1000", Box::new(|s| s.retry.limit = 1001)),
            (
                "retry.jitter_percent is 101, at most 100",
                Box::new(|s| s.retry.jitter_percent = 101),
            ),
            (
                "after: 1001 dependencies, at most 1000; put the tasks into a group and wait for that",
                Box::new(|s| s.after = vec![Dependency { task: TaskId(1), optional: false }; 1001]),
            ),
            (
                "after: task 00000000-0000-0000-0000-000000000007 depends on itself",
                Box::new(|s| s.after = vec![Dependency { task: TaskId(7), optional: false }]),
            ),
        ];
        check_all(cases);
        assert_eq!(spec().validate(), Ok(()));
    }

    fn check_all(cases: Vec<(&str, Spoil)>) {
        for (expected, spoil) in cases {
            let mut bad = spec();
            spoil(&mut bad);
            assert_eq!(bad.validate().unwrap_err().to_string(), expected);
        }
    }

    #[test]
    fn a_group_is_a_part_of_a_workflow_and_no_task_waits_for_its_own() {
        check_all(vec![
            (
                "group needs a workflow whose member the task is",
                Box::new(|s| s.group = Some("a".into())),
            ),
            (
                "group needs a workflow whose member the task is",
                Box::new(|s| {
                    s.workflow = labelled(WorkflowRole::OnSuccess);
                    s.group = Some("a".into());
                }),
            ),
            (
                "after_groups needs a workflow whose member the task is",
                Box::new(|s| s.after_groups = vec![group("a")]),
            ),
            (
                "after_groups names `a`, the group of the task itself",
                Box::new(|s| {
                    s.workflow = labelled(WorkflowRole::Member);
                    s.group = Some("a".into());
                    s.after_groups = vec![group("b"), group("a")];
                }),
            ),
            (
                "after_groups names `a` twice",
                Box::new(|s| {
                    s.workflow = labelled(WorkflowRole::Member);
                    s.after_groups = vec![group("a"), group("a")];
                }),
            ),
        ]);
    }

    #[test]
    fn json_with_defaults_reads_and_an_unknown_field_does_not() {
        let text = r#"{"id":"00000000-0000-0000-0000-000000000007","kind":"noop"}"#;
        assert_eq!(serde_json::from_str::<TaskSpec>(text).unwrap(), spec());
        let text = r#"{"id":"00000000-0000-0000-0000-000000000007","kind":"noop","prio":1}"#;
        assert!(
            serde_json::from_str::<TaskSpec>(text)
                .unwrap_err()
                .to_string()
                .contains("unknown field `prio`")
        );
    }

    #[test]
    fn a_dependency_is_a_name_or_an_object() {
        let id = "00000000-0000-0000-0000-000000000009";
        let short: Dependency = serde_json::from_str(&format!("\"{id}\"")).unwrap();
        let full: Dependency =
            serde_json::from_str(&format!(r#"{{"task":"{id}","optional":true}}"#)).unwrap();
        assert_eq!((short.task, short.optional), (TaskId(9), false));
        assert!(full.optional);
        assert!(serde_json::from_str::<Dependency>(r#"{"task":"x"}"#).is_err());
        let short: GroupDependency = serde_json::from_str(r#""a""#).unwrap();
        let full: GroupDependency =
            serde_json::from_str(r#"{"group":"a","optional":true}"#).unwrap();
        assert_eq!((short, full.optional), (group("a"), true));
    }
}
