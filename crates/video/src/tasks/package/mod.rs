//! Writes playlists and the manifest: which files a video has, and where the bytes of each are.
//!
//! Segments are parts of the blobs that were stored with the chunks, so nothing large is written or read here. What
//! failed beside the picture and the sound is noted with its reason; a part that nobody made is never called done.

mod files;
mod texts;

use std::time::Instant;

use divvy::objects::BlobId;
use divvy::prelude::*;
use divvy::types::TaskState;
use serde::de::DeserializeOwned;

use super::mux::{pieces, sounds};
use super::{Frames, Package, ScanFrames, SpriteSheet, Written};
use crate::fmp4::Movie;
use crate::hls::{self, Alternative, MediaList, Segment, Variant};
use crate::keys::Key;
use crate::manifest::{Manifest, Part, Rendition, TrackEntry};
use crate::plan::Plan;
use crate::results::{self, Fragment, Joined, Piece, Scan, Sound, Sprite};
use crate::studio::{Studio, failure};
use files::Files;

/// Characters of the words of a task that failed.
const REASON_CHARS_MAX: usize = 600;

/// Packages a video.
pub(crate) async fn package(
    task: Package,
    State(studio): State<Studio>,
    parents: Parents,
    attempt: Attempt,
) -> Outcome<Written> {
    let began = Instant::now();
    let is_bad = |parent: &&divvy::types::view::Upstream| parent.state != TaskState::Done;
    let failed = match (studio.client(), attempt.workflow) {
        (Some(client), Some(workflow)) if parents.0.iter().any(|parent| is_bad(&parent)) => {
            // The reason is worth a question, but not the video.
            client.workflow(workflow).await.map(|view| view.failed).unwrap_or_default()
        }
        _ => Vec::new(),
    };
    let ended = |kind: &str| {
        let dead = failed.iter().find(|task| task.kind == *kind && task.state == TaskState::Dead);
        if let Some(error) = dead.and_then(|task| task.error.as_ref()) {
            return Some(shortened(&error.message));
        }
        let bad = parents.0.iter().filter(is_bad).find(|parent| parent.kind == *kind);
        bad.map(|parent| {
            let (task, state) = (parent.task, parent.state);
            format!("the task {task} of kind {kind} ended as {state}")
        })
    };
    Ok(Written::since(began, write_package(&studio, &task, ended).await?))
}

/// The same without an attempt around it; `ended` tells how a task of a kind ended, if not well.
pub(crate) async fn write_package(
    studio: &Studio,
    task: &Package,
    ended: impl Fn(&str) -> Option<String>,
) -> Outcome<BlobId> {
    let plan = studio.plan(task.plan).await?;
    let mut book = Book { studio, plan: &plan, files: Files::default(), made: Tally::default() };
    let sounds = book.sounds().await?;
    let (variants, renditions) = book.renditions(&sounds).await?;
    let thumbnails = book.pictures(&ended).await?;
    let texts = book.texts(&ended).await?;
    let (scan, findings) = book.scan(&ended).await?;
    let alternatives: Vec<_> = sounds.iter().map(|sound| sound.alternative.clone()).collect();
    let master = hls::master(&variants, &alternatives, &texts.lists);
    book.text("master.m3u8", master).await?;
    let needs_review = findings.as_ref().is_some_and(|findings: &Scan| {
        findings.scores.iter().any(|score| score.score >= plan.recipe.flag_at)
    });
    let Book { files, made, .. } = book;
    let video = &plan.probe.video;
    let manifest = Manifest {
        frames: video.frames,
        duration_ms: video.rate.micros(video.frames) / 1_000,
        tools: plan.tools.clone(),
        renditions,
        tracks: sounds.into_iter().map(|sound| sound.entry).collect(),
        subtitles: texts.heard,
        captions: texts.carried,
        thumbnails,
        texts: texts.entries,
        scan,
        findings,
        needs_review,
        repaired: made.repaired,
        repaired_tracks: made.repaired_tracks,
        notes: texts::lost(&plan.probe.subtitles),
        files: files.into_entries()?,
        cost: made.cost,
        probe: plan.probe.clone(),
        recipe: plan.recipe.clone(),
    };
    let bytes = serde_json::to_vec_pretty(&manifest)?;
    Ok(studio.objects().put(bytes).await.map_err(failure)?.id)
}

/// What was made for a video, summed up.
#[derive(Default)]
struct Tally {
    cost: results::Cost,
    repaired: u64,
    repaired_tracks: u64,
}

