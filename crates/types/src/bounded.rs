//! Lists that come from outside: refused at the first entry that is one too many, before a longer list is built. Three
//! bytes of text can stand for an entry of a hundred, so the size of a body does not bound what it becomes.

use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, IgnoredAny, SeqAccess, Visitor};

/// Reads a list of at most `MAX` entries.
///
/// # Errors
/// If there are more, or one is not a `T`.
pub fn at_most<'de, const MAX: usize, T, D>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    deserializer.deserialize_seq(Entries::<T, MAX>(PhantomData))
}

struct Entries<T, const MAX: usize>(PhantomData<T>);

impl<'de, T: Deserialize<'de>, const MAX: usize> Visitor<'de> for Entries<T, MAX> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list of at most {MAX}")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
        let mut entries = Vec::new();
        while entries.len() < MAX {
            match list.next_element()? {
                Some(entry) => entries.push(entry),
                None => return Ok(entries),
            }
        }
        match list.next_element::<IgnoredAny>()? {
            Some(_) => Err(A::Error::custom(format_args!("lists more than {MAX}"))),
            None => Ok(entries),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::NewTask;

    #[test]
    fn a_list_is_refused_at_its_first_entry_too_many() {
        for (field, entry, max) in [
            ("needs", "\"gpu\"", 16),
            ("limits", "\"disk\"", 8),
            ("tags", "\"t\"", 16),
            ("after", "\"01890000-0000-7000-8000-000000000000\"", 2_000),
            ("after_groups", "{\"group\":\"g\"}", 100),
            ("rules", "{}", 16),
        ] {
            // What comes after the first that is too many is not even looked at.
            for (count, rest) in [(max, "]"), (max + 1, ", not json")] {
                let list = vec![entry; count].join(",");
                let list = format!("\"{field}\":[{list}{rest}");
                let text = match field {
                    "rules" => format!("{{\"kind\":\"a\",\"retry\":{{{list}}}}}"),
                    _ => format!("{{\"kind\":\"a\",{list}}}"),
                };
                match serde_json::from_str::<NewTask>(&text) {
                    Ok(_) => assert_eq!(count, max, "{field}"),
                    Err(error) => {
                        let words = format!("lists more than {max}");
                        assert!(count > max && error.to_string().contains(&words), "{error}");
                    }
                }
            }
        }
    }
}
