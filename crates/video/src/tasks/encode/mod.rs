//! Encodes one chunk to the rungs that are missing, with one decode.
//!
//! The first attempt is strict: any damage of the source that the decoder notices is a failure. Later attempts repair
//! it by repeating frames, and note how many frames are not as they were. Nothing is recorded before every frame of every rung is accounted for.

mod check;
mod command;
mod damage;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use divvy::objects::LocalFile;
use divvy::prelude::*;

pub(crate) use command::picture_filters;

use super::{Encode, Made};
use crate::plan::{Chunk, Plan, Rung};
use crate::results::{self, Cost, Piece};
use crate::room;
use crate::studio::{Studio, failure};
use crate::tools::{Finished, RunError};
use check::{CheckError, Placed, Shape};
use command::{Entry, Order, SEEN_FILE, SUM_FILES};

/// Encodes a chunk.
pub(crate) async fn encode(
    task: Encode,
    State(studio): State<Studio>,
    attempt: Attempt,
    cancel: Cancel,
    progress: Progress,
) -> Outcome<Made> {
    let tolerant = attempt.number > 1;
    let manner = Manner { tolerant, threads: attempt.threads };
    encode_chunk(&studio, &task, manner, &cancel, |done, total| progress.set(done, total)).await
}

/// How an attempt goes about it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manner {
    /// Whether damage of the source is repaired instead of refused.
    pub(crate) tolerant: bool,
    /// Threads of each codec.
    pub(crate) threads: u32,
}

/// The same without an attempt around it.
pub(crate) async fn encode_chunk(
    studio: &Studio,
    task: &Encode,
    manner: Manner,
    cancel: &Cancel,
    mut progress: impl FnMut(u64, u64) + Send,
) -> Outcome<Made> {
    let plan = studio.plan(task.plan).await?;
    let chunk = plan.chunks.get(task.chunk as usize);
    let chunk = chunk.ok_or_else(|| Failure::dead("the plan has no such chunk"))?;
    let mut made = Made { units: chunk.span.frames(), known: true, ..Made::default() };
    let mut missing = Vec::new();
    for &place in &task.rungs {
        let rung = plan.rungs.get(place as usize).zip(chunk.keys.get(place as usize));
        let (rung, key) = rung.ok_or_else(|| Failure::dead("the plan has no such rung"))?;
        let found = results::find::<Piece>(studio.objects(), plan.probe.source.id, key).await;
        match found.map_err(failure)? {
            Some(piece) => made.bytes += piece.media.size,
            None => missing.push((rung, key)),
        }
    }
    if missing.is_empty() {
        return Ok(made);
    }
    made.known = false;
    let rungs: Vec<&Rung> = missing.iter().map(|(rung, _)| *rung).collect();
    let source = studio.objects().local_file(plan.probe.source.id).await.map_err(failure)?;
    let folder = studio.folder()?;
    let work = Work { studio, plan: &plan, chunk, rungs, manner };
    let encoded = work.run(&source, folder.path(), cancel, &mut progress).await?;
    made.cost = encoded.cost;
    let shares = shares(&work.rungs);
    for (place, ((_, key), placed)) in missing.iter().zip(encoded.placed).enumerate() {
        let objects = studio.objects();
        let piece = Piece {
            init: objects.put(placed.init).await.map_err(failure)?,
            media: objects.put_file(&media(folder.path(), place)).await.map_err(failure)?,
            fragments: placed.fragments,
            repaired: encoded.repaired,
            cost: part_of(encoded.cost, shares[place]),
        };
        let piece = results::commit(objects, plan.probe.source.id, key, piece).await;
        made.bytes += piece.map_err(failure)?.media.size;
    }
    Ok(made)
}

/// What one run of ffmpeg has to do.
struct Work<'a> {
    studio: &'a Studio,
    plan: &'a Plan,
    chunk: &'a Chunk,
    rungs: Vec<&'a Rung>,
    manner: Manner,
}

/// What came of it.
struct Encoded {
    placed: Vec<Placed>,
    repaired: u64,
    cost: Cost,
}

