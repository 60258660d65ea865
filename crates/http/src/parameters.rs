//! The parameters of an address, read into a struct: a parameter that the struct does not have, one that is given
//! twice, or one that has another form is refused by its name.
//!
//! An empty parameter is refused: it would show everything to a script whose variable is not set. A list may be repeated or have commas: `state=done&state=dead,ready`.
//! A switch is `true`, `1`, `false` or `0`.

use std::fmt;

use axum::extract::{FromRequestParts, Query};
use http::request::Parts;
use http::{StatusCode, Uri};
use serde::de::value::{SeqDeserializer, StringDeserializer};
use serde::de::{self, DeserializeOwned, DeserializeSeed, Deserializer, IntoDeserializer, Visitor};

use crate::error::ApiError;

/// Parameters in one address.
const PARAMETERS_MAX: usize = 64;
/// Characters of a name that a refusal repeats.
const NAME_SHOWN_MAX: usize = 64;

/// What stands behind the question mark.
#[derive(Debug)]
pub struct Parameters<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Parameters<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        Ok(Self(T::deserialize(Given::read(&parts.uri)?)?))
    }
}

/// The length of a page: what the caller says, or the default.
///
/// # Errors
/// If it is not between 1 and `max`.
pub fn rows(limit: Option<usize>, default: usize, max: usize) -> Result<usize, ApiError> {
    let limit = limit.unwrap_or(default);
    if (1..=max).contains(&limit) {
        return Ok(limit);
    }
    Err(ApiError::field("limit", format_args!("is {limit}, expected 1 to {max}")))
}

/// The parameters of one address by their names, in the order of their first appearance.
struct Given {
    pairs: std::vec::IntoIter<(String, Values)>,
    /// What the parameter whose name was read last says.
    next: Option<(String, Values)>,
}

/// What one parameter says, at least once.
struct Values(Vec<String>);

/// What is wrong, and with which parameter.
#[derive(Debug)]
struct Fault {
    name: Option<String>,
    problem: String,
}

impl Given {
    fn read(uri: &Uri) -> Result<Self, ApiError> {
        let bad =
            |message: String| ApiError::new(StatusCode::BAD_REQUEST, "invalid_query", message);
        let Query(pairs) = Query::<Vec<(String, String)>>::try_from_uri(uri)
            .map_err(|error| bad(format!("the query of the address cannot be read: {error}")))?;
        if pairs.len() > PARAMETERS_MAX {
            return Err(bad(format!(
                "the address has {} parameters, at most {PARAMETERS_MAX}",
                pairs.len()
            )));
        }
        let mut given: Vec<(String, Values)> = Vec::new();
        for (name, value) in pairs {
            let at = given.iter().position(|(known, _)| *known == name).unwrap_or_else(|| {
                given.push((name, Values(Vec::new())));
                given.len() - 1
            });
            given[at].1.0.push(value);
        }
        Ok(Self { pairs: given.into_iter(), next: None })
    }

    /// Refuses what the struct does not have.
    fn check(&self, known: &[&str]) -> Result<(), Fault> {
        let mut names = self.pairs.as_slice().iter().map(|(name, _)| name);
        let Some(name) = names.find(|name| !known.contains(&name.as_str())) else { return Ok(()) };
        let name: String = name.chars().take(NAME_SHOWN_MAX).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        let problem = format!("is not a parameter here; known: {known}");
        Err(Fault { name: Some(name), problem })
    }
}

impl<'de> Deserializer<'de> for Given {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_map(self)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.check(fields)?;
        visitor.visit_map(self)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

impl<'de> de::MapAccess<'de> for Given {
    type Error = Fault;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Fault> {
        self.next = self.pairs.next();
        let name = self.next.as_ref().map(|(name, _)| name.clone().into_deserializer());
        name.map(|name: StringDeserializer<Fault>| seed.deserialize(name)).transpose()
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Fault> {
        let (name, values) = self.next.take().ok_or_else(|| de::Error::custom("is not given"))?;
        if values.0.iter().any(String::is_empty) {
            let problem = "is empty; give a value or leave it out".to_owned();
            return Err(Fault { name: Some(name), problem });
        }
        seed.deserialize(values).map_err(|fault| Fault { name: Some(name), ..fault })
    }
}

impl Values {
    fn one(mut self) -> Result<String, Fault> {
        match (self.0.pop(), self.0.is_empty()) {
            (Some(value), true) => Ok(value),
            _ => Err(Fault { name: None, problem: "is given twice".to_owned() }),
        }
    }

    fn number<T: std::str::FromStr>(self, expected: &str) -> Result<T, Fault> {
        let given = self.one()?;
        let problem = || format!("is `{given}`; expected {expected}");
        given.parse().map_err(|_| Fault { name: None, problem: problem() })
    }

