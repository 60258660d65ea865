//! The one shape of every refusal: `{"error": {"code", "message", "field"?, "retry_after_ms"?}}` with a fitting status.
//!
//! Any [`Refusal`] becomes one by `?`. What the caller cannot help is logged here, once.

use axum::Json;
use axum::response::{IntoResponse, Response};
use divvy_types::{REFUSAL_MARK, Refusal};
use http::header::{RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, Method, StatusCode, Uri};
use serde::Serialize;

/// Characters of an address that a refusal repeats.
const PATH_SHOWN_MAX: usize = 256;

/// The codes of the refusals that are made here.
pub(crate) const CODES: [&str; 13] = [
    "body_broken",
    "body_timeout",
    "body_too_large",
    "invalid_field",
    "invalid_path",
    "invalid_query",
    "malformed_json",
    "method_not_allowed",
    "no_such_file",
    "no_such_range",
    "overloaded",
    "stopping",
    "unsupported_media_type",
];

/// A refusal.
#[derive(Clone, Debug)]
pub struct ApiError {
    status: StatusCode,
    code: &'static str,
    message: String,
    field: Option<String>,
    retry_after_ms: Option<u64>,
}

#[derive(Serialize)]
struct Envelope<'a> {
    error: Body<'a>,
}

#[derive(Serialize)]
struct Body<'a> {
    code: &'a str,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
}

impl ApiError {
    /// A refusal with this status, a stable code for programs, and a sentence for people that says what to do.
    pub fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), field: None, retry_after_ms: None }
    }

    /// Something is wrong with this field of the body or this parameter of the address.
    pub fn field(field: impl Into<String>, problem: impl std::fmt::Display) -> Self {
        let field = field.into();
        let mut error =
            Self::new(StatusCode::BAD_REQUEST, "invalid_field", format!("{field} {problem}"));
        error.field = Some(field);
        error
    }

    /// The same refusal about a field that lies deeper, such as `tasks[3].` before `kind`.
    #[must_use]
    pub fn within(mut self, prefix: &str) -> Self {
        if let Some(field) = &mut self.field {
            field.insert_str(0, prefix);
        }
        self.message.insert_str(0, prefix);
        self
    }

    /// The same refusal, about this field.
    #[must_use]
    pub fn with_field(mut self, field: impl Into<String>) -> Self {
        self.field = Some(field.into());
        self
    }

    /// The same refusal, with when to try again.
    #[must_use]
    pub fn with_retry_after_ms(mut self, ms: u64) -> Self {
        self.retry_after_ms = Some(ms);
        self
    }

    /// Its status.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// Its stable name for programs.
    pub fn code(&self) -> &'static str {
        self.code
    }

    /// Its sentence for people.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The field that it is about.
    pub fn field_name(&self) -> Option<&str> {
        self.field.as_deref()
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let body = Body {
            code: self.code,
            message: &self.message,
            field: self.field.as_deref(),
            retry_after_ms: self.retry_after_ms,
        };
        let mut response = (self.status, Json(Envelope { error: body })).into_response();
        response.headers_mut().insert(REFUSAL_MARK, HeaderValue::from_static(self.code));
        if let Some(ms) = self.retry_after_ms {
            response
                .headers_mut()
                .insert(RETRY_AFTER, HeaderValue::from(ms.div_ceil(1_000).max(1)));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

impl<E: Refusal> From<E> for ApiError {
    fn from(error: E) -> Self {
        Self::of(&error)
    }
}

impl ApiError {
    fn of(error: &dyn Refusal) -> Self {
        let status = StatusCode::from_u16(error.status());
        let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let (code, message) = (error.code(), error.to_string());
        if status == StatusCode::INTERNAL_SERVER_ERROR {
            tracing::warn!(code, error = %message, "a request could not be answered");
        }
        Self {
            status,
            code,
            message,
            field: error.field_name().map(str::to_owned),
            retry_after_ms: error.retry_after_ms(),
        }
    }
}

/// The refusal of an address that does not exist.
pub fn no_such_address(uri: &Uri) -> ApiError {
    let path: String = uri.path().chars().take(PATH_SHOWN_MAX).collect();
    let message = format!("nothing is at {path}; GET /api/v1/openapi.json lists what there is");
    ApiError::new(StatusCode::NOT_FOUND, "no_such_address", message)
}

/// Answers a method that an address does not have.
pub(crate) async fn method_not_allowed(method: Method, uri: Uri) -> ApiError {
    let path: String = uri.path().chars().take(PATH_SHOWN_MAX).collect();
    let message =
        format!("{method} is not possible at {path}; GET /api/v1/openapi.json says what is");
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message)
}

#[cfg(test)]
mod tests {
    use divvy_types::SpecError;

    use super::*;

    #[test]
    fn a_refusal_of_any_part_keeps_its_words_and_its_place() {
        let error = ApiError::from(SpecError::PayloadTooLarge { bytes: 5 }).within("tasks[2].");
        assert_eq!(error.status(), StatusCode::PAYLOAD_TOO_LARGE);
        assert_eq!(error.code(), "payload_too_large");
        assert_eq!(error.field_name(), Some("tasks[2].payload"));
        assert!(error.message().starts_with("tasks[2].payload is 5 bytes"));
    }

    #[test]
    fn headers_say_when_to_come_back_and_how_to_show_who_one_is() {
        let busy = ApiError::new(StatusCode::TOO_MANY_REQUESTS, "overloaded", "x");
        let response = busy.with_retry_after_ms(1_500).into_response();
        assert_eq!(response.headers()[RETRY_AFTER], "2");
        let stranger = ApiError::new(StatusCode::UNAUTHORIZED, "unauthorized", "x");
        assert_eq!(stranger.into_response().headers()[WWW_AUTHENTICATE], "Bearer");
    }
}
