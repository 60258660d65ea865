//! Results of the tasks that this one waited for.
//!
//! Parents are told apart by their task type, whose kind is stored with each result: two types with alike JSON are
//! never confused. Results come in the order in which the dependencies were declared, then the spawned children.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use divvy_types::limits::{UPSTREAM_BYTES_MAX, UPSTREAM_ROWS_MAX};
use divvy_types::{TaskId, TaskState, view};

use super::Extract;
use crate::context::Context;
use crate::failure::Failure;
use crate::task::Task;

/// The result of the one parent of task type `T`.
pub struct Upstream<T: Task>(pub T::Output);

/// The results of all parents of task type `T` that are done, and of the children of that type that parents spawned.
pub struct Upstreams<T: Task>(pub Vec<T::Output>);

/// How every parent ended, and every child that a parent spawned.
#[derive(Clone, Debug)]
pub struct Parents(pub Arc<[view::Upstream]>);

impl<T: Task> Extract for Upstream<T> {
    fn extract(context: &Context) -> Result<Self, Failure> {
        match Option::<Self>::extract(context)? {
            Some(result) => Ok(result),
            None => Err(Failure::dead(format_args!(
                "no parent of kind `{}` is done; declare it with after(…), or take Option<Upstream<…>> if it may fail",
                T::KIND
            ))),
        }
    }
}

impl<T: Task> Extract for Option<Upstream<T>> {
    fn extract(context: &Context) -> Result<Self, Failure> {
        let mut results = results_of::<T>(context, false)?;
        match results.len() {
            0 | 1 => Ok(results.pop().map(Upstream)),
            count => Err(Failure::dead(format_args!(
                "{count} parents are of kind `{}`, expected one; take Upstreams<…> instead of Upstream<…>",
                T::KIND
            ))),
        }
    }
}

impl<T: Task> Extract for Upstreams<T> {
    fn extract(context: &Context) -> Result<Self, Failure> {
        results_of::<T>(context, true).map(Self)
    }
}

impl Extract for Parents {
    fn extract(context: &Context) -> Result<Self, Failure> {
        whole(context)?;
        Ok(Self(context.upstream_shared()))
    }
}

/// All rows, or a failure if some are missing: nothing may be concluded from a part.
fn whole(context: &Context) -> Result<&[view::Upstream], Failure> {
    if !context.upstream_cut() {
        return Ok(context.upstream());
    }
    Err(Failure::dead(format_args!(
        "results that it waited for are missing: more than can travel with a grant ({UPSTREAM_ROWS_MAX} results, \
         {UPSTREAM_BYTES_MAX} bytes), or older than the retention; join them through intermediate tasks, keep large \
         results elsewhere and return their addresses, or keep tasks for longer with --retention-days"
    )))
}

fn results_of<T: Task>(context: &Context, with_spawned: bool) -> Result<Vec<T::Output>, Failure> {
    let declared: HashMap<TaskId, usize> =
        context.spec().after.iter().enumerate().map(|(place, edge)| (edge.task, place)).collect();
    let mut found: Vec<&view::Upstream> = whole(context)?
        .iter()
        .filter(|parent| parent.kind == T::KIND && parent.state == TaskState::Done)
        .filter(|parent| with_spawned || !parent.spawned)
        .collect();
    found.sort_by_key(|parent| declared.get(&parent.task).copied().unwrap_or(usize::MAX));
    found.into_iter().map(decode::<T>).collect()
}

fn decode<T: Task>(parent: &view::Upstream) -> Result<T::Output, Failure> {
    parent.result.parse().map_err(|error| {
        let (task, kind) = (parent.task, &parent.kind);
        Failure::dead(format_args!(
            "the result of parent {task} of kind `{kind}` is not what its type says: {error}"
        ))
    })
}

impl<T: Task> fmt::Debug for Upstream<T>
where
    T::Output: fmt::Debug,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Upstream").field(&self.0).finish()
    }
}

impl<T: Task> fmt::Debug for Upstreams<T>
where
    T::Output: fmt::Debug,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Upstreams").field(&self.0).finish()
    }
}
