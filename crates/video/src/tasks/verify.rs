//! Checks the whole before anyone sees it: that every file is there, that all renditions have all frames, that sound
//! and picture are equally long, and that what is at the beginning and the end really decodes.
//!
//! A video that does not pass is dead: the same results would come together in the same way again.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Instant;

use divvy::objects::{Blob, BlobId};
use divvy::prelude::*;
use tokio::io::{AsyncReadExt, AsyncSeekExt, AsyncWriteExt};

use super::encode::run_failure;
use super::{Package, Verify, Written};
use crate::manifest::{FileEntry, Manifest};
use crate::plan::Plan;
use crate::studio::{Studio, failure};

/// Blobs up to this size are read again and hashed.
const HASHED_BYTES_MAX: u64 = 4 << 20;

/// Checks a video.
pub(crate) async fn verify(
    task: Verify,
    State(studio): State<Studio>,
    cancel: Cancel,
    progress: Progress,
    Upstream(written): Upstream<Package>,
) -> Outcome<Written> {
    let began = Instant::now();
    let tell = |done, total| progress.set(done, total);
    let checked = verify_package(&studio, &task, written.manifest, &cancel, tell).await?;
    Ok(Written::since(began, checked))
}

/// The same without an attempt around it.
pub(crate) async fn verify_package(
    studio: &Studio,
    task: &Verify,
    id: BlobId,
    cancel: &Cancel,
    mut progress: impl FnMut(u64, u64) + Send,
) -> Outcome<BlobId> {
    let plan = studio.plan(task.plan).await?;
    let bytes = studio.objects().get(id).await.map_err(failure)?;
    let manifest: Manifest = serde_json::from_slice(&bytes)
        .map_err(|error| Failure::dead(format_args!("manifest {id} cannot be read: {error}")))?;
    let files = manifest.files.iter().map(|file| (file.path.as_str(), file)).collect();
    let check = Check { studio, plan: &plan, manifest: &manifest, files, cancel };
    check.blobs().await?;
    check.totals()?;
    check.playlists().await?;
    let total = manifest.renditions.len() as u64;
    for (done, rendition) in (1..).zip(&manifest.renditions) {
        check.mp4(&rendition.name).await?;
        check.ends(&rendition.name).await?;
        progress(done, total);
    }
    Ok(id)
}

struct Check<'a> {
    studio: &'a Studio,
    plan: &'a Plan,
    manifest: &'a Manifest,
    files: BTreeMap<&'a str, &'a FileEntry>,
    cancel: &'a Cancel,
}

/// The outcome of a check that was not passed.
fn wrong(problem: impl std::fmt::Display) -> Failure {
    Failure::dead(format_args!("the finished video is not right: {problem}"))
}

