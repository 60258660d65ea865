//! Where this binary touches the parts of the video platform: one function each, so that all of them can be seen at once.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::Result;
use divvy::Client;
use divvy::objects::{Blob, ObjectError, Objects};
use divvy_video::Studio;
use divvy_video::studio::FetchRules;
use divvy_video::tools::{Tools, provider, sandbox};
pub(crate) use divvy_video::web::Mount;
use divvy_worker::Registry;

use crate::exit::{Code, Failure};
use crate::output::{Color, Output};

/// How blobs of a server are reached from here.
pub(crate) struct Reach {
    /// The server's own folder, if it is on this machine.
    pub(crate) folder: Option<PathBuf>,
    /// Where copies go.
    pub(crate) cache: PathBuf,
    /// How large they may become together.
    pub(crate) cache_bytes: u64,
}

/// The objects of a server.
pub(crate) fn objects(client: &Client, reach: Reach) -> Objects {
    let Reach { folder, cache, cache_bytes } = reach;
    Objects::at_server(client, divvy::objects::Reach { folder, cache, cache_bytes })
}

/// What the handlers of a worker share.
pub(crate) fn studio(
    objects: Objects,
    tools: Tools,
    scratch: PathBuf,
    client: Client,
    fetch_private: bool,
) -> Studio {
    let rules = FetchRules { allow_private: fetch_private, ..FetchRules::default() };
    Studio::new(objects, tools, scratch).with_client(client).with_fetch_rules(rules)
}

/// Brings a file to the server; `progress` is told how many bytes are there.
pub(crate) async fn upload(
    objects: &Objects,
    path: &Path,
    mut progress: impl FnMut(u64) + Send,
) -> Result<Blob> {
    let uploaded = objects.upload_file(path, |sent, _whole| progress(sent)).await;
    uploaded.map_err(|error| failure(&error).into())
}

/// A problem with objects, with its exit code.
fn failure(error: &ObjectError) -> Failure {
    let code = match error {
        ObjectError::Server(server) => return Failure::from(server.clone()),
        ObjectError::File { .. } => Code::NotFound,
        _ => Code::Failed,
    };
    Failure::new(code, error.to_string())
}

/// The kinds that a worker with this studio serves.
pub(crate) fn registry(studio: Studio) -> Result<Registry> {
    Ok(divvy_video::tasks::registry(studio)?)
}

/// Confines this process and becomes the program that is named. Returns only if that cannot be.
pub(crate) fn confine(arguments: impl Iterator<Item = OsString>) -> Code {
    let Err(error) = sandbox::enter(arguments);
    Output::new(false, false, Color::Never).say(format_args!("divvy confine: {error}"));
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
pub(crate) fn is_installed(name: &str) -> bool {
    provider::Ready::named(name).is_some_and(|ready| ready.is_in(&provider::folder(name)))
}

/// Installs a provider for this user; `progress` is told what is being done.
pub(crate) async fn install(name: &str, progress: impl FnMut(&str) + Send) -> Result<()> {
    let installed = provider::install(name, &provider::folder(name), progress).await;
    installed.map_err(|error| Failure::new(Code::Failed, error.to_string()))?;
    Ok(())
}
