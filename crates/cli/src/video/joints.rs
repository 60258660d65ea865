//! Where this binary touches the parts of the video platform: one function each, so that all of them can be seen at once.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::Result;
use divvy::Client;
use divvy::objects::{Blob, Objects};
use divvy_objects::Folder;
use divvy_video::Studio;
use divvy_video::library::Library;
use divvy_video::tools::Tools;
use divvy_worker::Registry;
use tokio_util::sync::CancellationToken;

use crate::exit::{Code, Failure};

/// How blobs of a server are reached from here.
pub(crate) struct Reach {
    /// The server's own folder, if it is on this machine.
    pub(crate) folder: Option<PathBuf>,
    /// Where copies go.
    pub(crate) cache: PathBuf,
    /// How large they may become together.
    #[expect(dead_code, reason = "copies are made once blobs come over the network")]
    pub(crate) cache_bytes: u64,
}

/// The objects of a server.
pub(crate) fn objects(_server: &str, _token: Option<&str>, reach: Reach) -> Result<Objects> {
    let Reach { folder, cache, .. } = reach;
    let folder = Folder::open(folder.unwrap_or(cache))?;
    Ok(Objects::in_folder(folder))
}

/// What the handlers of a worker share.
pub(crate) fn studio(
    objects: Objects,
    tools: Tools,
    scratch: PathBuf,
    _client: Client,
    _fetch_private: bool,
) -> Studio {
    Studio::new(objects, tools, scratch)
}

/// Brings a file to the server; `progress` is told how many bytes are there.
pub(crate) async fn upload(
    objects: &Objects,
    path: &Path,
    mut progress: impl FnMut(u64) + Send,
) -> Result<Blob> {
    let blob = objects.put_file(path).await?;
    progress(blob.size);
    Ok(blob)
}

/// The kinds that a worker with this studio serves.
pub(crate) fn registry(_studio: Studio) -> Result<Registry> {
    Ok(Registry::new())
}

/// The addresses of the library on a server.
pub(crate) struct Mount {}

impl Mount {
    /// Without a library yet; event streams end when `shutdown` is cancelled.
    pub(crate) fn new(_shutdown: CancellationToken) -> Self {
        Self {}
    }

    /// What the server adds to its own addresses.
    pub(crate) fn router(&self) -> axum::Router {
        axum::Router::new()
    }

    /// From now on there is a library.
    pub(crate) fn open(&self, _library: Library) {}
}

/// Confines this process and becomes the program that is named behind `--`. Returns only if that cannot be.
pub(crate) fn confine(_arguments: impl Iterator<Item = OsString>) -> Code {
    Code::Failed
}

/// A provider that can be installed.
pub(crate) struct Provider {
    /// Its name.
    pub(crate) name: &'static str,
    /// What it does.
    pub(crate) what: &'static str,
    /// The flag that lets workers use it.
    pub(crate) flag: &'static str,
}

/// Those that can be installed.
pub(crate) const PROVIDERS: [Provider; 2] = [
    Provider { name: "whisper", what: "subtitles (English)", flag: "--speech" },
    Provider { name: "open_nsfw", what: "scan for nudity, to be reviewed", flag: "--scanner" },
];

/// Whether a provider is installed for this user.
pub(crate) fn is_installed(_name: &str) -> bool {
    false
}

/// Installs a provider for this user; `progress` is told what is being done.
pub(crate) async fn install(name: &str, _progress: impl FnMut(&str) + Send) -> Result<()> {
    Err(Failure::new(Code::Failed, format!("provider {name} cannot be installed by this build"))
        .into())
}
