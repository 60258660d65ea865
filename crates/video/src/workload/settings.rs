//! Settings of workers about videos: the section `video` of the file and its variables.

use std::path::PathBuf;

use crate::tools::provider::Choice;
use anyhow::Result;
use serde::Deserialize;

use divvy_workload::console::values::Size;
use divvy_workload::settings::{Row, Setting, Sources};

/// How much of a disk the copies of sources may take unless told otherwise.
const CACHE_SIZE_DEFAULT: Size = Size(20_000_000_000);

/// The name of the section, and of everything else that has the workload's name.
pub(crate) const NAME: &str = "video";

/// What `divvy config init` writes about it.
pub(crate) const TEMPLATE: &str = "\
# Videos on workers (divvy up, divvy work).
#video:
# Whether workers take video tasks.
#  enabled: true
# The ffmpeg to use, and a folder for work in progress. Without these: the first
# ffmpeg in PATH, and a folder beside the data or the system's.
#  ffmpeg: /usr/bin/ffmpeg
#  scratch: divvy-scratch
# Copies of sources that are not on this machine, and how large they may become.
#  cache: divvy-cache
#  cache_size: 20GB
# Who writes subtitles and who scans frames: none, the name of an installed
# provider (divvy video provider list), or exec:PROGRAM.
#  speech: none
#  scanner: none
# Whether ffmpeg may run on a machine where it cannot be confined.
#  allow_unconfined: false
";

/// The section of the file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Video {
    /// Whether workers take video tasks. Default true.
    enabled: Option<bool>,
    /// The ffmpeg to use; a relative path is relative to this file. Default the first in `PATH`.
    ffmpeg: Option<PathBuf>,
    /// The folder for work in progress. Default in the data folder, or the system's.
    scratch: Option<PathBuf>,
    /// The folder for copies of sources. Default `~/.cache/divvy`.
    cache: Option<PathBuf>,
    /// How large that may become. Default `20GB`.
    cache_size: Option<Size>,
    /// Who writes subtitles. Default `none`.
    speech: Option<Choice>,
    /// Who scans frames. Default `none`.
    scanner: Option<Choice>,
    /// Whether ffmpeg may run where it cannot be confined. Default false.
    allow_unconfined: Option<bool>,
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
    pub(crate) fn read(from: &Sources) -> Result<Self> {
        let file: Video = from.section(NAME)?;
        let path = |path: Option<PathBuf>| path.map(|path| from.beside_file(&path));
        let ffmpeg = file.ffmpeg.map(|program| from.program_beside_file(&program));
        Ok(Self {
            enabled: from.pick("DIVVY_VIDEO", file.enabled, true)?,
            ffmpeg: from.pick_option("DIVVY_FFMPEG", ffmpeg)?,
            scratch: from.pick_option("DIVVY_SCRATCH", path(file.scratch))?,
            cache: from.pick_option("DIVVY_CACHE", path(file.cache))?,
            cache_size: from.pick("DIVVY_CACHE_SIZE", file.cache_size, CACHE_SIZE_DEFAULT)?,
            speech: from.pick("DIVVY_SPEECH", file.speech, Choice::Nobody)?,
            scanner: from.pick("DIVVY_SCANNER", file.scanner, Choice::Nobody)?,
            allow_unconfined: from.pick("DIVVY_ALLOW_UNCONFINED", file.allow_unconfined, false)?,
        })
    }

    /// As text.
    pub(crate) fn rows(&self) -> Vec<Row> {
        let who = |choice: &Choice| String::from(choice.clone());
        vec![
            Row::new("video.enabled", &self.enabled, bool::to_string),
            Row::path("video.ffmpeg", &self.ffmpeg),
            Row::path("video.scratch", &self.scratch),
            Row::path("video.cache", &self.cache),
            Row::new("video.cache_size", &self.cache_size, Size::to_string),
            Row::new("video.speech", &self.speech, who),
            Row::new("video.scanner", &self.scanner, who),
            Row::new("video.allow_unconfined", &self.allow_unconfined, bool::to_string),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(yaml: &str) -> Result<VideoSettings> {
        VideoSettings::read(&Sources::new(Some(("/a/divvy.yaml".into(), yaml.into())), |_| None))
    }

    #[test]
    fn wrong_values_are_named_with_their_line() {
        for (yaml, line, word) in [
            ("video:\n  cache_size: 20\n", 2, "20GB"),
            ("video:\n  speech: 'exec:'\n", 2, "no provider"),
            ("serve: {any: thing}\nvideo:\n  scaner: none\n", 3, "did you mean `scanner`?"),
        ] {
            let error = read(yaml).unwrap_err().to_string();
            assert!(error.starts_with(&format!("/a/divvy.yaml:{line}:")), "{yaml}: {error}");
            assert!(error.contains(word), "{yaml}: {error}");
        }
    }

    #[test]
    fn paths_are_relative_to_the_file() {
        let settings = read("video: {ffmpeg: bin/ffmpeg, scratch: s, cache: /c}\n").unwrap();
        assert_eq!(settings.ffmpeg.value, Some("/a/bin/ffmpeg".into()));
        assert_eq!(settings.scratch.value, Some("/a/s".into()));
        assert_eq!(settings.cache.value, Some("/c".into()));
        assert_eq!(read("video: {ffmpeg: ff}\n").unwrap().ffmpeg.value, Some("ff".into()));
    }

    #[test]
    fn the_template_has_every_setting() {
        let bare: String = TEMPLATE
            .lines()
            .filter(|line| !line.starts_with("# ") || line.starts_with("#  "))
            .map(|line| format!("{}\n", line.strip_prefix('#').unwrap_or(line)))
            .collect();
        let rows = read(&bare).unwrap().rows();
        let said = |row: &&Row| row.origin != divvy_workload::Origin::Default;
        assert_eq!(rows.iter().filter(said).count(), rows.len(), "{bare}");
    }
}
