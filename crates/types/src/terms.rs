//! The terms under which a task runs: everything about it that most tasks leave at the default.
//!
//! [`Terms`] is the only list of them. Bodies of requests, templates of schedules, workflow files and rows of stores read
//! it beside their own fields ([`crate::flat`]); what people see of a task shows it as it is.
//!
//! A [`crate::TaskSpec`] keeps its terms in a [`Sparse`] box, which is empty while all of them are at their defaults,
//! so that a waiting task costs memory only for what was said about it.

use std::ops::{Deref, DerefMut};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::bounded;
use crate::limits::*;
use crate::need::Need;
use crate::spec::{Dependency, GroupDependency, Member, SpecError, Workflow, check_name};
use crate::{Name, RetryPolicy, Timestamp};

/// What may be said about a task besides what it is. Read as fields of [`crate::TaskSpec`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Terms {
    /// What the worker must have: `gpu`, `region=eu`, `memory_gb>=16`; see [`crate::need`].
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "bounded::at_most::<NEEDS_MAX, _, _>"
    )]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<crate::schema::NeedText>", length(max = NEEDS_MAX)))]
    pub needs: Vec<Name>,
    /// What to do when no worker has all of that; the server's setting unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub matching: Option<Matching>,
    /// Tasks that must settle first.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        // What is somewhat too long is refused with a code of its own.
        deserialize_with = "bounded::at_most::<{ 2 * AFTER_MAX }, _, _>"
    )]
    #[cfg_attr(feature = "schema", schemars(length(max = AFTER_MAX)))]
    pub after: Vec<Dependency>,
    /// Not before this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_at: Option<Timestamp>,
    /// When it should be done: of tasks with equal priority, the one with the least time to spare goes first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    /// How long one attempt may take, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = TIMEOUT_MS_MAX)))]
    pub timeout_ms: Option<u64>,
    /// What happens after a failed attempt.
    #[serde(skip_serializing_if = "RetryPolicy::is_default")]
    pub retry: RetryPolicy,
    /// The workflow that it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workflow: Option<Box<Workflow>>,
    /// The group of that workflow that it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<crate::schema::Label<GROUP_LEN_MAX>>"))]
    pub group: Option<Name>,
    /// Groups of its workflow of which every task must settle first.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "bounded::at_most::<AFTER_GROUPS_MAX, _, _>"
    )]
    #[cfg_attr(feature = "schema", schemars(length(max = AFTER_GROUPS_MAX)))]
    pub after_groups: Vec<GroupDependency>,
    /// Only one such task at a time, or within a window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unique: Option<Unique>,
    /// Limits that it runs under: `name` or `name/key`; `{field}` in a key stands for that field of the payload.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "bounded::at_most::<LIMITS_MAX, _, _>"
    )]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<crate::schema::Label<LIMIT_LEN_MAX>>", length(max = LIMITS_MAX)))]
    pub limits: Vec<Name>,
    /// Whose share of its queue it uses.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<crate::schema::Label<KEY_LEN_MAX>>"))]
    pub fair_key: Option<Name>,
    /// Tasks with the same key run on the same worker where that costs no waiting.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<crate::schema::Label<KEY_LEN_MAX>>"))]
    pub affinity: Option<Name>,
    /// How large it is, in any unit that grows with its run time (bytes, frames); makes estimates better.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_hint: Option<u64>,
    /// Labels to find it by. They change nothing about when and where it runs.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "bounded::at_most::<TAGS_MAX, _, _>"
    )]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<crate::schema::Label<TAG_LEN_MAX>>", length(max = TAGS_MAX)))]
    pub tags: Vec<Name>,
}

/// What to do when no worker has all that a task needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Matching {
    /// Wait; of the workers that have it all, any will do.
    Exact,
    /// Wait; of the workers that have it all, take the one with the best score.
    #[default]
    BestFit,
    /// Like `best_fit`, but if no connected worker has it all, take the nearest one. Not for high priorities.
    Fallback,
}

impl Matching {
    /// The word for it, as in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::BestFit => "best_fit",
            Self::Fallback => "fallback",
        }
    }
}

