//! The video that an address names.

use axum::extract::FromRequestParts;
use divvy_http::{ApiError, Operation, Takes, path_texts};
use http::request::Parts;

use super::error::no_video;
use crate::library::VideoId;

/// Characters of a video's name in an address.
const ID_LEN_MAX: usize = 64;

/// The video that the address names.
pub(super) struct Named(pub(super) VideoId);

impl<S: Send + Sync> FromRequestParts<S> for Named {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let texts = path_texts(parts).await?;
        let id = texts.into_iter().find(|(name, _)| name == "id").map(|(_, id)| id);
        video_id(&id.unwrap_or_default()).map(Self)
    }
}

impl Takes for Named {
    fn describe(operation: &mut Operation) {
        operation.refuses(&[400, 404]);
    }
}

/// A name as the library gives it, or the answer that there is no such video.
pub(super) fn video_id(text: &str) -> Result<VideoId, ApiError> {
    let is_name = (1..=ID_LEN_MAX).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if is_name { Ok(VideoId(text.to_owned())) } else { Err(no_video(text)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_letters_and_digits_only() {
        assert_eq!(video_id("a1b2c3d4e5f6").unwrap().0, "a1b2c3d4e5f6");
        for bad in ["", "..", "a/b", "a%2fb", "ä", &"a".repeat(65)] {
            assert_eq!(video_id(bad).unwrap_err().code(), "no_such_video", "{bad}");
        }
    }
}
