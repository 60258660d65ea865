//! `divvy video sweep`: removes what nobody uses, or shows what that would be.

use crate::library::{Sweep, Swept};
use anyhow::Result;

use crate::command::args::SweepFlags;
use divvy_workload::Context;
use divvy_workload::console::exit::Code;
use divvy_workload::console::output::table::Table;
use divvy_workload::console::output::words::{bytes, count};

/// Sweeps.
pub(super) async fn run(args: &SweepFlags, context: &Context) -> Result<Code> {
    let (api, output) = (context.api()?, &context.output);
    let sweep = Sweep { dry_run: args.dry_run, older_than_ms: args.older_than.as_ms() };
    let reply = api.post(&["videos", "sweep"], &sweep).await?;
    if output.is_json() {
        output.raw(reply.text())?;
        return Ok(Code::Done);
    }
    let swept: Swept = reply.parse()?;
    if output.is_quiet() {
        output.data(swept.bytes)?;
        return Ok(Code::Done);
    }
    output.data(told(&swept, &args.older_than.to_string()))?;
    if swept.dry_run && !swept.items.is_empty() {
        let mut table = Table::new(&["=SIZE", "BLOB"]);
        for blob in &swept.items {
            table.row([bytes(blob.size).into(), blob.id.to_string().into()]);
        }
        table.print(output)?;
    }
    Ok(Code::Done)
}

/// What went, in words.
fn told(swept: &Swept, rest: &str) -> String {
    let Swept { blobs, uploads, results, .. } = *swept;
    if blobs + uploads + results == 0 {
        return format!("nothing that nobody uses has rested for {rest}");
    }
    let verb = if swept.dry_run { "would remove" } else { "removed" };
    format!(
        "{verb} {} ({}, {}, {} of cancelled videos)",
        bytes(swept.bytes),
        count(blobs, "blob"),
        count(uploads, "unfinished upload"),
        count(results, "result"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_went_is_told_with_how_much() {
        let swept = Swept { bytes: 1536, blobs: 1, results: 2, dry_run: true, ..Swept::default() };
        let expected =
            "would remove 1.5 KiB (1 blob, 0 unfinished uploads, 2 results of cancelled videos)";
        assert_eq!(told(&swept, "1d"), expected);
        assert!(told(&Swept::default(), "1d").starts_with("nothing"));
    }
}
