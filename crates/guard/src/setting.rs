//! Decides what is said about a setting that makes no sense: which field, what it was, and what would do.
//!
//! Knows no guard. Every guard checks its settings once, when it is made, with [`require`].

use std::fmt::Debug;

/// A setting that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} is {value}; {cure}")]
pub struct SettingError {
    /// The field.
    pub field: &'static str,
    /// What it was set to.
    pub value: String,
    /// What to set instead.
    pub cure: &'static str,
}

/// Refuses `value` of `field` unless `holds`. A comparison with a number that is not one is false, so it is refused.
pub(crate) fn require(
    holds: bool,
    field: &'static str,
    value: impl Debug,
    cure: &'static str,
) -> Result<(), SettingError> {
    if holds { Ok(()) } else { Err(SettingError { field, value: format!("{value:?}"), cure }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_names_field_value_and_cure() {
        let value = f64::NAN;
        let error = require(value > 0.0, "factor", value, "set it above 0").unwrap_err();
        assert_eq!(error.to_string(), "factor is NaN; set it above 0");
    }
}
