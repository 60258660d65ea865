//! YAML files that people write: reading them whole or section by section, and errors that name the line and the word
//! that was probably meant.
//!
//! Knows nothing of what is in a file. A section is read out of the whole text, so its places are those of the file.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::path::Path;

use anyhow::Result;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, IgnoredAny, IntoDeserializer, MapAccess,
    Visitor,
};

use crate::exit::{Code, Failure};
use crate::place::place_of;

/// The text of a file that a person wrote.
pub fn read_text(path: &Path, bytes_max: u64) -> Result<String> {
    let cannot = |e: std::io::Error| {
        let code =
            if e.kind() == std::io::ErrorKind::NotFound { Code::NotFound } else { Code::Usage };
        Failure::new(code, format!("cannot read {}: {e}", path.display()))
    };
    let bytes = std::fs::metadata(path).map_err(cannot)?.len();
    if bytes > bytes_max {
        let text = format!("{} has {bytes} bytes, at most {bytes_max}", path.display());
        return Err(Failure::usage(text).into());
    }
    Ok(std::fs::read_to_string(path).map_err(cannot)?)
}

/// Whether a file says nothing: it is empty, or all of it is commented out.
pub fn is_blank(yaml: &str) -> bool {
    yaml.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#'))
}

/// The section `name` of a file; its default if it is not there.
///
/// # Errors
/// If the file is no YAML, or the section is not what it should be. The place is that in the file.
pub fn section<T: DeserializeOwned + Default>(
    yaml: &str,
    name: &str,
) -> Result<T, serde_saphyr::Error> {
    if is_blank(yaml) {
        return Ok(T::default());
    }
    let one = OneSection { name, shape: PhantomData };
    let read = serde_saphyr::with_deserializer_from_str(yaml, |file| file.deserialize_map(one))?;
    Ok(read.unwrap_or_default())
}

/// The fields of a file that stand beside these sections, which someone else reads.
///
/// # Errors
/// If the file is no YAML, or what is beside the sections is not what it should be.
pub fn beside<T: DeserializeOwned + Default>(
    yaml: &str,
    sections: &[&str],
) -> Result<T, serde_saphyr::Error> {
    if is_blank(yaml) {
        return Ok(T::default());
    }
    serde_saphyr::with_deserializer_from_str(yaml, |file| {
        T::deserialize(Beside { inner: file, sections })
    })
}

/// The names at the top of a file.
///
/// # Errors
/// If the file is no YAML, or no map.
pub fn fields(yaml: &str) -> Result<Vec<String>, serde_saphyr::Error> {
    if is_blank(yaml) {
        return Ok(Vec::new());
    }
    let read: BTreeMap<String, IgnoredAny> = serde_saphyr::from_str(yaml)?;
    Ok(read.into_keys().collect())
}

/// The place of the setting at `path` in `yaml`, for the beginning of an error: `FILE:LINE:COLUMN`, or the file alone.
pub fn place(file: &str, yaml: &str, path: &str) -> String {
    match place_of(yaml, path) {
        Some((line, column)) => format!("{file}:{line}:{column}"),
        None => file.to_owned(),
    }
}

/// An error in a YAML file, with its place and the word that was probably meant.
///
/// `sections` are those that the file may have besides the fields that the error knows.
pub fn failure(file: &str, yaml: &str, error: &serde_saphyr::Error, sections: &[&str]) -> Failure {
    let error = error.without_snippet();
    let place = match error.location() {
        Some(location) => format!("{file}:{}:{}", location.line(), location.column()),
        None => file.to_owned(),
    };
    let (what, word, expected) = match error {
        serde_saphyr::Error::SerdeUnknownField { field, expected, .. } => {
            ("field", field, expected)
        }
        serde_saphyr::Error::SerdeUnknownVariant { variant, expected, .. } => {
            ("word", variant, expected)
        }
        serde_saphyr::Error::DuplicateMappingKey { key, .. } => {
            let name = key.as_ref().map(|key| format!("`{key}` ")).unwrap_or_default();
            return Failure::usage(format!("{place}: {name}is there twice"))
                .cure("remove one of the two, or give it another name");
        }
        _ if is_blank(yaml) => return Failure::usage(format!("{file}: the file is empty")),
        other => return Failure::usage(format!("{place}: {}", plain(yaml, other))),
    };
    let here = error.location().map(|location| (location.line(), location.column()));
    let at_top = what == "field" && here.is_some() && place_of(yaml, word) == here;
    let expected: Vec<&str> =
        expected.iter().chain(sections.iter().filter(|_| at_top)).copied().collect();
    let hint = crate::suggest::hint(word, expected.iter().copied());
    Failure::usage(format!("{place}: unknown {what} `{word}`{hint}"))
        .cure(format!("the {what}s here are: {}", expected.join(", ")))
}

