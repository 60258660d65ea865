//! Asks ffprobe about a file: first for its headers, then for the packets of the picture that counts. For the headers
//! it decodes a picture where they do not tell all, so that what is damaged throughout has no pixel format.
//!
//! A recording whose clock jumps is not refused: ffmpeg copies its streams to one clock, and that copy is examined.

use std::ffi::OsString;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::time::Duration;

use divvy::extract::Cancel;
use divvy::objects::Blob;
use divvy::prelude::*;

use super::packets::{self, ReadError, Timeline};
use super::streams::{self, Headers};
use super::{Probe, Refusal, TextStream};
use crate::room;
use crate::tools::{Finished, Invocation, Limits, RunError, Tools};

const PACKETS_FILE: &str = "packets.csv";
const STEADY_FILE: &str = "steady";
/// A slow disk reads so many bytes per second.
const BYTES_PER_SECOND_MIN: u64 = 5_000_000;
const MEMORY_BYTES_MAX: u64 = 2 << 30;
const QUOTE_CHARS_MAX: usize = 200;
/// What ffprobe calls the formats of pictures that people take for videos.
const PICTURES: [&str; 8] =
    ["gif", "apng", "png_pipe", "jpeg_pipe", "image2", "webp_pipe", "bmp_pipe", "tiff_pipe"];

/// What a look at a file found.
#[derive(Clone, Debug, PartialEq)]
pub enum Examined {
    /// It can be processed as it is.
    Good(Box<Probe>),
    /// It could be if its times were whole.
    Unsteady(Unsteady),
}

/// A file whose clock was set anew in between, or begins before zero.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsteady {
    problem: String,
    /// The format of the copy.
    format: &'static str,
    /// The streams that matter.
    streams: Vec<u32>,
    /// The subtitles that the copy will not have.
    pictures: Vec<TextStream>,
}

/// Finds out what `file` holds, which is `source`. Works in `folder`.
///
/// # Errors
/// A dead failure with a reason for the one who gave the file if it cannot be processed, another if the machine is at
/// fault.
pub async fn examine(
    tools: &Tools,
    source: Blob,
    file: &Path,
    folder: &Path,
    cancel: &Cancel,
) -> Outcome<Examined> {
    if source.size == 0 {
        return Err(Failure::dead("the file is refused: it is empty"));
    }
    let arguments = words(&["-show_entries", streams::ENTRIES, "-of", "json", "-i"]);
    let headers = run(tools, source, file, folder, arguments, cancel).await?.output;
    let accepted = Headers::parse(&headers).and_then(Headers::accept).map_err(refused)?;
    let stream = accepted.index().to_string();
    // To a file, because what the packets of hours say does not fit in memory well.
    let mut arguments = words(&["-select_streams", &stream, "-show_entries", packets::ENTRIES]);
    arguments.extend(words(&["-of", "csv=p=0", "-o", PACKETS_FILE, "-i"]));
    run(tools, source, file, folder, arguments, cancel).await?;
    let path = folder.join(PACKETS_FILE);
    let read = tokio::task::spawn_blocking(move || {
        let packets = BufReader::new(File::open(&path)?);
        match (Timeline::read(packets, accepted.times()), accepted.unsteady_format()) {
            (Err(ReadError::Unsteady(problem)), Some(format)) => {
                let (streams, pictures) = (accepted.streams(), accepted.pictures());
                Ok(Examined::Unsteady(Unsteady { problem, format, streams, pictures }))
            }
            (timeline, _) => {
                let probe = accepted.probe(source, &timeline?).map_err(ReadError::Refused)?;
                Ok(Examined::Good(Box::new(probe)))
            }
        }
    });
    match read.await.map_err(Failure::retry)? {
        Ok(examined) => Ok(examined),
        Err(ReadError::Refused(refusal)) => Err(refused(refusal)),
        Err(ReadError::Unsteady(problem)) => Err(refused(Refusal::new(problem))),
        Err(ReadError::File(error)) => {
            Err(Failure::retry(format_args!("what ffprobe wrote cannot be read: {error}")))
        }
    }
}

impl Unsteady {
    /// Copies the streams that matter to one clock, without decoding them; returns where the copy is.
    ///
    /// # Errors
    /// If ffmpeg cannot copy them, with a reason for the one who gave the file.
    pub async fn copy(
        &self,
        tools: &Tools,
        file: &Path,
        folder: &Path,
        cancel: &Cancel,
    ) -> Outcome<PathBuf> {
        // The same file gives the same copy, whose results are found again.
        let mut arguments = words(&["-fflags", "+genpts", "-i"]);
        arguments.push(file.into());
        for stream in &self.streams {
            arguments.extend(words(&["-map", &format!("0:{stream}")]));
        }
        arguments.extend(words(&["-c", "copy", "-fflags", "+bitexact", "-f", self.format]));
        arguments.push(STEADY_FILE.into());
        let mut invocation = tools.ffmpeg(folder, arguments);
        invocation.readable.push(file.to_owned());
        match tools.run(invocation, cancel, |_| ()).await {
            Ok(_) => Ok(folder.join(STEADY_FILE)),
            Err(RunError::Cancelled) => Err(Failure::cancelled()),
            Err(RunError::NoRoom { place, .. }) => Err(room::missing(&place)),
            Err(RunError::Failed { status, .. }) if !status.contains("signal") => {
                Err(self.refusal())
            }
            Err(other) => Err(Failure::retry(other)),
        }
    }

