//! Refusals in the shape that the server's own API has: `{"error": {"code", "message", "field"?}}`.

use axum::Json;
use axum::response::{IntoResponse, Response};
use divvy::objects::ObjectError;
use http::header::RETRY_AFTER;
use http::{HeaderValue, Method, StatusCode, Uri};
use serde_json::json;

use crate::library::LibraryError;

/// When to come back to a server that is only just starting.
const OPENS_WITHIN_S: u32 = 1;

/// A refusal.
#[derive(Clone, Debug)]
pub(super) struct ApiError {
    status: StatusCode,
    code: &'static str,
    message: String,
    field: Option<String>,
}

impl ApiError {
    pub(super) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), field: None }
    }

    /// Something is wrong with this field of the body or this parameter of the address.
    pub(super) fn field(field: impl Into<String>, problem: impl std::fmt::Display) -> Self {
        let field = field.into();
        let mut error =
            Self::new(StatusCode::BAD_REQUEST, "invalid_field", format!("{field} {problem}"));
        error.field = Some(field);
        error
    }

    pub(super) fn not_open() -> Self {
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "starting",
            "the library is not open yet; try again in a second",
        )
    }

    pub(super) fn no_video(id: &str) -> Self {
        let id: String = id.chars().take(64).collect();
        Self::from(LibraryError::NoVideo(id))
    }

    #[cfg(test)]
    pub(super) fn status(&self) -> StatusCode {
        self.status
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut error = json!({ "code": self.code, "message": self.message });
        if let Some(field) = self.field {
            error["field"] = field.into();
        }
        let mut response = (self.status, Json(json!({ "error": error }))).into_response();
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(OPENS_WITHIN_S));
        }
        response
    }
}

impl From<LibraryError> for ApiError {
    fn from(error: LibraryError) -> Self {
        if let LibraryError::NoVideo(_) = error {
            return Self::new(StatusCode::NOT_FOUND, "no_such_video", error.to_string());
        }
        if let LibraryError::Recipe(bad) = &error {
            return Self::field(format!("recipe.{}", bad.field), &bad.problem);
        }
        if let LibraryError::Bad { field, problem } = &error {
            return Self::field(*field, problem);
        }
        if let LibraryError::Server(divvy::Error::Refused { code, message, .. }) = &error
            && code == "overloaded"
        {
            return Self::new(StatusCode::SERVICE_UNAVAILABLE, "overloaded", message);
        }
        Self::broken(&error)
    }
}

impl From<ObjectError> for ApiError {
    fn from(error: ObjectError) -> Self {
        Self::from(LibraryError::from(error))
    }
}

impl ApiError {
    /// Something that the caller cannot help; the log says more than the answer does.
    pub(super) fn broken(error: &dyn std::fmt::Display) -> Self {
        tracing::error!(error = %error, "a request for a video failed");
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal",
            format!("the library could not be read or written: {error}"),
        )
    }
}

/// Answers a method that an address does not have.
pub(super) async fn method_not_allowed(method: Method, uri: Uri) -> ApiError {
    let path: String = uri.path().chars().take(256).collect();
    ApiError::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "method_not_allowed",
        format!("{method} is not possible at {path}; GET /api/v1/videos/openapi.json says what is"),
    )
}
