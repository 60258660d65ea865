//! What crawls refuse, in the shape that all refusals over HTTP have.

use divvy_http::ApiError;
use http::StatusCode;

use crate::crawls::CrawlsError;

/// When to come back to a server that has too much to do.
const RETRY_AFTER_MS: u64 = 1_000;

/// The codes of refusals that only crawls have.
pub(super) const CODES: [&str; 5] =
    ["crawl_conflict", "internal", "no_such_crawl", "overloaded", "too_many_watchers"];

impl From<CrawlsError> for ApiError {
    fn from(error: CrawlsError) -> Self {
        match &error {
            CrawlsError::None(_) => {
                Self::new(StatusCode::NOT_FOUND, "no_such_crawl", error.to_string())
            }
            CrawlsError::Wrong(wrong) => Self::field(wrong.field.as_str(), &wrong.problem),
            CrawlsError::Conflict(_) => {
                Self::new(StatusCode::CONFLICT, "crawl_conflict", error.to_string())
            }
            CrawlsError::Server(divvy::Error::Refused { code, message, .. })
                if code == "overloaded" =>
            {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "overloaded", message.clone())
                    .with_retry_after_ms(RETRY_AFTER_MS)
            }
            CrawlsError::Folder(_) | CrawlsError::Server(_) | CrawlsError::Broken(_) => {
                tracing::error!(%error, "a request for a crawl failed");
                let message = format!("the crawl could not be read or written: {error}");
                Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", message)
            }
        }
    }
}
