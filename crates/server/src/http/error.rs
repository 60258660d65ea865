//! Refusals in the caller's own protocol, where it may be HTTP or gRPC.

use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use divvy_http::ApiError;
use divvy_types::REFUSAL_MARK as MARK;
use divvy_wire::gate::is_grpc;
use http::StatusCode;
use tonic::metadata::{MetadataMap, MetadataValue};
use tonic::{Code, Status};

/// A refusal in gRPC's words.
pub(crate) fn to_grpc(error: &ApiError) -> Status {
    let code = match error.status() {
        StatusCode::UNAUTHORIZED => Code::Unauthenticated,
        StatusCode::FORBIDDEN => Code::PermissionDenied,
        StatusCode::TOO_MANY_REQUESTS => Code::ResourceExhausted,
        _ => Code::InvalidArgument,
    };
    let mut metadata = MetadataMap::new();
    metadata.insert(MARK, MetadataValue::from_static(error.code()));
    Status::with_metadata(code, error.message(), metadata)
}

/// Answers a request for an address that does not exist.
pub(crate) async fn no_such_address(request: Request) -> Response {
    if is_grpc(request.headers()) {
        return Status::unimplemented("no such service or method").into_http();
    }
    divvy_http::no_such_address(request.uri()).into_response()
}
