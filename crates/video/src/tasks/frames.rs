//! Thumbnails at equal distances.
//!
//! Decides which frames of the grid are taken and what is decoded for them: from the key frame before each, unless going
//! on from the thumbnail before it is cheaper. Several places of the source are open in one run of ffmpeg, which costs
//! about half of one run each. What pictures look like is shared with the sheets and the poster.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use divvy::objects::Blob;
use divvy::prelude::*;

use super::encode::picture_filters;
use super::{Frames, Made};
use crate::grid::FrameRate;
use crate::plan::Plan;
use crate::probe::VideoStream;
use crate::results::{self, Cost, Still, Stills};
use crate::room;
use crate::studio::{Studio, failure};
use crate::tools::{Finished, RunError, Tools};

/// Thumbnails of a video; of a longer one, fewer in a minute. The record with their names has room for them.
const STILLS_MAX: u64 = 5_000;
/// The longer side of a thumbnail. A scanner looks at it too, and wants at least 224.
const LONG_SIDE: u32 = 320;
/// Places of the source that one run of ffmpeg opens at once, and pixels of a frame of all of them together: each has a
/// decoder with its memory.
const SHOTS_MAX: u64 = 8;
const PIXELS_MAX: u64 = SHOTS_MAX * 1_920 * 1_080;
/// Thumbnails of one place.
const STILLS_PER_SHOT_MAX: usize = 64;
/// What opening a place costs, in decoded frames.
const OPENING_FRAMES: u64 = 24;
/// Nothing is seen of ffmpeg while it decodes from a key frame that is far away.
const STALL: Duration = Duration::from_secs(300);

/// A thumbnail to be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Moment {
    at_ms: u64,
    /// The frame of the grid that is shown then.
    frame: u64,
}

pub(crate) async fn frames(
    task: Frames,
    State(studio): State<Studio>,
    cancel: Cancel,
    progress: Progress,
) -> Outcome<Made> {
    let plan = studio.plan(task.plan).await?;
    take(&studio, &plan, &cancel, |done, total| progress.set(done, total)).await
}

/// Takes the thumbnails of a plan, unless they were taken.
pub(super) async fn take(
    studio: &Studio,
    plan: &Plan,
    cancel: &Cancel,
    progress: impl Fn(u64, u64),
) -> Outcome<Made> {
    let source = plan.probe.source.id;
    let key = plan.frames.as_ref().ok_or_else(|| Failure::dead("the plan has no thumbnails"))?;
    if let Some(known) =
        results::find::<Stills>(studio.objects(), source, key).await.map_err(failure)?
    {
        return Ok(made(known.stills.len(), bytes(&known.stills), None));
    }
    let moments = moments(&plan.probe.video, plan.recipe.thumbnails_ms);
    let shots = shots(&moments, &plan.probe.video.keyframes);
    let file = studio.objects().local_file(source).await.map_err(failure)?;
    let (mut stills, mut cost) = (Vec::new(), Cost::default());
    for batch in shots.chunks(at_once(&plan.probe.video)) {
        let folder = studio.folder()?;
        let arguments = arguments(file.path(), &plan.probe.video, batch);
        let finished = run(studio.tools(), folder.path(), file.path(), arguments, cancel).await?;
        cost = sum(cost, spent(&finished));
        for (shot, moments) in batch.iter().enumerate() {
            for (number, moment) in moments.iter().enumerate() {
                let path = folder.path().join(file_name(shot, number + 1));
                let picture = match path.exists() {
                    true => Some(studio.objects().put_file(&path).await.map_err(failure)?),
                    // The source has no frame there any more: what was seen last is still shown.
                    false => stills.last().map(|still: &Still| still.picture),
                };
                let picture = picture.ok_or_else(|| no_picture(&finished))?;
                stills.push(Still { at_ms: moment.at_ms, picture });
            }
        }
        progress(stills.len() as u64, moments.len() as u64);
    }
    let (count, size) = (stills.len(), bytes(&stills));
    let stored = Stills { stills, cost };
    results::commit(studio.objects(), source, key, stored).await.map_err(failure)?;
    Ok(made(count, size, Some(cost)))
}

/// When thumbnails are taken: at 0 and then at every interval, as long as there are frames.
fn moments(video: &VideoStream, interval_ms: u32) -> Vec<Moment> {
    let length_ms = video.rate.micros(video.frames).div_ceil(1_000);
    let interval_ms = u64::from(interval_ms.max(1)).max(length_ms.div_ceil(STILLS_MAX));
    let shown = |at_ms: u64| Moment { at_ms, frame: frame_at(video.rate, at_ms) };
    let all = (0..STILLS_MAX).map(|number| shown(number * interval_ms));
    // A source of no frames cannot be; one thumbnail is always there.
    all.take_while(|moment| moment.at_ms == 0 || moment.frame < video.frames).collect()
}

