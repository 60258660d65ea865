//! Settings of workers about videos: the section `video` of the file and its variables.

use std::path::{Path, PathBuf};

use anyhow::Result;
use divvy_video::tools::provider::Choice;
use serde::Deserialize;

use super::{Layers, Row, Setting, row};
use crate::video::values::Size;

/// How much of a disk the copies of sources may take unless told otherwise.
const CACHE_SIZE_DEFAULT: Size = Size(20_000_000_000);

/// The section of the file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Video {
    /// Whether workers take video tasks. Default true.
    pub(crate) enabled: Option<bool>,
    /// The ffmpeg to use; a relative path is relative to this file. Default the first in `PATH`.
    pub(crate) ffmpeg: Option<PathBuf>,
    /// The folder for work in progress. Default in the data folder, or the system's.
    pub(crate) scratch: Option<PathBuf>,
    /// The folder for copies of sources. Default `~/.cache/divvy`.
    pub(crate) cache: Option<PathBuf>,
    /// How large that may become. Default `20GB`.
    pub(crate) cache_size: Option<Size>,
    /// Who writes subtitles. Default `none`.
    pub(crate) speech: Option<Choice>,
    /// Who scans frames. Default `none`.
    pub(crate) scanner: Option<Choice>,
    /// Whether ffmpeg may run where it cannot be confined. Default false.
    pub(crate) allow_unconfined: Option<bool>,
}

impl Video {
    /// Makes relative paths relative to the folder of the file.
    pub(super) fn settle(&mut self, folder: &Path) {
        for path in [&mut self.scratch, &mut self.cache].into_iter().flatten() {
            *path = folder.join(&*path);
        }
        if let Some(ffmpeg) = &mut self.ffmpeg {
            // A bare name is looked up in PATH; only a path depends on where one stands.
            if ffmpeg.components().count() > 1 {
                *ffmpeg = folder.join(&*ffmpeg);
            }
        }
    }
}

/// The settings.
#[derive(Clone, Debug)]
pub(crate) struct VideoSettings {
    pub(crate) enabled: Setting<bool>,
    pub(crate) ffmpeg: Setting<Option<PathBuf>>,
    pub(crate) scratch: Setting<Option<PathBuf>>,
    pub(crate) cache: Setting<Option<PathBuf>>,
    pub(crate) cache_size: Setting<Size>,
    pub(crate) speech: Setting<Choice>,
    pub(crate) scanner: Setting<Choice>,
    pub(crate) allow_unconfined: Setting<bool>,
}

impl VideoSettings {
    /// From the variables and the file.
    pub(super) fn resolve(from: &Layers<'_>, file: Video) -> Result<Self> {
        Ok(Self {
            enabled: from.pick("DIVVY_VIDEO", file.enabled, true)?,
            ffmpeg: from.pick_option("DIVVY_FFMPEG", file.ffmpeg)?,
            scratch: from.pick_option("DIVVY_SCRATCH", file.scratch)?,
            cache: from.pick_option("DIVVY_CACHE", file.cache)?,
            cache_size: from.pick("DIVVY_CACHE_SIZE", file.cache_size, CACHE_SIZE_DEFAULT)?,
            speech: from.pick("DIVVY_SPEECH", file.speech, Choice::Nobody)?,
            scanner: from.pick("DIVVY_SCANNER", file.scanner, Choice::Nobody)?,
            allow_unconfined: from.pick("DIVVY_ALLOW_UNCONFINED", file.allow_unconfined, false)?,
        })
    }

    /// As text.
    pub(super) fn rows(&self) -> Vec<Row> {
        let path = |path: &Option<PathBuf>| {
            path.as_ref().map_or_else(String::new, |path| path.display().to_string())
        };
        let who = |choice: &Choice| String::from(choice.clone());
        vec![
            row("video.enabled", &self.enabled, bool::to_string),
            row("video.ffmpeg", &self.ffmpeg, path),
            row("video.scratch", &self.scratch, path),
            row("video.cache", &self.cache, path),
            row("video.cache_size", &self.cache_size, Size::to_string),
            row("video.speech", &self.speech, who),
            row("video.scanner", &self.scanner, who),
            row("video.allow_unconfined", &self.allow_unconfined, bool::to_string),
        ]
    }
}
