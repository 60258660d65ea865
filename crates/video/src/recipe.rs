//! What is wanted of a video: the settings that a user may choose, their defaults and their limits.
//!
//! The recipe travels with every task, so that workers need no settings of their own.

use std::fmt::Display;
use std::ops::RangeInclusive;

use divvy::objects::BlobId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How much x264 may think, from little to much.
pub const PRESETS: [&str; 9] = [
    "ultrafast",
    "superfast",
    "veryfast",
    "faster",
    "fast",
    "medium",
    "slow",
    "slower",
    "veryslow",
];

const RUNGS_MAX: usize = 8;
const HEIGHTS: RangeInclusive<u32> = 16..=4_320;
/// Quality 0 is lossless, which browsers do not play.
const QUALITIES: RangeInclusive<u32> = 1..=51;
const SEGMENT_MS: RangeInclusive<u32> = 1_000..=10_000;
const CHUNK_MS_MAX: u32 = 600_000;
const AUDIO_BITRATES: RangeInclusive<u32> = 32_000..=320_000;
const THUMBNAIL_MS: RangeInclusive<u32> = 1_000..=600_000;
const SUBTITLE_FILES_MAX: usize = 32;

/// Everything that decides what the results look like.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Recipe {
    /// Heights of the renditions (the short side, for portrait), even, from 16 to 4320, at most 8. Larger ones than the
    /// source's are left out, and the source's own height joins if it lies between two or below all.
    #[schemars(length(min = 1, max = RUNGS_MAX), inner(range(min = 16, max = 4_320)))]
    pub ladder: Vec<u32>,
    /// How much x264 thinks: `ultrafast` to `veryslow`.
    #[schemars(extend("enum" = PRESETS))]
    pub preset: String,
    /// The constant quality, 1 to 51; less is better.
    #[schemars(range(min = 1, max = 51))]
    pub crf: u32,
    /// Length of a segment, which is also the distance of key frames, in milliseconds: 1000 to 10000.
    #[schemars(range(min = 1_000, max = 10_000))]
    pub segment_ms: u32,
    /// Length of a chunk that one task encodes, in milliseconds: at least a segment, at most 600000; nothing
    /// lets the plan choose.
    #[schemars(range(min = 1_000, max = CHUNK_MS_MAX))]
    pub chunk_ms: Option<u32>,
    /// Bits per second of each audio track, 32000 to 320000.
    #[schemars(range(min = 32_000, max = 320_000))]
    pub audio_bitrate: u32,
    /// Distance of thumbnails in milliseconds, 1000 to 600000; 0 for none.
    #[schemars(range(max = 600_000))]
    pub thumbnails_ms: u32,
    /// The language to transcribe, such as `en` or `pt-BR`; nothing for no subtitles.
    pub subtitles: Option<String>,
    /// Files of subtitles that belong to the video, SRT or WebVTT; one for each language, at most 32.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = SUBTITLE_FILES_MAX))]
    pub subtitle_files: Vec<SubtitleFile>,
    /// Whether the thumbnails are scanned for content that needs a review.
    pub scan: bool,
    /// The score from which a frame is flagged, above 0 up to 1.
    #[schemars(range(min = 0.000_001, max = 1.0))]
    pub flag_at: f64,
}

/// A file of subtitles.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SubtitleFile {
    /// Their language, such as `de` or `pt-BR`.
    pub language: String,
    /// The blob of the file, which must be uploaded.
    pub file: BlobId,
}

impl Default for Recipe {
    fn default() -> Self {
        Self {
            ladder: vec![1080, 720, 480],
            preset: "veryfast".to_owned(),
            crf: 23,
            segment_ms: 2_000,
            chunk_ms: None,
            audio_bitrate: 128_000,
            thumbnails_ms: 10_000,
            subtitles: None,
            subtitle_files: Vec::new(),
            scan: false,
            flag_at: 0.8,
        }
    }
}

/// A setting that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} {problem}")]
pub struct RecipeError {
    /// Which one.
    pub field: &'static str,
    /// What is wrong, and what would be right.
    pub problem: String,
}