/// A video's files while they are collected.
struct Book<'a> {
    studio: &'a Studio,
    plan: &'a Plan,
    files: Files,
    made: Tally,
}

/// A sound track that is packaged.
struct Packaged {
    alternative: Alternative,
    entry: TrackEntry,
    codec: String,
    bits: hls::Bits,
}

impl Book<'_> {
    async fn sounds(&mut self) -> Outcome<Vec<Packaged>> {
        let mut all = Vec::new();
        let sounds = sounds(self.studio, self.plan).await?;
        for (place, (sound, track)) in sounds.into_iter().zip(&self.plan.tracks).enumerate() {
            self.made.cost = self.made.cost + sound.cost;
            self.made.repaired_tracks += sound.repaired;
            let Sound { init, media, fragments, sample_rate, samples, codec, .. } = sound;
            let folder = format!("a/{place}_{}", file_name(&track.language));
            self.files.blob(&format!("{folder}/init.mp4"), init);
            let list = self.segments(&folder, &[(media.id, fragments)], sample_rate, 1);
            self.text(&format!("{folder}/index.m3u8"), list.text()).await?;
            let (language, name) = (track.language.clone(), track.name.clone());
            let uri = format!("{folder}/index.m3u8");
            all.push(Packaged {
                alternative: Alternative { uri, name: name.clone(), language: language.clone() },
                entry: TrackEntry { language, name, samples, sample_rate },
                codec,
                bits: list.bits(),
            });
        }
        Ok(all)
    }

    async fn renditions(&mut self, sounds: &[Packaged]) -> Outcome<(Vec<Variant>, Vec<Rendition>)> {
        let (plan, rate) = (self.plan, self.plan.probe.video.rate);
        let (mut variants, mut renditions) = (Vec::new(), Vec::new());
        // A player fetches one sound track beside the picture: the dearest one counts.
        let sound = sounds.iter().map(|sound| sound.bits).max_by_key(|bits| bits.peak);
        let sound = sound.unwrap_or_default();
        let mut repaired = vec![0; plan.chunks.len()];
        for (place, rung) in plan.rungs.iter().enumerate() {
            let pieces = pieces(self.studio, plan, place).await?;
            self.made.cost = self.made.cost + pieces.iter().map(|piece| piece.cost).sum();
            for (most, piece) in repaired.iter_mut().zip(&pieces) {
                *most = piece.repaired.max(*most);
            }
            let folder = format!("v/{}", file_name(&rung.name));
            self.files.blob(&format!("{folder}/init.mp4"), pieces[0].init);
            let codec = self.codec(pieces[0].init.id).await?;
            let media: Vec<_> = pieces
                .into_iter()
                .map(|Piece { media, fragments, .. }| (media.id, fragments))
                .collect();
            let list = self.segments(&folder, &media, rate.timescale(), rate.frame_ticks());
            let uri = format!("{folder}/index.m3u8");
            self.text(&uri, list.text()).await?;
            let joined: Joined = self.needed(&rung.mp4, &rung.name).await?;
            self.made.cost = self.made.cost + joined.cost;
            self.files.blob(&format!("mp4/{}.mp4", file_name(&rung.name)), joined.file);
            let own = list.bits();
            let bits = hls::Bits { peak: own.peak + sound.peak, mean: own.mean + sound.mean };
            let mut codecs = vec![codec];
            codecs.extend(sounds.first().map(|sound| sound.codec.clone()));
            variants.push(Variant { uri, size: (rung.width, rung.height), rate, codecs, bits });
            renditions.push(Rendition {
                name: rung.name.clone(),
                width: rung.width,
                height: rung.height,
                frames: media.iter().flat_map(|part| &part.1).map(|part| part.samples).sum(),
                bitrate: own.mean,
                bytes: media.iter().flat_map(|part| &part.1).map(|part| part.length).sum(),
            });
        }
        self.made.repaired += repaired.iter().sum::<u64>();
        Ok((variants, renditions))
    }

    /// Thumbnails and poster.
    async fn pictures(&mut self, ended: &impl Fn(&str) -> Option<String>) -> Outcome<Part> {
        let Some((frames, key)) = self.plan.frames.as_ref().zip(super::sprite::key(self.plan))
        else {
            return Ok(Part::default());
        };
        if let Some(stills) = self.optional::<results::Stills>(frames).await? {
            self.made.cost = self.made.cost + stills.cost;
        }
        let Some(sprite) = self.optional::<Sprite>(&key).await? else {
            return Ok(failed(ended(Frames::KIND).or_else(|| ended(SpriteSheet::KIND))));
        };
        for (number, sheet) in sprite.sheets.iter().enumerate() {
            self.files.blob(&format!("thumbs/sprite_{number:03}.jpg"), *sheet);
        }
        self.files.blob("thumbs/thumbs.vtt", sprite.index);
        self.files.blob("poster.jpg", sprite.poster);
        self.made.cost = self.made.cost + sprite.cost;
        Ok(Part::Done { provider: "ffmpeg".to_owned() })
    }

    async fn scan(
        &mut self,
        ended: &impl Fn(&str) -> Option<String>,
    ) -> Outcome<(Part, Option<Scan>)> {
        let Some(key) = &self.plan.scan else {
            let reason = match (self.plan.recipe.scan, self.plan.frames.is_some()) {
                (false, _) => "not asked for",
                (true, false) => "there are no thumbnails to scan",
                (true, true) => "no provider is switched on; start workers with --scanner NAME",
            };
            return Ok((Part::Skipped { reason: reason.to_owned() }, None));
        };
        match self.optional::<Scan>(key).await? {
            Some(scan) => {
                self.made.cost = self.made.cost + scan.cost;
                Ok((Part::Done { provider: scan.provider.clone() }, Some(scan)))
            }
            None => {
                let reason = ended(Frames::KIND).or_else(|| ended(ScanFrames::KIND));
                Ok((failed(reason), None))
            }
        }
    }

    /// Adds the segments of parts that follow each other, and returns their list.
    fn segments(
        &mut self,
        folder: &str,
        parts: &[(BlobId, Vec<Fragment>)],
        timescale: u32,
        ticks: u32,
    ) -> MediaList {
        let mut segments = Vec::new();
        for (blob, fragments) in parts {
            for fragment in fragments {
                let uri = format!("seg_{:05}.m4s", segments.len());
                self.files.part(&format!("{folder}/{uri}"), *blob, fragment);
                let length = fragment.samples * u64::from(ticks);
                segments.push(Segment { uri, length, bytes: fragment.length });
            }
        }
        MediaList { timescale, init: Some("init.mp4".to_owned()), segments }
    }

    /// Stores a text as a file.
    async fn text(&mut self, path: &str, text: String) -> Outcome<()> {
        let blob = self.studio.objects().put(text.into_bytes()).await.map_err(failure)?;
        self.files.blob(path, blob);
        Ok(())
    }

    /// The codec that the beginning of a file names.
    async fn codec(&self, init: BlobId) -> Outcome<String> {
        let bytes = self.studio.objects().get(init).await.map_err(failure)?;
        Ok(Movie::read(&mut std::io::Cursor::new(bytes))?.init.codec.name())
    }

    async fn optional<T: DeserializeOwned>(&self, key: &Key) -> Outcome<Option<T>> {
        let source = self.plan.probe.source.id;
        results::find(self.studio.objects(), source, key).await.map_err(failure)
    }

    async fn needed<T: DeserializeOwned>(&self, key: &Key, what: &str) -> Outcome<T> {
        let found = self.optional(key).await?;
        found.ok_or_else(|| Failure::retry(format_args!("{what} has no result yet")))
    }
}

