//! Starts a job of any kind, and waits for it if that is wanted.

use anyhow::Result;
use divvy_workload::Context;
use divvy_workload::console::exit::Code;
use divvy_workload::view::{GOES_ON, tell_started, wait_telling};

use super::args::Common;
use super::results;
use crate::job::NewJob;
use crate::jobs::view::JobView;

/// Starts a job, and waits for it if that is wanted.
pub(crate) async fn run(new: &NewJob, common: &Common, context: &Context) -> Result<Code> {
    let id = begin(new, common, context).await?;
    if !waits(common) {
        return Ok(Code::Done);
    }
    wait(&id, common, GOES_ON, context).await
}

/// Whether the end of the job is waited for.
pub(super) fn waits(common: &Common) -> bool {
    common.wait || common.out.is_some() || common.timeline.is_some()
}

/// Starts a job and says so; its id.
pub(super) async fn begin(new: &NewJob, common: &Common, context: &Context) -> Result<String> {
    let api = context.api()?;
    let reply = api.post(&["flows"], new).await?;
    let JobView { id, .. } = tell_started(&reply, waits(common), &api, &context.output)?;
    Ok(id)
}

/// Waits for the end of a job, and fetches what is wanted then. `meanwhile` is what becomes of it if somebody presses
/// Ctrl-C.
pub(super) async fn wait(
    id: &str,
    common: &Common,
    meanwhile: &'static str,
    context: &Context,
) -> Result<Code> {
    let (api, output) = (context.api()?, &context.output);
    let code = wait_telling::<JobView>(&api, id, meanwhile, context).await?;
    if let Some(file) = &common.timeline {
        results::timeline(&api, id, file, output).await?;
    }
    if let Some(folder) = &common.out
        && code == Code::Done
    {
        results::fetch(&api, id, folder, output).await?;
    }
    Ok(code)
}
