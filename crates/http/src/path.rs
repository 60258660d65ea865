//! The texts in the path of an address: ids and names. What they mean is decided by who takes them.

use axum::extract::{FromRequestParts, Path};
use http::StatusCode;
use http::request::Parts;

use crate::error::ApiError;
use crate::operation::{Operation, Takes};

/// The one text in the path of an address, such as an id or a name.
#[derive(Clone, Debug)]
pub struct PathText(pub String);

impl<S: Send + Sync> FromRequestParts<S> for PathText {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let texts = path_texts(parts).await?;
        texts.into_iter().next().map(|(_, text)| Self(text)).ok_or_else(|| bad("has no name in it"))
    }
}

/// The `id` in the path of an address, of something that need not be there.
#[derive(Clone, Debug)]
pub struct Id(pub String);

impl<S: Send + Sync> FromRequestParts<S> for Id {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let texts = path_texts(parts).await?;
        let id = texts.into_iter().find(|(name, _)| name == "id").map(|(_, id)| id);
        Ok(Self(id.unwrap_or_default()))
    }
}

impl Takes for Id {
    fn describe(operation: &mut Operation) {
        operation.refuses(&[400, 404]);
    }
}

/// All texts in the path with the names that the route gives them, for extractors of a workload's own.
///
/// # Errors
/// If a text is not valid UTF-8 when its percent signs are read.
pub async fn path_texts(parts: &mut Parts) -> Result<Vec<(String, String)>, ApiError> {
    match Path::<Vec<(String, String)>>::from_request_parts(parts, &()).await {
        Ok(Path(texts)) => Ok(texts),
        Err(error) => Err(bad(error.body_text())),
    }
}

fn bad(problem: impl std::fmt::Display) -> ApiError {
    let message = format!("the path of the address cannot be read: {problem}");
    ApiError::new(StatusCode::BAD_REQUEST, "invalid_path", message)
}
