//! What follows a failed attempt.

use serde::{Deserialize, Serialize};

use crate::bounded;
use crate::limits::*;
use crate::spec::SpecError;
use crate::{ErrorClass, Name, TaskError};

/// Retries with exponential backoff: `base_ms`, doubled each time up to `cap_ms`, each wait spread by `jitter`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct RetryPolicy {
    /// Attempts after the first; 0 means that the first failure is final.
    #[cfg_attr(feature = "schema", schemars(range(max = RETRY_LIMIT_MAX)))]
    pub limit: u32,
    /// The first wait, in milliseconds.
    #[cfg_attr(feature = "schema", schemars(range(max = RETRY_WAIT_MS_MAX)))]
    pub base_ms: u64,
    /// The longest wait, in milliseconds.
    #[cfg_attr(feature = "schema", schemars(range(max = RETRY_WAIT_MS_MAX)))]
    pub cap_ms: u64,
    /// How far a wait may be spread around its value, in percent of it.
    #[cfg_attr(feature = "schema", schemars(range(max = 100)))]
    pub jitter_percent: u8,
    /// Errors that are treated otherwise; the first rule that fits holds.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "bounded::at_most::<RETRY_RULES_MAX, _, _>"
    )]
    #[cfg_attr(feature = "schema", schemars(length(max = RETRY_RULES_MAX)))]
    pub rules: Vec<RetryRule>,
}

/// How one sort of error is treated. What it leaves out is as in the policy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct RetryRule {
    /// Only errors of this class.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<ErrorClass>,
    /// Only errors whose message contains this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contains: Option<Name>,
    /// Attempts after the first; 0 makes such an error final.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(max = RETRY_LIMIT_MAX)))]
    pub limit: Option<u32>,
    /// The first wait, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(max = RETRY_WAIT_MS_MAX)))]
    pub base_ms: Option<u64>,
    /// The longest wait, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(max = RETRY_WAIT_MS_MAX)))]
    pub cap_ms: Option<u64>,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// What a policy says of one error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryTerms {
    /// Attempts after the first.
    pub limit: u32,
    /// The first wait, in milliseconds.
    pub base_ms: u64,
    /// The longest wait, in milliseconds.
    pub cap_ms: u64,
    /// How far a wait may be spread around its value, in percent of it.
    pub jitter_percent: u8,
}

impl RetryTerms {
    /// The wait before attempt number `attempt + 1`, before jitter.
    pub fn wait_ms(&self, attempt: u32) -> u64 {
        let doublings = attempt.saturating_sub(1).min(62);
        self.base_ms.saturating_mul(1 << doublings).min(self.cap_ms)
    }
}

impl RetryPolicy {
    /// What holds if nothing was said.
    pub const DEFAULT: Self =
        Self { limit: 5, base_ms: 1_000, cap_ms: 300_000, jitter_percent: 20, rules: Vec::new() };

    /// Whether nothing was said.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// The rule that fits this error, if one does.
    pub fn rule_for(&self, error: &TaskError) -> Option<&RetryRule> {
        self.rules.iter().find(|rule| {
            rule.class.is_none_or(|class| class == error.class)
                && rule.contains.as_ref().is_none_or(|text| error.message.contains(text.as_str()))
        })
    }

    /// What holds for this error.
    pub fn for_error(&self, error: &TaskError) -> RetryTerms {
        let rule = self.rule_for(error);
        RetryTerms {
            limit: rule.and_then(|rule| rule.limit).unwrap_or(self.limit),
            base_ms: rule.and_then(|rule| rule.base_ms).unwrap_or(self.base_ms),
            cap_ms: rule.and_then(|rule| rule.cap_ms).unwrap_or(self.cap_ms),
            jitter_percent: self.jitter_percent,
        }
    }

    pub(crate) fn validate(&self) -> Result<(), SpecError> {
        at_most("retry.limit", u64::from(self.limit), u64::from(RETRY_LIMIT_MAX))?;
        at_most("retry.base_ms", self.base_ms, RETRY_WAIT_MS_MAX)?;
        at_most("retry.cap_ms", self.cap_ms, RETRY_WAIT_MS_MAX)?;
        at_most("retry.jitter_percent", u64::from(self.jitter_percent), 100)?;
        at_most("retry.rules", self.rules.len() as u64, RETRY_RULES_MAX as u64)?;
        for rule in &self.rules {
            if rule.class.is_none() && rule.contains.is_none() {
                let problem = "has a rule without `class` or `contains`; give one".to_owned();
                return Err(SpecError::field("retry.rules", problem));
            }
            let words = rule.contains.as_ref().map_or(0, |text| text.len());
            at_most("retry.rules.contains", words as u64, RULE_TEXT_LEN_MAX as u64)?;
            at_most("retry.rules.limit", rule.limit.unwrap_or(0).into(), RETRY_LIMIT_MAX.into())?;
            at_most("retry.rules.base_ms", rule.base_ms.unwrap_or(0), RETRY_WAIT_MS_MAX)?;
            at_most("retry.rules.cap_ms", rule.cap_ms.unwrap_or(0), RETRY_WAIT_MS_MAX)?;
        }
        Ok(())
    }
}

fn at_most(field: &'static str, value: u64, max: u64) -> Result<(), SpecError> {
    if value > max {
        return Err(SpecError::field(field, format!("is {value}, at most {max}")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_cap() {
        let retry = RetryPolicy { base_ms: 100, cap_ms: 1_000, ..RetryPolicy::default() };
        let terms = retry.for_error(&TaskError::new(ErrorClass::Failed, "no"));
        assert_eq!(
            [1, 2, 3, 4, 5, 1_000].map(|n| terms.wait_ms(n)),
            [100, 200, 400, 800, 1_000, 1_000]
        );
    }

    #[test]
    fn the_first_rule_that_fits_an_error_holds() {
        let never =
            RetryRule { contains: Some("404".into()), limit: Some(0), ..RetryRule::default() };
        let slow = RetryRule {
            class: Some(ErrorClass::Timeout),
            base_ms: Some(9),
            ..RetryRule::default()
        };
        let policy = RetryPolicy { rules: vec![never, slow], ..RetryPolicy::default() };
        let terms = |class, text| policy.for_error(&TaskError::new(class, text));
        assert_eq!(terms(ErrorClass::Timeout, "got 404").limit, 0);
        assert_eq!(terms(ErrorClass::Timeout, "late").base_ms, 9);
        assert_eq!(terms(ErrorClass::Timeout, "late").limit, 5);
        assert_eq!(terms(ErrorClass::Failed, "other").base_ms, 1_000);
    }
}
