//! Kinds: who runs them, what waits and runs, and how long that takes. Counted as tasks move, so a list costs no look at
//! tasks. What a kind does is known to its workers only.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use divvy_http::{ApiError, Parameters, rows};
use divvy_scheduler::Scheduler;
use divvy_types::Name;
use divvy_types::alerts::COURIER;
use divvy_types::limits::{KIND_LEN_MAX, PAGE_ROWS_MAX};
use divvy_types::overview::KindStatus;
use divvy_types::schema::Label;
use divvy_types::spec::check_name;
use divvy_types::view::Page;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::app::App;

/// Which kinds are wanted.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(rename = "KindListing")]
pub(crate) struct Listing {
    /// What `next` of the page before said.
    #[schemars(with = "Option<Label<KIND_LEN_MAX>>")]
    after: Option<Name>,
    /// How many at most.
    #[schemars(range(min = 1, max = PAGE_ROWS_MAX))]
    limit: Option<usize>,
}

/// Kinds that a connected worker runs, or of which there are tasks, by name.
pub(crate) async fn list(
    State(app): State<App>,
    Parameters(Listing { after, limit }): Parameters<Listing>,
) -> Result<Json<Page<KindStatus>>, ApiError> {
    let limit = rows(limit, PAGE_ROWS_MAX, PAGE_ROWS_MAX)?;
    if let Some(after) = &after {
        check_name("after", after, KIND_LEN_MAX)?;
    }
    let mut kinds = app.handle.look(|core| all(core.scheduler())).await?;
    if let Some(after) = &after {
        kinds.retain(|name, _| name > after);
    }
    let has_more = kinds.len() > limit;
    let items: Vec<KindStatus> = kinds.into_values().take(limit).collect();
    let next = items.last().filter(|_| has_more).map(|kind| kind.name.to_string());
    Ok(Json(Page { items, next, partial: false }))
}

fn all(scheduler: &Scheduler) -> BTreeMap<Name, KindStatus> {
    let mut kinds: BTreeMap<Name, KindStatus> = BTreeMap::new();
    let of =
        |kinds: &mut BTreeMap<Name, KindStatus>, name: &Name, add: &dyn Fn(&mut KindStatus)| {
            let new = || KindStatus { name: name.clone(), ..KindStatus::default() };
            add(kinds.entry(name.clone()).or_insert_with(new));
        };
    // The server itself delivers alerts, as a worker of its own queue.
    for worker in scheduler.worker_traffic().iter().filter(|worker| worker.name != COURIER) {
        for (names, slots) in &worker.tiers {
            for name in *names {
                of(&mut kinds, name, &|kind| {
                    kind.workers += 1;
                    kind.slots = kind.slots.saturating_add(*slots);
                });
            }
        }
    }
    for class in scheduler.class_loads().iter().filter(|class| class.queue != COURIER) {
        of(&mut kinds, class.kind, &|kind| {
            kind.waiting += class.waiting;
            kind.running += class.running;
            if let Some(run) = class.run {
                let ms = |seconds: f64| (seconds * 1_000.0).round() as u64;
                (kind.run_mean_ms, kind.run_p95_ms) =
                    (Some(ms(run.mean_sec)), Some(ms(run.p95_sec)));
            }
        });
    }
    kinds
}
