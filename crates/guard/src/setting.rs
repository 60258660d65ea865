//! Decides whether one setting makes sense, and says in one form what is wrong with it.
//!
//! It does not know what the settings are for; each guard checks its own with these rules.

use std::fmt::{Debug, Display};
use std::time::Duration;

/// The longest time that a setting may name.
pub const SPAN_MAX: Duration = Duration::from_secs(365 * 24 * 3_600);

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

impl Invalid {
    pub(crate) fn new(
        field: &'static str,
        value: impl Display,
        expected: impl Into<String>,
    ) -> Self {
        Self { field, value: value.to_string(), expected: expected.into() }
    }
}

/// Refuses `value` of `field` unless `holds`. A comparison with a number that is not one is false, so it is refused.
pub(crate) fn require(
    holds: bool,
    field: &'static str,
    value: impl Debug,
    expected: &str,
) -> Result<(), Invalid> {
    if holds { Ok(()) } else { Err(Invalid::new(field, format!("{value:?}"), expected)) }
}

/// More than nothing, at most all.
pub(crate) fn share(field: &'static str, value: f64) -> Result<(), Invalid> {
    if value > 0.0 && value <= 1.0 {
        return Ok(());
    }
    Err(Invalid::new(field, value, "more than 0 and at most 1, such as 0.5 for half"))
}

/// From nothing to all.
pub(crate) fn fraction(field: &'static str, value: f64) -> Result<(), Invalid> {
    if (0.0..=1.0).contains(&value) {
        return Ok(());
    }
    Err(Invalid::new(field, value, "0 to 1"))
}

/// A growth that does not shrink.
pub(crate) fn factor(field: &'static str, value: f64) -> Result<(), Invalid> {
    if value.is_finite() && value >= 1.0 {
        return Ok(());
    }
    Err(Invalid::new(field, value, "1 (no growth) or more"))
}

/// At least one, at most `max`.
pub(crate) fn count(field: &'static str, value: u32, max: u32) -> Result<(), Invalid> {
    if (1..=max).contains(&value) {
        return Ok(());
    }
    Err(Invalid::new(field, value, format!("1 to {max}")))
}

/// More than no time, at most [`SPAN_MAX`].
pub(crate) fn span(field: &'static str, value: Duration) -> Result<(), Invalid> {
    span_from(field, value, Duration::from_nanos(1))
}

/// At least `min`, at most [`SPAN_MAX`].
pub(crate) fn span_from(
    field: &'static str,
    value: Duration,
    min: Duration,
) -> Result<(), Invalid> {
    if (min..=SPAN_MAX).contains(&value) {
        return Ok(());
    }
    Err(Invalid::new(field, format!("{value:?}"), format!("{min:?} to a year")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_field_the_value_and_the_cure() {
        let error = share("failure_rate", 1.5).unwrap_err();
        assert_eq!(
            error.to_string(),
            "failure_rate is 1.5, expected more than 0 and at most 1, such as 0.5 for half"
        );
        let error = span("open_for", Duration::ZERO).unwrap_err();
        assert_eq!(error.to_string(), "open_for is 0ns, expected 1ns to a year");
    }

    #[test]
    fn not_a_number_is_never_accepted() {
        for check in [share, fraction, factor] {
            assert!(check("field", f64::NAN).is_err());
            assert!(check("field", f64::INFINITY).is_err());
            assert!(check("field", -0.1).is_err());
            assert!(check("field", 1.0).is_ok());
        }
    }
}
