//! The parts of `divvy video` that concern this machine: opening a browser, installing providers, making a clip.

use std::process::{Command, Stdio};

use crate::sample::{self, Clip, SampleError, Voice};
use anyhow::Result;
use serde_json::json;

use super::{player, resolve};
use crate::command::args::{OneVideo, Sample};
use crate::tools::provider::{self, READY};
use crate::workload::settings::{NAME, VideoSettings};
use divvy_workload::Context;
use divvy_workload::console::exit::{Code, Failure};
use divvy_workload::console::output::words::bytes;
use divvy_workload::provider::command::{Installable, ProviderVerb, find, list, tell_installed};
use divvy_workload::provider::folder;

/// Those that can be installed.
const PROVIDERS: [Installable; 2] = [
    Installable { ready: READY[0], used_by: "divvy up --speech whisper" },
    Installable { ready: READY[1], used_by: "divvy up --scanner open_nsfw" },
];

/// Whether a provider is installed for this user.
pub(crate) fn is_installed(name: &str) -> bool {
    provider::named(name).is_some_and(|ready| ready.is_in(&folder(name)))
}

/// Prints the address of the player, and opens it where there is a display.
pub(super) async fn open(args: &OneVideo, context: &Context) -> Result<Code> {
    let (api, output) = (context.api()?, &context.output);
    let id = resolve(&api, &args.id).await?;
    // One that is not there is told here, not by a page.
    api.get(&["videos", &id.0], &[]).await?;
    let address = player(&api, &id);
    if output.is_json() {
        output.object(&json!({ "id": id.0, "player": address }))?;
    } else {
        output.data(&address)?;
    }
    let display = ["DISPLAY", "WAYLAND_DISPLAY"]
        .iter()
        .any(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()));
    if display {
        let mut command = Command::new("xdg-open");
        command.arg(&address).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        if let Err(error) = command.spawn() {
            output.note(format_args!("cannot open a browser with xdg-open: {error}"));
        }
    }
    Ok(Code::Done)
}

/// Lists and installs providers.
pub(super) async fn providers(args: ProviderVerb, context: &Context) -> Result<Code> {
    match args {
        ProviderVerb::List => list(&PROVIDERS, context),
        ProviderVerb::Install { name } => {
            let provider = find(&PROVIDERS, &name, NAME)?;
            let progress = |step: &str| context.output.note(step);
            let installed = provider::install(&provider.ready, &folder(&name), progress).await;
            installed.map_err(|error| Failure::new(Code::Failed, error.to_string()))?;
            tell_installed(provider, context)
        }
    }
}

/// Makes a clip.
pub(super) async fn sample(args: &Sample, context: &Context) -> Result<Code> {
    let output = &context.output;
    let set = VideoSettings::read(&context.sources)?.ffmpeg.value;
    let ffmpeg = args.ffmpeg.clone().or(set).unwrap_or_else(|| "ffmpeg".into());
    output.note(format_args!("making a clip of {} s …", args.seconds));
    let made = sample::make(&ffmpeg, Clip::full_hd(args.seconds), &args.file).await;
    let made = made.map_err(sample_failure)?;
    let size = std::fs::metadata(&made.path)?.len();
    if output.is_json() {
        let voice = made.voice.to_string();
        output.object(&json!({ "file": made.path, "bytes": size, "voice": voice }))?;
    } else {
        output.data(format_args!("{}  {}", made.path.display(), bytes(size)))?;
    }
    if made.voice == Voice::Tones {
        output.note("nobody here can speak (install flite): it has tones, and no subtitles");
    }
    Ok(Code::Done)
}

/// Why there is no clip, with its exit code.
pub(crate) fn sample_failure(error: SampleError) -> Failure {
    let code = match &error {
        SampleError::Bad(_) => Code::Usage,
        SampleError::File { .. } => Code::Refused,
        _ => Code::Failed,
    };
    Failure::new(code, error.to_string())
}
