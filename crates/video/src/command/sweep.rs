//! `divvy video sweep`: removes what nobody uses, or shows what that would be.

use crate::library::{Sweep, Swept};
use anyhow::Result;
use divvy::api::Api;

use crate::command::args::SweepFlags;
use divvy_workload::Context;
use divvy_workload::console::exit::Code;
use divvy_workload::console::output::table::Table;
use divvy_workload::console::output::words::{bytes, count};

/// Sweeps.
pub(super) async fn run(args: &SweepFlags, context: &Context) -> Result<Code> {
    let (api, output) = (context.api()?, &context.output);
    let sweep = Sweep { dry_run: args.dry_run, older_than_ms: args.older_than.as_ms() };
    let swept = ask(&api, &sweep).await?;
    if output.is_json() {
        output.object(&swept)?;
        return Ok(Code::Done);
    }
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

/// Has a server sweep. A pass over a large library takes minutes, so there is no limit of time.
pub(crate) async fn ask(api: &Api, sweep: &Sweep) -> Result<Swept> {
    let request = api.request(reqwest::Method::POST, &["videos", "sweep"]).json(sweep);
    let answer = api.good(api.transmit(request).await?).await?;
    Ok(api.read(answer).await?)
}

/// What went, in words.
fn told(swept: &Swept, rest: &str) -> String {
    let Swept { blobs, uploads, results, removed, waiting, .. } = *swept;
    let waiting = match waiting {
        0 => String::new(),
        _ => format!(
            "; files of {} stay for now: used within the last ten minutes, or another video of the same source is \
             being made or has failed",
            count(waiting, "removed video")
        ),
    };
    if blobs + uploads + results == 0 {
        return format!("nothing that nobody uses has rested for {rest}{waiting}");
    }
    let verb = if swept.dry_run { "would remove" } else { "removed" };
    let done = match removed {
        0 => String::new(),
        _ => format!(", all that was left of {}", count(removed, "removed video")),
    };
    format!(
        "{verb} {} ({}, {}, {}{done}){waiting}",
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
        let expected = "would remove 1.5 KiB (1 blob, 0 unfinished uploads, 2 results)";
        assert_eq!(told(&swept, "1d"), expected);
        let swept = Swept { dry_run: false, removed: 3, waiting: 1, ..swept };
        let said = told(&swept, "1d");
        assert!(
            said.contains("2 results, all that was left of 3 removed videos); files of 1"),
            "{said}"
        );
        assert!(told(&Swept::default(), "1d").starts_with("nothing"));
        let said = told(&Swept { waiting: 2, ..Swept::default() }, "1d");
        assert!(said.starts_with("nothing") && said.contains("2 removed videos stay"), "{said}");
    }
}