/// Which moments are taken from one place of the source, without seeking between them: those that the decoder reaches
/// sooner by going on than from the key frame before them.
fn shots(moments: &[Moment], keyframes: &[u64]) -> Vec<Vec<Moment>> {
    let mut shots: Vec<Vec<Moment>> = Vec::new();
    for moment in moments {
        let before = keyframes.partition_point(|key| *key <= moment.frame);
        let key = before.checked_sub(1).map_or(0, |last| keyframes[last]);
        match shots.last_mut() {
            Some(shot)
                if shot.len() < STILLS_PER_SHOT_MAX
                    && shot.last().is_some_and(|last| key <= last.frame + OPENING_FRAMES) =>
            {
                shot.push(*moment);
            }
            _ => shots.push(vec![*moment]),
        }
    }
    shots
}

/// How many places are opened at once.
fn at_once(video: &VideoStream) -> usize {
    let pixels = u64::from(video.width) * u64::from(video.height);
    let fitting = PIXELS_MAX / pixels.max(1);
    usize::try_from(fitting.clamp(1, SHOTS_MAX)).unwrap_or(1)
}

fn arguments(source: &Path, video: &VideoStream, shots: &[Vec<Moment>]) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = ["-filter_threads", "1"].map(OsString::from).to_vec();
    for shot in shots {
        arguments.extend(seek(source, video, shot[0].frame));
    }
    let (width, height) = fit(video, LONG_SIDE);
    for (number, shot) in shots.iter().enumerate() {
        let chosen = shot.iter().map(|moment| format!("eq(n,{})", moment.frame - shot[0].frame));
        let chosen = chosen.collect::<Vec<_>>().join("+");
        let filters =
            format!("{},select='{chosen}',{}", on_grid(video), jpeg(video, width, height));
        arguments.extend(map(number, video, &filters, shot.len()));
        arguments.extend(JPEG.map(OsString::from));
        arguments.push(format!("still_{number}_%d.jpg").into());
    }
    arguments
}

fn file_name(shot: usize, number: usize) -> String {
    format!("still_{shot}_{number}.jpg")
}

/// How a JPEG is written.
pub(super) const JPEG: [&str; 6] = ["-c:v", "mjpeg", "-q:v", "4", "-f", "image2"];

/// Opens the source so that a frame of the grid has the time 0. Frames from the key frame before it come first, with
/// times below 0; [`on_grid`] leaves them out, but not the one that is still shown at 0.
pub(super) fn seek(source: &Path, video: &VideoStream, frame: u64) -> Vec<OsString> {
    let after = i64::try_from(video.rate.micros(frame)).unwrap_or(i64::MAX);
    let at = format!("{}us", video.start_us.saturating_add(after));
    let options = ["-threads", "1", "-noaccurate_seek", "-seek_timestamp", "1", "-ss", &at, "-i"];
    options.into_iter().map(OsString::from).chain([source.into()]).collect()
}

/// The filter that makes the source's frames those of the grid, from the time 0 on.
pub(super) fn on_grid(video: &VideoStream) -> String {
    format!("fps=fps={}:round=near:start_time=0", video.rate)
}

/// What an output takes from an input: so many frames of the picture, after these filters.
pub(super) fn map(
    input: usize,
    video: &VideoStream,
    filters: &str,
    frames: usize,
) -> Vec<OsString> {
    let (stream, frames) = (format!("{input}:{}", video.index), frames.to_string());
    [
        "-map",
        &stream,
        "-vf",
        filters,
        "-fps_mode",
        "passthrough",
        "-frames:v",
        &frames,
        "-threads",
        "1",
    ]
    .map(OsString::from)
    .to_vec()
}

/// The filters that make a JPEG's picture of this size.
pub(super) fn jpeg(video: &VideoStream, width: u32, height: u32) -> String {
    let prefix = match picture_filters(video) {
        plain if plain.is_empty() => plain,
        filters => format!("{filters},"),
    };
    // Who reads a JPEG takes its colours for those of BT.601 in full range, whatever they were in the video. What an
    // untagged frame has is decided where videos are encoded, too.
    let from = match video.bt709 {
        true => ":in_color_matrix=bt709:in_range=tv",
        false => "",
    };
    format!(
        "{prefix}scale={width}:{height}:flags=area{from}:out_color_matrix=bt601:out_range=pc,setsar=1,format=yuvj420p"
    )
}

