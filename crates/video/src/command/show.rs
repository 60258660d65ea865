//! `divvy video show`: everything about one video on one screen; also how a wait for it ends.

use crate::library::{VideoState, VideoView};
use crate::manifest::{Manifest, Part, TextEntry};
use anyhow::Result;
use divvy::types::Timestamp;
use serde_json::json;

use super::{player, resolve};
use crate::command::args::OneVideo;
use crate::command::words;
use divvy::api::Api;
use divvy_workload::Context;
use divvy_workload::console::exit::Code;
use divvy_workload::console::output::Output;
use divvy_workload::console::output::table::{Cell, Table, folded};
use divvy_workload::console::output::words::{bytes, now, relative};

/// Where the values begin.
const INDENT: usize = 12;

/// Shows.
pub(super) async fn run(args: &OneVideo, context: &Context) -> Result<Code> {
    let (api, output) = (context.api()?, &context.output);
    let id = resolve(&api, &args.id).await?;
    let view: VideoView = api.get(&["videos", &id.0], &[]).await?.parse()?;
    let manifest = manifest(&view, &api).await?;
    if output.is_json() {
        let mut whole = serde_json::to_value(&view)?;
        whole["player"] = player(&api, &id).into();
        whole["published"] = json!(manifest);
        output.object(&whole)?;
        return Ok(Code::Done);
    }
    if output.is_quiet() {
        output.data(&id.0)?;
        return Ok(Code::Done);
    }
    head(&view, output)?;
    stages(&view).print(output)?;
    if let Some(manifest) = &manifest {
        results(manifest, output)?;
    }
    line(output, "watch", &player(&api, &id))?;
    Ok(Code::Done)
}

/// What a published video consists of.
pub(crate) async fn manifest(view: &VideoView, api: &Api) -> Result<Option<Manifest>> {
    if view.video.manifest.is_none() {
        return Ok(None);
    }
    Ok(Some(api.get(&["videos", &view.video.id.0, "manifest"], &[]).await?.parse()?))
}

/// Tells how a video ended.
pub(crate) async fn end(view: &VideoView, api: &Api, context: &Context) -> Result<()> {
    let output = &context.output;
    if output.is_json() {
        return output.object(view);
    }
    if output.is_quiet() {
        return Ok(());
    }
    head(view, output)?;
    if let Some(manifest) = &manifest(view, api).await? {
        results(manifest, output)?;
    }
    let id = &view.video.id;
    line(output, "watch", &player(api, id))?;
    match view.video.state {
        VideoState::Degraded => {
            let why = view.video.reason.as_deref().unwrap_or("an optional part is missing");
            output.note(format_args!("warning: {} can be watched, but {why}", id.0));
        }
        VideoState::NeedsReview => {
            output.note(format_args!(
                "the scan flagged it; look at it, then: divvy video approve {}",
                id.0
            ));
        }
        _ => {}
    }
    Ok(())
}

/// Id, title, state, times.
fn head(view: &VideoView, output: &Output) -> Result<()> {
    let video = &view.video;
    let state = video.state.as_str();
    let title = Cell::from(video.title.as_str()).into_text();
    output.data(format_args!("{}  {state}  {title}", video.id.0))?;
    if let Some(reason) = &video.reason {
        line(output, "reason", &Cell::from(reason.as_str()).into_text())?;
    }
    let mut times = format!("added {}", relative(Timestamp(video.added_at), now()));
    if let Some(ended) = video.ended_at {
        let took = ended.saturating_sub(video.added_at) / 1_000;
        times.push_str(&format!(", took {}", words::span(took)));
    } else {
        times.push_str(&format!(", {}% done", words::percent(view.progress)));
        if let Some(rest) = view.remaining_ms {
            times.push_str(&format!(", about {} left", words::span(rest)));
        }
    }
    line(output, "times", &times)?;
    if let Some(deadline) = video.deadline {
        line(output, "deadline", &relative(Timestamp(deadline), now()))?;
    }
    if let Some(source) = video.source {
        let length = view.duration_ms.map(words::length).unwrap_or_else(|| "?".to_owned());
        line(output, "source", &format!("{}, {length}", bytes(source.size)))?;
    }
    Ok(())
}

