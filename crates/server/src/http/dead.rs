//! Dead letters: seen in groups, replayed or given up by selection.
//!
//! A selection is carried out in pages, so that a million dead letters need no more memory than a few thousand. What
//! is no dead letter any more when its turn comes is left alone and counts as matched but not done.

use axum::Json;
use axum::extract::State;
use divvy_engine::Error;
use divvy_http::{ApiError, JsonBody, Parameters};
use divvy_types::fact::Replay;
use divvy_types::limits::PAGE_ROWS_MAX;
use divvy_types::settings::Rate;
use divvy_types::view::{DeadGroup, Page};
use divvy_types::{Payload, Select, TaskId, TaskState, Timestamp, beside_terms, flat};
use futures_util::{StreamExt as _, stream};
use http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use crate::app::App;

/// Ids in one request.
const IDS_MAX: usize = 10_000;
/// Dead letters that are treated at once; they share commits.
const AT_ONCE: usize = 256;

/// Which dead letters, by id or by a filter, and how. At least one part must be given; several parts must all fit.
#[derive(Debug, Default, JsonSchema)]
#[schemars(rename = "DeadSelection", deny_unknown_fields)]
pub(crate) struct Selection {
    #[schemars(flatten)]
    select: Select,
    #[schemars(flatten)]
    how: How,
}

/// What is done with dead letters beside which they are.
#[derive(Debug, Default, JsonSchema)]
struct How {
    /// Only these, by id or the beginning of one.
    #[schemars(length(max = IDS_MAX))]
    ids: Option<Vec<String>>,
    /// All of them; must be said, so that an empty request does nothing.
    #[schemars(default)]
    all: bool,
    /// Replays only: how fast, such as `10/s`; all at once unless given.
    rate: Option<Rate>,
    /// Replays only: another payload, for one task.
    #[schemars(with = "Option<Payload>")]
    payload: Given,
    /// Only count.
    #[schemars(default)]
    dry_run: bool,
}
beside_terms!(How { ids, all, rate, payload, dry_run } without {});

/// A payload, if one is given; `null` is one.
#[derive(Debug, Default)]
struct Given(Option<Payload>);

impl<'de> Deserialize<'de> for Given {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Payload::deserialize(deserializer).map(|payload| Self(Some(payload)))
    }
}

impl<'de> Deserialize<'de> for Selection {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (how, select) = flat::read(deserializer)?;
        Ok(Self { select, how })
    }
}

/// Which dead letters are wanted in groups.
#[derive(JsonSchema)]
pub(crate) struct DeadListing {
    #[schemars(flatten)]
    select: Select,
    #[schemars(flatten)]
    page: Start,
}

/// Where to go on.
#[derive(Default, JsonSchema)]
struct Start {
    /// What `next` of the page before said.
    #[schemars(regex(pattern = r"^[0-9]{1,19}$"))]
    after: Option<String>,
}
beside_terms!(Start { after } without {});

impl<'de> Deserialize<'de> for DeadListing {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (page, select) = flat::read(deserializer)?;
        Ok(Self { select, page })
    }
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

#[derive(Clone, Copy)]
enum Treatment {
    Replay,
    Drop,
}

/// Groups of the dead letters that fit, largest first. If there are more than one page tells, the same group may be on
/// the next one too.
pub(crate) async fn list(
    State(app): State<App>,
    Parameters(listing): Parameters<DeadListing>,
) -> Result<Json<Page<DeadGroup>>, ApiError> {
    let DeadListing { select, page } = listing;
    select.check()?;
    only_dead(&select)?;
    Ok(Json(app.handle.dead_groups(select, page.after).await?))
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
        [("rate", selection.how.rate.is_some()), ("payload", selection.how.payload.0.is_some())]
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
    if let Some(named) = &selection.how.ids {
        let ids = named_dead(app, named, &selection).await?;
        carry_out(app, ids, &selection, treatment, start, &mut treated).await?;
        return Ok(Json(treated));
    }
    let mut after = None;
    loop {
        // Pages go by the tasks' numbers, which treating does not change: none is seen twice and none is missed.
        let select = Select { state: vec![TaskState::Dead], ..selection.select.clone() };
        let page = app.handle.tasks(select, PAGE_ROWS_MAX, after).await?;
        let ids = page.items.iter().map(|task| task.id).collect();
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
    let now = app.handle.look(|core| core.now()).await?;
    let select = selection.select.clone().at(now);
    for text in named {
        let id = app.handle.resolve(text).await?;
        let task = app.handle.task(id).await?;
        let Ok(fits) = select.matches(&task);
        if task.summary.state == TaskState::Dead && fits && !ids.contains(&id) {
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
    if let (Some(last), Some(rate)) = (treated.matched.checked_sub(1), selection.how.rate) {
        treated.last_due = Some(due(start, rate, last));
    }
    if selection.how.dry_run {
        return Ok(());
    }
    let ends = ids.into_iter().zip(before..).map(|(id, place)| async move {
        match treatment {
            Treatment::Replay => {
                // The first one of a rate goes at once, like all of those without one.
                let rate = selection.how.rate.filter(|_| place > 0);
                let due = rate.map(|rate| due(start, rate, place));
                let payload = selection.how.payload.0.clone();
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
        let one = self.how.ids.as_ref().is_some_and(|ids| ids.len() == 1);
        if self.how.payload.0.is_some() && !one {
            let problem = "can be given for one task only; name it in `ids`";
            return Err(ApiError::field("payload", problem));
        }
        Ok(())
    }

    fn check(&self) -> Result<(), ApiError> {
        self.select.check()?;
        only_dead(&self.select)?;
        if let Some(count) = self.how.ids.as_ref().map(Vec::len).filter(|count| *count > IDS_MAX) {
            return Err(ApiError::field(
                "ids",
                format!("lists {count}, at most {IDS_MAX}; send several requests"),
            ));
        }
        if self.select.is_empty() && self.how.ids.is_none() && !self.how.all {
            let message =
                "nothing is selected; give `kind`, `class`, `error` or `ids`, or say \"all\": true";
            return Err(ApiError::new(StatusCode::BAD_REQUEST, "nothing_selected", message)
                .with_field("all"));
        }
        Ok(())
    }
}

/// Refuses a filter by state: dead letters are in one.
fn only_dead(select: &Select) -> Result<(), ApiError> {
    match select.state.iter().find(|state| **state != TaskState::Dead) {
        Some(state) => Err(ApiError::field("state", format!("names {state}; here all are dead"))),
        None => Ok(()),
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
        assert!(read(r#"{"ids":["a"],"payload":null}"#).how.payload.0.is_some());
        assert!(read(r#"{"ids":["a"],"payload":null}"#).check_payload().is_ok());
        for text in [r#"{"ids":["a","b"],"payload":1}"#, r#"{"all":true,"payload":1}"#] {
            assert!(read(text).check_payload().is_err(), "{text}");
        }
    }

    #[test]
    fn an_empty_selection_is_refused() {
        let check = |text| serde_json::from_str::<Selection>(text).unwrap().check();
        for text in ["{}", r#"{"kind":"*"}"#, r#"{"error":"","all":true}"#, r#"{"state":["done"]}"#]
        {
            assert!(check(text).is_err(), "{text}");
        }
        for text in [r#"{"all":true}"#, r#"{"error":"x"}"#, r#"{"worker":"w","state":["dead"]}"#] {
            assert!(check(text).is_ok(), "{text}");
        }
        assert!(serde_json::from_str::<Selection>(r#"{"colour":"red"}"#).is_err());
    }
}
