//! Dead letters: seen in groups, replayed or given up by selection.
//!
//! A selection is carried out in pages, so that a million dead letters need no more memory than a few thousand. What
//! is no dead letter any more when its turn comes is left alone and counts as matched but not done.

use axum::Json;
use axum::extract::State;
use divvy_engine::{Error, TaskFilter};
use divvy_http::{ApiError, JsonBody};
use divvy_types::alike::normalise;
use divvy_types::fact::Replay;
use divvy_types::limits::{ERROR_BYTES_MAX, KIND_LEN_MAX, PAGE_ROWS_MAX};
use divvy_types::schema::Label;
use divvy_types::settings::Rate;
use divvy_types::spec::check_name;
use divvy_types::view::{DeadGroup, Page, TaskSummary};
use divvy_types::{ErrorClass, Name, Payload, TaskId, TaskState, Timestamp};
use futures_util::{StreamExt as _, stream};
use http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use crate::app::App;
use crate::http::whole;

/// Ids in one request.
const IDS_MAX: usize = 10_000;
/// Dead letters that are treated at once; they share commits.
const AT_ONCE: usize = 256;

/// Which dead letters. At least one part must be given; several parts must all fit.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "DeadSelection")]
pub(crate) struct Selection {
    /// Only this kind; a trailing `*` matches any rest.
    #[schemars(with = "Option<Label<KIND_LEN_MAX>>")]
    kind: Option<Name>,
    /// Only errors that contain this text, or that are alike and belong to the group with this `error`.
    #[schemars(length(min = 1, max = ERROR_BYTES_MAX))]
    error: Option<String>,
    /// Only these, by id or the beginning of one.
    #[schemars(length(max = IDS_MAX))]
    ids: Option<Vec<String>>,
    /// Only errors of this class.
    class: Option<ErrorClass>,
    /// All of them; must be said, so that an empty request does nothing.
    all: bool,
    /// Replays only: how fast, such as `10/s`; all at once unless given.
    rate: Option<Rate>,
    /// Replays only: another payload, for one task.
    #[serde(deserialize_with = "present")]
    payload: Option<Payload>,
    /// Only count.
    dry_run: bool,
}

/// What became of a selection.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "TreatedDead")]
pub(crate) struct Treated {
    matched: u64,
    done: u64,
    /// When the last one is due, if a rate was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_due: Option<Timestamp>,
}

/// A payload that is given; `null` is one.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Payload>, D::Error> {
    Payload::deserialize(deserializer).map(Some)
}

#[derive(Clone, Copy)]
enum Treatment {
    Replay,
    Drop,
}

/// All groups, largest first.
pub(crate) async fn list(State(app): State<App>) -> Result<Json<Page<DeadGroup>>, ApiError> {
    Ok(whole(app.handle.dead_groups().await?))
}

/// Runs dead letters again.
pub(crate) async fn replay(
    State(app): State<App>,
    JsonBody(selection): JsonBody<Selection>,
) -> Result<Json<Treated>, ApiError> {
    selection.check_payload()?;
    treat(&app, selection, Treatment::Replay).await
}

/// Gives dead letters up.
pub(crate) async fn give_up(
    State(app): State<App>,
    JsonBody(selection): JsonBody<Selection>,
) -> Result<Json<Treated>, ApiError> {
    for (field, given) in
        [("rate", selection.rate.is_some()), ("payload", selection.payload.is_some())]
    {
        if given {
            return Err(ApiError::field(field, "is for a replay, not for a drop"));
        }
    }
    treat(&app, selection, Treatment::Drop).await
}

async fn treat(
    app: &App,
    selection: Selection,
    treatment: Treatment,
) -> Result<Json<Treated>, ApiError> {
    selection.check()?;
    let start = app.handle.look(|core| core.now()).await?;
    let mut treated = Treated { matched: 0, done: 0, last_due: None };
    if let Some(named) = &selection.ids {
        let ids = named_dead(app, named, &selection).await?;
        carry_out(app, ids, &selection, treatment, start, &mut treated).await?;
        return Ok(Json(treated));
    }
    let mut after = None;
    loop {
        let filter = TaskFilter {
            states: vec![TaskState::Dead],
            kind: selection.kind.clone(),
            limit: PAGE_ROWS_MAX,
            after,
            ..TaskFilter::default()
        };
        // Pages go by the tasks' numbers, which treating does not change: none is seen twice and none is missed.
        let page = app.handle.tasks(filter).await?;
        let ids =
            page.items.iter().filter(|task| selection.fits(task)).map(|task| task.id).collect();
        carry_out(app, ids, &selection, treatment, start, &mut treated).await?;
        after = page.next;
        if after.is_none() {
            return Ok(Json(treated));
        }
    }
}

async fn named_dead(
    app: &App,
    named: &[String],
    selection: &Selection,
) -> Result<Vec<TaskId>, ApiError> {
    let mut ids = Vec::with_capacity(named.len());
    for text in named {
        let id = app.handle.resolve(text).await?;
        let task = app.handle.task(id).await?.summary;
        if task.state == TaskState::Dead && selection.fits(&task) && !ids.contains(&id) {
            ids.push(id);
        }
    }
    Ok(ids)
}

