//! A studio on a temporary folder, with a plan for a clip of the corpus.

use std::path::{Path, PathBuf};
use std::process::Command;

use divvy::objects::{BlobId, Objects};
use divvy_objects::Folder;
use serde_json::Value;

use crate::FrameRate;
use crate::grid::Span;
use crate::keys::Key;
use crate::library::VideoId;
use crate::manifest::Manifest;
use crate::plan::{Chunk, Plan, Rung, Track};
use crate::probe::{AudioStream, Probe, VideoStream};
use crate::recipe::Recipe;
use crate::results::{self, Piece, Sound};
use crate::studio::Studio;
use crate::tasks::corpus;
use crate::tasks::{Audio, Encode, Mux, Package, Verify};
use crate::tools::{ToolOptions, Tools, remembered};
use divvy::prelude::*;

/// What is to be tried.
#[derive(Clone, Debug)]
pub(super) struct Trial {
    pub(super) rate: FrameRate,
    pub(super) segment: u32,
    pub(super) chunk: u64,
    pub(super) rungs: Vec<(u32, u32)>,
    pub(super) preset: &'static str,
    pub(super) change: fn(&mut VideoStream),
}

impl Trial {
    pub(super) fn at(frames: u32, seconds: u32) -> Self {
        Self {
            rate: FrameRate { frames, seconds },
            segment: 15,
            chunk: 45,
            rungs: vec![(320, 180), (160, 90)],
            preset: "ultrafast",
            change: |_| {},
        }
    }
}

pub(super) struct Bench {
    pub(super) folder: tempfile::TempDir,
    pub(super) studio: Studio,
    pub(super) plan: Plan,
    pub(super) id: BlobId,
    pub(super) clip: PathBuf,
}

async fn tools() -> Tools {
    remembered::find(&ToolOptions { allow_unconfined: true, ..ToolOptions::default() }).await
}

impl Bench {
    pub(super) async fn of(clip: &str, trial: &Trial) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let clip = corpus::make(clip);
        Self::with(folder, clip, trial).await
    }

    pub(super) async fn with(folder: tempfile::TempDir, clip: PathBuf, trial: &Trial) -> Self {
        let objects = Objects::in_folder(Folder::open(folder.path().join("objects")).unwrap());
        let scratch = folder.path().join("scratch");
        std::fs::create_dir(&scratch).unwrap();
        let studio = Studio::new(objects.clone(), tools().await, scratch);
        let source = objects.put_file(&clip).await.unwrap();
        let mut probe = probe(&clip, trial.rate, source);
        (trial.change)(&mut probe.video);
        let plan = plan(probe, trial);
        let id = objects.put(serde_json::to_vec(&plan).unwrap()).await.unwrap().id;
        Self { folder, studio, plan, id, clip }
    }

    /// Another plan for the same source.
    pub(super) async fn replan(&mut self, trial: &Trial) {
        self.plan = plan(self.plan.probe.clone(), trial);
        self.store().await;
    }

    pub(super) async fn store(&mut self) {
        let bytes = serde_json::to_vec(&self.plan).unwrap();
        self.id = self.studio.objects().put(bytes).await.unwrap().id;
    }

    pub(super) async fn encode(&self, tolerant: bool) -> Outcome<Vec<super::Made>> {
        let mut all = Vec::new();
        for chunk in 0..self.plan.chunks.len() {
            all.push(self.encode_one(chunk, tolerant).await?);
        }
        Ok(all)
    }

    pub(super) async fn encode_one(&self, chunk: usize, tolerant: bool) -> Outcome<super::Made> {
        let rungs = (0..self.plan.rungs.len() as u32).collect();
        let task = Encode { video: video(), plan: self.id, chunk: chunk as u32, rungs };
        let manner = super::Manner { tolerant, threads: 1 };
        super::encode_chunk(&self.studio, &task, manner, &Cancel::never(), |_, _| {}).await
    }

    pub(super) async fn sound(&self) -> Outcome<()> {
        for track in 0..self.plan.tracks.len() as u32 {
            let task = Audio { video: video(), plan: self.id, track };
            let cancel = Cancel::never();
            crate::tasks::audio::encode_track(&self.studio, &task, false, &cancel, |_, _| {})
                .await?;
        }
        Ok(())
    }

    /// Everything from the first chunk to the manifest, checked.
    pub(super) async fn whole(&self) -> Outcome<Manifest> {
        self.encode(false).await?;
        self.sound().await?;
        let id = self.package().await?;
        self.verify(id).await?;
        Ok(self.manifest(id).await)
    }

    pub(super) async fn package(&self) -> Outcome<BlobId> {
        for rung in 0..self.plan.rungs.len() as u32 {
            let task = Mux { video: video(), plan: self.id, rung };
            crate::tasks::mux::join_rung(&self.studio, &task, &Cancel::never(), |_, _| {}).await?;
        }
        let task = Package { video: video(), plan: self.id };
        crate::tasks::package::write_package(&self.studio, &task, |_| None).await
    }

    pub(super) async fn verify(&self, manifest: BlobId) -> Outcome<BlobId> {
        let (task, cancel) = (Verify { video: video(), plan: self.id }, Cancel::never());
        crate::tasks::verify::verify_package(&self.studio, &task, manifest, &cancel, |_, _| {})
            .await
    }

    pub(super) async fn manifest(&self, id: BlobId) -> Manifest {
        serde_json::from_slice(&self.studio.objects().get(id).await.unwrap()).unwrap()
    }

    pub(super) async fn pieces(&self, rung: usize) -> Vec<Piece> {
        crate::tasks::mux::pieces(&self.studio, &self.plan, rung).await.unwrap()
    }

    pub(super) async fn track(&self, place: usize) -> Sound {
        let key = &self.plan.tracks[place].key;
        let found = results::find(self.studio.objects(), self.plan.probe.source.id, key).await;
        found.unwrap().unwrap()
    }

    /// Writes all files of a manifest into a folder.
    pub(super) async fn export(&self, manifest: &Manifest) -> PathBuf {
        let folder = self.folder.path().join("export");
        for file in &manifest.files {
            let bytes = self.studio.objects().get(file.blob).await.unwrap();
            let path = folder.join(&file.path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            let range = file.offset as usize..(file.offset + file.length) as usize;
            std::fs::write(path, &bytes[range]).unwrap();
        }
        folder
    }
}

