//! What a trial of the tools found out, for whoever uses the very same programs next.
//!
//! To try them takes five runs of ffmpeg. `divvy up` does it once and tells its workers, which would find the same. The
//! trial names its programs by their place, length and time: with others it is worth nothing, and they are tried anew.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::sandbox::Level;
use super::{ToolOptions, Tools};

/// What was found out about the tools of this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trial {
    programs: String,
    level: Level,
    build: String,
    capabilities: Vec<String>,
}

impl Trial {
    /// What is known of these tools, which were found with these options.
    pub fn of(tools: &Tools, options: &ToolOptions) -> Self {
        Self {
            programs: programs(tools, options),
            level: tools.launcher.level,
            build: tools.build.clone(),
            capabilities: tools.capabilities.clone(),
        }
    }

    /// Whether these are the programs that were tried, in the same way.
    pub(super) fn is_of(&self, tools: &Tools, options: &ToolOptions) -> bool {
        self.programs == programs(tools, options)
    }

    pub(super) fn apply(&self, tools: &mut Tools) {
        tools.launcher.level = self.level;
        tools.build.clone_from(&self.build);
        tools.capabilities.clone_from(&self.capabilities);
    }

    /// As one argument of a command; [`Trial::from_str`] reads it.
    pub fn to_argument(&self) -> String {
        serde_json::to_string(self).expect("a trial has only texts")
    }
}

impl FromStr for Trial {
    type Err = serde_json::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        serde_json::from_slice(text.as_bytes())
    }
}

/// A name of the programs and of how they may be run, the same for every process of one build of divvy.
pub(super) fn programs(tools: &Tools, options: &ToolOptions) -> String {
    let mut hasher = DefaultHasher::new();
    let launcher = tools.launcher.command.first().map(PathBuf::from);
    for program in [
        Some(&tools.ffmpeg),
        Some(&tools.ffprobe),
        launcher.as_ref(),
        tools.launcher.bwrap.as_ref(),
    ] {
        let meta = program.and_then(|path| path.metadata().ok());
        (program, meta.map(|meta| (meta.len(), meta.modified().ok()))).hash(&mut hasher);
    }
    options.allow_unconfined.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;
    /// A build that no ffmpeg has: who says it was told, and tried nothing.
    const TOLD: &str = "told";

    #[tokio::test]
    async fn a_trial_is_believed_of_the_very_same_programs_only() {
        let folder = tempfile::tempdir().unwrap();
        let ffmpeg = folder.path().join("ffmpeg");
        // Answers like a program that is there and does not work.
        let write = |text: &str| {
            use std::os::unix::fs::PermissionsExt as _;
            std::fs::write(&ffmpeg, text).unwrap();
            std::fs::set_permissions(&ffmpeg, std::fs::Permissions::from_mode(0o755)).unwrap();
        };
        write("#!/bin/sh\nexit 1\n");
        let mut options =
            ToolOptions { ffmpeg: Some(ffmpeg.clone()), ..crate::tasks::fixtures::options() };
        let mut tools = Tools::untried(&options).unwrap().confined_by(Level::Bwrap);
        tools.build = TOLD.to_owned();
        let trial = Trial::of(&tools, &options);
        options.tried = Some(trial.to_argument().parse().unwrap());
        assert_eq!(options.tried.as_ref(), Some(&trial));
        let found = Tools::find(&options).await.unwrap();
        assert_eq!((found.build(), found.sandbox()), (TOLD, Level::Bwrap));
        // Another way to run them, and then another program of the same name.
        options.allow_unconfined = true;
        assert!(Tools::find(&options).await.is_err());
        options.allow_unconfined = false;
        write("#!/bin/sh\nexit 11\n");
        assert!(Tools::find(&options).await.is_err());
    }
}