/// Only one such task at a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Unique {
    /// What makes it the same.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Label<UNIQUE_KEY_LEN_MAX>"))]
    pub key: Name,
    /// For how long after its submission, in milliseconds, even if it ends sooner. Without: while it is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(max = UNIQUE_WINDOW_MS_MAX)))]
    pub window_ms: Option<u64>,
    /// What becomes of a second one.
    #[serde(default)]
    pub on_conflict: OnConflict,
}

impl Unique {
    /// Until when the window of a task lasts that was submitted at `at`, if it has one.
    pub fn until(&self, at: Timestamp) -> Option<Timestamp> {
        self.window_ms.map(|window| at.plus_ms(window))
    }
}

/// What becomes of a second task with a unique key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum OnConflict {
    /// It is not taken, and its submitter is told of the first.
    #[default]
    Skip,
    /// The first is cancelled.
    Replace,
    /// The whole batch is refused.
    Refuse,
}

impl Default for Terms {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl Terms {
    /// Nothing was said.
    pub const DEFAULT: Self = Self {
        needs: Vec::new(),
        matching: None,
        after: Vec::new(),
        run_at: None,
        deadline: None,
        timeout_ms: None,
        retry: RetryPolicy::DEFAULT,
        workflow: None,
        group: None,
        after_groups: Vec::new(),
        unique: None,
        limits: Vec::new(),
        fair_key: None,
        affinity: None,
        cost_hint: None,
        tags: Vec::new(),
    };

    /// How many dependencies it has; a group is one.
    pub fn edges(&self) -> usize {
        self.after.len() + self.after_groups.len()
    }

    /// The workflow that the task is a member of, and its group there.
    pub fn member(&self) -> Option<Member> {
        let workflow = self.workflow.as_ref().filter(|workflow| workflow.role.is_member())?;
        Some(Member { workflow: workflow.id, group: self.group.clone() })
    }

    /// Checks every field against its limit.
    pub(crate) fn validate(&self) -> Result<(), SpecError> {
        count("needs", self.needs.len(), NEEDS_MAX)?;
        for need in &self.needs {
            check_name("needs", need, CAPABILITY_LEN_MAX)?;
            Need::parse(need).map_err(|problem| SpecError::field("needs", problem))?;
        }
        if let Some(timeout) = self.timeout_ms
            && !(1..=TIMEOUT_MS_MAX).contains(&timeout)
        {
            let problem = format!("is {timeout}, expected 1 to {TIMEOUT_MS_MAX}");
            return Err(SpecError::field("timeout_ms", problem));
        }
        self.retry.validate()?;
        if let Some(unique) = &self.unique {
            check_name("unique.key", &unique.key, UNIQUE_KEY_LEN_MAX)?;
            if unique.window_ms.is_some_and(|window| window > UNIQUE_WINDOW_MS_MAX) {
                let problem = format!("is more than {UNIQUE_WINDOW_MS_MAX}");
                return Err(SpecError::field("unique.window_ms", problem));
            }
        }
        self.validate_groups()?;
        count("limits", self.limits.len(), LIMITS_MAX)?;
        for limit in &self.limits {
            check_name("limits", limit, LIMIT_LEN_MAX)?;
        }
        count("tags", self.tags.len(), TAGS_MAX)?;
        for tag in &self.tags {
            check_name("tags", tag, TAG_LEN_MAX)?;
        }
        for (field, key) in [("fair_key", &self.fair_key), ("affinity", &self.affinity)] {
            if let Some(key) = key {
                check_name(field, key, KEY_LEN_MAX)?;
            }
        }
        Ok(())
    }

