//! Rules of a crawl: `--extract name=css`.

use std::str::FromStr;

use thiserror::Error;

/// What is taken out of every page: `name=css` for the text of the elements, `name=css@attribute` for an attribute.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Under which name it goes into the output.
    pub name: String,
}

/// Why a rule cannot be used.
#[derive(Debug, Error)]
pub enum RuleError {
    /// It is not `name=css`.
    #[error("the rule `{0}` is not of the form name=css")]
    Shape(String),
}

impl FromStr for Rule {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        unimplemented!("{text}")
    }
}
