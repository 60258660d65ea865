//! The values that people write, on the command line, in the environment and in `divvy.yaml` alike: spans of time, sizes,
//! points in time, lists of names. Each has one text form, so all three places accept the same.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use divvy_types::{Name, Timestamp};
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};

/// A span of time such as `250ms`, `30s`, `5m`, `1h30m` or `2d`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(pub Duration);

const SPAN_UNITS: [(&str, u64); 5] =
    [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

impl Span {
    /// The span in milliseconds.
    pub fn as_ms(self) -> u64 {
        u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX)
    }
}

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "`{text}` is not a span of time: expected a number with a unit, such as 250ms, 30s, 5m, 1h30m or 2d"
            )
        };
        let mut rest = text.trim();
        let mut total: u64 = 0;
        if rest.is_empty() {
            return Err(wrong());
        }
        while !rest.is_empty() {
            let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
            let count: u64 = rest[..digits].parse().map_err(|_| wrong())?;
            rest = &rest[digits..];
            let letters = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
            let factor = SPAN_UNITS
                .iter()
                .find(|(unit, _)| *unit == &rest[..letters])
                .map(|(_, factor)| *factor);
            rest = &rest[letters..];
            let part = count.checked_mul(factor.ok_or_else(wrong)?).ok_or_else(wrong)?;
            total = total.checked_add(part).ok_or_else(wrong)?;
        }
        Ok(Self(Duration::from_millis(total)))
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.as_ms();
        if rest == 0 {
            return f.write_str("0s");
        }
        for (unit, factor) in SPAN_UNITS.iter().rev() {
            if rest >= *factor {
                write!(f, "{}{unit}", rest / factor)?;
                rest %= factor;
            }
        }
        Ok(())
    }
}

/// An amount of data such as `500MB`, `20GB` or `2TB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(pub u64);

const SIZE_UNITS: [(&str, u64); 4] =
    [("TB", 1_000_000_000_000), ("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1_000)];

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not a size: expected such as 500MB, 20GB or 2TB");
        let digits = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
        let count: u64 = text[..digits].parse().map_err(|_| wrong())?;
        let unit = text[digits..].trim();
        let (_, factor) = SIZE_UNITS
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(unit))
            .ok_or_else(wrong)?;
        count.checked_mul(*factor).map(Self).ok_or_else(wrong)
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = SIZE_UNITS.iter().find(|(_, factor)| self.0.is_multiple_of(*factor));
        match unit {
            Some((name, factor)) if self.0 > 0 => write!(f, "{}{name}", self.0 / factor),
            _ => write!(f, "{}kB", self.0 / 1_000),
        }
    }
}

/// Names, separated by commas.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Names(pub Vec<Name>);

impl FromStr for Names {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(Self(
            text.split(',')
                .map(str::trim)
                .filter(|name| !name.is_empty())
                .map(Name::from)
                .collect(),
        ))
    }
}

impl fmt::Display for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(","))
    }
}

/// A point in time: a span from now, or a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// So much later than now.
    In(Span),
    /// Then.
    At(Timestamp),
}

impl Moment {
    /// The point in time, if a span is one back from `now`.
    pub fn back_from(self, now: Timestamp) -> Timestamp {
        match self {
            Self::In(span) => Timestamp(now.0.saturating_sub(span.as_ms().saturating_mul(1_000))),
            Self::At(time) => time,
        }
    }

    /// The point in time, seen from `now`.
    pub fn from(self, now: Timestamp) -> Timestamp {
        match self {
            Self::In(span) => now + span.0,
            Self::At(time) => time,
        }
    }
}

impl FromStr for Moment {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(span) = text.parse() {
            return Ok(Self::In(span));
        }
        text.parse().map(Self::At).map_err(|_| {
            format!(
                "`{text}` is neither a span such as 30m nor a time such as 2030-01-31T12:00:00Z"
            )
        })
    }
}

/// Reads one of these words as the value that it is in JSON.
pub fn one_of<T>(words: &'static [&'static str]) -> impl TypedValueParser<Value = T>
where
    T: DeserializeOwned + Clone + Send + Sync + 'static,
{
    PossibleValuesParser::new(words)
        .try_map(|word| serde_json::from_value(serde_json::Value::String(word)))
}

macro_rules! deserialize_text {
    ($($type:ty),*) => {$(
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
            }
        }
    )*};
}
deserialize_text!(Span, Size, Moment);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_have_units_and_come_back_the_same() {
        for (text, ms) in [
            ("250ms", 250),
            ("30s", 30_000),
            ("5m", 300_000),
            ("1h30m", 5_400_000),
            ("2d", 172_800_000),
        ] {
            let span: Span = text.parse().unwrap();
            assert_eq!((span.as_ms(), span.to_string().as_str()), (ms, text));
        }
        for text in ["", "5", "m", "5 m", "-5m", "5w", "99999999999999999999s", "1h5"] {
            assert!(text.parse::<Span>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn sizes_have_units_and_come_back_the_same() {
        for (text, bytes) in [("500MB", 500_000_000), ("20GB", 20_000_000_000), ("1kB", 1_000)] {
            let size: Size = text.parse().unwrap();
            assert_eq!((size.0, size.to_string().as_str()), (bytes, text));
        }
        assert_eq!("3 tb".parse::<Size>().unwrap().to_string(), "3TB");
        for text in ["", "20", "GB", "-1GB", "20GiB", "99999999999TB", "1.5GB"] {
            assert!(text.parse::<Size>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_moment_is_a_span_or_a_time() {
        let now = Timestamp(1_000_000);
        assert_eq!("30s".parse::<Moment>().unwrap().from(now), Timestamp(31_000_000));
        assert_eq!(
            "1970-01-01T00:00:05Z".parse::<Moment>().unwrap().from(now),
            Timestamp(5_000_000)
        );
        assert!("soon".parse::<Moment>().unwrap_err().contains("30m"));
    }
}
