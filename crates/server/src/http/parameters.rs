//! The parameters of an address: taken one by one, so that one that nobody takes is an error instead of a surprise.

use axum::extract::{FromRequestParts, Path, Query};
use http::StatusCode;
use http::request::Parts;

use crate::http::error::ApiError;

/// Parameters in one address.
const PARAMETERS_MAX: usize = 64;

/// What stands behind the question mark.
pub(crate) struct Parameters {
    pairs: Vec<(String, String)>,
    known: Vec<&'static str>,
}

impl<S: Send + Sync> FromRequestParts<S> for Parameters {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let bad =
            |message: String| ApiError::new(StatusCode::BAD_REQUEST, "invalid_query", message);
        let Query(pairs) = Query::<Vec<(String, String)>>::try_from_uri(&parts.uri)
            .map_err(|error| bad(format!("the query of the address cannot be read: {error}")))?;
        if pairs.len() > PARAMETERS_MAX {
            return Err(bad(format!(
                "the address has {} parameters, at most {PARAMETERS_MAX}",
                pairs.len()
            )));
        }
        Ok(Self { pairs, known: Vec::new() })
    }
}

/// The one text in the path of an address, such as an id or a name.
pub(crate) struct PathText(pub(crate) String);

impl<S: Send + Sync> FromRequestParts<S> for PathText {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        match Path::<String>::from_request_parts(parts, state).await {
            Ok(Path(text)) => Ok(Self(text)),
            Err(error) => {
                Err(ApiError::new(StatusCode::BAD_REQUEST, "invalid_path", error.body_text()))
            }
        }
    }
}

impl Parameters {
    /// Every value of a parameter that may be repeated or hold a comma list.
    pub(crate) fn take_all(&mut self, name: &'static str) -> Vec<String> {
        self.known.push(name);
        let taken = self.pairs.extract_if(.., |(key, _)| key == name);
        let values: Vec<String> = taken.map(|(_, value)| value).collect();
        let parts = values.iter().flat_map(|value| value.split(','));
        parts.map(|part| part.trim().to_owned()).filter(|part| !part.is_empty()).collect()
    }

    /// The value of a parameter that may be given once; an empty one counts as not given.
    pub(crate) fn take_one(&mut self, name: &'static str) -> Result<Option<String>, ApiError> {
        self.known.push(name);
        let mut taken = self.pairs.extract_if(.., |(key, _)| key == name);
        let first = taken.next();
        if taken.next().is_some() {
            return Err(ApiError::field(name, "is given twice"));
        }
        drop(taken);
        Ok(first.map(|(_, value)| value).filter(|value| !value.is_empty()))
    }

    /// Like [`Self::take_one`], as another type.
    pub(crate) fn take_parsed<T>(&mut self, name: &'static str) -> Result<Option<T>, ApiError>
    where
        T: std::str::FromStr<Err: std::fmt::Display>,
    {
        let value = self.take_one(name)?;
        value
            .map(|text| {
                text.parse().map_err(|error| ApiError::field(name, format!("is wrong: {error}")))
            })
            .transpose()
    }

    /// Whether a switch is on: `true` or `1`.
    pub(crate) fn take_switch(&mut self, name: &'static str) -> Result<bool, ApiError> {
        match self.take_one(name)?.as_deref() {
            None | Some("false" | "0") => Ok(false),
            Some("true" | "1") => Ok(true),
            Some(_) => Err(ApiError::field(name, "must be true or false")),
        }
    }

    /// Refuses what nobody took.
    pub(crate) fn finish(self) -> Result<(), ApiError> {
        match self.pairs.first() {
            None => Ok(()),
            Some((name, _)) => {
                let name: String = name.chars().take(64).collect();
                let known =
                    if self.known.is_empty() { "none".to_owned() } else { self.known.join(", ") };
                Err(ApiError::field(name, format!("is not a parameter here; known: {known}")))
            }
        }
    }
}