pub(super) fn video() -> VideoId {
    VideoId("a1b2c3d4e5f6".to_owned())
}

/// Runs a tool; returns what it printed and what it complained about.
pub(super) fn tool(program: &str, arguments: &str, file: &Path) -> (Vec<u8>, String) {
    let words =
        arguments.split_whitespace().map(|word| word.replace("{}", &file.to_string_lossy()));
    let output = Command::new(program).args(words).output().unwrap();
    let complaints = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{program} {arguments}: {complaints}");
    (output.stdout, complaints)
}

fn plan(probe: Probe, trial: &Trial) -> Plan {
    let source = probe.source.id;
    let (frames, chunk) = (probe.video.frames, trial.chunk);
    let rungs = trial.rungs.iter().map(|&(width, height)| Rung {
        name: format!("{height}p"),
        width,
        height,
        bitrate_max: 2_000_000,
        mp4: Key::of("mp4", source, &(width, height, chunk, trial.preset)),
    });
    let rungs = rungs.collect::<Vec<_>>();
    let spans = (0..frames.div_ceil(chunk))
        .map(|n| Span { from: n * chunk, to: frames.min((n + 1) * chunk) });
    let chunks = spans.map(|span| Chunk {
        span,
        lead_in: 0,
        keys: trial
            .rungs
            .iter()
            .map(|size| Key::of("encode", source, &(span, size, trial.preset)))
            .collect(),
    });
    let chunks = chunks.collect();
    let tracks = probe.audio.iter().map(|stream| Track {
        index: stream.index,
        language: stream.language.clone(),
        name: format!("Track {}", stream.index),
        key: Key::of("audio", source, &stream.index),
    });
    Plan {
        recipe: Recipe { preset: trial.preset.to_owned(), ..Recipe::default() },
        tools: "ffmpeg".to_owned(),
        segment_frames: trial.segment,
        tracks: tracks.collect(),
        rungs,
        chunks,
        frames: None,
        subtitles: None,
        scan: None,
        captions: None,
        probe,
    }
}

/// What there is to know about a clip for encoding it; the rate is given.
fn probe(clip: &Path, rate: FrameRate, source: divvy::objects::Blob) -> Probe {
    let entries = "-v error -show_entries format=format_name:stream=index,codec_type,codec_name,pix_fmt,width,height:\
                   stream_disposition=attached_pic:stream_tags=language:packet=stream_index,pts_time,duration_time,flags \
                   -of json {}";
    let (output, _) = tool("ffprobe", entries, clip);
    let all: Value = serde_json::from_slice(&output).unwrap();
    let streams = all["streams"].as_array().unwrap();
    let picture = |stream: &&Value| {
        stream["codec_type"] == "video" && stream["disposition"]["attached_pic"] == 0
    };
    let stream = streams.iter().find(picture).unwrap();
    let number = |value: &Value| value.as_str().and_then(|text| text.parse::<f64>().ok());
    let packets = all["packets"].as_array().unwrap();
    let packets = packets.iter().filter(|packet| packet["stream_index"] == stream["index"]);
    let timed: Vec<_> =
        packets.filter_map(|packet| Some((number(&packet["pts_time"])?, packet))).collect();
    let start = timed.iter().map(|(at, _)| *at).fold(f64::INFINITY, f64::min);
    let per_second = rate.per_second();
    let end = |(at, packet): &(f64, &Value)| {
        at - start + number(&packet["duration_time"]).unwrap_or(1.0 / per_second)
    };
    let length = timed.iter().map(end).fold(0.0, f64::max);
    let keys =
        timed.iter().filter(|(_, packet)| packet["flags"].as_str().unwrap().starts_with('K'));
    let mut keyframes: Vec<_> =
        keys.map(|(at, _)| ((at - start) * per_second + 0.001) as u64).collect();
    keyframes.sort_unstable();
    keyframes.dedup();
    let text = |value: &Value| value.as_str().unwrap_or("und").to_owned();
    let index = |stream: &Value| stream["index"].as_u64().unwrap() as u32;
    let sound = streams.iter().filter(|stream| stream["codec_type"] == "audio");
    let audio = sound.map(|stream| AudioStream {
        index: index(stream),
        codec: text(&stream["codec_name"]),
        channels: 2,
        language: text(&stream["tags"]["language"]),
        title: None,
    });
    let video = VideoStream {
        index: index(stream),
        codec: text(&stream["codec_name"]),
        width: stream["width"].as_u64().unwrap() as u32,
        height: stream["height"].as_u64().unwrap() as u32,
        pixel_format: text(&stream["pix_fmt"]),
        rate,
        frames: (length * per_second).round() as u64,
        packets: timed.len() as u64,
        start_us: (start * 1e6).round() as i64,
        variable_rate: false,
        interlaced: false,
        hdr: false,
        bt709: false,
        keyframes,
    };
    let (format, audio) = (text(&all["format"]["format_name"]), audio.collect());
    Probe { source, copied_from: None, format, video, audio, subtitles: Vec::new() }
}
