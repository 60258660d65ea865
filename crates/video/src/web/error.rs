//! What the library refuses, in the shape that all refusals over HTTP have.

use divvy::objects::ObjectError;
use divvy_http::ApiError;
use http::StatusCode;

use crate::library::LibraryError;

/// When to come back to a server that has too much to do.
const RETRY_AFTER_MS: u64 = 1_000;
/// Characters of a name that a refusal repeats.
const ID_SHOWN_MAX: usize = 64;

/// The codes of refusals that only the library has.
pub(super) const CODES: [&str; 6] = [
    "internal",
    "needs_no_review",
    "no_such_video",
    "not_ready",
    "overloaded",
    "too_many_watchers",
];

/// There is no video of this name.
pub(super) fn no_video(id: &str) -> ApiError {
    LibraryError::NoVideo(id.chars().take(ID_SHOWN_MAX).collect()).into()
}

/// Objects cannot be read; the library would say the same.
pub(super) fn unreadable(error: ObjectError) -> ApiError {
    LibraryError::from(error).into()
}

impl From<LibraryError> for ApiError {
    fn from(error: LibraryError) -> Self {
        match &error {
            LibraryError::NoVideo(_) => {
                Self::new(StatusCode::NOT_FOUND, "no_such_video", error.to_string())
            }
            LibraryError::NoReview(_) => {
                Self::new(StatusCode::CONFLICT, "needs_no_review", error.to_string())
            }
            LibraryError::Recipe(bad) => Self::field(format!("recipe.{}", bad.field), &bad.problem),
            LibraryError::Bad { field, problem } => Self::field(*field, problem),
            LibraryError::Server(divvy::Error::Refused { code, message, .. })
                if code == "overloaded" =>
            {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "overloaded", message)
                    .with_retry_after_ms(RETRY_AFTER_MS)
            }
            _ => broken(&error),
        }
    }
}

/// Something that the caller cannot help; the log says more than the answer does.
pub(super) fn broken(error: &dyn std::fmt::Display) -> ApiError {
    tracing::error!(error = %error, "a request for a video failed");
    let message = format!("the library could not be read or written: {error}");
    ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", message)
}
