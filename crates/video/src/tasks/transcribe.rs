//! Lets a recogniser listen, and writes subtitles. Who listens is decided by the worker's tools; how subtitles look, in
//! `webvtt`.

use std::time::Duration;

use divvy::prelude::*;

use super::frames::made;
use super::{Made, Transcribe, pcm};
use crate::plan::Plan;
use crate::results::{self, Cost, Transcript};
use crate::room;
use crate::studio::{Studio, failure};
use crate::tools::RunError;
use crate::tools::provider::{Found, Provider, ProviderError};
use crate::webvtt;

pub(crate) async fn transcribe(
    task: Transcribe,
    State(studio): State<Studio>,
    cancel: Cancel,
    progress: Progress,
) -> Outcome<Made> {
    let plan = studio.plan(task.plan).await?;
    progress.message("listening");
    listen(&studio, &plan, &cancel, |done, total| progress.set(done, total)).await
}

/// Makes the subtitles of a plan, unless they were made.
async fn listen(
    studio: &Studio,
    plan: &Plan,
    cancel: &Cancel,
    progress: impl FnMut(u64, u64) + Send,
) -> Outcome<Made> {
    let source = plan.probe.source.id;
    let (Some(key), Some(language)) = (&plan.subtitles, &plan.recipe.subtitles) else {
        return Err(Failure::dead("the plan has no subtitles"));
    };
    let objects = studio.objects();
    if let Some(known) = results::find::<Transcript>(objects, source, key).await.map_err(failure)? {
        return Ok(made(known.cues as usize, known.subtitles.size, None));
    }
    let provider = hired(studio.tools().speech(), "speech")?;
    if !provider.about().understands(language) {
        let known = provider.about().languages.join(", ");
        return Err(Failure::dead(format_args!(
            "{} does not understand `{language}`, only {known}",
            provider.about()
        )));
    }
    let (file, samples) = pcm::sound(studio, plan, cancel).await?;
    let folder = studio.folder()?;
    let length = Duration::from_secs(samples / u64::from(pcm::RATE));
    let (tools, sound) = (studio.tools(), (file.path(), length));
    let heard = provider.transcribe(tools, folder.path(), sound, language, cancel, progress).await;
    let heard = heard.map_err(given_up)?;
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
    drop(file);
    // The subtitles are there; publishing tries again.
    if let Err(problem) = pcm::forget(objects, plan).await {
        tracing::warn!(%problem, "the sound of a video stays after its subtitles were made");
    }
    Ok(made)
}

