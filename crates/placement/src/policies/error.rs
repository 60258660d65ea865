//! Decides which settings of a policy are refused, and how the refusal reads.
//!
//! Knows the shapes of settings (a share, a factor, a span), not what any policy does with them.

use std::time::Duration;

use super::kind;

/// Why a policy could not be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A setting makes no sense.
    #[error("`{field}` of policy `{policy}` is {value}; it must be {cure}")]
    BadSetting {
        /// The policy.
        policy: &'static str,
        /// The setting.
        field: &'static str,
        /// What was given.
        value: String,
        /// What would be right.
        cure: &'static str,
    },
    /// No policy has this name.
    #[error("there is no policy `{0}`; choose one of: {names}", names = kind::names())]
    UnknownName(String),
}

/// Checks the settings of the policy of this name.
pub(super) struct Check(pub(super) &'static str);

impl Check {
    /// A share of something: above 0, at most 1.
    pub(super) fn share(&self, field: &'static str, value: f64) -> Result<(), Error> {
        let cure = "above 0 and at most 1";
        self.that(value > 0.0 && value <= 1.0, field, value, cure)
    }

    /// A number that is finite and at least `least`.
    pub(super) fn at_least(
        &self,
        field: &'static str,
        value: f64,
        least: f64,
        cure: &'static str,
    ) -> Result<(), Error> {
        self.that(value.is_finite() && value >= least, field, value, cure)
    }

    /// A span of time that is not zero.
    pub(super) fn span(&self, field: &'static str, value: Duration) -> Result<(), Error> {
        self.that(!value.is_zero(), field, format_args!("{value:?}"), "longer than zero")
    }

    /// Anything else.
    pub(super) fn that(
        &self,
        holds: bool,
        field: &'static str,
        value: impl ToString,
        cure: &'static str,
    ) -> Result<(), Error> {
        if holds {
            return Ok(());
        }
        Err(Error::BadSetting { policy: self.0, field, value: value.to_string(), cure })
    }
}
