//! The values that people write about videos: ladders and distances. Each has one text form, wherever it is written.

use std::str::FromStr;

use divvy_workload::console::values::Span;

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