/// The provider that this worker has for something. One that does not work is not tried again: only workers that have
/// no better one are given such a task.
pub(super) fn hired<'a>(
    found: Result<Option<&'a Provider>, &str>,
    what: &str,
) -> Outcome<&'a Provider> {
    match found {
        Ok(Some(provider)) => Ok(provider),
        Ok(None) => Err(Failure::retry(format_args!("this worker has no provider for {what}"))),
        Err(problem) => Err(Failure::dead(problem)),
    }
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
        ProviderError::Run(RunError::NoRoom { place, .. }) => room::missing(&place),
        other => Failure::retry(format_args!("the provider failed: {other}")),
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::super::fixtures::{ENCODE, Fixture, installed, track};
    use super::*;
    use crate::keys::Key;
    use crate::tools::provider::Choice;

    const SPOKEN: &str = "The old lighthouse stands on a small rock at the edge of the sea. Every evening the keeper \
        climbs many steps to light the lamp, and every morning he walks down again to have his breakfast. Ships from \
        many countries pass this place on their way to the north. When winter comes the waves are high, and the wind \
        does not rest for days.";

    /// A clip in which a voice begins to speak after two seconds.
    async fn spoken(fixture: &Fixture) -> Plan {
        let folder = tempfile::tempdir().unwrap();
        let voice = folder.path().join("voice.wav");
        let voice = voice.to_str().unwrap();
        let said =
            Command::new("flite").args(["-voice", "slt", "-t", SPOKEN, "-o", voice]).status();
        assert!(said.expect("flite is installed: apt-get install flite").success());
        let picture = ["-f", "lavfi", "-i", "color=navy:s=320x180:r=10:d=24"];
        let late = ["-itsoffset", "2", "-i", voice, "-c:a", "aac", "-b:a", "96k"];
        let mut plan =
            fixture.clip("spoken.mp4", &[&picture[..], &late, &ENCODE].concat(), 240).await;
        plan.tracks = vec![track(1, "en")];
        plan.recipe.subtitles = Some("en".into());
        pcm::extract(&fixture.studio, &plan, &Cancel::never()).await.unwrap();
        plan
    }

    async fn transcript(fixture: &Fixture, plan: &Plan) -> Option<Transcript> {
        let (objects, key) = (fixture.studio.objects(), plan.subtitles.as_ref().unwrap());
        results::find(objects, plan.probe.source.id, key).await.unwrap()
    }

    fn words(text: &str) -> Vec<String> {
        let letters = |c: char| if c.is_alphanumeric() || c == '\'' { c } else { ' ' };
        let plain: String = text.to_lowercase().chars().map(letters).collect();
        plain.split_whitespace().map(str::to_owned).collect()
    }

    /// Words that must be added, left out or replaced to come from one text to the other, by those of the first.
    fn error_rate(spoken: &[String], heard: &[String]) -> f64 {
        let mut row: Vec<usize> = (0..=heard.len()).collect();
        for (at, word) in spoken.iter().enumerate() {
            let mut corner = row[0];
            row[0] = at + 1;
            for (to, other) in heard.iter().enumerate() {
                let replaced = corner + usize::from(word != other);
                corner = row[to + 1];
                row[to + 1] = replaced.min(row[to] + 1).min(corner + 1);
            }
        }
        row[heard.len()] as f64 / spoken.len() as f64
    }

    #[tokio::test]
    async fn subtitles_of_a_spoken_clip_have_few_wrong_words() {
        let fixture = Fixture::with(installed("whisper"), Choice::Nobody).await;
        let plan = spoken(&fixture).await;
        let mut told = Vec::new();
        let tell = |done, total| told.push((done, total));
        let made = listen(&fixture.studio, &plan, &Cancel::never(), tell).await.unwrap();
        let (done, total) = *told.last().expect("it says how far it is");
        // It ends with the voice, before the picture does.
        assert!((18_000..24_000).contains(&total) && done > 0 && done <= total, "{told:?}");
        let transcript = transcript(&fixture, &plan).await.unwrap();
        assert!(transcript.provider.starts_with("whisper tiny.en-"), "{}", transcript.provider);
        assert_eq!((made.units, made.known), (u64::from(transcript.cues), false));
        let file = fixture.text(transcript.subtitles.id).await;
        let times: Vec<&str> = file.lines().filter(|line| line.contains(" --> ")).collect();
        let lines = file.lines().filter(|line| !line.contains(" --> ") && *line != "WEBVTT");
        let heard = words(&lines.collect::<Vec<_>>().join(" "));
        let rate = error_rate(&words(SPOKEN), &heard);
        assert!(rate <= 0.15, "{rate}: {file}");
        // The voice begins after two seconds of silence, in the file as in the clip.
        assert!(times[0] > "00:00:01.500" && times[0] < "00:00:03.000", "{file}");
        let again = listen(&fixture.studio, &plan, &Cancel::never(), |_, _| ()).await.unwrap();
        assert!(again.known);
    }

    #[tokio::test]
    async fn a_language_that_the_provider_does_not_know_is_refused_for_good() {
        let script = r#"echo '{"provider":"ear","version":"1","model":"m","languages":["en"]}'; echo '{"done":true}'"#;
        let choice = Choice::Exec(["sh", "-c", script].map(str::to_owned).to_vec());
        let fixture = Fixture::with(choice, Choice::Nobody).await;
        let arguments = ["-f", "lavfi", "-i", "color=red:s=320x180:r=10:d=1"];
        let mut plan = fixture.clip("silent.mp4", &arguments, 10).await;
        plan.recipe.subtitles = Some("de".into());
        let refused =
            listen(&fixture.studio, &plan, &Cancel::never(), |_, _| ()).await.unwrap_err();
        assert_eq!(refused.message(), "ear m 1 does not understand `de`, only en");
        assert_eq!(refused.verdict(), Failure::dead("").verdict());
        assert_eq!(transcript(&fixture, &plan).await, None);
    }

    #[tokio::test]
    async fn the_sound_goes_when_the_subtitles_are_made_and_comes_back_if_it_is_needed() {
        let script = r#"echo '{"provider":"ear","version":"1","model":"m","languages":["en"]}'; read -r line; case "$line" in *transcribe*) echo '{"start_ms":0,"end_ms":500,"text":"hi"}';; esac; echo '{"done":true}'"#;
        let choice = Choice::Exec(["sh", "-c", script].map(str::to_owned).to_vec());
        let fixture = Fixture::with(choice, Choice::Nobody).await;
        let picture = ["-f", "lavfi", "-i", "color=red:s=320x180:r=10:d=1"];
        let tone = ["-f", "lavfi", "-i", "sine=f=440:d=1", "-c:a", "aac"];
        let mut plan = fixture.clip("tone.mp4", &[&picture[..], &tone, &ENCODE].concat(), 10).await;
        plan.tracks = vec![track(1, "en")];
        plan.recipe.subtitles = Some("en".into());
        let (objects, source) = (fixture.studio.objects(), plan.probe.source.id);
        let name = pcm::key(&plan).unwrap();
        let sound = || async {
            let found = results::find::<results::Pcm>(objects, source, &name).await.unwrap();
            found.map(|pcm| pcm.sound.id)
        };
        pcm::extract(&fixture.studio, &plan, &Cancel::never()).await.unwrap();
        let first = sound().await.unwrap();
        listen(&fixture.studio, &plan, &Cancel::never(), |_, _| {}).await.unwrap();
        assert_eq!(transcript(&fixture, &plan).await.unwrap().cues, 1);
        assert_eq!((sound().await, objects.blob(first).await.unwrap()), (None, None));

        // Another provider, for which the sound is gone, or only its blob is.
        for blob_only in [false, true] {
            let key = Key::of("subtitles", source, &("other", blob_only));
            plan.subtitles = Some(key);
            if blob_only {
                pcm::extract(&fixture.studio, &plan, &Cancel::never()).await.unwrap();
                objects.remove_blob(first).await.unwrap();
            }
            listen(&fixture.studio, &plan, &Cancel::never(), |_, _| {}).await.unwrap();
            assert!(transcript(&fixture, &plan).await.is_some());
            assert_eq!((sound().await, objects.blob(first).await.unwrap()), (None, None));
        }
    }

    #[test]
    fn the_error_rate_counts_what_is_wrong_missing_and_too_much() {
        let rate = |spoken: &str, heard: &str| error_rate(&words(spoken), &words(heard));
        assert_eq!(rate("One, two three four.", "one two three four"), 0.0);
        assert_eq!(rate("one two three four", "one too three"), 0.5);
        assert_eq!(rate("one two", "one and two"), 0.5);
        assert_eq!(rate("one two", ""), 1.0);
    }
}