impl Work<'_> {
    /// Encodes and checks. Enters the source further ahead if frames are missing, because the source's index may have
    /// misled: only what is missing even then is really missing.
    async fn run(
        &self,
        source: &LocalFile,
        folder: &Path,
        cancel: &Cancel,
        progress: &mut (impl FnMut(u64, u64) + Send),
    ) -> Outcome<Encoded> {
        let mut cost = Cost::default();
        let mut problem = String::new();
        let near_is_far = self.chunk.span.from == 0;
        let entries = if near_is_far { &[Entry::Far][..] } else { &[Entry::Near, Entry::Far] };
        for &entry in entries {
            let finished = match self.ffmpeg(entry, source.path(), folder, cancel, progress).await {
                Err(error @ RunError::Failed { .. })
                    if self.manner.tolerant && entry == Entry::Near =>
                {
                    problem = error.to_string();
                    continue;
                }
                finished => finished.map_err(run_failure)?,
            };
            cost = cost + Cost::of(&finished);
            match self.place(folder).await? {
                Ok(placed) => {
                    if !self.manner.tolerant {
                        return Ok(Encoded { placed, repaired: 0, cost });
                    }
                    let seen = self.seen(folder).await;
                    if seen.contains(&false) && entry == Entry::Near {
                        continue;
                    }
                    let damaged = damaged_frames(&finished.complaints);
                    let mut sums = [String::new(), String::new()];
                    if damaged > 0 {
                        let order = self.order(entry).comparison(source.path());
                        cost = cost + self.compare(order, source.path(), folder, cancel).await?;
                        sums = [text(folder, SUM_FILES[0]).await, text(folder, SUM_FILES[1]).await];
                    }
                    let [concealed, plain] = &sums;
                    let (video, span) = (&self.plan.probe.video, self.chunk.span);
                    let repaired = damage::count(video, span, &seen, [concealed, plain]);
                    return Ok(Encoded { placed, repaired: repaired.max(damaged), cost });
                }
                Err(error) => problem = error.to_string(),
            }
        }
        let first = self.chunk.span.from;
        Err(Failure::retry(format_args!("the chunk at frame {first} was not accepted: {problem}")))
    }

    async fn ffmpeg(
        &self,
        entry: Entry,
        source: &Path,
        folder: &Path,
        cancel: &Cancel,
        progress: &mut (impl FnMut(u64, u64) + Send),
    ) -> Result<Finished, RunError> {
        let span = self.chunk.span;
        let tools = self.studio.tools();
        let mut invocation = tools.ffmpeg(folder, self.order(entry).arguments(source));
        invocation.readable.push(source.to_owned());
        let tell = |step: crate::tools::Step| {
            progress(step.frames.min(span.frames()), span.frames());
        };
        tools.run(invocation, cancel, tell).await
    }

    fn order(&self, entry: Entry) -> Order<'_> {
        let (plan, span, rungs) = (self.plan, self.chunk.span, self.rungs.clone());
        Order { plan, span, rungs, entry, manner: self.manner }
    }

    /// Decodes a damaged chunk in two ways; what that cost. A comparison that fails costs precision only.
    async fn compare(
        &self,
        arguments: Vec<OsString>,
        source: &Path,
        folder: &Path,
        cancel: &Cancel,
    ) -> Outcome<Cost> {
        let tools = self.studio.tools();
        let mut invocation = tools.ffmpeg(folder, arguments);
        invocation.readable.push(source.to_owned());
        match tools.run(invocation, cancel, |_| ()).await {
            Ok(finished) => Ok(Cost::of(&finished)),
            Err(RunError::Cancelled) => Err(Failure::cancelled()),
            Err(RunError::NoRoom { place, .. }) => Err(room::missing(&place)),
            Err(problem) => {
                tracing::debug!(%problem, "which frames of a chunk show faults is not known");
                Ok(Cost::default())
            }
        }
    }

    /// Checks the file of each rung, away from the threads that answer heartbeats.
    async fn place(&self, folder: &Path) -> Outcome<Result<Vec<Placed>, CheckError>> {
        let files = self.rungs.iter().enumerate().map(|(place, rung)| {
            let shape = Shape::of(self.plan, self.chunk.span, rung);
            (folder.join(command::file(place)), media(folder, place), shape)
        });
        let files: Vec<_> = files.collect();
        let work =
            move || files.iter().map(|(from, to, shape)| check::place(from, to, shape)).collect();
        Ok(tokio::task::spawn_blocking(work).await?)
    }

    /// Which frames a tolerant attempt did not make up.
    async fn seen(&self, folder: &Path) -> Vec<bool> {
        let notes = text(folder, SEEN_FILE).await;
        command::seen(&self.plan.probe.video, self.chunk.span, &notes)
    }
}

/// Whether a decoder's complaints are about damage, and not only about references that lie before the place at which
/// the source was entered.
pub(super) fn tells_of_damage(complaints: &str) -> bool {
    let complaints = complaints.to_ascii_lowercase();
    ["error while decoding", "error submitting", "invalid data", "corrupt", "truncat"]
        .iter()
        .any(|words| complaints.contains(words))
}

/// How many frames the decoder of a tolerant attempt complained about, at least: of many complaints only the last are
/// kept.
fn damaged_frames(complaints: &str) -> u64 {
    let is_frame = |line: &&str| {
        line.contains("corrupt decoded frame") || line.contains("while decoding stream")
    };
    let frames = complaints.lines().filter(is_frame).count() as u64;
    let errors = complaints.lines().filter(|line| line.contains("[error]"));
    frames.max(u64::from(errors.into_iter().any(tells_of_damage)))
}

async fn text(folder: &Path, file: &str) -> String {
    tokio::fs::read_to_string(folder.join(file)).await.unwrap_or_default()
}

fn media(folder: &Path, place: usize) -> PathBuf {
    folder.join(format!("media_{place}.m4s"))
}

/// What a failed run means for the task: the worker may be the cause, so another attempt may succeed.
pub(super) fn run_failure(error: RunError) -> Failure {
    match error {
        RunError::Cancelled => Failure::cancelled(),
        RunError::NoRoom { place, .. } => room::missing(&place),
        error => Failure::retry(error),
    }
}

/// How much of the work each rung is, by its pixels, in thousandths.
fn shares(rungs: &[&Rung]) -> Vec<u64> {
    let pixels = |rung: &&Rung| u64::from(rung.width) * u64::from(rung.height);
    let all: u64 = rungs.iter().map(pixels).sum();
    rungs.iter().map(|rung| pixels(rung) * 1_000 / all.max(1)).collect()
}

fn part_of(cost: Cost, thousandths: u64) -> Cost {
    Cost { cpu_ms: cost.cpu_ms * thousandths / 1_000, wall_ms: cost.wall_ms * thousandths / 1_000 }
}
