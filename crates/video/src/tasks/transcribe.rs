//! Lets a recogniser listen, and writes subtitles. Who listens is decided by the worker's tools; how subtitles look, in
//! `webvtt`.

use std::time::Duration;

use divvy::prelude::*;

use super::frames::made;
use super::{Made, Transcribe, pcm};
use crate::plan::Plan;
use crate::results::{self, Cost, Transcript};
use crate::studio::{Studio, failure};
use crate::tools::RunError;
use crate::tools::provider::{Found, ProviderError};
use crate::webvtt;

pub(crate) async fn transcribe(
    task: Transcribe,
    State(studio): State<Studio>,
    cancel: Cancel,
    progress: Progress,
) -> Outcome<Made> {
    let plan = studio.plan(task.plan).await?;
    progress.message("listening");
    listen(&studio, &plan, &cancel).await
}

/// Makes the subtitles of a plan, unless they were made.
async fn listen(studio: &Studio, plan: &Plan, cancel: &Cancel) -> Outcome<Made> {
    let source = plan.probe.source.id;
    let (Some(key), Some(language)) = (&plan.subtitles, &plan.recipe.subtitles) else {
        return Err(Failure::dead("the plan has no subtitles"));
    };
    let objects = studio.objects();
    if let Some(known) = results::find::<Transcript>(objects, source, key).await.map_err(failure)? {
        return Ok(made(known.cues as usize, known.subtitles.size, None));
    }
    let provider = studio
        .tools()
        .speech()
        .ok_or_else(|| Failure::retry("this worker has no provider for speech"))?;
    if !provider.about().understands(language) {
        let known = provider.about().languages.join(", ");
        return Err(Failure::dead(format_args!(
            "{} does not understand `{language}`, only {known}",
            provider.about()
        )));
    }
    let sound_key = pcm::key(plan).ok_or_else(|| Failure::dead("the source has no sound"))?;
    let sound =
        results::find::<results::Pcm>(objects, source, &sound_key).await.map_err(failure)?;
    let sound = sound.ok_or_else(|| Failure::retry("the sound is not there yet"))?;
    let file = objects.local_file(sound.sound.id).await.map_err(failure)?;
    let folder = studio.folder()?;
    let length = Duration::from_secs(sound.samples / u64::from(pcm::RATE));
    let heard = provider
        .transcribe(studio.tools(), folder.path(), (file.path(), length), language, cancel)
        .await
        .map_err(given_up)?;
    let length_ms = plan.probe.video.rate.micros(plan.probe.video.frames).div_ceil(1_000);
    let cues = webvtt::cues(&heard.items, length_ms);
    let subtitles = objects.put(webvtt::file(&cues).into_bytes()).await.map_err(failure)?;
    let transcript = Transcript {
        provider: heard.about.to_string(),
        language: language.clone(),
        subtitles,
        cues: u32::try_from(cues.len()).unwrap_or(u32::MAX),
        cost: cost(&heard),
    };
    let made = made(cues.len(), subtitles.size, Some(transcript.cost));
    results::commit(objects, source, key, transcript).await.map_err(failure)?;
    Ok(made)
}

/// What a provider has cost.
pub(super) fn cost<T>(found: &Found<T>) -> Cost {
    let ms = |span: Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
    Cost { cpu_ms: ms(found.cpu), wall_ms: ms(found.wall) }
}

/// What the failure of a provider means for its task.
pub(super) fn given_up(error: ProviderError) -> Failure {
    match error {
        ProviderError::Run(RunError::Cancelled) => Failure::cancelled(),
        other => Failure::retry(format_args!("the provider failed: {other}")),
    }
}
