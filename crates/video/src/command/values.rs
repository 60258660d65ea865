//! The values that people write about videos: ladders and distances. Each has one text form, wherever it is written.

use std::path::PathBuf;
use std::str::FromStr;

use divvy_workload::console::values::Span;

use crate::recipe::Recipe;

/// Heights of renditions, separated by commas: `1080,720,480`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ladder(pub(crate) Vec<u32>);

impl FromStr for Ladder {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut heights = Vec::new();
        for part in text.split(',').map(str::trim) {
            let height = part.strip_suffix('p').unwrap_or(part);
            match height.parse() {
                Ok(height) => heights.push(height),
                Err(_) => {
                    return Err(format!("`{part}` is not a height: expected such as 1080,720,480"));
                }
            }
        }
        // Which heights can be is the recipe's to say.
        let recipe = Recipe { ladder: heights, ..Recipe::default() };
        recipe.validate().map_err(|error| error.problem)?;
        Ok(Self(recipe.ladder))
    }
}

/// A language and a file of subtitles in it: `de=film.de.srt`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SubtitlePath {
    /// The language.
    pub(crate) language: String,
    /// The file.
    pub(crate) path: PathBuf,
}

impl FromStr for SubtitlePath {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((language, path)) if !language.is_empty() && !path.is_empty() => {
                Ok(Self { language: language.to_owned(), path: path.into() })
            }
            _ => Err(format!("`{text}` is not a language and a file, such as de=film.de.srt")),
        }
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
        for text in ["", "1080,", "8", "481", "4322", "720,720p", "high"] {
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
