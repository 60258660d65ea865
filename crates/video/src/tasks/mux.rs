//! Joins the chunks of one rung and all sound tracks to an MP4 file, without encoding anything again.
//!
//! The fragments are already timed from the beginning of the video, so they are only put one after the other; ffmpeg
//! then copies the packets into a file that plays while it loads. Data goes through the disk, never through memory.

use std::ffi::OsString;
use std::path::Path;

use divvy::objects::{Blob, BlobId};
use divvy::prelude::*;
use futures_util::{StreamExt, TryStreamExt};

use super::audio::SAMPLE_RATE;
use super::encode::run_failure;
use super::{Made, Mux};
use crate::fmp4::{Fmp4Error, Movie};
use crate::plan::{Plan, three_letters};
use crate::results::{self, Cost, Joined, Piece, Sound};
use crate::studio::{Studio, failure};

/// Results that are asked for at the same time.
const LOOKUPS: usize = 8;
const JOINED: &str = "joined.mp4";

/// Joins a rung.
pub(crate) async fn mux(
    task: Mux,
    State(studio): State<Studio>,
    cancel: Cancel,
    progress: Progress,
) -> Outcome<Made> {
    join_rung(&studio, &task, &cancel, |done, total| progress.set(done, total)).await
}

/// The same without an attempt around it.
pub(crate) async fn join_rung(
    studio: &Studio,
    task: &Mux,
    cancel: &Cancel,
    mut progress: impl FnMut(u64, u64) + Send,
) -> Outcome<Made> {
    let plan = studio.plan(task.plan).await?;
    let rung = plan.rungs.get(task.rung as usize);
    let rung = rung.ok_or_else(|| Failure::dead("the plan has no such rung"))?;
    let (objects, source) = (studio.objects(), plan.probe.source.id);
    let found = results::find::<Joined>(objects, source, &rung.mp4).await.map_err(failure)?;
    if let Some(joined) = found {
        let (units, bytes) = (joined.frames, joined.file.size);
        return Ok(Made { units, bytes, known: true, ..Made::default() });
    }
    let folder = studio.folder()?;
    let pieces = pieces(studio, &plan, task.rung as usize).await?;
    let sounds = sounds(studio, &plan).await?;
    let mut parts = vec![pieces[0].init];
    parts.extend(pieces.iter().map(|piece| piece.media));
    append(studio, &parts, &folder.path().join("video.mp4"), cancel).await?;
    for (place, sound) in sounds.iter().enumerate() {
        let path = folder.path().join(format!("sound_{place}.mp4"));
        append(studio, &[sound.init, sound.media], &path, cancel).await?;
    }
    let frames = plan.probe.video.frames;
    let arguments = arguments(&plan, &sounds, folder.path()).await?;
    let tools = studio.tools();
    let tell = |step: crate::tools::Step| progress(step.frames.min(frames), frames);
    let finished = tools.run(tools.ffmpeg(folder.path(), arguments), cancel, tell).await;
    let finished = finished.map_err(run_failure)?;
    let file = objects.put_file(&folder.path().join(JOINED)).await.map_err(failure)?;
    let cost = Cost::of(&finished);
    let joined = Joined { file, frames, cost };
    let joined = results::commit(objects, source, &rung.mp4, joined).await.map_err(failure)?;
    Ok(Made { units: joined.frames, bytes: joined.file.size, cost, known: false })
}

/// The results of all chunks of a rung, in order.
pub(super) async fn pieces(studio: &Studio, plan: &Plan, rung: usize) -> Outcome<Vec<Piece>> {
    let (objects, source) = (studio.objects(), plan.probe.source.id);
    let mut lookups = Vec::new();
    for key in plan.chunks.iter().filter_map(|chunk| chunk.keys.get(rung)) {
        lookups.push(results::find::<Piece>(objects, source, key));
    }
    let found = futures_util::stream::iter(lookups).buffered(LOOKUPS);
    let found: Vec<Option<Piece>> = found.try_collect().await.map_err(failure)?;
    let pieces: Option<Vec<Piece>> = found.into_iter().collect();
    let pieces = pieces.filter(|pieces| !pieces.is_empty() && pieces.len() == plan.chunks.len());
    let name = plan.rungs.get(rung).map_or("", |rung| &rung.name);
    let pieces = pieces.ok_or_else(|| {
        Failure::retry(format_args!("not every chunk of {name} has a result yet"))
    })?;
    if pieces.iter().any(|piece| piece.init != pieces[0].init) {
        return Err(Failure::dead(format_args!(
            "the chunks of {name} cannot be joined: they were encoded with different settings or builds of ffmpeg"
        )));
    }
    Ok(pieces)
}

