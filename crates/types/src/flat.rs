//! Reads a map in which the [`Terms`](crate::Terms) of a task stand beside other fields, as in every form in which people and
//! programs write tasks: JSON bodies, templates of schedules, workflow files, rows of a store. A
//! [`Select`](crate::Select) stands beside others in the same way.
//!
//! Decides which names such a map may have: the own ones of the form, and those of the terms, so that a new term is
//! known everywhere at once. Values are read straight from the source instead of being kept aside first, which
//! `#[serde(flatten)]` does, so that an error still has its place: a path in JSON, a line in YAML. Does not know what
//! the fields mean.

use std::fmt;
use std::sync::OnceLock;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, IntoDeserializer, MapAccess, Visitor};

/// The fields of a form that are not terms. Made by [`crate::beside_terms`].
pub trait BesideTerms<'de>: Default {
    /// Their names. A term of the same name cannot be given.
    const OWN: &'static [&'static str];
    /// Terms that make no sense in this form.
    const WITHOUT: &'static [&'static str];

    /// Where all names that the form may have are kept.
    fn names() -> &'static Names;

    /// Reads the value of one of its own fields.
    fn read<A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error>;
}

/// Says that the fields of a struct stand beside the terms of a task, and which terms cannot be given there.
#[macro_export]
macro_rules! beside_terms {
    ($form:ty { $($own:ident),* } without { $($not:ident),* }) => {
        impl<'de> $crate::flat::BesideTerms<'de> for $form {
            const OWN: &'static [&'static str] = &[$(stringify!($own)),*];
            const WITHOUT: &'static [&'static str] = &[$(stringify!($not)),*];

            fn names() -> &'static $crate::flat::Names {
                static NAMES: $crate::flat::Names = $crate::flat::Names::new();
                &NAMES
            }

            fn read<A: serde::de::MapAccess<'de>>(
                &mut self,
                name: &str,
                map: &mut A,
            ) -> Result<(), A::Error> {
                match name {
                    $(stringify!($own) => self.$own = map.next_value()?,)*
                    _ => {}
                }
                Ok(())
            }
        }
    };
}

/// A list of names that is made once.
type List = &'static [&'static str];

/// Sorts of terms beside which one form may stand: there are the terms of a task, a filter, and none at all.
const SORTS_MAX: usize = 4;

/// All names that a form may have, for each sort of terms beside which it stands: made once, and read without a lock.
#[derive(Debug, Default)]
pub struct Names([OnceLock<(List, List)>; SORTS_MAX]);

impl Names {
    /// None yet.
    pub const fn new() -> Self {
        Self([const { OnceLock::new() }; SORTS_MAX])
    }

    /// The names beside these terms. They are kept for as long as the process lives.
    fn of(&self, terms: List, all: impl Fn() -> Vec<&'static str>) -> List {
        for sort in &self.0 {
            let (of, names) = sort.get_or_init(|| (terms, all().leak()));
            if std::ptr::eq(*of, terms) || *of == terms {
                return names;
            }
        }
        unreachable!("a form stands beside more than {SORTS_MAX} sorts of terms")
    }
}

/// Reads a map: its own fields, and the terms beside them, which are [`Terms`](crate::Terms) unless the caller says otherwise. A name
/// that is neither is an error.
pub fn read<'de, F: BesideTerms<'de>, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<(F, T), D::Error> {
    let mut own = F::default();
    let terms = T::deserialize(Beside { deserializer, own: &mut own })?;
    Ok((own, terms))
}

/// Gives the visitor of the terms a map without the own fields of the form.
struct Beside<'a, D, F> {
    deserializer: D,
    own: &'a mut F,
}

impl<'de, D: Deserializer<'de>, F: BesideTerms<'de>> Deserializer<'de> for Beside<'_, D, F> {
    type Error = D::Error;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        terms: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        let names = F::names().of(terms, || {
            let taken = |name: &&&str| !F::OWN.contains(name) && !F::WITHOUT.contains(name);
            F::OWN.iter().chain(terms.iter().filter(taken)).copied().collect()
        });
        self.deserializer.deserialize_struct(name, names, Apart { visitor, own: self.own, names })
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.deserialize_struct("Terms", &[], visitor)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

