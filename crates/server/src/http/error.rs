//! The one shape of every refusal: `{"error": {"code", "message", "field"?}}` with a fitting status.

use axum::Json;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use divvy_engine::Error;
use divvy_types::SpecError;
use http::header::{RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, Method, StatusCode, Uri};
use serde::Serialize;
use tonic::Status;

use crate::guard::is_grpc;

/// A refusal.
#[derive(Clone, Debug)]
pub(crate) struct ApiError {
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
    pub(crate) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), field: None, retry_after_ms: None }
    }

    /// Something is wrong with this field of the body or this parameter of the address.
    pub(crate) fn field(field: impl Into<String>, problem: impl std::fmt::Display) -> Self {
        let field = field.into();
        let mut error =
            Self::new(StatusCode::BAD_REQUEST, "invalid_field", format!("{field} {problem}"));
        error.field = Some(field);
        error
    }

    /// The same refusal about a field that lies deeper, such as `tasks[3].` before `kind`.
    pub(crate) fn within(mut self, prefix: &str) -> Self {
        if let Some(field) = &mut self.field {
            field.insert_str(0, prefix);
        }
        self.message.insert_str(0, prefix);
        self
    }

    pub(crate) fn with_field(mut self, field: impl Into<String>) -> Self {
        self.field = Some(field.into());
        self
    }

    /// Whether the caller must show who it is first.
    pub(crate) fn is_unauthorized(&self) -> bool {
        self.status == StatusCode::UNAUTHORIZED
    }

    #[cfg(test)]
    pub(crate) fn code(&self) -> &'static str {
        self.code
    }

    #[cfg(test)]
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    #[cfg(test)]
    pub(crate) fn field_name(&self) -> Option<&str> {
        self.field.as_deref()
    }

    /// The same refusal in gRPC's words.
    pub(crate) fn into_status(self) -> Status {
        match self.status {
            StatusCode::UNAUTHORIZED => Status::unauthenticated(self.message),
            StatusCode::FORBIDDEN => Status::permission_denied(self.message),
            _ => Status::invalid_argument(self.message),
        }
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

impl From<Error> for ApiError {
    fn from(error: Error) -> Self {
        let status = match &error {
            Error::Spec(error) => return Self::from(error.clone()),
            Error::Setting(invalid) => {
                return Self::new(StatusCode::BAD_REQUEST, error.code(), error.to_string())
                    .with_field(invalid.path.as_str());
            }
            Error::BadCursor(_) => {
                return Self::new(StatusCode::BAD_REQUEST, error.code(), error.to_string())
                    .with_field("after");
            }
            Error::NotFound(_)
            | Error::NoSuchWorker(_)
            | Error::NoSuchWorkflow(_)
            | Error::NoSuchSchedule(_)
            | Error::NoSuchSetting { .. } => StatusCode::NOT_FOUND,
            Error::Ambiguous { .. }
            | Error::Conflict { .. }
            | Error::TooManySchedules
            | Error::SettingOwned { .. } => StatusCode::CONFLICT,
            Error::Overloaded { .. } => StatusCode::TOO_MANY_REQUESTS,
            Error::DiskFull => StatusCode::INSUFFICIENT_STORAGE,
            Error::Stopping => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        let mut refusal = Self::new(status, error.code(), error.to_string());
        if let Error::Overloaded { retry_after_ms } = error {
            refusal.retry_after_ms = Some(retry_after_ms);
        }
        refusal
    }
}

impl From<SpecError> for ApiError {
    fn from(error: SpecError) -> Self {
        let status = match &error {
            SpecError::IdTaken { .. } | SpecError::NotUnique { .. } | SpecError::TooLate { .. } => {
                StatusCode::CONFLICT
            }
            SpecError::PayloadTooLarge { .. } | SpecError::BatchTooLarge { .. } => {
                StatusCode::PAYLOAD_TOO_LARGE
            }
            _ => StatusCode::BAD_REQUEST,
        };
        let field = match &error {
            SpecError::Field { field, .. } => Some(*field),
            SpecError::PayloadTooLarge { .. } => Some("payload"),
            SpecError::IdTaken { .. } => Some("id"),
            SpecError::BatchTooLarge { .. } => Some("tasks"),
            SpecError::SelfDependency { .. }
            | SpecError::Cycle { .. }
            | SpecError::UnknownDependency { .. }
            | SpecError::TooManyEdges { .. }
            | SpecError::SkippedDependency { .. } => Some("after"),
            SpecError::NotUnique { .. } => Some("unique.key"),
            SpecError::TooLate { .. } => Some("deadline"),
            _ => None,
        };
        let refusal = Self::new(status, error.code(), error.to_string());
        match field {
            Some(field) => refusal.with_field(field),
            None => refusal,
        }
    }
}

/// Answers a request for an address that does not exist, in the caller's own protocol.
pub(crate) async fn no_such_address(request: Request) -> Response {
    if is_grpc(request.headers()) {
        return Status::unimplemented("no such service or method").into_http();
    }
    let path: String = request.uri().path().chars().take(256).collect();
    let message = format!("nothing is at {path}; GET /api/v1/openapi.json lists what there is");
    ApiError::new(StatusCode::NOT_FOUND, "no_such_address", message).into_response()
}

/// Answers a method that an address does not have.
pub(crate) async fn method_not_allowed(method: Method, uri: Uri) -> ApiError {
    let path: String = uri.path().chars().take(256).collect();
    let message =
        format!("{method} is not possible at {path}; GET /api/v1/openapi.json says what is");
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use divvy_types::settings::InvalidSetting;
    use divvy_types::{TaskId, TaskState, Timestamp};

    #[test]
    fn every_refusal_of_the_engine_has_its_status() {
        let conflict =
            Error::Conflict { task: TaskId(1), state: TaskState::Done, problem: "it is over" };
        let too_late = Error::Spec(SpecError::TooLate {
            task: TaskId(1),
            deadline: Timestamp(1),
            expected_end: Timestamp(2),
        });
        let cases = [
            (Error::Spec(SpecError::field("kind", "is empty".into())), 400),
            (Error::Spec(SpecError::Cycle { task: TaskId(1), other: TaskId(2) }), 400),
            (Error::Spec(SpecError::IdTaken { task: TaskId(1) }), 409),
            (too_late, 409),
            (Error::Spec(SpecError::PayloadTooLarge { bytes: 1 }), 413),
            (Error::Spec(SpecError::BatchTooLarge { count: 1 }), 413),
            (Error::BadCursor("x".into()), 400),
            (Error::SettingOwned { section: "limits".into(), owner: "f".into() }, 409),
            (Error::NoSuchSetting { what: "limit", name: "x".into() }, 404),
            (Error::Setting(InvalidSetting { path: "a.b".into(), problem: "is 0".into() }), 400),
            (Error::NotFound("x".into()), 404),
            (Error::NoSuchWorker("x".into()), 404),
            (Error::NoSuchSchedule("x".into()), 404),
            (Error::TooManySchedules, 409),
            (Error::Ambiguous { prefix: "x".into(), count: 2 }, 409),
            (conflict, 409),
            (Error::Overloaded { retry_after_ms: 1_500 }, 429),
            (Error::Stopping, 503),
            (Error::DiskFull, 507),
            (Error::Store("broken".into()), 500),
        ];
        for (error, status) in cases {
            let response = ApiError::from(error.clone()).into_response();
            assert_eq!(response.status().as_u16(), status, "{error}");
            let retry = response.headers().get(RETRY_AFTER).map(|value| value.to_str().unwrap());
            assert_eq!(retry, (status == 429).then_some("2"), "{error}");
        }
    }
}
