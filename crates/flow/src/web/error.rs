//! What jobs refuse, in the shape that all refusals over HTTP have.

use axum::http::StatusCode;
use divvy_http::ApiError;

use crate::jobs::JobsError;

/// When to come back to a server that has too much to do.
const RETRY_AFTER_MS: u64 = 1_000;

/// The codes of refusals that only jobs have.
pub(super) const CODES: [&str; 7] = [
    "flow_conflict",
    "internal",
    "no_such_file",
    "no_such_flow",
    "no_such_stage",
    "overloaded",
    "too_many_watchers",
];

impl From<JobsError> for ApiError {
    fn from(error: JobsError) -> Self {
        match &error {
            JobsError::None(_) => {
                Self::new(StatusCode::NOT_FOUND, "no_such_flow", error.to_string())
            }
            JobsError::Wrong(wrong) => Self::field(wrong.field.as_str(), &wrong.problem),
            JobsError::Conflict(_) => {
                Self::new(StatusCode::CONFLICT, "flow_conflict", error.to_string())
            }
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
