//! Finds out what a source holds, and refuses what cannot be processed.

use divvy::extract::{Cancel, Upstream};
use divvy::prelude::*;

use super::{Fetch, ProbeSource};
use crate::keys::Key;
use crate::probe::{Examined, Probe, VideoStream, examine};
use crate::results;
use crate::studio::{Studio, failure};

/// Goes up when the same file would be understood differently, so that old answers are not believed.
const REVISION: u32 = 4;

/// Finds out what the source of a video holds, once for each content and build of the tools.
pub(crate) async fn probe_source(
    task: ProbeSource,
    State(studio): State<Studio>,
    cancel: Cancel,
    fetched: Option<Upstream<Fetch>>,
) -> Outcome<Probe> {
    let fetched = fetched.map(|Upstream(source)| source);
    let source = task.source.or(fetched).ok_or_else(|| {
        Failure::dead(format_args!("video {} has neither a source nor a fetched one", task.video.0))
    })?;
    let objects = studio.objects();
    let key = Key::of("probe", source.id, &(REVISION, studio.tools().build()));
    if let Some(probe) = results::find(objects, source.id, &key).await.map_err(failure)? {
        return Ok(probe);
    }
    let file = objects.local_file(source.id).await.map_err(failure)?;
    let folder = studio.folder()?;
    let (tools, folder) = (studio.tools(), folder.path());
    match examine(tools, source, file.path(), folder, &cancel).await? {
        Examined::Good(probe) => {
            results::commit(objects, source.id, &key, *probe).await.map_err(failure)
        }
        Examined::Unsteady(unsteady) => {
            let copy = unsteady.copy(tools, file.path(), folder, &cancel).await?;
            let mut probe = match examine(tools, source, &copy, folder, &cancel).await? {
                Examined::Good(probe) if shows_all(&probe.video) => probe,
                Examined::Good(_) | Examined::Unsteady(_) => return Err(unsteady.refusal()),
            };
            probe.subtitles.extend_from_slice(unsteady.pictures());
            let copied = objects.put_file(&copy).await.map_err(failure)?;
            // Not recorded: all that is made from the copy is recorded under its own name, and goes with it.
            Ok(Probe { source: copied, copied_from: Some(source), ..*probe })
        }
    }
}

/// Whether a copy shows nearly every picture that it has: where many times were missing, ffmpeg may have put many
/// pictures at one time.
fn shows_all(video: &VideoStream) -> bool {
    let is_thinned = video.rate.per_second() >= 60.0;
    is_thinned || video.frames.saturating_mul(10) >= video.packets.saturating_mul(9)
}

#[cfg(test)]
mod tests {
    use divvy::objects::{Blob, Objects};
    use divvy_objects::Folder;

    use super::*;
    use crate::library::VideoId;
    use crate::tasks::corpus;
    use crate::tasks::fixtures::{ENCODE, ffmpeg};
    use crate::tools::{ToolOptions, remembered};

    async fn studio(folder: &std::path::Path) -> Studio {
        let objects = Objects::in_folder(Folder::open(folder.join("objects")).unwrap());
        let options = ToolOptions { allow_unconfined: true, ..ToolOptions::default() };
        Studio::new(objects, remembered::find(&options).await, folder.to_owned())
    }

    async fn probe(studio: &Studio, source: Option<Blob>, fetched: Option<Blob>) -> Outcome<Probe> {
        let task = ProbeSource { video: VideoId("abcdefghijkl".into()), source };
        probe_source(task, State(studio.clone()), Cancel::never(), fetched.map(Upstream)).await
    }

