//! Sound for speech recognition: 16 kHz, one channel, 16 bits, beginning and ending with the picture.
//!
//! Decides which track is listened to: the first in the language that is wanted, else the first. The sound is large
//! (115 MB an hour) and of no use once the subtitles are made, so it is removed then; who needs it after all, extracts
//! it again.

use std::ffi::OsString;
use std::path::Path;

use divvy::objects::{LocalFile, Objects};
use divvy::prelude::*;

use super::frames::{made, run, spent};
use super::{Made, Pcm};
use crate::keys::Key;
use crate::plan::{Plan, Track};
use crate::results;
use crate::studio::{Studio, failure};

/// Samples per second that recognisers want.
pub(super) const RATE: u32 = 16_000;
/// Bytes before the samples of a WAV file as it is written here.
const HEADER_BYTES: u64 = 44;

/// Where the result is, if the plan has subtitles.
pub(crate) fn key(plan: &Plan) -> Option<Key> {
    let (track, video) = (track(plan)?, &plan.probe.video);
    let length = video.rate.micros(video.frames);
    Some(Key::of("pcm", plan.probe.source.id, &(track.index, video.start_us, length, RATE)))
}

pub(crate) async fn pcm(task: Pcm, State(studio): State<Studio>, cancel: Cancel) -> Outcome<Made> {
    let plan = studio.plan(task.plan).await?;
    extract(&studio, &plan, &cancel).await
}

/// Extracts the sound of a plan, unless that was done.
pub(super) async fn extract(studio: &Studio, plan: &Plan, cancel: &Cancel) -> Outcome<Made> {
    let source = plan.probe.source.id;
    let (Some(track), Some(key)) = (track(plan), key(plan)) else {
        return Err(Failure::dead("the plan has no subtitles, or the source no sound"));
    };
    let units = |samples: u64| usize::try_from(samples).unwrap_or(usize::MAX);
    if let Some(known) =
        results::find::<results::Pcm>(studio.objects(), source, &key).await.map_err(failure)?
    {
        return Ok(made(units(known.samples), known.sound.size, None));
    }
    let folder = studio.folder()?;
    let file = studio.objects().local_file(source).await.map_err(failure)?;
    let arguments = arguments(file.path(), plan, track);
    let finished = run(studio.tools(), folder.path(), file.path(), arguments, cancel).await?;
    let sound =
        studio.objects().put_file(&folder.path().join("sound.wav")).await.map_err(failure)?;
    let cost = spent(&finished);
    let samples = sound.size.saturating_sub(HEADER_BYTES) / 2;
    let pcm = results::Pcm { sound, samples, cost };
    results::commit(studio.objects(), source, &key, pcm).await.map_err(failure)?;
    Ok(made(units(samples), sound.size, Some(cost)))
}

/// The sound of a plan as a file, and how many samples it has. It is extracted if it is not there: a video of the same
/// sound that needed it no more may have removed it.
pub(super) async fn sound(
    studio: &Studio,
    plan: &Plan,
    cancel: &Cancel,
) -> Outcome<(LocalFile, u64)> {
    let (objects, source) = (studio.objects(), plan.probe.source.id);
    let key = key(plan).ok_or_else(|| Failure::dead("the source has no sound"))?;
    for _ in 0..2 {
        let found = results::find::<results::Pcm>(objects, source, &key).await.map_err(failure)?;
        if let Some(pcm) = found {
            match objects.local_file(pcm.sound.id).await {
                Err(error) if error.is_no_blob() => {
                    objects.remove_record(&key.record(source)).await.map_err(failure)?;
                }
                file => return Ok((file.map_err(failure)?, pcm.samples)),
            }
        }
        extract(studio, plan, cancel).await?;
    }
    Err(Failure::retry("the sound was removed by another task; the next attempt extracts it again"))
}

/// Removes the sound of a plan, if it is there.
pub(super) async fn forget(objects: &Objects, plan: &Plan) -> Outcome<()> {
    let (Some(key), source) = (key(plan), plan.probe.source.id) else { return Ok(()) };
    let found = results::find::<results::Pcm>(objects, source, &key).await.map_err(failure)?;
    let Some(pcm) = found else { return Ok(()) };
    // Without its record the blob is nobody's, so that a sweep takes it if this ends here.
    objects.remove_record(&key.record(source)).await.map_err(failure)?;
    objects.remove_blob(pcm.sound.id).await.map_err(failure)?;
    Ok(())
}

/// The track that is listened to.
fn track(plan: &Plan) -> Option<&Track> {
    let main = |language: &str| language.split('-').next().map(str::to_ascii_lowercase);
    let wanted = main(plan.recipe.subtitles.as_deref()?);
    let fits = |track: &&Track| main(&track.language) == wanted;
    plan.tracks.iter().find(fits).or_else(|| plan.tracks.first())
}