impl Recipe {
    /// Checks every setting.
    ///
    /// # Errors
    /// The first setting that cannot be, with what would be right.
    pub fn validate(&self) -> Result<(), RecipeError> {
        self.validate_ladder()?;
        if !PRESETS.contains(&self.preset.as_str()) {
            let preset: String = self.preset.chars().take(32).collect();
            let problem = format!("is `{preset}`; give one of {}", PRESETS.join(", "));
            return Err(RecipeError { field: "preset", problem });
        }
        within("crf", self.crf, &QUALITIES)?;
        within("segment_ms", self.segment_ms, &SEGMENT_MS)?;
        if let Some(chunk_ms) = self.chunk_ms {
            within("chunk_ms", chunk_ms, &(self.segment_ms..=CHUNK_MS_MAX))?;
        }
        within("audio_bitrate", self.audio_bitrate, &AUDIO_BITRATES)?;
        if self.thumbnails_ms != 0 {
            within("thumbnails_ms", self.thumbnails_ms, &THUMBNAIL_MS)?;
        } else if self.scan {
            let problem = "is 0, but a scan looks at the thumbnails; give a distance, or no scan";
            return Err(RecipeError { field: "thumbnails_ms", problem: problem.to_owned() });
        }
        let spoken = self.subtitles.as_deref().map(|language| ("subtitles", language));
        let files = self.subtitle_files.iter().map(|file| ("subtitle_files", &*file.language));
        for (field, language) in spoken.into_iter().chain(files) {
            if !is_language(language) {
                let language: String = language.chars().take(32).collect();
                let problem = format!("is `{language}`; give a language such as en or pt-BR");
                return Err(RecipeError { field, problem });
            }
        }
        self.validate_subtitle_files()?;
        if !(self.flag_at > 0.0 && self.flag_at <= 1.0) {
            let problem = format!("is {}; give a score above 0 and up to 1", self.flag_at);
            return Err(RecipeError { field: "flag_at", problem });
        }
        Ok(())
    }

    /// The same recipe in the one form in which equal ones are written alike: the ladder from high to low.
    ///
    /// # Errors
    /// As [`Recipe::validate`].
    pub fn canonical(&self) -> Result<Self, RecipeError> {
        self.validate()?;
        let mut recipe = self.clone();
        recipe.ladder.sort_unstable_by(|one, other| other.cmp(one));
        recipe.subtitle_files.sort_unstable_by(|one, other| one.language.cmp(&other.language));
        Ok(recipe)
    }

    /// Names the recipe: equal recipes, and only they, have equal ones.
    ///
    /// # Errors
    /// As [`Recipe::validate`].
    pub fn fingerprint(&self) -> Result<String, RecipeError> {
        let text = serde_json::to_vec(&self.canonical()?).expect("a recipe is plain data");
        let mut hasher = blake3::Hasher::new_derive_key("divvy video recipe 1");
        hasher.update(&text);
        Ok(hasher.finalize().to_hex()[..32].to_owned())
    }

    fn validate_subtitle_files(&self) -> Result<(), RecipeError> {
        let wrong = |problem: String| Err(RecipeError { field: "subtitle_files", problem });
        let count = self.subtitle_files.len();
        if count > SUBTITLE_FILES_MAX {
            return wrong(format!("has {count} files; give at most {SUBTITLE_FILES_MAX}"));
        }
        for (at, file) in self.subtitle_files.iter().enumerate() {
            if self.subtitle_files[..at].iter().any(|other| other.language == file.language) {
                return wrong(format!("has `{}` twice; give one file a language", file.language));
            }
        }
        Ok(())
    }

    fn validate_ladder(&self) -> Result<(), RecipeError> {
        let wrong = |problem: String| Err(RecipeError { field: "ladder", problem });
        if self.ladder.is_empty() || self.ladder.len() > RUNGS_MAX {
            return wrong(format!("has {} heights; give 1 to {RUNGS_MAX}", self.ladder.len()));
        }
        for (at, height) in self.ladder.iter().enumerate() {
            if !HEIGHTS.contains(height) || height % 2 != 0 {
                let (least, most) = (HEIGHTS.start(), HEIGHTS.end());
                return wrong(format!("has {height}; give even heights from {least} to {most}"));
            }
            if self.ladder[..at].contains(height) {
                return wrong(format!("has {height} twice; give each height once"));
            }
        }
        Ok(())
    }
}

