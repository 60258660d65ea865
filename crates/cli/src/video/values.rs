//! The values that people write about videos: sizes, ladders, distances. Each has one text form, on the command line, in
//! the environment and in `divvy.yaml` alike.

use std::fmt;
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use crate::values::Span;

/// An amount of data such as `500MB`, `20GB` or `2TB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size(pub(crate) u64);

const UNITS: [(&str, u64); 4] =
    [("TB", 1_000_000_000_000), ("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1_000)];

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not a size: expected such as 500MB, 20GB or 2TB");
        let digits = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
        let count: u64 = text[..digits].parse().map_err(|_| wrong())?;
        let unit = text[digits..].trim();
        let (_, factor) =
            UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit)).ok_or_else(wrong)?;
        count.checked_mul(*factor).map(Self).ok_or_else(wrong)
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = UNITS.iter().find(|(_, factor)| self.0.is_multiple_of(*factor));
        match unit {
            Some((name, factor)) if self.0 > 0 => write!(f, "{}{name}", self.0 / factor),
            _ => write!(f, "{}kB", self.0 / 1_000),
        }
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// Heights of renditions, separated by commas: `1080,720,480`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ladder(pub(crate) Vec<u32>);

/// More renditions than this are a mistake.
const RUNGS_MAX: usize = 16;

impl FromStr for Ladder {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut heights = Vec::new();
        for part in text.split(',').map(str::trim) {
            let height = part.strip_suffix('p').unwrap_or(part);
            match height.parse() {
                Ok(height @ 16..=4_320) if !heights.contains(&height) => heights.push(height),
                Ok(16..=4_320) => return Err(format!("`{part}` is in the ladder twice")),
                _ => {
                    return Err(format!(
                        "`{part}` is not a height from 16 to 4320: expected such as 1080,720,480"
                    ));
                }
            }
        }
        if heights.len() > RUNGS_MAX {
            return Err(format!("{} heights, at most {RUNGS_MAX}", heights.len()));
        }
        Ok(Self(heights))
    }
}

/// A distance in time, or `off`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Every {
    /// Not at all.
    Off,
    /// Each time that this has passed.
    Span(Span),
}

impl FromStr for Every {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "off" {
            return Ok(Self::Off);
        }
        match text.parse::<Span>() {
            Ok(span) if span.as_ms() > 0 => Ok(Self::Span(span)),
            _ => Err(format!("`{text}` is neither a span such as 10s nor off")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn a_ladder_is_a_list_of_heights_that_differ() {
        assert_eq!("1080p, 720".parse::<Ladder>().unwrap().0, [1_080, 720]);
        for text in ["", "1080,", "8", "4321", "720,720p", "high"] {
            assert!(text.parse::<Ladder>().is_err(), "{text}");
        }
    }

    #[test]
    fn thumbnails_are_at_a_distance_or_off() {
        assert_eq!("off".parse(), Ok(Every::Off));
        assert_eq!("10s".parse(), Ok(Every::Span("10s".parse().unwrap())));
        assert!("0s".parse::<Every>().is_err() && "often".parse::<Every>().is_err());
    }
}
