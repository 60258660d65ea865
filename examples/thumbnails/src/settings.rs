//! The section `thumbnails` of `divvy.yaml`.

use std::path::PathBuf;

use anyhow::Result;
use divvy_workload::settings::{Row, Setting, Sources};
use serde::Deserialize;

/// The name of the section, the command and the kinds.
pub(crate) const NAME: &str = "thumbnails";

/// What `divvy config init` writes about it.
pub(crate) const TEMPLATE: &str = "\
# Thumbnails of pictures.
#thumbnails:
# How wide they are, in pixels.
#  width: 160
# The ffmpeg that scales them. Without this: the first in PATH.
#  ffmpeg: /usr/bin/ffmpeg
";

/// The section of the file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Section {
    width: Option<u32>,
    ffmpeg: Option<PathBuf>,
}

/// The settings.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) width: Setting<u32>,
    pub(crate) ffmpeg: Setting<PathBuf>,
}

impl Settings {
    /// Variables over the file over defaults.
    pub(crate) fn read(sources: &Sources) -> Result<Self> {
        let file: Section = sources.section(NAME)?;
        let ffmpeg = file.ffmpeg.map(|program| sources.program_beside_file(&program));
        let width = sources.pick("DIVVY_THUMBNAILS_WIDTH", file.width, 160)?;
        if !(16..=1_024).contains(&width.value) {
            let problem = format!("is {}, expected 16 to 1024", width.value);
            return Err(sources.refuse("thumbnails.width", problem).into());
        }
        Ok(Self { width, ffmpeg: sources.pick("DIVVY_FFMPEG", ffmpeg, "ffmpeg".into())? })
    }

    /// As `divvy config show` prints them.
    pub(crate) fn rows(&self) -> Vec<Row> {
        vec![
            Row::new("thumbnails.width", &self.width, u32::to_string),
            Row::new("thumbnails.ffmpeg", &self.ffmpeg, |path| path.display().to_string()),
        ]
    }
}
