//! A video in pieces against one plain ffmpeg: the same renditions of the same clip at the same settings, in one run.
//!
//! Every server is private, in a folder of its own, so that nothing is known before. Thumbnails, subtitles and the scan
//! are off, because plain ffmpeg makes none.

pub(crate) mod pages;
mod plain;
mod quality;
mod removal;
mod stack;
mod usage;

use std::path::{Path, PathBuf};

use crate::Recipe;
use crate::plan::Plan;
use crate::sample::{self, Clip};
use anyhow::ensure;
use serde::Serialize;

use crate::command::objects::default_cache;
use crate::command::values::Ladder;
use divvy_workload::console::exit::Failure;
use divvy_workload::console::output::Output;
use divvy_workload::console::output::table::Table;
use divvy_workload::console::values::Span;
use divvy_workload::private::{Place, rounded};
use stack::Run;

const EXAMPLES: &str = "\
Examples:
  divvy bench video --json                       150 s of 1080p, some minutes
  divvy bench video --seconds 30 --slots 2 --skip-quality
  divvy bench video --chunk 20s --preset medium
  divvy bench video --library 100000 --json      pages and removals of a large library";

/// A video in pieces against one plain ffmpeg: time, CPU, size, likeness and frames.
#[derive(Debug, clap::Parser)]
#[command(name = "video", after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Length of the clip
    #[arg(long, default_value_t = 150, value_parser = clap::value_parser!(u32).range(8..=3_600))]
    seconds: u32,
    /// How much the encoder thinks
    #[arg(long, default_value = "veryfast")]
    preset: String,
    /// Heights of the renditions
    #[arg(long, value_name = "H,…", default_value = "1080,720,480")]
    ladder: Ladder,
    /// Length of the pieces [default: as the plan chooses]
    #[arg(long, value_name = "SPAN")]
    chunk: Option<Span>,
    /// Slots of the worker, one run each
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_values_t = [1, 2, 4])]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=256))]
    slots: Vec<u32>,
    /// Do not compare the pictures with the source
    #[arg(long)]
    skip_quality: bool,
    /// Measure pages and removals of a library of so many videos instead
    #[arg(long, value_name = "VIDEOS", value_parser = clap::value_parser!(u32).range(1_000..=1_000_000))]
    library: Option<u32>,
    /// The ffmpeg to use [default: the first in PATH]
    #[arg(long, value_name = "PATH")]
    ffmpeg: Option<PathBuf>,
    #[command(flatten)]
    place: Place,
}

/// The figures. The ratios at the top are those of the run with most slots that the cores can serve.
#[derive(Debug, Serialize)]
struct Figures {
    seconds: u32,
    cores: u64,
    preset: String,
    chunks: usize,
    chunk_s: f64,
    plain: plain::Cost,
    cpu_ratio: f64,
    wall_ratio: f64,
    utilisation: Option<f64>,
    size_ratio: f64,
    ssim_difference: Option<f64>,
    psnr_difference_db: Option<f64>,
    frames_equal: bool,
    drift_ms: Option<f64>,
    frame_ms: f64,
    first_encode_ms: Option<u64>,
    videos_per_hour: f64,
    runs: Vec<Slots>,
    renditions: Vec<Rendition>,
}

/// One run.
#[derive(Clone, Debug, Serialize)]
struct Slots {
    slots: u32,
    wall_s: f64,
    cpu_s: f64,
    wall_ratio: f64,
    cpu_ratio: f64,
    utilisation: Option<f64>,
    first_encode_ms: Option<u64>,
    videos_per_hour: f64,
}

/// One rendition, in pieces against plain.
#[derive(Debug, Serialize)]
struct Rendition {
    name: String,
    frames: u64,
    plain_frames: u64,
    bytes: u64,
    plain_bytes: u64,
    size_ratio: f64,
    ssim: Option<f64>,
    plain_ssim: Option<f64>,
    psnr_db: Option<f64>,
    plain_psnr_db: Option<f64>,
    drift_ms: Option<f64>,
}

/// Measures and shows the figures.
pub(crate) async fn run(args: &Args, output: &Output) -> anyhow::Result<()> {
    if let Some(videos) = args.library {
        // So many files are removed slowly: the figures are shown before.
        let folder = args.place.folder()?;
        let figures = pages::run(videos, folder.path(), output).await?;
        return if output.is_json() { output.object(&figures) } else { figures.print(output) };
    }
    let figures = encode(args, output).await?;
    if output.is_json() { output.object(&figures) } else { figures.print(output) }
}