/// The size of the picture with its longer side cut down to this; never larger than it is.
pub(super) fn fit(video: &VideoStream, long_side: u32) -> (u32, u32) {
    let long = video.width.max(video.height).max(1);
    let scaled = |side: u32| {
        let scaled =
            (u64::from(side) * u64::from(long_side) + u64::from(long) / 2) / u64::from(long);
        u32::try_from(scaled).unwrap_or(long_side).clamp(2, long_side)
    };
    match long <= long_side {
        true => (video.width.max(2), video.height.max(2)),
        false => (scaled(video.width), scaled(video.height)),
    }
}

/// The frame that is shown at a time.
pub(super) fn frame_at(rate: FrameRate, at_ms: u64) -> u64 {
    let frame =
        u128::from(at_ms) * u128::from(rate.frames) / (u128::from(rate.seconds.max(1)) * 1_000);
    u64::try_from(frame).unwrap_or(u64::MAX)
}

/// Runs ffmpeg on a source.
pub(super) async fn run(
    tools: &Tools,
    folder: &Path,
    source: &Path,
    arguments: Vec<OsString>,
    cancel: &Cancel,
) -> Outcome<Finished> {
    let mut invocation = tools.ffmpeg(folder, arguments);
    invocation.readable.push(PathBuf::from(source));
    invocation.limits.stall = STALL;
    tools.run(invocation, cancel, |_| ()).await.map_err(stopped)
}

/// What the end of a program means for its task.
pub(super) fn stopped(error: RunError) -> Failure {
    match error {
        RunError::Cancelled => Failure::cancelled(),
        RunError::NoRoom { place, .. } => room::missing(&place),
        other => Failure::retry(other),
    }
}

/// What a program has cost.
pub(super) fn spent(finished: &Finished) -> Cost {
    let ms = |span: Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
    Cost { cpu_ms: ms(finished.cpu), wall_ms: ms(finished.wall) }
}

pub(super) fn sum(one: Cost, other: Cost) -> Cost {
    Cost { cpu_ms: one.cpu_ms + other.cpu_ms, wall_ms: one.wall_ms + other.wall_ms }
}

/// What a task returns: what it cost, or that nothing had to be done.
pub(super) fn made(units: usize, bytes: u64, cost: Option<Cost>) -> Made {
    Made { units: units as u64, bytes, cost: cost.unwrap_or_default(), known: cost.is_none() }
}

/// A source of which ffmpeg makes no picture.
pub(super) fn no_picture(finished: &Finished) -> Failure {
    let words = match finished.complaints.trim() {
        "" => "it gave no reason",
        words => words,
    };
    Failure::retry(format_args!("ffmpeg took no picture from the source: {words}"))
}

