//! The wanted fields of one line of JSON: top-level members of an object, nothing else is kept.
//!
//! A list or an object as a value counts as its JSON text. Of members with the same name the last one counts.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Error as _, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::{Field, Number};

/// Why a line is no row.
#[derive(Debug, thiserror::Error)]
#[error("the line is no JSON object: {0}")]
pub struct JsonError(#[from] serde_json::Error);

/// Which members are wanted.
#[derive(Clone, Debug)]
pub struct Members {
    names: Vec<String>,
}

/// A value that may have to be made, such as text with escapes.
#[derive(Clone, Debug)]
enum Held<'a> {
    Nothing,
    Text(Cow<'a, str>),
    Number(Number),
}

impl Members {
    /// Members with these names, in this order.
    pub fn new(names: &[String]) -> Self {
        Self { names: names.to_vec() }
    }

    /// Hands the wanted members of a line to `take`.
    ///
    /// # Errors
    /// If the line is no JSON object.
    pub fn read<T>(
        &self,
        line: &[u8],
        take: impl FnOnce(&[Field<'_>]) -> T,
    ) -> Result<T, JsonError> {
        let mut held = vec![Held::Nothing; self.names.len()];
        let mut reader = serde_json::Deserializer::from_slice(line);
        Row { names: &self.names, held: &mut held }.deserialize(&mut reader)?;
        reader.end()?;
        let fields: Vec<Field<'_>> = held.iter().map(Held::field).collect();
        Ok(take(&fields))
    }
}

impl Held<'_> {
    fn field(&self) -> Field<'_> {
        match self {
            Self::Nothing => Field::Nothing,
            Self::Text(text) => Field::of_text(text.as_bytes()),
            Self::Number(number) => Field::Number(*number),
        }
    }
}

struct Row<'r, 'a> {
    names: &'r [String],
    held: &'r mut [Held<'a>],
}

impl<'de> DeserializeSeed<'de> for Row<'_, 'de> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Row<'_, 'de> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key::<Name<'de>>()? {
            let place = self.names.iter().position(|wanted| *wanted == name.0);
            let Some(place) = place else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            self.held[place] =
                held(map.next_value::<&'de RawValue>()?.get()).map_err(A::Error::custom)?;
        }
        Ok(())
    }
}

/// A name that is borrowed unless it has escapes.
#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

fn held(raw: &str) -> Result<Held<'_>, serde_json::Error> {
    Ok(match raw.as_bytes().first() {
        Some(b'"') => Held::Text(match raw[1..raw.len() - 1].contains('\\') {
            false => Cow::Borrowed(&raw[1..raw.len() - 1]),
            true => Cow::Owned(serde_json::from_str(raw)?),
        }),
        Some(b'n') => Held::Nothing,
        Some(b'-' | b'0'..=b'9') => match Number::parse(raw.as_bytes()) {
            Some(number) => Held::Number(number),
            None => return Err(serde_json::Error::custom(format!("{raw} is no 64-bit number"))),
        },
        _ => Held::Text(Cow::Borrowed(raw)),
    })
}