/// The results of all sound tracks, in order.
pub(super) async fn sounds(studio: &Studio, plan: &Plan) -> Outcome<Vec<Sound>> {
    let mut sounds = Vec::new();
    for track in &plan.tracks {
        let found = results::find(studio.objects(), plan.probe.source.id, &track.key).await;
        sounds.push(found.map_err(failure)?.ok_or_else(|| {
            Failure::retry(format_args!("sound track {} has no result yet", track.name))
        })?);
    }
    Ok(sounds)
}

/// Writes blobs one after the other into a file.
async fn append(studio: &Studio, parts: &[Blob], to: &Path, cancel: &Cancel) -> Outcome<()> {
    let mut out = tokio::fs::File::create(to).await?;
    for part in parts {
        cancel.check()?;
        copy(studio, part.id, &mut out).await?;
    }
    // What was written in the background must be there before ffmpeg reads it.
    tokio::io::AsyncWriteExt::flush(&mut out).await?;
    Ok(())
}

async fn copy(studio: &Studio, id: BlobId, out: &mut tokio::fs::File) -> Outcome<()> {
    let file = studio.objects().local_file(id).await.map_err(failure)?;
    let mut from = tokio::fs::File::open(file.path()).await?;
    tokio::io::copy(&mut from, out).await?;
    Ok(())
}

async fn arguments(plan: &Plan, sounds: &[Sound], folder: &Path) -> Outcome<Vec<OsString>> {
    let mut inputs = words("-copyts -i video.mp4");
    let mut outputs = words("-map 0:v:0");
    let mut tags = Vec::new();
    for (place, track) in plan.tracks.iter().enumerate().take(sounds.len()) {
        inputs.extend(words(&format!("-i sound_{place}.mp4")));
        outputs.extend(words(&format!("-map {}:a:0", place + 1)));
        let path = folder.join(format!("sound_{place}.mp4"));
        let (last, rest) = tokio::task::spawn_blocking(move || last_packet(&path)).await??;
        // Packets are taken to be of equal length otherwise, which makes the sound longer than it is.
        let exact = format!("setts=duration=if(eq(N\\,{last})\\,{rest}\\,DURATION)");
        tags.extend(words(&format!("-bsf:a:{place} {exact}")));
        let language = three_letters(&track.language);
        tags.extend(words(&format!("-metadata:s:a:{place} language={language}")));
        tags.push(format!("-metadata:s:a:{place}").into());
        tags.push(format!("handler_name={}", track.name).into());
        let disposition = if place == 0 { "default" } else { "0" };
        tags.extend(words(&format!("-disposition:a:{place} {disposition}")));
    }
    outputs.extend(words("-c copy -map_metadata -1 -map_chapters -1"));
    let file = format!("-movie_timescale {SAMPLE_RATE} -movflags +faststart -f mp4 {JOINED}");
    Ok([inputs, outputs, tags, words(&file)].concat())
}

/// The number of the last packet of a sound file, and how many samples it has.
fn last_packet(path: &Path) -> Result<(usize, u32), Fmp4Error> {
    let movie = Movie::read(&mut std::fs::File::open(path)?)?;
    let count: usize = movie.fragments.iter().map(|table| table.samples.len()).sum();
    let last = movie.fragments.last().and_then(|table| table.samples.last());
    let last = last.ok_or_else(|| Fmp4Error::Bad("it has no samples".to_owned()))?;
    Ok((count - 1, last.duration))
}

fn words(text: &str) -> Vec<OsString> {
    text.split_whitespace().map(OsString::from).collect()
}
