//! HTTP/JSON: one file per resource, and the shapes that they share.

pub(crate) mod alerts;
pub(crate) mod blobs;
pub(crate) mod bulk;
pub(crate) mod dead;
pub(crate) mod error;
pub(crate) mod events;
pub(crate) mod explain;
pub(crate) mod health;
pub(crate) mod kinds;
pub(crate) mod lab;
pub(crate) mod limits;
pub(crate) mod load;
pub(crate) mod log;
pub(crate) mod me;
pub(crate) mod metrics;
pub(crate) mod metrics_load;
pub(crate) mod openapi;
pub(crate) mod page;
pub(crate) mod pools;
pub(crate) mod pulse;
pub(crate) mod queues;
pub(crate) mod receive;
pub(crate) mod records;
pub(crate) mod schedules;
pub(crate) mod settings;
pub(crate) mod sign_in;
pub(crate) mod stats;
pub(crate) mod submit;
pub(crate) mod tasks;
pub(crate) mod tokens;
pub(crate) mod uploads;
pub(crate) mod workers;
pub(crate) mod workflows;

use divvy_types::view::Page;

/// A list that is whole.
pub(crate) fn whole<T>(items: Vec<T>) -> axum::Json<Page<T>> {
    axum::Json(Page { items, next: None, partial: false })
}
