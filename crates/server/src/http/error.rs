//! Refusals in the caller's own protocol, where it may be HTTP or gRPC.

use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use divvy_http::ApiError;
use http::StatusCode;
use tonic::Status;

use crate::guard::is_grpc;

/// A refusal in gRPC's words.
pub(crate) fn to_grpc(error: &ApiError) -> Status {
    match error.status() {
        StatusCode::UNAUTHORIZED => Status::unauthenticated(error.message()),
        StatusCode::FORBIDDEN => Status::permission_denied(error.message()),
        _ => Status::invalid_argument(error.message()),
    }
}

/// Answers a request for an address that does not exist.
pub(crate) async fn no_such_address(request: Request) -> Response {
    if is_grpc(request.headers()) {
        return Status::unimplemented("no such service or method").into_http();
    }
    divvy_http::no_such_address(request.uri()).into_response()
}
