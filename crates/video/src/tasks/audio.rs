//! Encodes one sound track, whole: AAC in two channels at 48 kHz, exactly as long as the picture.
//!
//! Sound is never cut into chunks: each would begin with the silence that the encoder needs to start, and after some
//! minutes sound and picture would be apart.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use divvy::prelude::*;

use super::encode::{run_failure, tells_of_damage};
use super::{Audio, Made};
use crate::fmp4::{Codec, Fmp4Error, Movie, Table};
use crate::plan::{Plan, Track};
use crate::results::{self, Cost, Fragment, Sound};
use crate::studio::{Studio, failure};
use crate::tools::Finished;

/// Samples per second of all sound tracks.
pub(crate) const SAMPLE_RATE: u32 = 48_000;
const ENCODED: &str = "track.mp4";
const MEDIA: &str = "track.m4s";

/// Encodes a sound track.
pub(crate) async fn audio(
    task: Audio,
    State(studio): State<Studio>,
    attempt: Attempt,
    cancel: Cancel,
    progress: Progress,
) -> Outcome<Made> {
    let tolerant = attempt.number > 1;
    encode_track(&studio, &task, tolerant, &cancel, |done, total| progress.set(done, total)).await
}

/// The same without an attempt around it.
pub(crate) async fn encode_track(
    studio: &Studio,
    task: &Audio,
    tolerant: bool,
    cancel: &Cancel,
    progress: impl FnMut(u64, u64) + Send,
) -> Outcome<Made> {
    let plan = studio.plan(task.plan).await?;
    let track = plan.tracks.get(task.track as usize);
    let track = track.ok_or_else(|| Failure::dead("the plan has no such sound track"))?;
    let (objects, source) = (studio.objects(), plan.probe.source.id);
    let found = results::find::<Sound>(objects, source, &track.key).await.map_err(failure)?;
    if let Some(sound) = found {
        let (units, bytes) = (sound.samples, sound.media.size);
        return Ok(Made { units, bytes, known: true, ..Made::default() });
    }
    let folder = studio.folder()?;
    let work = Work { studio, plan: &plan, track, tolerant };
    let finished = work.ffmpeg(folder.path(), cancel, progress).await?;
    let expected = samples(&plan);
    let path = folder.path().to_owned();
    let placed = tokio::task::spawn_blocking(move || place(&path, expected)).await?;
    let placed = placed.map_err(|error| {
        Failure::retry(format_args!("sound track {} was not accepted: {error}", track.name))
    })?;
    let sound = Sound {
        init: objects.put(placed.init).await.map_err(failure)?,
        media: objects.put_file(&folder.path().join(MEDIA)).await.map_err(failure)?,
        fragments: placed.fragments,
        sample_rate: SAMPLE_RATE,
        samples: expected,
        codec: placed.codec,
        repaired: u64::from(tolerant && tells_of_damage(&finished.complaints)),
        cost: Cost::of(&finished),
    };
    let sound = results::commit(objects, source, &track.key, sound).await.map_err(failure)?;
    let cost = Cost::of(&finished);
    Ok(Made { units: sound.samples, bytes: sound.media.size, cost, known: false })
}

/// How many samples the sound has: as long as the picture, to the nearest.
pub(crate) fn samples(plan: &Plan) -> u64 {
    let video = &plan.probe.video;
    let units = u128::from(video.frames) * u128::from(video.rate.seconds) * u128::from(SAMPLE_RATE);
    let frames = u128::from(video.rate.frames.max(1));
    u64::try_from((units + frames / 2) / frames).unwrap_or(u64::MAX)
}

struct Work<'a> {
    studio: &'a Studio,
    plan: &'a Plan,
    track: &'a Track,
    tolerant: bool,
}