/// Takes the own fields out of a map and shows the visitor the rest.
struct Apart<'a, V, F> {
    visitor: V,
    own: &'a mut F,
    names: &'static [&'static str],
}

impl<'de, V: Visitor<'de>, F: BesideTerms<'de>> Visitor<'de> for Apart<'_, V, F> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the fields of a task")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<V::Value, A::Error> {
        self.visitor.visit_map(Rest { map, own: self.own, names: self.names, seen: 0 })
    }
}

/// A map without the own fields of the form, which are read on the way.
struct Rest<'a, A, F> {
    map: A,
    own: &'a mut F,
    names: &'static [&'static str],
    /// A bit for each own field that was there.
    seen: u64,
}

impl<'de, A: MapAccess<'de>, F: BesideTerms<'de>> MapAccess<'de> for Rest<'_, A, F> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, A::Error> {
        while let Some(name) = self.map.next_key_seed(OneOf(self.names))? {
            let Some(place) = F::OWN.iter().position(|own| *own == name) else {
                return seed.deserialize(name.into_deserializer()).map(Some);
            };
            if self.seen & (1 << place) != 0 {
                return Err(A::Error::duplicate_field(name));
            }
            self.seen |= 1 << place;
            self.own.read(name, &mut self.map)?;
        }
        Ok(None)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.map.next_value_seed(seed)
    }
}

/// Reads one of these names, and refuses any other while the place of the name is known.
struct OneOf(&'static [&'static str]);

impl<'de> DeserializeSeed<'de> for OneOf {
    type Value = &'static str;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<&'static str, D::Error> {
        deserializer.deserialize_identifier(self)
    }
}

impl Visitor<'_> for OneOf {
    type Value = &'static str;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a field")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<&'static str, E> {
        let known = self.0.iter().find(|name| **name == text);
        known.copied().ok_or_else(|| E::unknown_field(text, self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Terms;

    #[derive(Debug, Default)]
    struct Form {
        title: String,
        after: Option<u8>,
    }
    crate::beside_terms!(Form { title, after } without { workflow });

    fn form(json: &str) -> Result<(Form, Terms), String> {
        let mut reader = serde_json::Deserializer::from_str(json);
        read(&mut reader).map_err(|error| error.to_string())
    }

    #[test]
    fn own_fields_and_terms_stand_side_by_side_in_any_order() {
        let (own, terms) =
            form(r#"{"needs":["gpu"],"title":"a","cost_hint":7,"after":3}"#).unwrap();
        assert_eq!((own.title.as_str(), own.after), ("a", Some(3)));
        assert_eq!((terms.needs[0].as_str(), terms.cost_hint), ("gpu", Some(7)));
        assert!(terms.after.is_empty(), "the own field of that name was meant");
        assert_eq!(form("{}").unwrap().1, Terms::default());
    }

    #[test]
    fn one_form_stands_beside_two_sorts_of_terms() {
        let other = |json| {
            let mut reader = serde_json::Deserializer::from_str(json);
            read::<Form, crate::Select, _>(&mut reader).map_err(|error| error.to_string())
        };
        form(r#"{"title":"a","needs":["gpu"]}"#).unwrap();
        let (own, select) = other(r#"{"title":"a","worker":"w"}"#).unwrap();
        assert_eq!((own.title.as_str(), select.worker.as_deref()), ("a", Some("w")));
        assert!(other(r#"{"needs":["gpu"]}"#).is_err() && form(r#"{"worker":"w"}"#).is_err());
    }

    #[test]
    fn what_is_not_known_here_or_comes_twice_is_refused_with_what_could_be_meant() {
        for (json, words) in [
            (
                r#"{"titel":"a"}"#,
                "unknown field `titel`, expected one of `title`, `after`, `needs`",
            ),
            (r#"{"workflow":null}"#, "unknown field `workflow`"),
            (r#"{"title":"a","title":"b"}"#, "duplicate field `title`"),
            (r#"{"needs":[],"needs":[]}"#, "duplicate field `needs`"),
            ("[]", "expected the fields of a task"),
        ] {
            let problem = form(json).unwrap_err();
            assert!(problem.contains(words), "{json}: {problem}");
        }
    }
}