async fn encode(args: &Args, output: &Output) -> anyhow::Result<Figures> {
    let recipe = recipe(args)?;
    let ffmpeg = args.ffmpeg.clone().unwrap_or_else(|| "ffmpeg".into());
    output.note(format_args!("making a clip of {} s (once) …", args.seconds));
    let kept = default_cache().join("bench");
    let clip = sample::cached(&ffmpeg, Clip::full_hd(args.seconds), &kept).await?.path;
    let folder = args.place.folder()?;
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get) as u64;
    let mut runs = Vec::new();
    for slots in &args.slots {
        output.note(format_args!("divvy with {slots} slot(s) …"));
        let place = folder.path().join(format!("slots-{slots}"));
        let run = Run::new(&clip, &recipe, *slots, args.ffmpeg.as_deref(), &place, output).await?;
        runs.push((*slots, run));
    }
    let Some((_, first)) = runs.first() else {
        return Err(Failure::usage("--slots names none").into());
    };
    output.note("one plain ffmpeg …");
    let plan = first.plan.clone();
    let (at, program, source) = (folder.path().to_owned(), ffmpeg.clone(), clip.clone());
    let plain = tokio::task::spawn_blocking(move || plain::run(&program, &source, &plan, &at));
    let plain = plain.await??;
    if !args.skip_quality {
        output.note("comparing pictures …");
    }
    let compared = if args.skip_quality { None } else { Some(clip.as_path()) };
    let renditions = renditions(first, folder.path(), &ffmpeg, compared)?;
    let slots: Vec<Slots> =
        runs.iter().map(|(slots, run)| judge(*slots, run, plain, cores)).collect();
    Ok(figures(args, &first.plan, plain, slots, renditions, cores))
}

fn recipe(args: &Args) -> anyhow::Result<Recipe> {
    let chunk_ms = args.chunk.map(|chunk| u32::try_from(chunk.as_ms())).transpose();
    let chunk_ms = chunk_ms.map_err(|_| Failure::usage("--chunk is too long"))?;
    Ok(Recipe {
        ladder: args.ladder.0.clone(),
        preset: args.preset.clone(),
        chunk_ms,
        thumbnails_ms: 0,
        ..Recipe::default()
    })
}

fn judge(slots: u32, run: &Run, plain: plain::Cost, cores: u64) -> Slots {
    Slots {
        slots,
        wall_s: rounded(run.wall_s),
        cpu_s: rounded(run.cpu_s),
        wall_ratio: rounded(run.wall_s / plain.wall_s),
        cpu_ratio: rounded(run.cpu_s / plain.cpu_s),
        utilisation: usage::utilisation(&run.looks, cores.min(u64::from(slots))),
        first_encode_ms: run.first_encode_ms,
        videos_per_hour: rounded(3_600.0 / run.wall_s),
    }
}

/// Every rendition, of the first run against the plain one; likeness only with a clip to compare with.
fn renditions(
    run: &Run,
    folder: &Path,
    ffmpeg: &Path,
    clip: Option<&Path>,
) -> anyhow::Result<Vec<Rendition>> {
    let ffprobe = ffmpeg.with_file_name("ffprobe");
    let mut renditions = Vec::new();
    for rung in &run.plan.rungs {
        let (ours, theirs) = (run.file(&rung.name)?, plain::file(folder, &rung.name));
        let (count, plain) = (quality::count(&ffprobe, &ours)?, quality::count(&ffprobe, &theirs)?);
        ensure!(plain.bytes > 0, "{} has no picture", theirs.display());
        let like =
            |file: &Path| clip.map(|clip| quality::likeness(ffmpeg, file, clip, rung)).transpose();
        let (like_ours, like_theirs) = (like(&ours)?, like(&theirs)?);
        renditions.push(Rendition {
            name: rung.name.clone(),
            frames: count.frames,
            plain_frames: plain.frames,
            bytes: count.bytes,
            plain_bytes: plain.bytes,
            size_ratio: fine(count.bytes as f64 / plain.bytes as f64),
            ssim: like_ours.map(|like| like.ssim),
            plain_ssim: like_theirs.map(|like| like.ssim),
            psnr_db: like_ours.map(|like| like.psnr),
            plain_psnr_db: like_theirs.map(|like| like.psnr),
            drift_ms: quality::drift_ms(&ffprobe, &ours)?,
        });
    }
    Ok(renditions)
}

