//! What can be typed about videos.

use std::path::PathBuf;

use crate::library::VideoState;
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::command::values::{Every, Ladder, SubtitlePath};
use divvy_workload::console::values::Span;
use divvy_workload::provider::command::ProviderVerb;

pub(crate) const VIDEO_EXAMPLES: &str = "\
Examples:
  divvy video add film.mp4 --wait             upload, split, encode, publish
  divvy video list --state processing,failed
  divvy video show 7k2m                       a start of the id is enough
  divvy video open 7k2m                       watch it
  divvy video export 7k2m film/               all files, checked
  divvy video provider install whisper        subtitles on this machine";

pub(crate) const ADD_EXAMPLES: &str = "\
Examples:
  divvy video add film.mp4 --wait
  divvy video add *.mkv --ladder 720,480 --preset medium --subtitles en --scan
  divvy video add https://example.org/talk.webm --title 'A talk'
  divvy video add urgent.mov --priority 5 --deadline 30m --wait
  divvy video add film.mp4 --subtitle-file de=film.de.srt

The same file with the same settings is known and costs nothing. With --wait
the exit code is 1 if a video fails; one whose subtitles or scan failed counts
as done, with a warning. Ctrl-C while waiting leaves the work running.";

/// Add videos, watch how they are made, and get the files
#[derive(Debug, Parser)]
#[command(name = "video", alias = "videos", after_help = VIDEO_EXAMPLES)]
pub(crate) struct VideoCommand {
    /// What to do.
    #[command(subcommand)]
    pub(crate) verb: Video,
}

/// Verbs of videos.
#[derive(Debug, Subcommand)]
pub(crate) enum Video {
    /// Upload files or fetch addresses, and process them
    #[command(after_help = ADD_EXAMPLES)]
    Add(Add),
    /// List videos, newest first
    #[command(visible_alias = "ls", after_help = VIDEO_EXAMPLES)]
    List(VideoList),
    /// Show stages, renditions and findings of a video
    #[command(after_help = VIDEO_EXAMPLES)]
    Show(OneVideo),
    /// Wait until videos are done, with progress
    #[command(after_help = VIDEO_EXAMPLES)]
    Wait(SomeVideos),
    /// Print the player's address, and open it where there is a display
    #[command(after_help = VIDEO_EXAMPLES)]
    Open(OneVideo),
    /// Write all files of a video to a folder, each checked by its hash
    #[command(after_help = EXPORT_EXAMPLES)]
    Export(Export),
    /// Remove videos; a little later everything goes that no other video uses
    #[command(after_help = REMOVE_EXAMPLES)]
    Remove(Remove),
    /// Remove blobs that nothing names, and what removed and cancelled videos left
    #[command(after_help = SWEEP_EXAMPLES)]
    Sweep(SweepFlags),
    /// Stop the work on videos
    #[command(after_help = VIDEO_EXAMPLES)]
    Cancel(SomeVideos),
    /// Release videos that the scan flagged, after a look at them
    #[command(after_help = VIDEO_EXAMPLES)]
    Approve(SomeVideos),
    /// Programs that write subtitles and scan frames
    #[command(subcommand, after_help = PROVIDER_EXAMPLES)]
    Provider(ProviderVerb),
    /// Make a clip with moving pictures and speech, to try things out
    #[command(after_help = SAMPLE_EXAMPLES)]
    Sample(Sample),
}

const EXPORT_EXAMPLES: &str = "\
Examples:
  divvy video export 7k2m film/            play film/master.m3u8 or film/mp4/…
  divvy video export 7k2m film/ --force    replace the folder";
const REMOVE_EXAMPLES: &str = "\
Examples:
  divvy video remove 7k2m
  divvy video list -q --state failed | xargs divvy video remove --yes
  divvy video remove 7k2m && divvy video sweep     free the disk at once

What other videos use stays. The rest goes within about twenty minutes, or
later if it is just being used; `divvy video sweep` says what stays and why.";
const SWEEP_EXAMPLES: &str = "\
Examples:
  divvy video sweep --dry-run              what would go, and how much it is
  divvy video sweep --older-than 2h

What removed videos left goes by itself a little later, unfinished uploads and
what cancelled videos left each day. This takes it at once, and also uploads
that were never added, and any other blob whose name stands in no record and in
no task that may still run.";
pub(crate) const PROVIDER_EXAMPLES: &str = "\
Examples:
  divvy video provider list
  divvy video provider install whisper       then: divvy up --speech whisper
  divvy video provider install open_nsfw     then: divvy up --scanner open_nsfw";
const SAMPLE_EXAMPLES: &str = "\
Examples:
  divvy video sample sample.mp4
  divvy video sample long.mp4 --seconds 600";

