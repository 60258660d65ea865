//! Children: tasks that come into being with the finish of the one that spawned them, in the same commit.
//!
//! Tasks that wait for the parent wait for its children too, so a fan-out that is known only at run time can be
//! joined. A child may wait for children that were spawned before it, hence cycles cannot be written. Nothing is
//! spawned by an attempt that fails.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use divvy_types::limits::SPAWNED_MAX;
use divvy_types::{TaskId, TaskSpec, Workflow};

use super::Extract;
use crate::context::{Clock, Context};
use crate::failure::Failure;
use crate::task::{Task, TaskOptions};

/// Adds children to the finish of this task.
#[derive(Clone)]
pub struct Spawner {
    children: Arc<Children>,
    clock: Clock,
}

/// A child that will exist once this task is finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Child {
    id: TaskId,
}

impl Child {
    /// Its id.
    pub fn id(self) -> TaskId {
        self.id
    }
}

/// One child or several: what another child may wait for.
pub trait ChildGroup {
    /// Their ids.
    fn ids(&self) -> Vec<TaskId>;
}

impl ChildGroup for Child {
    fn ids(&self) -> Vec<TaskId> {
        vec![self.id]
    }
}

impl ChildGroup for [Child] {
    fn ids(&self) -> Vec<TaskId> {
        self.iter().map(|child| child.id).collect()
    }
}

impl<const N: usize> ChildGroup for [Child; N] {
    fn ids(&self) -> Vec<TaskId> {
        self[..].ids()
    }
}

impl ChildGroup for Vec<Child> {
    fn ids(&self) -> Vec<TaskId> {
        self[..].ids()
    }
}

impl<G: ChildGroup + ?Sized> ChildGroup for &G {
    fn ids(&self) -> Vec<TaskId> {
        (**self).ids()
    }
}

impl Spawner {
    /// Adds a child. A child that cannot be (over a limit, not JSON) fails the attempt when the handler returns.
    pub fn spawn<T: Task>(&self, task: T) -> Child {
        self.spawn_with(task, |options| options)
    }

    /// Adds a child with changed options.
    pub fn spawn_with<T: Task>(
        &self,
        task: T,
        change: impl FnOnce(TaskOptions) -> TaskOptions,
    ) -> Child {
        let id = crate::task::fresh_id();
        let spec = change(T::options().id(id))
            .labelled(self.children.workflow.clone())
            .spec(&task, self.clock.now())
            .map_err(|error| error.to_string());
        // The options may have set another id.
        let id = spec.as_ref().map_or(id, |spec| spec.id);
        self.children.add(T::KIND, spec);
        Child { id }
    }

    /// Adds a child that runs after other children are done.
    pub fn spawn_after<T: Task>(&self, parents: impl ChildGroup, task: T) -> Child {
        self.spawn_with(task, |options| parents.ids().into_iter().fold(options, TaskOptions::after))
    }
}

impl Extract for Spawner {
    fn extract(context: &Context) -> Result<Self, Failure> {
        Ok(Self { children: context.children(), clock: context.clock() })
    }
}

impl fmt::Debug for Spawner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spawner").finish_non_exhaustive()
    }
}

/// The children that an attempt has spawned so far.
pub(crate) struct Children {
    workflow: Option<Box<Workflow>>,
    found: Mutex<Result<Vec<TaskSpec>, String>>,
}

impl Children {
    pub(crate) fn new(workflow: Option<Box<Workflow>>) -> Self {
        Self { workflow, found: Mutex::new(Ok(Vec::new())) }
    }

    /// All of them, for the report; an error if one of them cannot be.
    pub(crate) fn take(&self) -> Result<Vec<TaskSpec>, Failure> {
        std::mem::replace(&mut *self.lock(), Ok(Vec::new())).map_err(Failure::dead)
    }

    fn add(&self, kind: &str, spec: Result<TaskSpec, String>) {
        let mut found = self.lock();
        let Ok(specs) = &mut *found else { return };
        if specs.len() == SPAWNED_MAX {
            *found =
                Err(format!("more than {SPAWNED_MAX} children; let some of them spawn the others"));
            return;
        }
        match spec {
            Ok(spec) => specs.push(spec),
            Err(problem) => {
                let place = specs.len() + 1;
                *found =
                    Err(format!("child {place}, of kind `{kind}`, cannot be spawned: {problem}"));
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Result<Vec<TaskSpec>, String>> {
        // A panic while it was held left a list that is whole: only pushes and replacements happen under the lock.
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
