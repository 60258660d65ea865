//! What the tools of this machine can do, found out once at start by trying them.
//!
//! Hardware encoders are not offered: that ffmpeg was built with them says nothing about the hardware.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use divvy::extract::Cancel;

use super::sandbox::{Launcher, Level};
use super::{Invocation, RunError, Tools, invocation, process};

/// Encoders and filters that tasks may ask for.
const ENCODERS: [&str; 10] = [
    "libx264",
    "libx265",
    "libsvtav1",
    "libaom-av1",
    "libvpx-vp9",
    "aac",
    "libopus",
    "mjpeg",
    "png",
    "libwebp",
];
const FILTERS: [&str; 16] = [
    "fps",
    "scale",
    "zscale",
    "tonemap",
    "bwdif",
    "yadif",
    "idet",
    "transpose",
    "tile",
    "thumbnail",
    "blackdetect",
    "ssim",
    "psnr",
    "libvmaf",
    "loudnorm",
    "drawtext",
];
/// Characters of a build, so that the capability stays within its limit.
const BUILD_CHARACTERS_MAX: usize = 96;
/// How long a trial may take, on a machine that is very busy.
const TRIAL_MAX: Duration = Duration::from_secs(60);
/// What x264 writes into every stream, before its build.
const X264_MARK: &[u8] = b"x264 - core ";

/// What was found out about an ffmpeg.
#[derive(Debug)]
pub(super) struct Found {
    /// What identifies the build, encoders of pictures included.
    pub(super) build: String,
    /// Encoders and filters, as capabilities.
    pub(super) capabilities: Vec<String>,
}

/// The first level at which the program starts at all, of those that may be used, and what it says about its version.
pub(super) async fn choose_level(
    launcher: &Launcher,
    ffmpeg: &Path,
    allow_unconfined: bool,
) -> Result<(Level, String), RunError> {
    let mut problems = Vec::new();
    if launcher.bwrap.is_none() {
        problems.push("bubblewrap: `bwrap` is not on the path".to_owned());
    }
    for level in [Level::Bwrap, Level::Landlock] {
        if level == Level::Bwrap && launcher.bwrap.is_none() {
            continue;
        }
        match ask(&Launcher { level, ..launcher.clone() }, ffmpeg, "-version").await {
            Ok(version) => return Ok((level, version)),
            Err(error) => problems.push(format!("{level}: {error}")),
        }
    }
    // If it does not even run alone, the sandbox is not to blame.
    let level = Level::None;
    let alone = ask(&Launcher { level, ..launcher.clone() }, ffmpeg, "-version").await;
    let version = alone.map_err(broken)?;
    if allow_unconfined {
        return Ok((level, version));
    }
    Err(RunError::Unconfined { problem: problems.join("; ") })
}

/// Asks ffmpeg what it has, and has it encode a few frames.
pub(super) async fn explore(tools: &Tools, version_text: &str) -> Result<Found, RunError> {
    let ask = |question| ask(&tools.launcher, &tools.ffmpeg, question);
    let lists = tokio::try_join!(ask("-encoders"), ask("-filters"));
    let (encoders, filters) = lists.map_err(broken)?;
    let (encoders, filters) = (names(&encoders), names(&filters));
    let has_x264 = encoders.iter().any(|name| name == "libx264");
    let picture = encode_some(tools, if has_x264 { "libx264" } else { "mpeg4" }).await?;
    let has = |names: &[String], wanted: &str| names.iter().any(|name| name == wanted);
    let encoders = ENCODERS.iter().filter(|name| has(&encoders, name));
    let filters = FILTERS.iter().filter(|name| has(&filters, name));
    Ok(Found {
        build: build(version(version_text), x264(&picture).as_deref()),
        capabilities: encoders
            .map(|name| format!("encoder.{name}"))
            .chain(filters.map(|name| format!("filter.{name}")))
            .collect(),
    })
}

async fn ask(launcher: &Launcher, ffmpeg: &Path, question: &str) -> Result<String, RunError> {
    let folder = folder()?;
    let arguments = vec![OsString::from("-hide_banner"), question.into()];
    let mut invocation = invocation(ffmpeg, folder.path(), arguments, Vec::new());
    invocation.limits.wall = TRIAL_MAX;
    let answer = process::run(launcher, invocation, std::future::pending(), &mut |_| {}).await?;
    Ok(String::from_utf8_lossy(&answer.output).into_owned())
}

