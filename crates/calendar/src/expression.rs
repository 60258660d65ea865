//! What can be written: five or six fields, a macro, or `@every` and a span.

use std::fmt;
use std::str::FromStr;

use crate::cron::Cron;

/// Characters of an expression.
pub const EXPRESSION_LEN_MAX: usize = 256;
/// The longest span of `@every`: a year, in seconds.
pub const EVERY_SECONDS_MAX: u64 = 366 * 86_400;

const MACROS: [(&str, &str); 7] = [
    ("@hourly", "0 * * * *"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@weekly", "0 0 * * 0"),
    ("@monthly", "0 0 1 * *"),
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
];
const UNITS: [(char, u64); 4] = [('s', 1), ('m', 60), ('h', 3_600), ('d', 86_400)];

/// When something happens, without a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expression {
    /// At times of the calendar.
    Cron(Box<Cron>),
    /// Every so many seconds, counted from the Unix epoch, so that a restart does not shift it.
    Every(u64),
}

/// Why an expression is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidExpression {
    /// One of its fields is wrong.
    #[error("{field} `{value}`: {problem}")]
    Field {
        /// Which.
        field: &'static str,
        /// What was written.
        value: String,
        /// What is wrong with it, and what would be right.
        problem: String,
    },
    /// It has the wrong shape.
    #[error("{0}")]
    Shape(String),
}

impl InvalidExpression {
    pub(crate) fn field(field: &'static str, value: &str, problem: String) -> Self {
        Self::Field { field, value: value.chars().take(64).collect(), problem }
    }

    /// The field that is wrong, if it is one.
    pub fn field_name(&self) -> Option<&'static str> {
        match self {
            Self::Field { field, .. } => Some(field),
            Self::Shape(_) => None,
        }
    }
}

impl FromStr for Expression {
    type Err = InvalidExpression;

    fn from_str(text: &str) -> Result<Self, InvalidExpression> {
        let count = text.chars().count();
        if count > EXPRESSION_LEN_MAX {
            let problem = format!("has {count} characters, at most {EXPRESSION_LEN_MAX}");
            return Err(InvalidExpression::Shape(problem));
        }
        let text = text.trim();
        if let Some(span) = text.strip_prefix("@every") {
            return every(span.trim()).map(Self::Every);
        }
        if !text.starts_with('@') {
            return Cron::parse(text).map(|cron| Self::Cron(Box::new(cron)));
        }
        let known = MACROS.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
        let Some((_, meaning)) = known else {
            let problem =
                "is no macro: expected @hourly, @daily, @weekly, @monthly, @yearly, or @every 90s";
            return Err(InvalidExpression::Shape(problem.into()));
        };
        Cron::parse(meaning).map(|cron| Self::Cron(Box::new(cron)))
    }
}

/// The span of `@every`, in seconds.
fn every(text: &str) -> Result<u64, InvalidExpression> {
    let wrong = |problem: &str| InvalidExpression::field("@every", text, problem.to_owned());
    let shape = || wrong("expected numbers with units, such as 90s, 15m, 1h30m or 2d");
    let mut total: u64 = 0;
    let mut number: Option<u64> = None;
    for letter in text.chars() {
        if let Some(digit) = letter.to_digit(10) {
            let next = number.unwrap_or(0).checked_mul(10);
            number = Some(next.and_then(|n| n.checked_add(digit.into())).ok_or_else(&shape)?);
            continue;
        }
        let unit = UNITS.iter().find(|(unit, _)| *unit == letter).ok_or_else(&shape)?;
        let part = number.take().and_then(|n| n.checked_mul(unit.1)).ok_or_else(&shape)?;
        total = total.checked_add(part).ok_or_else(&shape)?;
    }
    if number.is_some() || text.is_empty() {
        return Err(shape());
    }
    if !(1..=EVERY_SECONDS_MAX).contains(&total) {
        return Err(wrong("expected from 1s to 366d"));
    }
    Ok(total)
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&crate::words::describe(self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn macros_are_what_they_stand_for() {
        for (name, meaning) in MACROS {
            assert_eq!(name.parse::<Expression>(), meaning.parse(), "{name}");
        }
        assert_eq!("@Daily".parse::<Expression>(), "0 0 * * *".parse());
    }

    #[test]
    fn every_takes_spans_with_units() {
        for (text, seconds) in [("90s", 90), ("15m", 900), ("1h30m", 5_400), ("2d", 172_800)] {
            let parsed: Expression = format!("@every {text}").parse().unwrap();
            assert_eq!(parsed, Expression::Every(seconds));
        }
        for text in ["", "0s", "90", "s", "1x", "-1s", "367d", "99999999999999999999s", "1h 5"] {
            let error = format!("@every {text}").parse::<Expression>().unwrap_err();
            assert_eq!(error.field_name(), Some("@every"), "{text}: {error}");
        }
    }

    #[test]
    fn a_wrong_shape_says_what_was_expected() {
        let long = "* ".repeat(200);
        for (text, words) in [
            ("@fortnightly", "is no macro"),
            ("* * *", "has 3 fields, expected 5"),
            ("", "has 0 fields"),
            ("* * * * * * *", "has 7 fields"),
            (long.as_str(), "at most 256"),
        ] {
            let error = text.parse::<Expression>().unwrap_err();
            assert!(error.to_string().contains(words), "{text}: {error}");
        }
    }
}
