//! Finds out what a source holds, and refuses what cannot be processed.

use divvy::extract::{Cancel, Upstream};
use divvy::prelude::*;

use super::{Fetch, ProbeSource};
use crate::keys::Key;
use crate::probe::{Probe, examine};
use crate::results;
use crate::studio::{Studio, failure};

/// Goes up when the same file would be understood differently, so that old answers are not believed.
const REVISION: u32 = 2;

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
    let probe = examine(studio.tools(), source, file.path(), folder.path(), &cancel).await?;
    results::commit(objects, source.id, &key, probe).await.map_err(failure)
}

#[cfg(test)]
mod tests {
    use divvy::objects::{Blob, Objects};
    use divvy_objects::Folder;

    use super::*;
    use crate::library::VideoId;
    use crate::tasks::corpus;
    use crate::tools::{ToolOptions, Tools};

    async fn studio(folder: &std::path::Path) -> Studio {
        let objects = Objects::in_folder(Folder::open(folder.join("objects")).unwrap());
        let options = ToolOptions { allow_unconfined: true, ..ToolOptions::default() };
        Studio::new(objects, Tools::find(&options).await.unwrap(), folder.to_owned())
    }

    async fn probe(studio: &Studio, source: Option<Blob>, fetched: Option<Blob>) -> Outcome<Probe> {
        let task = ProbeSource { video: VideoId("abcdefghijkl".into()), source };
        probe_source(task, State(studio.clone()), Cancel::never(), fetched.map(Upstream)).await
    }

    #[tokio::test]
    async fn a_source_is_probed_once_however_often_it_is_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        let studio = studio(folder.path()).await;
        let clip = corpus::make("one_frame", folder.path());
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
