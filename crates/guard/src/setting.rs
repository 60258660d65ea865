//! Decides whether one setting makes sense, and says in one form what is wrong with it.
//!
//! It does not know what the settings are for; each guard checks its own, once, when it is made.

use std::fmt::Debug;

/// A setting that makes no sense. Change the field to what is expected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} is {value}, expected {expected}")]
pub struct Invalid {
    /// The field.
    pub field: &'static str,
    /// What it was.
    pub value: String,
    /// What would be accepted.
    pub expected: String,
}

/// Refuses `value` of `field` unless `holds`. A comparison with a number that is not one is false, so it is refused.
pub(crate) fn require(
    holds: bool,
    field: &'static str,
    value: impl Debug,
    expected: &str,
) -> Result<(), Invalid> {
    if holds {
        return Ok(());
    }
    Err(Invalid { field, value: format!("{value:?}"), expected: expected.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_names_field_value_and_cure() {
        let value = f64::NAN;
        let error = require(value > 0.0, "factor", value, "above 0").unwrap_err();
        assert_eq!(error.to_string(), "factor is NaN, expected above 0");
    }
}
