//! `divvy logs`: the log of a task, whole or as it grows.

use anyhow::Result;

use super::Context;
use crate::args::tasks::Logs;
use crate::exit::Code;
use crate::output::visible::Pieces;

/// Prints.
pub(super) async fn run(args: &Logs, context: &Context) -> Result<Code> {
    let api = context.api()?;
    let query = [("follow", args.follow.to_string())];
    let query = if args.follow { &query[..] } else { &[] };
    let mut response = api.stream(&["tasks", &args.task.id, "log"], query).await?;
    let (mut pieces, mut ends_line) = (Pieces::default(), true);
    let mut print = |text: String| {
        ends_line = text.is_empty() && ends_line || text.ends_with('\n');
        context.output.bytes(text.as_bytes())
    };
    while let Some(chunk) = response.chunk().await.map_err(|error| api.lost(&error))? {
        print(pieces.next(&chunk))?;
    }
    print(pieces.end())?;
    if !ends_line {
        context.output.bytes(b"\n")?;
    }
    Ok(Code::Done)
}