/// Videos to add.
#[derive(Args, Debug)]
pub(crate) struct Add {
    /// Files, or addresses that start with http:// or https://
    #[arg(required = true, value_name = "FILE|URL")]
    pub(crate) sources: Vec<String>,
    #[command(flatten)]
    pub(crate) recipe: RecipeFlags,
    /// What people call it [default: the file's name]
    #[arg(long)]
    pub(crate) title: Option<String>,
    /// Subtitles that belong to it, .srt or .vtt, such as de=film.de.srt; may
    /// be given several times
    #[arg(long, value_name = "LANGUAGE=FILE")]
    pub(crate) subtitle_file: Vec<SubtitlePath>,
    /// From 1 (later) to 5 (first) [default: 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=5))]
    pub(crate) priority: Option<u8>,
    /// When it should be done, from now
    #[arg(long, value_name = "SPAN")]
    pub(crate) deadline: Option<Span>,
    /// Wait until it is done, with one progress bar per stage
    #[arg(long, short)]
    pub(crate) wait: bool,
}

/// What is wanted of a video.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct RecipeFlags {
    /// Heights of the renditions [default: 1080,720,480]
    #[arg(long, value_name = "H,…")]
    pub(crate) ladder: Option<Ladder>,
    /// How much the encoder thinks: ultrafast … veryslow [default: veryfast]
    #[arg(long, value_name = "PRESET")]
    pub(crate) preset: Option<String>,
    /// Quality, 1 (best) to 51 [default: 23]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=51))]
    pub(crate) crf: Option<u32>,
    /// Length of the pieces that workers encode [default: by length]
    #[arg(long, value_name = "SPAN")]
    pub(crate) chunk: Option<Span>,
    /// Distance of thumbnails [default: 10s]
    #[arg(long, value_name = "SPAN|off")]
    pub(crate) thumbnails: Option<Every>,
    /// Let a provider write subtitles; the language that is spoken
    #[arg(long, value_name = "LANGUAGE")]
    pub(crate) subtitles: Option<String>,
    /// Let a scanner look at the frames before it is published
    #[arg(long)]
    pub(crate) scan: bool,
    /// The score from which a frame is flagged [default: 0.8]
    #[arg(long, value_name = "SCORE", requires = "scan")]
    pub(crate) flag_at: Option<f64>,
}

/// Which videos to list.
#[derive(Args, Debug)]
pub(crate) struct VideoList {
    /// Only these states: processing, ready, degraded, needs_review, failed,
    /// cancelled
    #[arg(long, value_name = "STATE,…", value_delimiter = ',', hide_possible_values = true)]
    pub(crate) state: Vec<State>,
    /// Rows at most
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) limit: u32,
}

/// Where a video is, as it is typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum State {
    /// Its tasks wait or run.
    Processing,
    /// It can be watched.
    Ready,
    /// It can be watched, but an optional part failed.
    Degraded,
    /// A person must look at it.
    NeedsReview,
    /// It could not be made.
    Failed,
    /// Someone stopped it.
    Cancelled,
}

impl From<State> for VideoState {
    fn from(state: State) -> Self {
        match state {
            State::Processing => Self::Processing,
            State::Ready => Self::Ready,
            State::Degraded => Self::Degraded,
            State::NeedsReview => Self::NeedsReview,
            State::Failed => Self::Failed,
            State::Cancelled => Self::Cancelled,
        }
    }
}

/// One video.
#[derive(Args, Debug)]
pub(crate) struct OneVideo {
    /// The id, or a start of it that fits one video only
    pub(crate) id: String,
}

/// Some videos.
#[derive(Args, Debug)]
pub(crate) struct SomeVideos {
    /// The ids, or starts of them that fit one video each
    #[arg(required = true, value_name = "ID")]
    pub(crate) ids: Vec<String>,
}

/// A video to write to a folder.
#[derive(Args, Debug)]
pub(crate) struct Export {
    #[command(flatten)]
    pub(crate) video: OneVideo,
    /// The folder; it must not be there yet, or be empty
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
    /// Replace a folder that is there
    #[arg(long)]
    pub(crate) force: bool,
}

/// Videos to remove.
#[derive(Args, Debug)]
pub(crate) struct Remove {
    #[command(flatten)]
    pub(crate) videos: SomeVideos,
    /// Do not ask
    #[arg(long, short)]
    pub(crate) yes: bool,
}

/// What to sweep.
#[derive(Args, Debug)]
pub(crate) struct SweepFlags {
    /// Only show what would go
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// How long it must have rested, at least 10m
    #[arg(long, value_name = "SPAN", default_value = "24h")]
    pub(crate) older_than: Span,
}

/// A clip to make.
#[derive(Args, Debug)]
pub(crate) struct Sample {
    /// Where it goes; a file that is there is replaced
    pub(crate) file: PathBuf,
    /// Its length
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=3_600))]
    pub(crate) seconds: u32,
    /// The ffmpeg to use [default: the first in PATH]
    #[arg(long, value_name = "PATH", env = "DIVVY_FFMPEG", hide_env_values = true)]
    pub(crate) ffmpeg: Option<PathBuf>,
}
