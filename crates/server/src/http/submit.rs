//! `POST /tasks`: one task, or a batch that is accepted whole or not at all.
//!
//! What is sent is read by [`divvy_wire::batch`].

use std::collections::HashMap;

use axum::Json;
use axum::extract::State;
use divvy_engine::SubmitOptions;
use divvy_http::{ApiError, JsonBytes, Parameters, apart};
use divvy_types::submitted::Accepted;
use divvy_types::{Submitted, TaskId};
use divvy_wire::batch;
use http::StatusCode;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::app::App;

/// How strictly tasks are taken.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct Strictness {
    /// Refuse the batch if a task is expected to miss its deadline.
    strict: bool,
}

/// Accepts tasks. 201 if any is new, 200 if all were known or skipped.
pub(crate) async fn submit(
    State(app): State<App>,
    Parameters(Strictness { strict }): Parameters<Strictness>,
    JsonBytes(body): JsonBytes,
) -> Result<(StatusCode, Json<Accepted>), ApiError> {
    let options = SubmitOptions { strict };
    let specs = apart(body, batch::read).await?;
    let ids: Vec<TaskId> = specs.iter().map(|spec| spec.id).collect();
    let payload_bytes = specs.iter().map(|spec| spec.payload.data().len()).sum();
    let share = app.budget.take(specs.len(), payload_bytes).await?;
    let submitted = app.handle.submit_with(specs, options).await?;
    drop(share);
    let status = if submitted.accepted > 0 { StatusCode::CREATED } else { StatusCode::OK };
    let ids = standing_for(ids, &submitted);
    Ok((status, Json(Accepted { submitted, ids })))
}

/// The tasks that stand for those that were sent: themselves, or the one that has their unique key.
fn standing_for(mut ids: Vec<TaskId>, submitted: &Submitted) -> Vec<TaskId> {
    let first: HashMap<TaskId, TaskId> =
        submitted.conflicts.iter().map(|conflict| (conflict.task, conflict.first)).collect();
    for id in &mut ids {
        *id = first.get(id).copied().unwrap_or(*id);
    }
    ids
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_of_a_task_that_was_skipped_is_that_of_the_one_that_has_its_key() {
        let (task, first) = (TaskId(2), TaskId(9));
        let conflicts = vec![divvy_types::submitted::Conflict { task, first }];
        let submitted = Submitted { accepted: 1, conflicts, ..Submitted::default() };
        assert_eq!(standing_for(vec![TaskId(1), task], &submitted), [TaskId(1), first]);
    }
}
