//! The sample of `divvy up --sample`: a video from end to end. A clip is made here, unless a file is given, and takes the
//! same way as any other.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::library::{Added, NewVideo, VideoState, VideoView};
use crate::manifest::Manifest;
use crate::sample::{self, Clip, Voice};
use crate::tools::provider::Choice;
use crate::{Recipe, library::VideoId};
use anyhow::Result;
use divvy::Client;
use divvy::objects::{Objects, Reach};
use serde_json::json;

use crate::command::add::{self, Source};
use crate::command::local::sample_failure;
use crate::command::objects::default_cache;
use crate::command::{bars, player, show};
use crate::workload::choice::VideoChoice;
use divvy_workload::Context;
use divvy_workload::console::exit::{Code, Failure};
use divvy_workload::console::output::words;

/// Seconds of the clip: the speech is as long.
const SECONDS: u32 = 60;
/// Lines of the subtitles that are shown.
const CUES_SHOWN: usize = 4;
/// Subtitles longer than this are not shown.
const SUBTITLES_BYTES_MAX: usize = 1 << 20;

/// What the sample needs to know.
pub(crate) struct Sample<'a> {
    /// The server.
    pub(crate) client: &'a Client,
    /// How to speak.
    pub(crate) context: &'a Context,
    /// What the workers have.
    pub(crate) video: &'a VideoChoice,
    /// The data folder, where the clip is kept.
    pub(crate) data: &'a Path,
    /// The file to take instead of the clip.
    pub(crate) file: Option<&'a Path>,
}

impl Sample<'_> {
    /// Adds the video, shows how it is made, and prints what came out.
    pub(crate) async fn run(&self) -> Result<()> {
        let (api, output) = (self.client.api(), &self.context.output);
        let source = self.source().await?;
        let started = Instant::now();
        let recipe = Recipe {
            subtitles: (self.video.speech != Choice::Nobody).then(|| "en".to_owned()),
            scan: self.video.scanner != Choice::Nobody,
            ..Recipe::default()
        };
        self.tell_what_is_skipped(&recipe);
        let title =
            if self.file.is_none() { Some("divvy sample".to_owned()) } else { source.title() };
        let new =
            NewVideo { source: None, url: None, title, recipe, priority: None, deadline_ms: None };
        let reach = Reach {
            folder: Some(self.data.join("objects")),
            cache: default_cache(),
            cache_bytes: 0,
        };
        let objects = Objects::at_server(self.client, reach);
        let added: Added = add::add(&source, new, api, &objects, self.context).await?.parse()?;
        let id = added.video.id;
        let known =
            if added.known { "; it was processed before, so there is nothing to do" } else { "" };
        output.note(format_args!("sample: video {}{known}", id.0));
        if let Some(estimate) = added.estimated_ms.filter(|_| !added.known) {
            let estimate = words::span(Duration::from_millis(estimate));
            output.note(format_args!("sample: estimated to take about {estimate}"));
        }
        let view = bars::until_final(api, output, &id).await?;
        self.finish(&view, &id, started.elapsed()).await
    }

    async fn source(&self) -> Result<Source> {
        if let Some(file) = self.file {
            return Source::new(&file.display().to_string());
        }
        let output = &self.context.output;
        let folder = self.data.join("sample");
        output.note(format_args!(
            "sample: a clip of {SECONDS} s, 1920x1080, is made here (once, kept in {})",
            folder.display()
        ));
        let clip = Clip::full_hd(SECONDS);
        let made = sample::cached(self.video.ffmpeg(), clip, &folder).await;
        let made = made.map_err(sample_failure)?;
        if made.voice == Voice::Tones {
            output.note("sample: nobody here can speak (install flite), so it has tones");
        }
        Source::new(&made.path.display().to_string())
    }

    fn tell_what_is_skipped(&self, recipe: &Recipe) {
        let output = &self.context.output;
        if recipe.subtitles.is_none() {
            output.note("sample: no subtitles; divvy video provider install whisper brings them");
        }
        if !recipe.scan {
            output.note("sample: no scan; divvy video provider install open_nsfw brings it");
        }
    }

    async fn finish(&self, view: &VideoView, id: &VideoId, took: Duration) -> Result<()> {
        let (api, output) = (self.client.api(), &self.context.output);
        if matches!(view.video.state, VideoState::Failed | VideoState::Cancelled) {
            let why = view.video.reason.as_deref().unwrap_or("no reason was recorded");
            return Err(Failure::new(Code::Failed, format!("the sample failed: {why}"))
                .cure(format!("divvy --server {} video show {}", api.server(), id.0))
                .into());
        }
        let manifest = show::manifest(view, api).await?;
        if output.is_json() {
            let elapsed_ms = took.as_millis() as u64;
            let (player, cost) = (player(api, id), manifest.map(|manifest| manifest.cost));
            return output.object(&json!({
                "sample": view, "elapsed_ms": elapsed_ms, "player": player, "cost": cost,
            }));
        }
        show::end(view, api, self.context).await?;
        if let Some(manifest) = &manifest {
            self.subtitles(manifest).await?;
        }
        output.data(format_args!("sample: done in {}", words::span(took)))?;
        Ok(())
    }

    /// The first words of the subtitles.
    async fn subtitles(&self, manifest: &Manifest) -> Result<()> {
        let is_text = |path: &str| path.starts_with("subs/") && path.ends_with(".vtt");
        let Some(file) = manifest.files.iter().find(|file| is_text(&file.path)) else {
            return Ok(());
        };
        let mut response =
            self.client.api().stream(&["blobs", &file.blob.to_string()], &[]).await?;
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await? {
            bytes.extend_from_slice(&chunk);
            if bytes.len() > SUBTITLES_BYTES_MAX {
                return Ok(());
            }
        }
        let text = String::from_utf8_lossy(&bytes);
        for line in first_words(&text) {
            self.context.output.data(format_args!("    \u{201c}{line}\u{201d}"))?;
        }
        Ok(())
    }
}

/// The first lines of subtitles that people read: neither times nor numbers nor the head.
fn first_words(webvtt: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut in_cue = false;
    for line in webvtt.lines().map(str::trim) {
        match line {
            "" => in_cue = false,
            _ if line.contains("-->") => in_cue = true,
            _ if in_cue => words.push(line),
            _ => {}
        }
        if words.len() == CUES_SHOWN {
            break;
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_said_is_shown() {
        let text = "WEBVTT\n\nNOTE a note\n\n1\n00:00.000 --> 00:02.000\nHello.\nThis is\n\n2\n00:02.000 --> 00:03.000\nall.\n";
        assert_eq!(first_words(text), ["Hello.", "This is", "all."]);
        assert!(first_words("WEBVTT\n").is_empty());
    }
}