impl Work<'_> {
    async fn ffmpeg(
        &self,
        folder: &Path,
        cancel: &Cancel,
        mut progress: impl FnMut(u64, u64) + Send,
    ) -> Outcome<Finished> {
        let source = self.studio.objects().local_file(self.plan.probe.source.id).await;
        let source = source.map_err(failure)?;
        let tools = self.studio.tools();
        let arguments = self.arguments(source.path());
        let mut invocation = tools.ffmpeg(folder, arguments);
        invocation.readable.push(source.path().to_owned());
        let total_ms = self.plan.probe.video.rate.micros(self.plan.probe.video.frames) / 1_000;
        let tell = |step: crate::tools::Step| {
            progress((step.out_us / 1_000).min(total_ms), total_ms);
        };
        tools.run(invocation, cancel, tell).await.map_err(run_failure)
    }

    fn arguments(&self, source: &Path) -> Vec<std::ffi::OsString> {
        let (plan, video) = (self.plan, &self.plan.probe.video);
        let strictness = if self.tolerant { "-max_error_rate 1" } else { "-xerror" };
        let before = format!("{strictness} -copyts -threads 1 -i");
        // Times are those of the picture's grid: what is before it is cut, and what is missing is silence.
        let filters = format!(
            "[0:{}]asetpts=floor(PTS-({})/1000000/TB+0.5),aresample={SAMPLE_RATE}:async=1:min_hard_comp=0.05:first_pts=0,\
             aformat=sample_fmts=fltp:channel_layouts=stereo,apad,atrim=end_sample={}[sound]",
            self.track.index,
            video.start_us,
            samples(plan)
        );
        let after = format!(
            "-map [sound] -map_metadata -1 -map_chapters -1 -c:a aac -b:a {} -threads 1 -frag_duration {} \
             -movflags +delay_moov+default_base_moof+skip_trailer -f mp4 {ENCODED}",
            plan.recipe.audio_bitrate,
            video.rate.micros(u64::from(plan.segment_frames)),
        );
        let mut all: Vec<std::ffi::OsString> = before.split_whitespace().map(Into::into).collect();
        all.push(source.into());
        all.extend(["-filter_complex".into(), filters.into()]);
        all.extend(after.split_whitespace().map(Into::into));
        all
    }
}

struct Placed {
    init: Vec<u8>,
    fragments: Vec<Fragment>,
    codec: String,
}

/// Checks the encoder's file and writes its fragments.
fn place(folder: &Path, expected: u64) -> Result<Placed, Fmp4Error> {
    let bad = |problem: String| Err(Fmp4Error::Bad(problem));
    let mut file = File::open(folder.join(ENCODED))?;
    let movie = Movie::read(&mut file)?;
    if movie.init.codec != (Codec::Aac { object: 2, sample_rate: SAMPLE_RATE, channels: 2 }) {
        return bad(format!("its sound is {:?}", movie.init.codec));
    }
    let (hidden, total) =
        (movie.init.hidden, movie.fragments.iter().map(Table::duration).sum::<u64>());
    if movie.init.timescale != SAMPLE_RATE || total.checked_sub(hidden) != Some(expected) {
        return bad(format!("{total} samples came out, expected {hidden} hidden and {expected}"));
    }
    let mut at = 0;
    for table in &movie.fragments {
        if table.decode_time != at {
            return bad(format!(
                "a fragment begins at sample {}, expected {at}",
                table.decode_time
            ));
        }
        at += table.duration();
    }
    let mut out = BufWriter::new(File::create(folder.join(MEDIA))?);
    let places = movie.write_media(&movie.fragments, 1, &mut file, &mut out)?;
    out.flush()?;
    let mut silent = hidden;
    let fragments = places.into_iter().zip(&movie.fragments).map(|((offset, length), table)| {
        let skipped = silent.min(table.duration());
        silent -= skipped;
        Fragment { offset, length, samples: table.duration() - skipped }
    });
    let fragments = fragments.collect();
    let codec = movie.init.codec.name();
    Ok(Placed { init: movie.init.hiding(hidden)?.bytes, fragments, codec })
}