    /// A group is a part of a workflow, and nobody waits for the group that it is in.
    fn validate_groups(&self) -> Result<(), SpecError> {
        let member = self.workflow.as_ref().is_some_and(|workflow| workflow.role.is_member());
        let needs_workflow = |field| match member {
            true => Ok(()),
            false => {
                Err(SpecError::field(field, "needs a workflow whose member the task is".into()))
            }
        };
        if let Some(group) = &self.group {
            needs_workflow("group")?;
            check_name("group", group, GROUP_LEN_MAX)?;
        }
        let edges = &self.after_groups;
        if edges.is_empty() {
            return Ok(());
        }
        needs_workflow("after_groups")?;
        count("after_groups", edges.len(), AFTER_GROUPS_MAX)?;
        for (place, edge) in edges.iter().enumerate() {
            check_name("after_groups", &edge.group, GROUP_LEN_MAX)?;
            if edges[..place].iter().any(|other| other.group == edge.group) {
                let problem = format!("names `{}` twice", edge.group);
                return Err(SpecError::field("after_groups", problem));
            }
            if self.group.as_ref() == Some(&edge.group) {
                let problem = format!("names `{}`, the group of the task itself", edge.group);
                return Err(SpecError::field("after_groups", problem));
            }
        }
        Ok(())
    }
}

fn count(field: &'static str, count: usize, max: usize) -> Result<(), SpecError> {
    if count > max {
        return Err(SpecError::field(field, format!("lists {count}, at most {max}")));
    }
    Ok(())
}

/// How much may be said in a term. Read them in [`crate::limits`], among the others.
pub mod limits {
    /// Capabilities that one task may need.
    pub const NEEDS_MAX: usize = 16;
    /// Limits that one task may run under.
    pub const LIMITS_MAX: usize = 8;
    /// Characters of a limit with its key.
    pub const LIMIT_LEN_MAX: usize = 192;
    /// Tags of one task.
    pub const TAGS_MAX: usize = 16;
    /// Characters of a tag.
    pub const TAG_LEN_MAX: usize = 64;
    /// Characters of a fair key or an affinity key.
    pub const KEY_LEN_MAX: usize = 128;
    /// Characters of a unique key.
    pub const UNIQUE_KEY_LEN_MAX: usize = 256;
    /// The longest window of a unique key: 30 days.
    pub const UNIQUE_WINDOW_MS_MAX: u64 = 30 * 86_400_000;
    /// Dependencies of one task.
    pub const AFTER_MAX: usize = 1_000;
    /// Characters of the name of a group.
    pub const GROUP_LEN_MAX: usize = 128;
    /// Groups that one task may wait for.
    pub const AFTER_GROUPS_MAX: usize = 100;
    /// The longest attempt: 30 days.
    pub const TIMEOUT_MS_MAX: u64 = 30 * 86_400_000;
}

/// A box that is empty while what it holds is at its default.
#[derive(Clone, Debug, Default)]
pub struct Sparse<T>(Option<Box<T>>);

/// A value that stands for all that were left at their default.
pub trait SharedDefault: Default + 'static {
    /// The one default.
    fn shared() -> &'static Self;
}

// Known to the compiler, because every task reads it several times: nothing has to be looked up, nor made first.
static DEFAULT_TERMS: Terms = Terms::DEFAULT;

impl SharedDefault for Terms {
    #[inline]
    fn shared() -> &'static Self {
        &DEFAULT_TERMS
    }
}

impl<T> Sparse<T> {
    /// Whether nothing was ever changed.
    pub fn is_untouched(&self) -> bool {
        self.0.is_none()
    }
}

impl<T: Default> Sparse<T> {
    /// What it holds.
    pub fn into_inner(self) -> T {
        self.0.map_or_else(T::default, |value| *value)
    }
}

impl<T: SharedDefault + PartialEq> From<T> for Sparse<T> {
    fn from(value: T) -> Self {
        Self((value != *T::shared()).then(|| Box::new(value)))
    }
}

impl<T: SharedDefault> Deref for Sparse<T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        match &self.0 {
            Some(value) => value,
            None => T::shared(),
        }
    }
}

impl<T: SharedDefault> DerefMut for Sparse<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        self.0.get_or_insert_default()
    }
}

impl<T: SharedDefault + PartialEq> PartialEq for Sparse<T> {
    fn eq(&self, other: &Self) -> bool {
        (self.0.is_none() && other.0.is_none()) || **self == **other
    }
}

impl<T: SharedDefault + Serialize> Serialize for Sparse<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (**self).serialize(serializer)
    }
}

impl<'de, T: SharedDefault + PartialEq + Deserialize<'de>> Deserialize<'de> for Sparse<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::deserialize(deserializer).map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sparse_box_is_empty_until_something_differs_from_the_default() {
        let mut terms = Sparse::<Terms>::default();
        assert!(terms.needs.is_empty() && terms.is_untouched());
        terms.needs.push("gpu".into());
        assert!(!terms.is_untouched());
        terms.needs.clear();
        assert_eq!(terms, Sparse::default(), "all at the default is equal, boxed or not");
        assert!(Sparse::from(Terms::default()).is_untouched());
    }
}
