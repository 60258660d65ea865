//! Decides how settings and inputs of the load view are refused: with the field, what it is, and what it must be.

use std::time::Duration;

/// Why something was refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// A setting or a figure cannot be used: correct it.
    #[error("`{field}` is {value}; it must be {must}")]
    BadValue {
        /// Which one.
        field: &'static str,
        /// What was given.
        value: String,
        /// What would be accepted.
        must: &'static str,
    },
    /// There is more than is handled at once: split it.
    #[error("there are {count} {what}, at most {max} are handled; split them")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many there are.
        count: usize,
        /// How many there may be.
        max: usize,
    },
    /// A chain was told of a stage that it does not have.
    #[error("there is no stage `{0}` in this chain; name it when the detector is made")]
    UnknownStage(String),
    /// A stage is named twice.
    #[error("stage `{0}` is named twice; give each stage its own name")]
    StageTwice(String),
    /// An item names a target that is not in the problem.
    #[error("item {item} names target {target}, but there are {count} targets, counted from 0")]
    NoSuchTarget {
        /// The id of the item.
        item: u64,
        /// What it names.
        target: usize,
        /// How many targets there are.
        count: usize,
    },
    /// Two items have one id.
    #[error("two items have the id {0}; give each item its own id")]
    ItemTwice(u64),
}

fn bad(field: &'static str, value: impl ToString, must: &'static str) -> Error {
    Error::BadValue { field, value: value.to_string(), must }
}

/// Above 0 and finite.
pub(super) fn positive(field: &'static str, value: f64) -> Result<(), Error> {
    if value.is_finite() && value > 0.0 {
        return Ok(());
    }
    Err(bad(field, value, "a number above 0"))
}

/// 0 or more, and finite.
pub(super) fn not_negative(field: &'static str, value: f64) -> Result<(), Error> {
    if value.is_finite() && value >= 0.0 {
        return Ok(());
    }
    Err(bad(field, value, "a number that is 0 or more"))
}

/// A share above 0, up to 1.
pub(super) fn share(field: &'static str, value: f64) -> Result<(), Error> {
    if value > 0.0 && value <= 1.0 {
        return Ok(());
    }
    Err(bad(field, value, "above 0 and at most 1"))
}

/// A share from 0 up to 1.
pub(super) fn share_or_none(field: &'static str, value: f64) -> Result<(), Error> {
    if (0.0..=1.0).contains(&value) {
        return Ok(());
    }
    Err(bad(field, value, "from 0 to 1"))
}

/// Above 1 and finite.
pub(super) fn above_one(field: &'static str, value: f64) -> Result<(), Error> {
    if value.is_finite() && value > 1.0 {
        return Ok(());
    }
    Err(bad(field, value, "a number above 1"))
}

/// Longer than nothing.
pub(super) fn some_time(field: &'static str, value: Duration) -> Result<(), Error> {
    if value.is_zero() {
        return Err(bad(field, "0 s", "longer than 0 s"));
    }
    Ok(())
}

/// From `min` to `max`; `must` says so in words.
pub(super) fn count(
    field: &'static str,
    value: usize,
    range: std::ops::RangeInclusive<usize>,
    must: &'static str,
) -> Result<(), Error> {
    if range.contains(&value) {
        return Ok(());
    }
    Err(bad(field, value, must))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonsense_is_refused_with_the_field_and_the_cure() {
        for value in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(positive("gain", value).is_err(), "{value}");
        }
        for value in [-0.1, f64::NAN, f64::INFINITY] {
            assert!(not_negative("gain", value).is_err(), "{value}");
        }
        for value in [0.0, 1.1, f64::NAN] {
            assert!(share("gain", value).is_err(), "{value}");
        }
        for value in [1.0, 0.5, f64::NAN, f64::INFINITY] {
            assert!(above_one("gain", value).is_err(), "{value}");
        }
        assert!(share_or_none("gain", f64::NAN).is_err());
        let error = some_time("half_life", Duration::ZERO).unwrap_err();
        assert_eq!(error.to_string(), "`half_life` is 0 s; it must be longer than 0 s");
    }
}