    fn switch(self) -> Result<bool, Fault> {
        match self.one()?.as_str() {
            "true" | "1" => Ok(true),
            "false" | "0" => Ok(false),
            _ => Err(Fault { name: None, problem: "must be true or false".to_owned() }),
        }
    }

    fn list(self) -> Vec<String> {
        let parts = self.0.iter().flat_map(|value| value.split(','));
        parts.map(|part| part.trim().to_owned()).filter(|part| !part.is_empty()).collect()
    }
}

macro_rules! numbers {
    ($($expected:literal: $visit:ident, $($method:ident)*;)*) => {$($(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
            visitor.$visit(self.number($expected)?)
        }
    )*)*};
}

impl<'de> Deserializer<'de> for Values {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_string(self.one()?)
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_bool(self.switch()?)
    }

    numbers! {
        "a whole number": visit_i64, deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64;
        "a whole number from 0 on": visit_u64, deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64;
        "a number": visit_f64, deserialize_f32 deserialize_f64;
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_seq(SeqDeserializer::new(self.list().into_iter()))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        let value: StringDeserializer<Fault> = self.one()?.into_deserializer();
        value.deserialize_enum(name, variants, visitor)
    }

    serde::forward_to_deserialize_any! {
        i128 u128 char str string bytes byte_buf unit unit_struct tuple tuple_struct map struct identifier ignored_any
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.problem)
    }
}

impl std::error::Error for Fault {}

impl de::Error for Fault {
    fn custom<T: fmt::Display>(problem: T) -> Self {
        Self { name: None, problem: format!("is wrong: {problem}") }
    }

    fn missing_field(field: &'static str) -> Self {
        Self { name: Some(field.to_owned()), problem: "must be given".to_owned() }
    }
}

impl From<Fault> for ApiError {
    fn from(fault: Fault) -> Self {
        match fault.name {
            Some(name) => Self::field(name, fault.problem),
            None => Self::new(StatusCode::BAD_REQUEST, "invalid_query", fault.problem),
        }
    }
}

#[cfg(test)]
mod tests {
    use divvy_types::{TaskState, WorkflowId};
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(default)]
    struct Sample {
        state: Vec<TaskState>,
        kind: Option<String>,
        workflow: Option<WorkflowId>,
        limit: Option<usize>,
        follow: bool,
    }

    fn read(query: &str) -> Result<Sample, ApiError> {
        let uri: Uri = format!("/?{query}").parse().unwrap();
        Ok(Sample::deserialize(Given::read(&uri)?)?)
    }

    #[test]
    fn parameters_are_read_as_people_write_them() {
        assert_eq!(read("").unwrap(), Sample::default());
        let full = read(
            "state=done,%20dead&state=ready,&kind=a%2Bb+c&limit=5&follow=1&workflow=00000000-0000-0000-0000-000000000008",
        )
        .unwrap();
        let expected = Sample {
            state: vec![TaskState::Done, TaskState::Dead, TaskState::Ready],
            kind: Some("a+b c".to_owned()),
            workflow: Some(WorkflowId(8)),
            limit: Some(5),
            follow: true,
        };
        assert_eq!(full, expected);
        assert!(!read("follow=false").unwrap().follow);
    }

    #[test]
    fn each_fault_names_its_parameter() {
        for (query, field, words) in [
            (
                "colour=red",
                "colour",
                "is not a parameter here; known: state, kind, workflow, limit",
            ),
            ("colour=", "colour", "is not a parameter here"),
            ("kind=", "kind", "is empty; give a value or leave it out"),
            ("limit=5&state=", "state", "is empty"),
            ("state=done&state=", "state", "is empty"),
            ("limit=x", "limit", "is `x`; expected a whole number from 0 on"),
            ("limit=-1", "limit", "is `-1`; expected a whole number"),
            ("limit=99999999999999999999", "limit", "is `99999999999999999999`; expected"),
            ("limit=1&limit=2", "limit", "is given twice"),
            ("kind=a&kind=a", "kind", "is given twice"),
            ("follow=yes", "follow", "must be true or false"),
            ("state=done,x", "state", "is wrong: "),
            ("workflow=x", "workflow", "is wrong: "),
        ] {
            let error = read(query).unwrap_err();
            assert_eq!(error.field_name(), Some(field), "{query}: {}", error.message());
            assert!(error.message().contains(words), "{query}: {}", error.message());
        }
        let many = "a=1&".repeat(PARAMETERS_MAX + 1);
        assert_eq!(read(&many).unwrap_err().code(), "invalid_query");
    }
}
