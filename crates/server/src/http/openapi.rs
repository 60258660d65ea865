//! The OpenAPI document of everything that this server answers, workloads included.

use axum::Extension;
use axum::response::{IntoResponse, Response};
use divvy_http::{Document, Mounted};
use http::header::CONTENT_TYPE;

use crate::app::VERSION;

/// The document.
pub(crate) async fn show(Extension(document): Extension<Document>) -> Response {
    ([(CONTENT_TYPE, "application/json")], document.json()).into_response()
}

/// The document of these addresses.
pub(crate) fn document<'a>(mounted: impl IntoIterator<Item = &'a Mounted>) -> Document {
    let about = "Submit tasks, watch them, and look after queues, workers and dead letters.";
    Document::new("divvy", VERSION, about, mounted)
}
