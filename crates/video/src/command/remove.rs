//! `divvy video remove`: removes videos, after a question.

use anyhow::Result;
use serde_json::json;

use super::resolve_all;
use crate::command::args::Remove;
use divvy_workload::Context;
use divvy_workload::console::confirm::confirm_or;
use divvy_workload::console::exit::Code;
use divvy_workload::console::output::words::bytes;

/// Removes.
pub(super) async fn run(args: &Remove, context: &Context) -> Result<Code> {
    let (api, output) = (context.api()?, &context.output);
    let ids = resolve_all(&api, &args.videos.ids).await?;
    if !args.yes {
        let names: Vec<&str> = ids.iter().map(|id| id.0.as_str()).collect();
        let question = format!(
            "Remove {} with all files that no other video uses?",
            if names.len() > 3 { format!("{} videos", names.len()) } else { names.join(", ") }
        );
        confirm_or(&question, "add --yes", &context.output)?;
    }
    for id in &ids {
        let reply = api.delete(&["videos", &id.0]).await?.value()?;
        let most = reply["bytes_at_most"].as_u64().unwrap_or_default();
        if output.is_json() {
            output.object(&json!({ "id": id.0, "removed": true, "bytes_at_most": most }))?;
        } else if output.is_quiet() {
            output.data(&id.0)?;
        } else {
            let most = bytes(most);
            output.data(format_args!(
                "{}  removed; up to {most} are freed later, once no other video uses them",
                id.0
            ))?;
        }
    }
    Ok(Code::Done)
}