fn bytes(stills: &[Still]) -> u64 {
    stills.iter().map(|Still { picture: Blob { size, .. }, .. }| size).sum()
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{ENCODE, Fixture};
    use super::*;

    /// Six seconds in which every frame is brighter than the one before it.
    const RAMP: &str = "nullsrc=s=320x180:r=10:d=6,geq=lum=16+N*3:cb=128:cr=128";

    fn clip() -> Vec<&'static str> {
        [&["-f", "lavfi", "-i", RAMP][..], &ENCODE].concat()
    }

    async fn stills(fixture: &Fixture, plan: &Plan) -> Vec<Still> {
        let (objects, key) = (fixture.studio.objects(), plan.frames.as_ref().unwrap());
        let found = results::find::<Stills>(objects, plan.probe.source.id, key).await.unwrap();
        found.unwrap().stills
    }

    /// Which frame of the ramp a thumbnail shows.
    async fn shown(fixture: &Fixture, still: &Still) -> i32 {
        let [red, ..] = fixture.colour(still.picture.id, "320:180:0:0").await;
        (f64::from(red) * 219.0 / 255.0 / 3.0).round() as i32
    }

    #[tokio::test]
    async fn thumbnails_show_exactly_the_frames_of_their_time() {
        let fixture = Fixture::new().await;
        // A transport stream does not begin at 0.
        for (name, start_us) in [("ramp.mp4", 0), ("ramp.ts", 1_600_000)] {
            let mut plan = fixture.clip(name, &clip(), 60).await;
            plan.probe.video.start_us = start_us;
            let made = take(&fixture.studio, &plan, &Cancel::never(), |_, _| ()).await.unwrap();
            assert_eq!((made.units, made.known), (6, false));
            for (number, still) in stills(&fixture, &plan).await.iter().enumerate() {
                assert_eq!(still.at_ms, number as u64 * 1_000);
                assert_eq!(shown(&fixture, still).await, number as i32 * 10, "{name}");
            }
            let again = take(&fixture.studio, &plan, &Cancel::never(), |_, _| ()).await.unwrap();
            assert_eq!((again.units, again.bytes, again.known), (6, made.bytes, true));
        }
    }

    #[tokio::test]
    async fn a_picture_that_is_still_shown_after_its_source_ended_is_repeated() {
        let fixture = Fixture::new().await;
        let mut plan = fixture.clip("ramp.mp4", &clip(), 90).await;
        plan.probe.video.keyframes.retain(|key| *key < 60);
        take(&fixture.studio, &plan, &Cancel::never(), |_, _| ()).await.unwrap();
        let stills = stills(&fixture, &plan).await;
        assert_eq!(stills.len(), 9);
        let last = shown(&fixture, &stills[8]).await;
        assert!((50..60).contains(&last), "{last}");
    }

    #[tokio::test]
    async fn a_source_without_any_picture_fails_and_records_nothing() {
        let fixture = Fixture::new().await;
        let plan = fixture.clip("noise.mp4", &clip(), 60).await;
        let mut broken = plan.clone();
        broken.probe.source = fixture.studio.objects().put(b"no video".to_vec()).await.unwrap();
        let failed = take(&fixture.studio, &broken, &Cancel::never(), |_, _| ()).await.unwrap_err();
        assert!(failed.message().contains("ffmpeg"), "{failed:?}");
        let (objects, key) = (fixture.studio.objects(), broken.frames.as_ref().unwrap());
        let found = results::find::<Stills>(objects, broken.probe.source.id, key).await.unwrap();
        assert_eq!(found, None);
    }

    #[tokio::test]
    async fn thumbnails_are_at_their_distance_and_never_too_many() {
        let fixture = Fixture::new().await;
        let mut video = fixture.clip("ramp.mp4", &clip(), 60).await.probe.video;
        for (rate, frames, interval_ms, expected) in [
            ((10, 1), 60, 10_000, vec![0]),
            ((10, 1), 1, 1_000, vec![0]),
            ((30_000, 1_001), 900, 10_000, vec![0, 299, 599, 899]),
            ((10, 1), 101, 5_000, vec![0, 50, 100]),
        ] {
            video.rate = FrameRate { frames: rate.0, seconds: rate.1 };
            video.frames = frames;
            let taken: Vec<u64> = moments(&video, interval_ms).iter().map(|m| m.frame).collect();
            assert_eq!(taken, expected);
        }
        video.frames = 12 * 3_600 * 30;
        let taken = moments(&video, 100);
        assert!((4_990..=5_000).contains(&taken.len()), "{}", taken.len());
        assert!(taken.last().unwrap().frame + 400 > video.frames);
    }

    #[test]
    fn a_place_is_opened_only_where_that_saves_decoding() {
        let moments = |frames: &[u64]| -> Vec<Moment> {
            frames.iter().map(|frame| Moment { at_ms: 0, frame: *frame }).collect()
        };
        let lengths = |frames: &[u64], keys: &[u64]| -> Vec<usize> {
            shots(&moments(frames), keys).iter().map(Vec::len).collect()
        };
        assert_eq!(lengths(&[0, 300, 600], &[0, 250, 500]), [1, 1, 1]);
        assert_eq!(lengths(&[0, 300, 600], &[0]), [3]);
        assert_eq!(lengths(&[0, 300, 600, 900], &[0, 850]), [3, 1]);
        assert_eq!(lengths(&[0, 10, 20], &[0, 10, 20]), [3], "opening costs more than ten frames");
        assert_eq!(lengths(&[0, 10], &[]), [2]);
        let many: Vec<u64> = (0..130).collect();
        assert_eq!(lengths(&many, &[0]), [64, 64, 2]);
    }

    #[tokio::test]
    async fn pictures_are_cut_down_and_never_blown_up() {
        let fixture = Fixture::new().await;
        let mut video = fixture.clip("ramp.mp4", &clip(), 60).await.probe.video;
        for (from, to) in [
            ((1_920, 1_080), (320, 180)),
            ((1_080, 1_920), (180, 320)),
            ((321, 241), (320, 240)),
            ((200, 100), (200, 100)),
            ((1, 1), (2, 2)),
            ((8_192, 4), (320, 2)),
        ] {
            (video.width, video.height) = from;
            assert_eq!(fit(&video, 320), to);
        }
    }
}
