//! Starts a job of any kind, and waits for it if that is wanted.

use anyhow::Result;
use divvy_workload::Context;
use divvy_workload::console::exit::Code;
use divvy_workload::view::{tell_started, wait_for};

use super::args::Common;
use super::results;
use crate::job::NewJob;
use crate::jobs::view::JobView;

/// Starts a job, and waits for it if that is wanted.
pub(crate) async fn run(new: &NewJob, common: &Common, context: &Context) -> Result<Code> {
    let (api, output) = (context.api()?, &context.output);
    let reply = api.post(&["flows"], new).await?;
    let waits = common.wait || common.out.is_some() || common.timeline.is_some();
    let JobView { id, .. } = tell_started(&reply, waits, &api, output)?;
    if !waits {
        return Ok(Code::Done);
    }
    let code = wait_for::<JobView>(&api, &id, context).await?;
    if let Some(file) = &common.timeline {
        results::timeline(&api, &id, file, output).await?;
    }
    if let Some(folder) = &common.out
        && code == Code::Done
    {
        results::fetch(&api, &id, folder, output).await?;
    }
    Ok(code)
}