async fn carry_out(
    app: &App,
    ids: Vec<TaskId>,
    selection: &Selection,
    treatment: Treatment,
    start: Timestamp,
    treated: &mut Treated,
) -> Result<(), ApiError> {
    let before = treated.matched;
    treated.matched += ids.len() as u64;
    if let (Some(last), Some(rate)) = (treated.matched.checked_sub(1), selection.rate) {
        treated.last_due = Some(due(start, rate, last));
    }
    if selection.dry_run {
        return Ok(());
    }
    let ends = ids.into_iter().zip(before..).map(|(id, place)| async move {
        match treatment {
            Treatment::Replay => {
                // The first one of a rate goes at once, like all of those without one.
                let rate = selection.rate.filter(|_| place > 0);
                let due = rate.map(|rate| due(start, rate, place));
                let payload = selection.payload.clone();
                app.handle.replay(id, Replay { due, payload, keep_edges: false }).await
            }
            Treatment::Drop => app.handle.drop_dead(id).await,
        }
    });
    let mut ends = stream::iter(ends).buffer_unordered(AT_ONCE);
    while let Some(end) = ends.next().await {
        match end {
            Ok(_) => treated.done += 1,
            Err(Error::Conflict { .. } | Error::NotFound(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// When number `place` of a replay goes, counted from 0.
fn due(start: Timestamp, rate: Rate, place: u64) -> Timestamp {
    let wait_us =
        u128::from(place) * u128::from(rate.per_ms) * 1_000 / u128::from(rate.count.max(1));
    let wait_us = u64::try_from(wait_us).unwrap_or(u64::MAX);
    Timestamp(start.0.saturating_add(wait_us)).min(Timestamp::MAX)
}

impl Selection {
    fn check_payload(&self) -> Result<(), ApiError> {
        let one = self.ids.as_ref().is_some_and(|ids| ids.len() == 1);
        if self.payload.is_some() && !one {
            let problem = "can be given for one task only; name it in `ids`";
            return Err(ApiError::field("payload", problem));
        }
        Ok(())
    }

    fn check(&self) -> Result<(), ApiError> {
        if let Some(kind) = &self.kind {
            check_name("kind", kind, KIND_LEN_MAX)?;
        }
        if self
            .error
            .as_ref()
            .is_some_and(|error| error.is_empty() || error.len() > ERROR_BYTES_MAX)
        {
            return Err(ApiError::field(
                "error",
                format!("is empty or longer than {ERROR_BYTES_MAX} bytes"),
            ));
        }
        if let Some(count) = self.ids.as_ref().map(Vec::len).filter(|count| *count > IDS_MAX) {
            return Err(ApiError::field(
                "ids",
                format!("lists {count}, at most {IDS_MAX}; send several requests"),
            ));
        }
        // A star alone fits everything, which has to be said.
        let kind = self.kind.as_ref().is_some_and(|kind| *kind != "*");
        let some = kind || self.error.is_some() || self.class.is_some();
        if !some && self.ids.is_none() && !self.all {
            let message =
                "nothing is selected; give `kind`, `class`, `error` or `ids`, or say \"all\": true";
            return Err(ApiError::new(StatusCode::BAD_REQUEST, "nothing_selected", message)
                .with_field("all"));
        }
        Ok(())
    }

    fn fits(&self, task: &TaskSummary) -> bool {
        let kind = self.kind.as_ref().is_none_or(|kind| match kind.strip_suffix('*') {
            Some(start) => task.kind.starts_with(start),
            None => *kind == task.kind,
        });
        let class = task.error.as_ref().map(|error| error.class);
        let message = task.error.as_ref().map_or("", |error| error.message.as_str());
        let alike = |wanted: &String| message.contains(wanted) || normalise(message) == *wanted;
        kind && (self.class.is_none() || self.class == class)
            && self.error.as_ref().is_none_or(alike)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_spreads_the_times() {
        let rate: Rate = "4/s".parse().unwrap();
        let times = [0, 1, 4, 4_000_000].map(|place| due(Timestamp(7), rate, place).0);
        assert_eq!(times, [7, 250_007, 1_000_007, 1_000_000_000_007]);
        let slow: Rate = "1/d".parse().unwrap();
        assert_eq!(due(Timestamp(7), slow, u64::MAX), Timestamp::MAX);
    }

    #[test]
    fn a_payload_is_for_one_task_and_null_is_one() {
        let read = |text| serde_json::from_str::<Selection>(text).unwrap();
        assert!(read(r#"{"ids":["a"],"payload":null}"#).payload.is_some());
        assert!(read(r#"{"ids":["a"],"payload":null}"#).check_payload().is_ok());
        for text in [r#"{"ids":["a","b"],"payload":1}"#, r#"{"all":true,"payload":1}"#] {
            assert!(read(text).check_payload().is_err(), "{text}");
        }
    }

    #[test]
    fn an_empty_selection_is_refused() {
        assert!(Selection::default().check().is_err());
        assert!(Selection { kind: Some("*".into()), ..Selection::default() }.check().is_err());
        assert!(Selection { kind: Some("a*".into()), ..Selection::default() }.check().is_ok());
        assert!(Selection { all: true, ..Selection::default() }.check().is_ok());
        assert!(Selection { error: Some("x".into()), ..Selection::default() }.check().is_ok());
        assert!(
            Selection { error: Some(String::new()), all: true, ..Selection::default() }
                .check()
                .is_err()
        );
    }
}
