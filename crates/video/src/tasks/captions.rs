//! Subtitles that the source carries as text, as WebVTT: all tracks in one run of ffmpeg, which decodes no picture.
//!
//! Their times are on the source's clock; they are moved to the grid here, and cut to the picture.

use std::ffi::OsString;
use std::path::Path;

use divvy::prelude::*;

use super::frames::{made, run, spent};
use super::{Captions, Made};
use crate::plan::{self, Plan};
use crate::results::{self, Caption};
use crate::studio::{Studio, failure};
use crate::{subtitles, webvtt};

pub(crate) async fn captions(
    task: Captions,
    State(studio): State<Studio>,
    cancel: Cancel,
) -> Outcome<Made> {
    let plan = studio.plan(task.plan).await?;
    carry(&studio, &plan, &cancel).await
}

/// Takes the subtitles of a plan out of its source, unless that was done.
pub(super) async fn carry(studio: &Studio, plan: &Plan, cancel: &Cancel) -> Outcome<Made> {
    let (objects, source) = (studio.objects(), plan.probe.source.id);
    let wanted = plan.captions.as_ref();
    let wanted = wanted.ok_or_else(|| Failure::dead("the source carries no subtitles"))?;
    let found = results::find::<results::Captions>(objects, source, &wanted.key).await;
    if let Some(known) = found.map_err(failure)? {
        return Ok(made(known.tracks.len(), bytes(&known), None));
    }
    let folder = studio.folder()?;
    let file = objects.local_file(source).await.map_err(failure)?;
    let arguments = arguments(file.path(), wanted);
    let finished = run(studio.tools(), folder.path(), file.path(), arguments, cancel).await?;
    let video = &plan.probe.video;
    let length_ms = video.rate.micros(video.frames).div_ceil(1_000);
    let mut tracks = Vec::new();
    for place in 0..wanted.tracks.len() {
        let text = tokio::fs::read(folder.path().join(file_name(place))).await?;
        // A track without a single text is a track all the same.
        let cues = subtitles::parse(&text).unwrap_or_default();
        let cues = subtitles::fitted(cues, video.start_us / 1_000, length_ms);
        let count = u32::try_from(cues.len()).unwrap_or(u32::MAX);
        let text = objects.put(webvtt::file(&cues).into_bytes()).await.map_err(failure)?;
        tracks.push(Caption { subtitles: text, cues: count });
    }
    let cost = spent(&finished);
    let captions = results::Captions { tracks, cost };
    let done = made(captions.tracks.len(), bytes(&captions), Some(cost));
    results::commit(objects, source, &wanted.key, captions).await.map_err(failure)?;
    Ok(done)
}

fn arguments(source: &Path, wanted: &plan::Captions) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = vec!["-copyts".into(), "-i".into(), source.into()];
    for (place, track) in wanted.tracks.iter().enumerate() {
        arguments.extend(["-map".into(), format!("0:{}", track.index).into()]);
        arguments.extend(["-c:s", "webvtt", "-f", "webvtt"].map(OsString::from));
        arguments.push(file_name(place).into());
    }
    arguments
}

fn file_name(place: usize) -> String {
    format!("track_{place}.vtt")
}

fn bytes(captions: &results::Captions) -> u64 {
    captions.tracks.iter().map(|track| track.subtitles.size).sum()
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{ENCODE, Fixture};
    use super::*;
    use crate::keys::Key;
    use crate::plan::CaptionTrack;

    const SRT: &str = "1\n00:00:00,500 --> 00:00:01,200\n<i>Guten Tag</i> & mehr\n\n\
                       2\n00:00:02,000 --> 00:00:09,000\nzum Schluss\n";

    #[tokio::test]
    async fn subtitles_of_every_text_codec_come_out_as_webvtt() {
        let fixture = Fixture::new().await;
        let folder = tempfile::tempdir().unwrap();
        let srt = folder.path().join("in.srt");
        std::fs::write(&srt, SRT).unwrap();
        let picture = ["-f", "lavfi", "-i", "color=navy:s=64x36:r=10:d=3", "-i"];
        let inputs = [&picture[..], &[srt.to_str().unwrap()], &ENCODE].concat();
        for (name, codec) in
            [("a.mp4", "mov_text"), ("a.mkv", "srt"), ("b.mkv", "ass"), ("c.mkv", "webvtt")]
        {
            let arguments = [&inputs[..], &["-map", "0", "-map", "1", "-c:s", codec]].concat();
            let mut plan = fixture.clip(name, &arguments, 30).await;
            let key = Key::of("captions", plan.probe.source.id, &codec);
            let track = CaptionTrack { index: 1, language: "de".into(), name: "German".into() };
            plan.captions = Some(plan::Captions { key: key.clone(), tracks: vec![track] });
            let made = carry(&fixture.studio, &plan, &Cancel::never()).await.unwrap();
            assert_eq!((made.units, made.known), (1, false), "{codec}");
            let objects = fixture.studio.objects();
            let found = results::find::<results::Captions>(objects, plan.probe.source.id, &key);
            let found = found.await.unwrap().unwrap();
            let text = fixture.text(found.tracks[0].subtitles.id).await;
            let expected = "WEBVTT\n\n00:00:00.500 --> 00:00:01.200\nGuten Tag &amp; mehr\n\n\
                            00:00:02.000 --> 00:00:03.000\nzum Schluss\n";
            assert_eq!((text.as_str(), found.tracks[0].cues), (expected, 2), "{codec}");
            assert!(carry(&fixture.studio, &plan, &Cancel::never()).await.unwrap().known);
        }
    }
}
