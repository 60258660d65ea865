//! Finds out what a source holds, and refuses what cannot be processed.

use divvy::extract::{Cancel, Upstream};
use divvy::prelude::*;

use super::{Fetch, ProbeSource};
use crate::keys::Key;
use crate::probe::{Probe, examine};
use crate::results;
use crate::studio::{Studio, failure};

/// Goes up when the same file would be understood differently, so that old answers are not believed.
const REVISION: u32 = 1;

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
