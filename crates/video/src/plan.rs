//! What is to be done: rungs, chunks and tracks, decided once from probe and recipe, stored as a blob that every task
//! of the video reads.
//!
//! Decides with nothing but its arguments, so that equal ones give equal plans on every machine. Does not know which
//! results are there already.

mod chunks;
mod tracks;

use serde::{Deserialize, Serialize};

use crate::FrameRate;
use crate::grid::Span;
use crate::keys::Key;
use crate::ladder;
use crate::probe::Probe;
use crate::recipe::{Recipe, RecipeError};
use chunks::Length;
pub(crate) use tracks::{language_name, three_letters};

/// Chunks are about so long …
const CHUNK_MS: u32 = 20_000;
/// … and a video shorter than this is one.
const ALONE_MS: u32 = 40_000;

/// Each goes up when the same task would make something else, so that old results are not taken for new ones.
mod revision {
    pub(super) const ENCODE: u32 = 2;
    pub(super) const AUDIO: u32 = 1;
    pub(super) const MP4: u32 = 2;
    pub(super) const FRAMES: u32 = 2;
    pub(super) const SUBTITLES: u32 = 1;
    pub(super) const CAPTIONS: u32 = 1;
    pub(super) const SCAN: u32 = 1;
}

/// All decisions about one video.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// What is there.
    pub probe: Probe,
    /// What is wanted.
    pub recipe: Recipe,
    /// The build of ffmpeg that all chunks are encoded with, as workers offer it: `ffmpeg=…`.
    pub tools: String,
    /// The renditions, largest first.
    pub rungs: Vec<Rung>,
    /// Frames of a segment: the distance of key frames.
    pub segment_frames: u32,
    /// The pieces, in order; each begins at a multiple of `segment_frames`.
    pub chunks: Vec<Chunk>,
    /// The sound tracks.
    pub tracks: Vec<Track>,
    /// Where the thumbnails' result is, if any are wanted.
    pub frames: Option<Key>,
    /// Where the subtitles' result is, if any are wanted, there is sound, and somebody to listen.
    pub subtitles: Option<Key>,
    /// Where the scan's result is, if one is wanted and there is somebody to look.
    pub scan: Option<Key>,
    /// The subtitles that the source carries as text, if it does.
    #[serde(default)]
    pub captions: Option<Captions>,
}

/// Who does what ffmpeg does not: name and version, such as `whisper tiny.en 1.2.1`; nothing if there is nobody.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Providers {
    /// Who recognises speech.
    pub speech: Option<String>,
    /// Who scans frames.
    pub scanner: Option<String>,
}

/// One rendition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rung {
    /// Its name, such as `720p`.
    pub name: String,
    /// Width in pixels, even.
    pub width: u32,
    /// Height in pixels, even.
    pub height: u32,
    /// The cap on bits per second.
    pub bitrate_max: u32,
    /// Where the result of its MP4 file is.
    pub mp4: Key,
}

/// One piece of the video.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chunk {
    /// Its frames.
    pub span: Span,
    /// Frames that must be decoded before the first one, because the source has no key frame there.
    pub lead_in: u64,
    /// Where the result of each rung is, in the order of the rungs.
    pub keys: Vec<Key>,
}

/// One sound track.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Track {
    /// The number of its stream in the source.
    pub index: u32,
    /// Its language.
    pub language: String,
    /// What a player calls it.
    pub name: String,
    /// Where its result is.
    pub key: Key,
}

/// Subtitles that the source carries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Captions {
    /// Where their result is.
    pub key: Key,
    /// One entry per track; at least one.
    pub tracks: Vec<CaptionTrack>,
}

/// One track of subtitles that the source carries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaptionTrack {
    /// The number of its stream in the source.
    pub index: u32,
    /// Its language.
    pub language: String,
    /// What a player calls it.
    pub name: String,
}

impl Plan {
    /// Decides everything about a video.
    ///
    /// # Errors
    /// If the recipe is not valid.
    pub fn new(
        probe: Probe,
        recipe: &Recipe,
        tools: &str,
        providers: &Providers,
    ) -> Result<Self, RecipeError> {
        let recipe = recipe.canonical()?;
        let segment_frames = probe.video.rate.frames_in_ms(recipe.segment_ms);
        let keys = Keys { probe: &probe, recipe: &recipe, tools, segment_frames };
        let video = &probe.video;
        let sizes = ladder::sizes(video.width, video.height, video.rate, &recipe.ladder);
        let chunks: Vec<Chunk> = cuts(&probe, &recipe, segment_frames)
            .into_iter()
            .map(|chunks::Cut { span, lead_in }| {
                let keys = sizes.iter().map(|size| keys.encode(span, size)).collect();
                Chunk { span, lead_in, keys }
            })
            .collect();
        let tagged = probe.audio.iter().map(|it| (it.language.as_str(), it.title.as_deref()));
        let named = tracks::names(tagged, "Sound");
        let tracks: Vec<Track> = probe
            .audio
            .iter()
            .zip(named)
            .map(|(stream, (language, name))| {
                let key = keys.audio(stream.index);
                Track { index: stream.index, language, name, key }
            })
            .collect();
        let rung = |(place, size): (usize, ladder::Size)| {
            let mp4 = keys.mp4(&chunks, place, &tracks);
            let ladder::Size { name, width, height, bitrate_max } = size;
            Rung { name, width, height, bitrate_max, mp4 }
        };
        let rungs = sizes.into_iter().enumerate().map(rung).collect();
        let frames = (recipe.thumbnails_ms > 0).then(|| keys.frames());
        let scan = frames.as_ref().filter(|_| recipe.scan);
        let scan = scan.zip(providers.scanner.as_deref());
        let scan = scan.map(|(frames, provider)| keys.scan(frames, provider));
        let subtitles = recipe.subtitles.as_deref().and_then(|language| {
            let (track, provider) =
                speech_track(&tracks, language).zip(providers.speech.as_deref())?;
            Some(keys.subtitles(track.index, language, provider))
        });
        let captions = captions(&probe, &keys);
        let tools = tools.to_owned();
        Ok(Self {
            probe,
            recipe,
            tools,
            rungs,
            segment_frames,
            chunks,
            tracks,
            frames,
            subtitles,
            scan,
            captions,
        })
    }