fn arguments(source: &Path, plan: &Plan, track: &Track) -> Vec<OsString> {
    let video = &plan.probe.video;
    // Times stay those of the source, so that sound which begins before or after the picture is cut or filled with
    // silence there, and gaps in it too.
    let filters = format!(
        "asetpts=PTS-({start}/1000000)/TB,aresample={RATE}:async=1:first_pts=0,\
         aformat=sample_fmts=s16:channel_layouts=mono,atrim=end={length}us",
        start = video.start_us,
        length = video.rate.micros(video.frames),
    );
    let stream = format!("0:{}", track.index);
    let words = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
    let mut arguments = words(&["-threads", "1", "-copyts", "-i"]);
    arguments.push(source.into());
    arguments.extend(words(&["-map", &stream, "-af", &filters, "-c:a", "pcm_s16le"]));
    arguments.extend(words(&["-bitexact", "-map_metadata", "-1", "-f", "wav", "sound.wav"]));
    arguments
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{ENCODE, Fixture, track};
    use super::*;

    /// Whether each tenth of a second of the sound is loud.
    async fn loud(fixture: &Fixture, plan: &Plan) -> Vec<bool> {
        extract(&fixture.studio, plan, &Cancel::never()).await.unwrap();
        let objects = fixture.studio.objects();
        let key = key(plan).unwrap();
        let found = results::find::<results::Pcm>(objects, plan.probe.source.id, &key).await;
        let pcm = found.unwrap().unwrap();
        let wav = objects.get(pcm.sound.id).await.unwrap();
        assert_eq!((&wav[0..4], &wav[36..40]), (&b"RIFF"[..], &b"data"[..]));
        // One channel, 16000 samples in a second, 16 bits.
        assert_eq!((&wav[22..28], &wav[34..36]), (&[1, 0, 0x80, 0x3e, 0, 0][..], &[16, 0][..]));
        let samples: Vec<i16> =
            wav[44..].chunks_exact(2).map(|pair| i16::from_le_bytes([pair[0], pair[1]])).collect();
        assert_eq!(samples.len() as u64, pcm.samples);
        samples.chunks(1_600).map(|tenth| tenth.iter().any(|sample| *sample > 1_000)).collect()
    }

    #[tokio::test]
    async fn the_sound_begins_and_ends_with_the_picture() {
        let fixture = Fixture::new().await;
        let tone = "sine=f=440:sample_rate=44100:d=1";
        let picture = ["-f", "lavfi", "-i", "color=red:s=320x180:r=10:d=3"];
        for (name, offset, start_us, silent, tenths) in [
            ("late.mkv", "2", 0, 20, 30),
            ("late.ts", "2", 1_600_000, 20, 30),
            ("long.mkv", "0.5", 0, 5, 30),
        ] {
            let late = ["-itsoffset", offset, "-f", "lavfi", "-i", tone];
            let ends = ["-c:a", "aac", "-ac", "2"];
            let arguments = [&picture[..], &late, &ENCODE, &ends].concat();
            let mut plan = fixture.clip(name, &arguments, 30).await;
            plan.probe.video.start_us = start_us;
            plan.tracks = vec![track(1, "und")];
            plan.recipe.subtitles = Some("en".into());
            let loud = loud(&fixture, &plan).await;
            let first = loud.iter().position(|loud| *loud).unwrap();
            assert!((silent - 1..=silent + 1).contains(&first), "{name}: {loud:?}");
            assert!(loud.len() <= tenths, "{name}: {loud:?}");
            let again = extract(&fixture.studio, &plan, &Cancel::never()).await.unwrap();
            assert!(again.known);
        }
    }

    #[tokio::test]
    async fn the_track_in_the_wanted_language_is_listened_to() {
        let fixture = Fixture::new().await;
        let arguments = ["-f", "lavfi", "-i", "color=red:s=320x180:r=10:d=1"];
        let mut plan = fixture.clip("silent.mp4", &arguments, 10).await;
        assert_eq!(track_of(&plan), None);
        plan.tracks = vec![track(1, "de"), track(2, "en"), track(3, "en-GB")];
        for (wanted, index) in [("en", 2), ("de", 1), ("en-US", 2), ("fr", 1), ("xx", 1)] {
            plan.recipe.subtitles = Some(wanted.into());
            assert_eq!(track_of(&plan), Some(index), "{wanted}");
        }
        plan.tracks.clear();
        assert_eq!(track_of(&plan), None);
        let refused = extract(&fixture.studio, &plan, &Cancel::never()).await.unwrap_err();
        assert!(refused.message().contains("no sound"));
    }

    fn track_of(plan: &Plan) -> Option<u32> {
        super::track(plan).map(|track| track.index)
    }
}