    #[tokio::test]
    async fn a_source_is_probed_once_however_often_it_is_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        let studio = studio(folder.path()).await;
        let clip = corpus::make("one_frame");
        let source = studio.objects().put_file(&clip).await.unwrap();
        let first = probe(&studio, Some(source), None).await.unwrap();
        assert_eq!((first.source, first.video.frames), (source, 1));
        // The answer is there even when the source is not.
        studio.objects().remove_blob(source.id).await.unwrap();
        assert_eq!(probe(&studio, None, Some(source)).await.unwrap(), first);
        let left: Vec<_> = std::fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .filter(|name| name.to_string_lossy().starts_with("video-"))
            .collect();
        assert!(left.is_empty(), "{left:?}");
    }

    /// Two seconds of a recording, and one more after its clock was set anew.
    fn recording(folder: &std::path::Path, offsets: &[&str], format: &str) -> std::path::PathBuf {
        let mut whole = Vec::new();
        for offset in offsets {
            let part = folder.join(format!("part.{format}"));
            let picture = ["-f", "lavfi", "-i", "testsrc2=s=64x36:r=10:d=2"];
            let sound = ["-f", "lavfi", "-i", "sine=d=2", "-c:a", "aac"];
            let clock = ["-output_ts_offset", offset, "-avoid_negative_ts", "disabled"];
            let to = [part.to_str().unwrap()];
            ffmpeg(&[&picture[..], &sound, &ENCODE, &["-bf", "0"], &clock, &to].concat());
            whole.extend(std::fs::read(&part).unwrap());
        }
        let file = folder.join(format!("whole.{format}"));
        std::fs::write(&file, whole).unwrap();
        file
    }

    #[tokio::test]
    async fn a_recording_whose_clock_jumps_or_begins_below_zero_is_copied_to_one_clock() {
        let folder = tempfile::tempdir().unwrap();
        let studio = studio(folder.path()).await;
        for (offsets, format, frames) in [
            (&["10", "3600"][..], "ts", 40),
            (&["10", "66"], "ts", 40),
            (&["50", "2"], "ts", 40),
            // Seconds before its 33 bits are full, and before zero.
            (&["95442.2"], "ts", 20),
            (&["-0.5"], "mkv", 20),
        ] {
            let clip = recording(folder.path(), offsets, format);
            let source = studio.objects().put_file(&clip).await.unwrap();
            let found = probe(&studio, Some(source), None).await.unwrap();
            let video = &found.video;
            assert_eq!(video.frames, frames, "{offsets:?}: {video:?}");
            assert!(video.start_us >= 0 && !video.variable_rate, "{offsets:?}: {video:?}");
            assert_eq!((found.copied_from, found.audio.len()), (Some(source), 1), "{offsets:?}");
            let again = probe(&studio, Some(source), None).await.unwrap();
            assert_eq!(again, found, "the copy is the same each time");
        }
        // So many times are missing that most pictures would be shown at once.
        let clip = recording(folder.path(), &["-1.5"], "mkv");
        let source = studio.objects().put_file(&clip).await.unwrap();
        let refused = probe(&studio, Some(source), None).await.unwrap_err();
        let expected = "the file is refused: its time stamps are missing at picture 1; copy it to";
        assert!(refused.message().starts_with(expected), "{refused}");
        // What goes on is left as it is.
        let clip = recording(folder.path(), &["10"], "ts");
        let source = studio.objects().put_file(&clip).await.unwrap();
        let found = probe(&studio, Some(source), None).await.unwrap();
        assert_eq!((found.source, found.copied_from, found.video.frames), (source, None, 20));
    }

    #[tokio::test]
    async fn a_refused_source_is_dead_at_once_and_a_missing_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let studio = studio(folder.path()).await;
        let text = studio.objects().put(b"This is a letter.".to_vec()).await.unwrap();
        let refused = probe(&studio, Some(text), None).await.unwrap_err();
        assert_eq!(refused.verdict(), Failure::dead("").verdict());
        assert!(refused.message().starts_with("the file is refused: it "), "{refused:?}");
        studio.objects().remove_blob(text.id).await.unwrap();
        let missing = probe(&studio, Some(text), None).await.unwrap_err();
        assert_eq!(missing.verdict(), Failure::retry("").verdict());
        let neither = probe(&studio, None, None).await.unwrap_err();
        assert_eq!(neither.verdict(), Failure::dead("").verdict());
    }
}