impl Check<'_> {
    /// Every file is inside of a blob that is there; small blobs still are what their names say.
    async fn blobs(&self) -> Outcome<()> {
        if self.files.len() != self.manifest.files.len() {
            return Err(wrong("two files have one name"));
        }
        let mut ends = BTreeMap::<BlobId, (u64, &str)>::new();
        for file in &self.manifest.files {
            let end = file.offset.saturating_add(file.length);
            let last = ends.entry(file.blob).or_insert((end, &file.path));
            *last = (*last).max((end, &file.path));
        }
        for (id, (end, path)) in ends {
            self.cancel.check()?;
            match self.studio.objects().blob(id).await.map_err(failure)? {
                Some(Blob { size, .. }) if size >= end => {
                    if size <= HASHED_BYTES_MAX {
                        let bytes = self.studio.objects().get(id).await.map_err(failure)?;
                        if BlobId::of(&bytes) != id {
                            return Err(wrong(format_args!(
                                "{path} was damaged where it is stored"
                            )));
                        }
                    }
                }
                Some(Blob { size, .. }) => {
                    return Err(wrong(format_args!(
                        "{path} needs {end} bytes, but {size} are stored"
                    )));
                }
                None => return Err(wrong(format_args!("{path} is not stored any more"))),
            }
        }
        Ok(())
    }

    /// All renditions have the frames of the source's grid, and all sound is as long as the picture.
    fn totals(&self) -> Outcome<()> {
        let video = &self.plan.probe.video;
        for rendition in &self.manifest.renditions {
            if rendition.frames != video.frames {
                let (name, found, expected) = (&rendition.name, rendition.frames, video.frames);
                return Err(wrong(format_args!("{name} has {found} frames, expected {expected}")));
            }
        }
        let picture_us = video.rate.micros(video.frames);
        for track in &self.manifest.tracks {
            let micros =
                u128::from(track.samples) * 1_000_000 / u128::from(track.sample_rate.max(1));
            self.near(picture_us, u64::try_from(micros).unwrap_or(u64::MAX), &track.name)?;
        }
        Ok(())
    }

    /// All that playlists name is there, and segments are as long as the picture together.
    async fn playlists(&self) -> Outcome<()> {
        let video = &self.plan.probe.video;
        let mut listed = BTreeSet::new();
        for (&path, file) in self.files.iter().filter(|(path, _)| path.ends_with(".m3u8")) {
            let text = self.studio.objects().get(file.blob).await.map_err(failure)?;
            let text =
                String::from_utf8(text).map_err(|_| wrong(format_args!("{path} is no text")))?;
            let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
            let mut micros = 0;
            for line in text.lines() {
                if let Some(length) = line.strip_prefix("#EXTINF:") {
                    let length = length.trim_end_matches(',').replace('.', "");
                    micros += length.parse::<u64>().unwrap_or(0);
                }
                for uri in uris(line) {
                    let target =
                        if folder.is_empty() { uri.to_owned() } else { format!("{folder}/{uri}") };
                    if !self.files.contains_key(target.as_str()) {
                        return Err(wrong(format_args!(
                            "{path} names {target}, which is not there"
                        )));
                    }
                    listed.insert(target);
                }
            }
            if text.contains("#EXTINF:") {
                self.near(video.rate.micros(video.frames), micros, path)?;
            }
        }
        let segments = self.files.keys().filter(|path| path.ends_with(".m4s"));
        match segments.clone().find(|path| !listed.contains(**path)) {
            Some(path) => Err(wrong(format_args!("no playlist names {path}"))),
            None => Ok(()),
        }
    }

    /// The MP4 file has all frames and is as long as it says.
    async fn mp4(&self, rung: &str) -> Outcome<()> {
        let path = format!("mp4/{rung}.mp4");
        let file = self.file(&path)?;
        let local = self.studio.objects().local_file(file.blob).await.map_err(failure)?;
        let folder = self.studio.folder()?;
        let tools = self.studio.tools();
        let words =
            "-count_packets -show_entries stream=codec_type,nb_read_packets,duration -of json -i";
        let mut arguments: Vec<_> = words.split_whitespace().map(Into::into).collect();
        arguments.push(local.path().into());
        let mut invocation = tools.ffprobe(folder.path(), arguments);
        invocation.readable.push(local.path().to_owned());
        let finished = tools.run(invocation, self.cancel, |_| {}).await.map_err(run_failure)?;
        let Probed { streams } = serde_json::from_slice(&finished.output).map_err(|error| {
            Failure::retry(format_args!("ffprobe said nothing of use: {error}"))
        })?;
        let video = &self.plan.probe.video;
        if streams.len() != 1 + self.plan.tracks.len() {
            let (found, expected) = (streams.len(), 1 + self.plan.tracks.len());
            return Err(wrong(format_args!("{path} has {found} streams, expected {expected}")));
        }
        for stream in streams {
            let packets = stream.nb_read_packets.parse::<u64>().unwrap_or(0);
            if stream.codec_type == "video" && packets != video.frames {
                let expected = video.frames;
                return Err(wrong(format_args!(
                    "{path} has {packets} frames, expected {expected}"
                )));
            }
            let micros = stream.duration.parse::<f64>().unwrap_or(0.0) * 1e6;
            let what = format!("the {} of {path}", stream.codec_type);
            self.near(video.rate.micros(video.frames), micros.round() as u64, &what)?;
        }
        Ok(())
    }

    /// The first and the last segment of a rung decode without complaint, each by itself.
    async fn ends(&self, rung: &str) -> Outcome<()> {
        let folder = format!("v/{rung}/");
        let init = self.file(&format!("{folder}init.mp4"))?;
        let mut segments: Vec<_> = self
            .files
            .range(folder.as_str()..)
            .take_while(|(path, _)| path.starts_with(&folder))
            .filter(|(path, _)| path.ends_with(".m4s"))
            .map(|(_, file)| *file)
            .collect();
        // The middle is left to the checks of each chunk.
        if segments.len() > 2 {
            segments.drain(1..segments.len() - 1);
        }
        for segment in segments {
            let scratch = self.studio.folder()?;
            let path = scratch.path().join("segment.mp4");
            self.write(&[init, segment], &path).await?;
            let tools = self.studio.tools();
            let words = "-xerror -threads 1 -i segment.mp4 -map 0:v:0 -f null -";
            let arguments = words.split_whitespace().map(Into::into).collect();
            let invocation = tools.ffmpeg(scratch.path(), arguments);
            let finished = tools.run(invocation, self.cancel, |_| {}).await.map_err(run_failure)?;
            if !finished.complaints.trim().is_empty() {
                let (path, complaints) = (&segment.path, finished.complaints.trim());
                return Err(wrong(format_args!("{path} does not decode: {complaints}")));
            }
        }
        Ok(())
    }

    async fn write(&self, parts: &[&FileEntry], to: &Path) -> Outcome<()> {
        let mut out = tokio::fs::File::create(to).await?;
        for part in parts {
            let local = self.studio.objects().local_file(part.blob).await.map_err(failure)?;
            let mut from = tokio::fs::File::open(local.path()).await?;
            from.seek(std::io::SeekFrom::Start(part.offset)).await?;
            tokio::io::copy(&mut from.take(part.length), &mut out).await?;
        }
        out.flush().await?;
        Ok(())
    }

    fn file(&self, path: &str) -> Outcome<&FileEntry> {
        self.files.get(path).copied().ok_or_else(|| wrong(format_args!("{path} is missing")))
    }

    /// Lengths may differ by less than one frame.
    fn near(&self, expected_us: u64, found_us: u64, what: &str) -> Outcome<()> {
        if expected_us.abs_diff(found_us) <= self.plan.probe.video.rate.micros(1) {
            return Ok(());
        }
        let (expected, found) = (expected_us as f64 / 1e6, found_us as f64 / 1e6);
        Err(wrong(format_args!("{what} is {found:.3} s long, the picture {expected:.3} s")))
    }
}

/// What ffprobe says.
#[derive(Debug, Deserialize)]
struct Probed {
    streams: Vec<ProbedStream>,
}

#[derive(Debug, Deserialize)]
struct ProbedStream {
    codec_type: String,
    #[serde(default)]
    nb_read_packets: String,
    #[serde(default)]
    duration: String,
}

/// The addresses in a line of a playlist.
fn uris(line: &str) -> Vec<&str> {
    if line.is_empty() {
        return Vec::new();
    }
    if !line.starts_with('#') {
        return vec![line];
    }
    let uri = line.split_once("URI=\"").and_then(|(_, rest)| rest.split_once('"'));
    uri.map(|(uri, _)| uri).into_iter().collect()
}
