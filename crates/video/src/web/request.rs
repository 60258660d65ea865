//! Reads what a request says: the video in its address, its parameters, its body. All of it is bounded, and what is
//! not understood is refused with the name of the field.

use axum::extract::rejection::QueryRejection;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::response::Response;
use bytes::Bytes;
use http::StatusCode;
use http::request::Parts;
use serde::de::DeserializeOwned;

use super::error::ApiError;
use crate::library::VideoId;

/// Bytes of a body.
const BODY_BYTES_MAX: usize = 64 << 10;
/// Characters of a video's name in an address.
const ID_LEN_MAX: usize = 64;

/// The video that the address names.
pub(super) struct Named(pub(super) VideoId);

impl<S: Send + Sync> FromRequestParts<S> for Named {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let path = Path::<Vec<(String, String)>>::from_request_parts(parts, state).await;
        let Ok(Path(fields)) = path else { return Err(ApiError::no_video("")) };
        let id = fields.into_iter().find(|(name, _)| name == "id").map(|(_, id)| id);
        video_id(&id.unwrap_or_default()).map(Self)
    }
}

/// A name as the library gives it, or the answer that there is no such video.
pub(super) fn video_id(text: &str) -> Result<VideoId, ApiError> {
    let is_name = (1..=ID_LEN_MAX).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if is_name { Ok(VideoId(text.to_owned())) } else { Err(ApiError::no_video(text)) }
}

/// The parameters of the address.
pub(super) struct Parameters<T>(pub(super) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Parameters<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let read: Result<Query<T>, QueryRejection> = Query::from_request_parts(parts, state).await;
        read.map(|Query(value)| Self(value)).map_err(|rejection| {
            ApiError::new(StatusCode::BAD_REQUEST, "invalid_parameter", rejection.body_text())
        })
    }
}

/// The body, as JSON.
pub(super) struct Body<T>(pub(super) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = Response;

    async fn from_request(request: Request, _: &S) -> Result<Self, Response> {
        use axum::response::IntoResponse as _;
        let body = axum::body::to_bytes(request.into_body(), BODY_BYTES_MAX).await;
        let bytes = body.map_err(|_| too_large().into_response())?;
        parse(&bytes).map(Self).map_err(ApiError::into_response)
    }
}

fn parse<T: DeserializeOwned>(bytes: &Bytes) -> Result<T, ApiError> {
    // A list would be read as the fields in their order, which nobody means.
    if bytes.trim_ascii_start().first() != Some(&b'{') {
        let problem =
            "the body is not a JSON object; send one with the fields that openapi.json lists";
        return Err(ApiError::new(StatusCode::BAD_REQUEST, "invalid_body", problem));
    }
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let (path, problem) = (error.path().to_string(), error.into_inner());
        if path == "." {
            return ApiError::new(
                StatusCode::BAD_REQUEST,
                "invalid_body",
                format!("the body is not acceptable: {problem}"),
            );
        }
        ApiError::field(path, format_args!("is not acceptable: {problem}"))
    })?;
    reader.end().map_err(|error| {
        ApiError::new(
            StatusCode::BAD_REQUEST,
            "invalid_body",
            format!("the body goes on after its end: {error}"),
        )
    })?;
    Ok(value)
}

fn too_large() -> ApiError {
    ApiError::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        "body_too_large",
        format!(
            "the body is larger than {BODY_BYTES_MAX} bytes or broke off; send a video's data to /api/v1/uploads"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::library::NewVideo;

    #[test]
    fn a_name_has_letters_and_digits_only() {
        assert_eq!(video_id("a1b2c3d4e5f6").unwrap().0, "a1b2c3d4e5f6");
        for bad in ["", "..", "a/b", "a%2fb", "ä", &"a".repeat(65)] {
            assert_eq!(video_id(bad).unwrap_err().status(), StatusCode::NOT_FOUND, "{bad}");
        }
    }

    #[test]
    fn a_bad_body_names_its_field() {
        for (body, field) in [
            (r#"{"title": 5}"#, "title"),
            (r#"{"recipe": {"crf": "x"}}"#, "recipe.crf"),
            (r#"{"recipe": {"ladder": [720, -1]}}"#, "recipe.ladder[1]"),
        ] {
            let error = parse::<NewVideo>(&Bytes::from(body)).unwrap_err();
            assert!(format!("{error:?}").contains(&format!("field: Some({field:?})")), "{error:?}");
        }
        for body in ["", "[]", "{} {}", r#"{"colour": 1}"#] {
            let error = parse::<NewVideo>(&Bytes::from(body)).unwrap_err();
            assert_eq!(error.status(), StatusCode::BAD_REQUEST, "{body}");
        }
    }
}