/// Encodes a generated picture with everything in place that real tasks have, reads it back with ffprobe, and gives
/// the stream.
async fn encode_some(tools: &Tools, encoder: &str) -> Result<Vec<u8>, RunError> {
    let folder = folder()?;
    let words = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
    let made = format!(
        "-f lavfi -i testsrc2=size=64x64:rate=10:duration=0.5 -c:v {encoder} -pix_fmt yuv420p trial.mp4"
    );
    let run = async |mut invocation: Invocation| {
        invocation.limits.wall = TRIAL_MAX;
        tools.run(invocation, &Cancel::never(), |_| {}).await.map_err(broken)
    };
    run(tools.ffmpeg(folder.path(), words(&made))).await?;
    let file = folder.path().join("trial.mp4");
    let mut probe = words("-count_packets -show_entries stream=nb_read_packets -of csv=p=0");
    probe.push(file.clone().into());
    let probed = run(tools.ffprobe(folder.path(), probe)).await?;
    let frames = String::from_utf8_lossy(&probed.output).trim().to_owned();
    if frames != "5" {
        let problem = format!("a trial of 5 frames came out as `{frames}`");
        return Err(RunError::Broken { problem });
    }
    std::fs::read(&file).map_err(|error| RunError::Broken { problem: error.to_string() })
}

fn folder() -> Result<tempfile::TempDir, RunError> {
    tempfile::Builder::new().prefix("divvy-trial-").tempdir().map_err(|error| RunError::Broken {
        problem: format!("a trial needs a temporary folder: {error}"),
    })
}

fn broken(error: RunError) -> RunError {
    RunError::Broken { problem: error.to_string() }
}

/// The version in `ffmpeg version 5.1.9-0+deb12u1 Copyright …`.
fn version(text: &str) -> &str {
    let word = text.split_whitespace().skip_while(|word| *word != "version").nth(1);
    word.unwrap_or("unknown")
}

/// The names in a list of encoders or filters: the second word of each line behind a word of flags.
fn names(list: &str) -> Vec<String> {
    let name = |line: &str| {
        let mut words = line.split_whitespace();
        let flags = words.next()?;
        let is_flags = flags.chars().all(|flag| flag == '.' || flag.is_ascii_alphabetic());
        words.next().filter(|name| is_flags && *name != "=").map(str::to_owned)
    };
    list.lines().filter_map(name).collect()
}

/// The build of x264 that a stream was made by, such as `164r3095`.
fn x264(stream: &[u8]) -> Option<String> {
    let at = stream.windows(X264_MARK.len()).position(|window| window == X264_MARK)?;
    let rest = String::from_utf8_lossy(&stream[at + X264_MARK.len()..]).into_owned();
    let words: Vec<&str> = rest.split(' ').take(2).collect();
    Some(words.concat())
}

/// One word that names a build, of letters, digits and `.`, `-`, `_` only.
fn build(version: &str, x264: Option<&str>) -> String {
    let whole = match x264 {
        Some(x264) => format!("{version}-x264.{x264}"),
        None => version.to_owned(),
    };
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_".contains(c) { c } else { '.' };
    whole.chars().map(plain).take(BUILD_CHARACTERS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_names_the_encoder_too_and_is_one_plain_word() {
        let text = "ffmpeg version 5.1.9-0+deb12u1 Copyright (c) 2000-2026 the FFmpeg developers\n";
        let stream = [b"\0\0\x01".as_slice(), b"x264 - core 164 r3095 baee400 - H.264".as_slice()];
        let x264 = x264(&stream.concat());
        assert_eq!(build(version(text), x264.as_deref()), "5.1.9-0.deb12u1-x264.164r3095");
        assert_eq!(build(version("nonsense"), None), "unknown");
    }

    #[test]
    fn names_are_read_from_lists_and_not_from_their_legends() {
        let list = "Encoders:\n V..... = Video\n ------\n V....D libx264  libx264 H.264 (codec h264)\n \
                    A....D aac      AAC (Advanced Audio Coding)\n";
        let found = names(list);
        assert!(found.contains(&"libx264".to_owned()) && found.contains(&"aac".to_owned()));
        assert!(!found.iter().any(|name| name == "="), "{found:?}");
        let filters = " T.. = Timeline support\n TSC scale   V->V  Scale.\n ... zscale V->V x\n";
        assert_eq!(names(filters), ["scale", "zscale"]);
    }
}