fn stages(view: &VideoView) -> Table {
    let mut table = Table::new(&["STAGE", ">TASKS", ">DONE", ">RUNNING", ">FAILED", ">PROGRESS"]);
    for stage in view.stages.iter().filter(|stage| stage.total > 0) {
        table.row([
            stage.name.as_str().into(),
            stage.total.to_string().into(),
            stage.done.to_string().into(),
            stage.running.to_string().into(),
            stage.failed.to_string().into(),
            format!("{}%", words::percent(stage.progress)).into(),
        ]);
    }
    table
}

/// Renditions, sound, subtitles, scan, cost.
pub(crate) fn results(manifest: &Manifest, output: &Output) -> Result<()> {
    renditions(manifest).print(output)?;
    let tracks: Vec<&str> = manifest.tracks.iter().map(|track| track.name.as_str()).collect();
    let sound = if tracks.is_empty() { "none".to_owned() } else { tracks.join(", ") };
    line(output, "sound", &sound)?;
    let Manifest { texts, subtitles: heard, captions, .. } = manifest;
    line(output, "subtitles", &subtitles(texts, heard, captions))?;
    let mut scan = words::part(&manifest.scan);
    if let Some(found) = &manifest.findings {
        scan.push_str(&format!(
            "; {} frames, highest score {:.2}, flagged from {:.2}",
            found.frames, found.highest, manifest.recipe.flag_at
        ));
    }
    line(output, "scan", &scan)?;
    if let Some(damage) = manifest.damage() {
        line(output, "damage", &format!("{damage}, of {} frames", manifest.frames))?;
    }
    for note in &manifest.notes {
        line(output, "note", &Cell::from(note.as_str()).into_text())?;
    }
    let total = manifest.files.iter().map(|file| file.length).sum();
    line(output, "files", &format!("{}, {}", manifest.files.len(), bytes(total)))?;
    let cost = manifest.cost;
    line(output, "cost", &format!("{} of CPU time", words::span(cost.cpu_ms)))
}

/// The tracks with their languages and where they are from, and how it went with those that were wanted beside them.
fn subtitles(texts: &[TextEntry], heard: &Part, carried: &Part) -> String {
    let track = |text: &TextEntry| {
        let name = Cell::from(text.name.as_str()).into_text();
        format!("{name} ({}, {})", text.language, text.origin.words())
    };
    let mut texts: Vec<String> = texts.iter().map(track).collect();
    if texts.is_empty() || !matches!(heard, Part::Skipped { .. }) {
        texts.push(words::part(heard));
    }
    if let Part::Failed { reason } = carried {
        texts.push(format!("those of the source FAILED: {reason}"));
    }
    texts.join(", ")
}

fn renditions(manifest: &Manifest) -> Table {
    let mut table = Table::new(&["RENDITION", ">SIZE", ">FRAMES", ">KBIT/S", ">BYTES"]);
    for rendition in &manifest.renditions {
        table.row([
            rendition.name.as_str().into(),
            format!("{}x{}", rendition.width, rendition.height).into(),
            rendition.frames.to_string().into(),
            (rendition.bitrate / 1_000).to_string().into(),
            bytes(rendition.bytes).into(),
        ]);
    }
    table
}

fn line(output: &Output, key: &str, value: &str) -> Result<()> {
    output.data(format_args!("  {key:<9} {}", folded(value, INDENT)))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::words::tests::view;
    use crate::manifest::Origin;

    #[test]
    fn tracks_of_subtitles_are_named_with_their_origin() {
        let text = |name: &str, language: &str, origin| TextEntry {
            language: language.to_owned(),
            name: name.to_owned(),
            path: String::new(),
            origin,
        };
        let skipped = Part::default();
        assert_eq!(subtitles(&[], &skipped, &skipped), "skipped: not asked for");
        let texts = [text("German", "de", Origin::Source), text("English", "en", Origin::File)];
        let both = "German (de, from the source), English (en, from a file)";
        assert_eq!(subtitles(&texts, &skipped, &skipped), both);
        let failed = Part::Failed { reason: "ffmpeg fell".to_owned() };
        let told = subtitles(&texts[1..], &failed, &failed);
        assert_eq!(
            told,
            "English (en, from a file), FAILED: ffmpeg fell, those of the source FAILED: ffmpeg fell"
        );
    }

    #[test]
    fn stages_that_have_no_tasks_yet_are_not_shown() {
        let mut view = view(VideoState::Processing);
        view.stages[2].total = 0;
        let text = stages(&view).rendered(80);
        assert!(text.contains("encode") && !text.contains("mux"), "{text}");
        assert!(text.lines().any(|line| line.ends_with("37%")), "{text}");
    }
}
