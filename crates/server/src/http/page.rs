//! What all pages are made of: the scripts and styles that they share, and the icon.

use axum::response::Response;
use divvy_http::frame::LOOK;
use divvy_http::{ApiError, PathText};
use http::HeaderMap;

/// The icon, which browsers ask for by themselves.
pub(crate) async fn icon(headers: HeaderMap) -> Result<Response, ApiError> {
    LOOK.answer("icon.svg", &headers)
}

/// One of the files that all pages are made of.
pub(crate) async fn asset(
    PathText(name): PathText,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    LOOK.answer(&name, &headers)
}