fn failed(reason: Option<String>) -> Part {
    Part::Failed { reason: reason.unwrap_or_else(|| "it has no result".to_owned()) }
}

/// Words on one line; of long ones the beginning, which says what failed, and the end, where programs say why.
fn shortened(words: &str) -> String {
    let line = words.split_whitespace().collect::<Vec<_>>().join(" ");
    let count = line.chars().count();
    if count <= REASON_CHARS_MAX {
        return line;
    }
    let head = REASON_CHARS_MAX / 3;
    let end = line.chars().skip(count - (REASON_CHARS_MAX - head));
    line.chars().take(head).chain(" … ".chars()).chain(end).collect()
}

/// A name that is safe in a path and in an address.
fn file_name(name: &str) -> String {
    let is_safe = |c: &char| c.is_ascii_alphanumeric() || *c == '-';
    let safe: String = name.chars().filter(is_safe).take(32).collect();
    if safe.is_empty() { "und".to_owned() } else { safe }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_words_keep_their_beginning_and_their_end_on_one_line() {
        assert_eq!(shortened("it fell:\n  over \t itself\n"), "it fell: over itself");
        let long = format!("python ended with exit code 1: {}\nMemoryError", "x ".repeat(4_000));
        let short = shortened(&long);
        assert_eq!(short.chars().count(), REASON_CHARS_MAX + 3);
        assert!(short.starts_with("python ended with") && short.ends_with("x MemoryError"));
    }
}
