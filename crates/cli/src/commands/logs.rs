//! `divvy logs`: the log of a task, whole or as it grows.

use anyhow::Result;

use super::Context;
use crate::args::tasks::Logs;
use crate::exit::Code;

/// Prints.
pub(super) async fn run(args: &Logs, context: &Context) -> Result<Code> {
    let api = context.api()?;
    let query = [("follow", args.follow.to_string())];
    let query = if args.follow { &query[..] } else { &[] };
    let mut response = api.stream(&["tasks", &args.task.id, "log"], query).await?;
    let mut ends_line = true;
    while let Some(chunk) = response.chunk().await.map_err(|error| api.lost(&error))? {
        ends_line = chunk.ends_with(b"\n");
        context.output.bytes(&chunk)?;
    }
    if !ends_line {
        context.output.bytes(b"\n")?;
    }
    Ok(Code::Done)
}