    /// The track that is transcribed, if subtitles are wanted: the first in their language, or else the first.
    pub fn speech_track(&self) -> Option<&Track> {
        speech_track(&self.tracks, self.recipe.subtitles.as_deref()?)
    }
}

fn speech_track<'a>(tracks: &'a [Track], language: &str) -> Option<&'a Track> {
    let base = |code: &str| code.split('-').next().map(str::to_owned);
    tracks.iter().find(|track| base(&track.language) == base(language)).or_else(|| tracks.first())
}

fn captions(probe: &Probe, keys: &Keys<'_>) -> Option<Captions> {
    let texts = || probe.subtitles.iter().filter(|stream| stream.is_text());
    let tagged = texts().map(|it| (it.language.as_str(), it.title.as_deref()));
    let named = tracks::names(tagged, "Subtitles");
    let tracks = texts().zip(named);
    let tracks: Vec<CaptionTrack> = tracks
        .map(|(stream, (language, name))| CaptionTrack { index: stream.index, language, name })
        .collect();
    (!tracks.is_empty()).then(|| Captions { key: keys.captions(), tracks })
}

fn cuts(probe: &Probe, recipe: &Recipe, segment_frames: u32) -> Vec<chunks::Cut> {
    let video = &probe.video;
    let in_ms = |ms| u64::from(video.rate.frames_in_ms(ms));
    let length = match recipe.chunk_ms {
        Some(given) => Length::Given(in_ms(given)),
        None => Length::About { target: in_ms(CHUNK_MS), alone: in_ms(ALONE_MS) },
    };
    chunks::cut(video.frames, u64::from(segment_frames), length, &video.keyframes)
}

/// Makes the keys of a plan. Each is made of everything that matters to its result, and of nothing else: two plans
/// share what they have in common.
struct Keys<'a> {
    probe: &'a Probe,
    recipe: &'a Recipe,
    tools: &'a str,
    segment_frames: u32,
}

/// What everything that is made from the picture depends on.
#[derive(Serialize)]
struct Picture {
    index: u32,
    rate: FrameRate,
    start_us: i64,
    variable_rate: bool,
    deinterlaced: bool,
    tone_mapped: bool,
}

impl Keys<'_> {
    fn of(&self, kind: &str, parts: &impl Serialize) -> Key {
        Key::of(kind, self.probe.source.id, &(self.tools, parts))
    }

    fn picture(&self) -> Picture {
        let video = &self.probe.video;
        Picture {
            index: video.index,
            rate: video.rate,
            start_us: video.start_us,
            variable_rate: video.variable_rate,
            deinterlaced: video.interlaced,
            tone_mapped: video.hdr,
        }
    }

    fn encode(&self, span: Span, size: &ladder::Size) -> Key {
        let Recipe { preset, crf, .. } = self.recipe;
        let size = (size.width, size.height, size.bitrate_max);
        let parts =
            (revision::ENCODE, self.picture(), span, size, self.segment_frames, preset, crf);
        self.of("encode", &parts)
    }

    fn audio(&self, index: u32) -> Key {
        let bitrate = self.recipe.audio_bitrate;
        self.of("audio", &(revision::AUDIO, index, self.length(), self.segment_frames, bitrate))
    }

    /// What the length of the picture depends on, to which sound is padded or trimmed.
    fn length(&self) -> (i64, FrameRate, u64) {
        let video = &self.probe.video;
        (video.start_us, video.rate, video.frames)
    }

    fn mp4(&self, chunks: &[Chunk], rung: usize, tracks: &[Track]) -> Key {
        let chunks: Vec<&Key> = chunks.iter().map(|chunk| &chunk.keys[rung]).collect();
        self.of("mp4", &(revision::MP4, chunks, tracks))
    }

    fn frames(&self) -> Key {
        let video = &self.probe.video;
        let size = (video.width, video.height);
        let distance = self.recipe.thumbnails_ms;
        self.of("frames", &(revision::FRAMES, self.picture(), video.frames, size, distance))
    }

    fn subtitles(&self, index: u32, language: &str, provider: &str) -> Key {
        let parts = (revision::SUBTITLES, index, self.length(), language, provider);
        self.of("subtitles", &parts)
    }

    fn captions(&self) -> Key {
        let texts = self.probe.subtitles.iter().filter(|stream| stream.is_text());
        let streams: Vec<u32> = texts.map(|stream| stream.index).collect();
        self.of("captions", &(revision::CAPTIONS, streams, self.length()))
    }

    /// The threshold is not in it: scores are recorded, and judged later.
    fn scan(&self, frames: &Key, provider: &str) -> Key {
        self.of("scan", &(revision::SCAN, frames, provider))
    }
}

#[cfg(test)]
mod tests;
