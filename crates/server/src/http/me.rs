//! `GET /me`: who asks, and what it may do, so that pages need not offer what would be refused.

use axum::{Extension, Json};
use divvy_http::ApiError;
use divvy_types::pulse::Caller;
use http::HeaderMap;

use crate::guard::Rules;

/// The caller.
pub(crate) async fn show(
    Extension(rules): Extension<Rules>,
    headers: HeaderMap,
) -> Result<Json<Caller>, ApiError> {
    Ok(Json(rules.caller(&headers)?))
}