    /// The subtitles that are pictures, which a copy does not have.
    pub fn pictures(&self) -> &[TextStream] {
        &self.pictures
    }

    /// Why a file of which no steady copy can be made is refused.
    pub fn refusal(&self) -> Failure {
        let cure = "copy it to a new file with whole time stamps first";
        refused(Refusal::new(format!("{}; {cure}", self.problem)))
    }
}

async fn run(
    tools: &Tools,
    source: Blob,
    file: &Path,
    folder: &Path,
    mut arguments: Vec<OsString>,
    cancel: &Cancel,
) -> Outcome<Finished> {
    arguments.push(file.into());
    let wall = Duration::from_secs(120 + source.size / BYTES_PER_SECOND_MIN);
    // ffprobe tells no progress, so that it never stalls before its time is over.
    let limits = Limits { wall, cpu: wall, memory_bytes: MEMORY_BYTES_MAX, stall: wall };
    let readable = vec![file.to_owned()];
    let invocation = Invocation { readable, limits, ..tools.ffprobe(folder, arguments) };
    tools.run(invocation, cancel, |_| ()).await.map_err(|error| match error {
        RunError::Cancelled => Failure::cancelled(),
        RunError::NoRoom { place, .. } => room::missing(&place),
        // Only an exit of its own says something about the file; a signal may be the machine's doing.
        RunError::Failed { status, complaints, .. } if !status.contains("signal") => {
            refused(unreadable(&complaints, file))
        }
        other => Failure::retry(other),
    })
}

fn words(words: &[&str]) -> Vec<OsString> {
    words.iter().map(OsString::from).collect()
}

fn refused(refusal: Refusal) -> Failure {
    Failure::dead(format_args!("the file is refused: {refusal}"))
}

/// Why ffprobe would not read a file, in words that help, with its own quoted.
fn unreadable(complaints: &str, file: &Path) -> Refusal {
    let reason = if PICTURES.iter().any(|name| complaints.contains(&format!("[{name} @"))) {
        "it is a picture, moving or not, and no video; make a video of it first, for example with `ffmpeg -i in.gif \
         -pix_fmt yuv420p out.mp4`"
    } else if complaints.contains("whitelist") || complaints.contains("[hls") {
        "it is no video file but one that points to other files, or of a kind that is not opened; give MP4, MOV, MKV, \
         WebM, TS, AVI or FLV"
    } else if complaints.contains("moov atom not found") {
        "its index is missing, because it is not complete or no video; give the whole file"
    } else {
        "it cannot be read as a video: it is none, or it is damaged or not complete"
    };
    Refusal::new(format!("{reason} (ffprobe says: {})", quote(complaints, file)))
}

/// The complaints without addresses and paths, briefly.
fn quote(complaints: &str, file: &Path) -> String {
    let path = format!("{}: ", file.display());
    let mut lines: Vec<&str> = Vec::new();
    for line in complaints.lines().map(str::trim) {
        let line =
            line.strip_prefix('[').and_then(|rest| rest.split_once("] ")).map_or(line, |(_, l)| l);
        let line = line.strip_prefix(path.as_str()).unwrap_or(line);
        if !line.is_empty() && !lines.contains(&line) {
            lines.push(line);
        }
    }
    let text = lines.join("; ").replace(path.trim_end_matches(": "), "the file");
    if text.is_empty() {
        "nothing".to_owned()
    } else {
        text.chars().take(QUOTE_CHARS_MAX).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tools_words_are_quoted_without_addresses_and_paths() {
        let file = Path::new("/data/blobs/ab");
        let said = "[mov,mp4,m4a,3gp,3g2,mj2 @ 0x5596bacf61c0] moov atom not found\n\
                    /data/blobs/ab: Invalid data found when processing input\n";
        let refusal = unreadable(said, file).0;
        assert_eq!(
            refusal,
            "its index is missing, because it is not complete or no video; give the whole file (ffprobe says: moov \
             atom not found; Invalid data found when processing input)"
        );
        let list = "[hls @ 0x55] Format not on whitelist 'mov'\n/data/blobs/ab: Invalid argument";
        assert!(unreadable(list, file).0.contains("points to other files"));
        let gif = "[gif @ 0x55] Format not on whitelist 'mov'\n/data/blobs/ab: Invalid argument";
        assert!(unreadable(gif, file).0.starts_with("it is a picture"));
        assert!(unreadable("", file).0.ends_with("(ffprobe says: nothing)"));
        assert!(quote(&"word ".repeat(1_000), file).len() <= QUOTE_CHARS_MAX);
    }
}