/// The message without the place, which stands before it already, and with the word that is meant.
fn plain(yaml: &str, error: &serde_saphyr::Error) -> String {
    let text = error.to_string();
    let end = text.find(" at line ").unwrap_or(text.len());
    let text = text[..end].lines().next().unwrap_or_default();
    match (text.strip_prefix("invalid "), error.location()) {
        (Some(wanted), Some(place)) => {
            let word = word_at(yaml, place.line(), place.column());
            let number = wanted.starts_with(['u', 'i', 'f'])
                && wanted.ends_with(|c: char| c.is_ascii_digit());
            let below = word.strip_prefix('-').is_some_and(|rest| rest.parse::<f64>().is_ok());
            match (number, below) {
                (true, true) if !wanted.starts_with('f') => {
                    format!("`{word}` is below zero; expected a number from 0 on")
                }
                (true, _) => format!("`{word}` is not a number that fits here"),
                (false, _) => format!("`{word}` is not {wanted}"),
            }
        }
        _ => text.to_owned(),
    }
}

/// The value that starts at this place, counted from 1.
fn word_at(yaml: &str, line: u64, column: u64) -> &str {
    let skip = |count: u64| usize::try_from(count).unwrap_or(usize::MAX).saturating_sub(1);
    let line = yaml.lines().nth(skip(line)).unwrap_or_default();
    let start = line.char_indices().nth(skip(column)).map_or(line.len(), |(index, _)| index);
    line[start..].split([',', '}', ']', '#']).next().unwrap_or_default().trim()
}

/// Reads the value of one key and skips the others.
struct OneSection<'a, T> {
    name: &'a str,
    shape: PhantomData<T>,
}

impl<'de, T: DeserializeOwned> Visitor<'de> for OneSection<'_, T> {
    type Value = Option<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map from names to settings")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(key) = map.next_key::<String>()? {
            if key == self.name {
                found = map.next_value()?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }
}

/// A file without the sections of others.
struct Beside<'a, D> {
    inner: D,
    sections: &'a [&'a str],
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Beside<'_, D> {
    type Error = D::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        let sections = self.sections;
        self.inner.deserialize_map(Beside { inner: visitor, sections })
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Beside<'_, V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.expecting(f)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<V::Value, A::Error> {
        let sections = self.sections;
        self.inner.visit_map(Beside { inner: map, sections })
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Beside<'_, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, A::Error> {
        while let Some(key) = self.inner.next_key::<String>()? {
            if self.sections.contains(&key.as_str()) {
                self.inner.next_value::<IgnoredAny>()?;
                continue;
            }
            return seed.deserialize(key.into_deserializer()).map(Some);
        }
        Ok(None)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.inner.next_value_seed(seed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, Default, Deserialize, PartialEq)]
    #[serde(deny_unknown_fields, default)]
    struct Bakery {
        ovens: Option<u32>,
        flour: Option<String>,
    }

    fn bakery(yaml: &str) -> Result<Bakery, Failure> {
        section(yaml, "bakery").map_err(|error| failure("divvy.yaml", yaml, &error, &[]))
    }

    #[test]
    fn a_section_is_read_alone_with_its_place_in_the_whole_file() {
        let yaml = "server: {any: thing}\nbakery:\n  ovens: 3\nother: [1, 2]\n";
        assert_eq!(bakery(yaml).unwrap(), Bakery { ovens: Some(3), flour: None });
        for absent in ["", "# bakery: 1\n", "server: x\n", "bakery:\n"] {
            assert_eq!(bakery(absent).unwrap(), Bakery::default(), "{absent:?}");
        }
        let failure = bakery("server: x\n\nbakery:\n  flour: rye\n  oven: 3\n").unwrap_err();
        assert!(failure.message.starts_with("divvy.yaml:5:3: unknown field `oven`"), "{failure}");
        assert!(failure.message.ends_with("did you mean `ovens`?"), "{failure}");
        assert_eq!(failure.cure.as_deref(), Some("the fields here are: ovens, flour"));
        let failure = bakery("a: 1\nbakery: {ovens: many}\n").unwrap_err();
        assert_eq!(failure.message, "divvy.yaml:2:17: `many` is not a number that fits here");
    }

    #[test]
    fn fields_beside_the_sections_are_read_and_others_are_named_with_all_that_there_are() {
        let yaml = "sweets: {any: thing}\novens: 2\n";
        let read = |yaml: &str| -> Result<Bakery, Failure> {
            beside(yaml, &["sweets"]).map_err(|error| failure("f", yaml, &error, &["sweets"]))
        };
        assert_eq!(read(yaml).unwrap().ovens, Some(2));
        let wrong = read("ovens: 2\nsweet: {}\n").unwrap_err();
        assert_eq!(wrong.message, "f:2:1: unknown field `sweet`; did you mean `sweets`?");
        assert_eq!(wrong.cure.as_deref(), Some("the fields here are: ovens, flour, sweets"));
        assert_eq!(
            read("sweets: 1\novens: two\n").unwrap_err().message.split(' ').next(),
            Some("f:2:8:")
        );
    }
}
