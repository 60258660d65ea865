//! What jobs refuse, in the shape that all refusals over HTTP have.

use axum::http::StatusCode;
use divvy_http::ApiError;

use crate::jobs::JobsError;

/// When to come back to a server that has too much to do.
pub(super) const RETRY_AFTER_MS: u64 = 1_000;

/// The codes of refusals that only jobs have.
pub(super) const CODES: [&str; 13] = [
    "changed_file",
    "damaged_file",
    "disk_full",
    "flow_conflict",
    "forbidden_file",
    "internal",
    "no_such_file",
    "no_such_flow",
    "no_such_stage",
    "overloaded",
    "stopping",
    "too_many_watchers",
    "wrong_offset",
];

impl From<JobsError> for ApiError {
    fn from(error: JobsError) -> Self {
        let refused = |status, code| Self::new(status, code, error.to_string());
        match &error {
            JobsError::None(_) => refused(StatusCode::NOT_FOUND, "no_such_flow"),
            JobsError::Wrong(wrong) => Self::field(wrong.field.as_str(), &wrong.problem),
            JobsError::Conflict(_) => refused(StatusCode::CONFLICT, "flow_conflict"),
            JobsError::NoFile(_) => refused(StatusCode::NOT_FOUND, "no_such_file"),
            JobsError::Forbidden(_) => refused(StatusCode::FORBIDDEN, "forbidden_file"),
            JobsError::Changed(_) => refused(StatusCode::CONFLICT, "changed_file"),
            JobsError::Offset(_) => refused(StatusCode::CONFLICT, "wrong_offset"),
            JobsError::Damaged(_) => refused(StatusCode::UNPROCESSABLE_ENTITY, "damaged_file"),
            JobsError::Full(_) => refused(StatusCode::INSUFFICIENT_STORAGE, "disk_full"),
            JobsError::Busy(_) => refused(StatusCode::SERVICE_UNAVAILABLE, "overloaded")
                .with_retry_after_ms(RETRY_AFTER_MS),
            JobsError::Server(divvy::Error::Refused { code, message, .. })
                if code == "overloaded" =>
            {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "overloaded", message.clone())
                    .with_retry_after_ms(RETRY_AFTER_MS)
            }
            JobsError::Folder(_) | JobsError::Server(_) => {
                tracing::error!(%error, "a request for a job failed");
                let message = format!("the job could not be read or written: {error}");
                Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", message)
            }
        }
    }
}
