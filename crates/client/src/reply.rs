//! What a server answered: JSON text, kept as it came, and read as whatever the caller expects.

use divvy_types::view::Page;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::Error;

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    text: String,
}

impl Reply {
    pub(crate) fn new(text: String) -> Self {
        Self { text }
    }

    /// The JSON as it came.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The JSON as a value of ours.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, Error> {
        parse(&self.text)
    }

    /// The rows of a list, each as it came, and where the next page starts. A list is an array or a page.
    pub fn rows(&self) -> Result<Page<Box<RawValue>>, Error> {
        if self.text.trim_start().starts_with('[') {
            return Ok(Page { items: self.parse()?, next: None, partial: false });
        }
        self.parse()
    }

    /// The JSON without types.
    pub fn value(&self) -> Result<Value, Error> {
        self.parse()
    }
}

/// The rows of a list as values of ours.
pub fn parse_rows<T: DeserializeOwned>(rows: &[Box<RawValue>]) -> Result<Vec<T>, Error> {
    rows.iter().map(|row| parse(row.get())).collect()
}

fn parse<T: DeserializeOwned>(text: &str) -> Result<T, Error> {
    // Everything that reads JSON reads bytes: another sort of reader would be compiled for each type once more.
    serde_json::from_slice(text.as_bytes()).map_err(Error::protocol)
}
