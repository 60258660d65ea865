//! The providers that come with this program.

use std::path::Path;

use divvy_workload::provider::{self, InstallError, Ready};

use super::protocol::{About, Request};

/// All of them.
pub const READY: [Ready; 2] = [
    Ready {
        name: "whisper",
        about: "subtitles (English)",
        script: include_str!("../../../providers/whisper.py"),
        requirements: include_str!("../../../providers/whisper.txt"),
    },
    Ready {
        name: "open_nsfw",
        about: "scan for nudity, to be reviewed",
        script: include_str!("../../../providers/open_nsfw.py"),
        requirements: include_str!("../../../providers/open_nsfw.txt"),
    },
];

/// The provider of this name.
pub fn named(name: &str) -> Option<Ready> {
    READY.into_iter().find(|ready| ready.name == name)
}

/// Installs one in `folder`, unless it is there already, and asks it who it is.
///
/// # Errors
/// With the cure.
pub async fn install(
    ready: &Ready,
    folder: &Path,
    progress: impl FnMut(&str) + Send,
) -> Result<About, InstallError> {
    let understand = |said: &[u8]| Request::Describe.read(said).map(|answers| answers.about);
    provider::install(ready, folder, understand, progress).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_package_is_pinned_by_version_and_hash() {
        assert!(READY.iter().all(Ready::is_pinned));
    }
}