fn figures(
    args: &Args,
    plan: &Plan,
    plain: plain::Cost,
    runs: Vec<Slots>,
    renditions: Vec<Rendition>,
    cores: u64,
) -> Figures {
    let main = fitting(&runs, cores).clone();
    let sum = |of: fn(&Rendition) -> u64| renditions.iter().map(of).sum::<u64>() as f64;
    let worst = |of: fn(&Rendition) -> Option<f64>| {
        renditions.iter().filter_map(of).reduce(f64::max).map(fine)
    };
    Figures {
        seconds: args.seconds,
        cores,
        preset: args.preset.clone(),
        chunks: plan.chunks.len(),
        chunk_s: rounded(f64::from(args.seconds) / plan.chunks.len().max(1) as f64),
        plain,
        cpu_ratio: main.cpu_ratio,
        wall_ratio: main.wall_ratio,
        utilisation: main.utilisation,
        size_ratio: fine(sum(|r| r.bytes) / sum(|r| r.plain_bytes)),
        ssim_difference: worst(|r| Some(r.plain_ssim? - r.ssim?)),
        psnr_difference_db: worst(|r| Some(r.plain_psnr_db? - r.psnr_db?)),
        frames_equal: renditions.iter().all(|r| r.frames == r.plain_frames),
        drift_ms: worst(|r| r.drift_ms),
        frame_ms: fine(plan.probe.video.rate.micros(1_000) as f64 / 1e6),
        first_encode_ms: main.first_encode_ms,
        videos_per_hour: main.videos_per_hour,
        runs,
        renditions,
    }
}

/// The run with most slots that the cores can serve; the first if none is small enough.
fn fitting(runs: &[Slots], cores: u64) -> &Slots {
    let served = runs.iter().filter(|run| u64::from(run.slots) <= cores);
    served.max_by_key(|run| run.slots).unwrap_or(&runs[0])
}

/// With more decimals: differences are small.
fn fine(value: f64) -> f64 {
    (value * 1e5).round() / 1e5
}

impl Figures {
    /// Prints the figures for people.
    fn print(&self, output: &Output) -> anyhow::Result<()> {
        let optional = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |v| v.to_string());
        let mut runs = Table::new(&[
            "RUN",
            ">WALL S",
            ">CPU S",
            ">WALL RATIO",
            ">CPU RATIO",
            ">UTILISATION",
            ">FIRST MS",
        ]);
        let Self { plain, .. } = self;
        let one = || "1".to_owned();
        let row = |table: &mut Table, cells: [String; 7]| table.row(cells.map(Into::into));
        let dash = || "-".to_owned();
        row(
            &mut runs,
            [
                "plain ffmpeg".to_owned(),
                plain.wall_s.to_string(),
                plain.cpu_s.to_string(),
                one(),
                one(),
                dash(),
                dash(),
            ],
        );
        for run in &self.runs {
            row(
                &mut runs,
                [
                    format!("{} slots", run.slots),
                    run.wall_s.to_string(),
                    run.cpu_s.to_string(),
                    run.wall_ratio.to_string(),
                    run.cpu_ratio.to_string(),
                    optional(run.utilisation),
                    run.first_encode_ms.map_or_else(dash, |ms| ms.to_string()),
                ],
            );
        }
        runs.print(output)?;
        let mut table =
            Table::new(&["RENDITION", ">FRAMES", ">PLAIN", ">SIZE RATIO", ">SSIM", ">PLAIN SSIM"]);
        for rendition in &self.renditions {
            table.row([
                rendition.name.as_str().into(),
                rendition.frames.to_string().into(),
                rendition.plain_frames.to_string().into(),
                rendition.size_ratio.to_string().into(),
                optional(rendition.ssim).into(),
                optional(rendition.plain_ssim).into(),
            ]);
        }
        table.print(output)?;
        for (name, value) in [
            ("cpu_ratio", Some(self.cpu_ratio)),
            ("wall_ratio", Some(self.wall_ratio)),
            ("utilisation", self.utilisation),
            ("size_ratio", Some(self.size_ratio)),
            ("ssim_difference", self.ssim_difference),
            ("psnr_difference_db", self.psnr_difference_db),
            ("drift_ms", self.drift_ms),
            ("videos_per_hour", Some(self.videos_per_hour)),
        ] {
            output.data(format_args!("{name:<20} {:>12}", optional(value)))?;
        }
        output.data(format_args!("{:<20} {:>12}", "frames_equal", self.frames_equal))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_run_that_fills_the_cores_stands_for_all() {
        let run = |slots| Slots {
            slots,
            wall_s: 1.0,
            cpu_s: 1.0,
            wall_ratio: 1.0,
            cpu_ratio: 1.0,
            utilisation: None,
            first_encode_ms: None,
            videos_per_hour: 1.0,
        };
        let runs = [run(4), run(1), run(2)];
        assert_eq!(fitting(&runs, 2).slots, 2);
        assert_eq!(fitting(&runs, 3).slots, 2);
        assert_eq!(fitting(&runs, 64).slots, 4);
        assert_eq!(fitting(&runs[..1], 2).slots, 4);
        assert!((fine(0.000_123_4) - 0.000_12).abs() < 1e-9);
    }
}