fn within<T: PartialOrd + Display>(
    field: &'static str,
    value: T,
    range: &RangeInclusive<T>,
) -> Result<(), RecipeError> {
    if range.contains(&value) {
        return Ok(());
    }
    let problem = format!("is {value}; give {} to {}", range.start(), range.end());
    Err(RecipeError { field, problem })
}

/// Two or three small letters, and perhaps a region of two large ones.
fn is_language(text: &str) -> bool {
    let (language, region) = text.split_once('-').map_or((text, None), |(l, r)| (l, Some(r)));
    (2..=3).contains(&language.len())
        && language.bytes().all(|b| b.is_ascii_lowercase())
        && region.is_none_or(|r| r.len() == 2 && r.bytes().all(|b| b.is_ascii_uppercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_valid() {
        Recipe::default().validate().unwrap();
    }

    #[test]
    fn what_cannot_be_is_refused_by_its_name() {
        type Change = fn(&mut Recipe);
        let wrong: &[(&str, &str, Change)] = &[
            ("ladder", "has 0 heights", |r| r.ladder.clear()),
            ("ladder", "has 9 heights", |r| r.ladder = (1..=9).map(|n| n * 100).collect()),
            ("ladder", "has 8;", |r| r.ladder = vec![8]),
            ("ladder", "has 4322", |r| r.ladder = vec![4322]),
            ("ladder", "has 721", |r| r.ladder = vec![721]),
            ("ladder", "has 720 twice", |r| r.ladder = vec![720, 480, 720]),
            ("preset", "is `placebo`; give one of ultrafast", |r| r.preset = "placebo".into()),
            ("crf", "is 0; give 1 to 51", |r| r.crf = 0),
            ("crf", "is 52", |r| r.crf = 52),
            ("segment_ms", "is 999; give 1000 to 10000", |r| r.segment_ms = 999),
            ("chunk_ms", "is 1999; give 2000 to 600000", |r| r.chunk_ms = Some(1_999)),
            ("chunk_ms", "is 600001", |r| r.chunk_ms = Some(600_001)),
            ("audio_bitrate", "is 31999", |r| r.audio_bitrate = 31_999),
            ("thumbnails_ms", "is 1;", |r| r.thumbnails_ms = 1),
            ("thumbnails_ms", "a scan looks at the thumbnails", |r| {
                (r.thumbnails_ms, r.scan) = (0, true);
            }),
            ("subtitles", "is `English`", |r| r.subtitles = Some("English".into())),
            ("subtitles", "is ``", |r| r.subtitles = Some(String::new())),
            ("flag_at", "is 0;", |r| r.flag_at = 0.0),
            ("flag_at", "is NaN", |r| r.flag_at = f64::NAN),
        ];
        for (field, problem, change) in wrong {
            let mut recipe = Recipe::default();
            change(&mut recipe);
            let error = recipe.validate().unwrap_err();
            assert_eq!(error.field, *field);
            assert!(error.to_string().contains(problem), "{error} / {problem}");
            assert_eq!(recipe.canonical(), Err(error));
        }
    }

    #[test]
    fn the_order_of_the_ladder_does_not_matter_and_all_else_does() {
        let of = |change: fn(&mut Recipe)| {
            let mut recipe = Recipe::default();
            change(&mut recipe);
            recipe.fingerprint().unwrap()
        };
        let default = of(|_| ());
        assert_eq!(default, of(|r| r.ladder = vec![480, 1080, 720]));
        let others = [
            of(|r| r.ladder = vec![480]),
            of(|r| r.preset = "fast".into()),
            of(|r| r.crf = 24),
            of(|r| r.segment_ms = 4_000),
            of(|r| r.chunk_ms = Some(8_000)),
            of(|r| r.audio_bitrate = 96_000),
            of(|r| r.thumbnails_ms = 0),
            of(|r| r.subtitles = Some("pt-BR".into())),
            of(|r| r.scan = true),
            of(|r| r.flag_at = 0.7),
        ];
        for (at, other) in others.iter().enumerate() {
            assert!(*other != default && !others[..at].contains(other), "{at}");
        }
    }

    #[test]
    fn settings_that_are_not_known_are_refused() {
        assert!(serde_json::from_str::<Recipe>(r#"{"crf": 20}"#).is_ok());
        assert!(serde_json::from_str::<Recipe>(r#"{"quality": 20}"#).is_err());
    }
}
