//! `divvy kind list`: which kinds of tasks there are, who runs them, and what the built-in ones do.

use std::time::Duration;

use anyhow::Result;
use divvy::api::parse_rows;
use divvy_types::overview::KindStatus;
use divvy_worker::builtin::KINDS;

use super::Context;
use crate::args::tasks::Kind;
use crate::exit::Code;
use crate::output::table::{Cell, Table};
use crate::output::words;

/// Does what is asked.
pub(super) async fn run(args: &Kind, context: &Context) -> Result<Code> {
    let Kind::List = args;
    let (rows, output) = (context.api()?.all(&["kinds"]).await?, &context.output);
    if output.is_json() {
        rows.iter().try_for_each(|row| output.raw(row.get()))?;
        return Ok(Code::Done);
    }
    let kinds = with_builtin(parse_rows(&rows)?);
    if output.is_quiet() {
        kinds.iter().try_for_each(|(kind, _)| output.data(&kind.name))?;
        return Ok(Code::Done);
    }
    let header =
        ["KIND", ">WORKERS", ">SLOTS", ">WAITING", ">RUNNING", ">MEAN", ">P95", "WHAT IT DOES"];
    let mut table = Table::new(&header);
    for (kind, about) in &kinds {
        let span = |ms: Option<u64>| {
            ms.map_or_else(|| "-".to_owned(), |ms| words::span(Duration::from_millis(ms)))
        };
        let workers = kind.workers.to_string();
        let nobody = kind.workers == 0 && kind.waiting > 0;
        table.row([
            kind.name.as_str().into(),
            if nobody { Cell::colored(workers, "33") } else { workers.into() },
            kind.slots.to_string().into(),
            kind.waiting.to_string().into(),
            kind.running.to_string().into(),
            span(kind.run_mean_ms).into(),
            span(kind.run_p95_ms).into(),
            (*about).into(),
        ]);
    }
    table.print(output)?;
    Ok(Code::Done)
}

/// Kinds that the server knows and those that every worker can run, by name, with what the latter do.
fn with_builtin(mut kinds: Vec<KindStatus>) -> Vec<(KindStatus, &'static str)> {
    let missing = KINDS.iter().filter(|(name, _)| kinds.iter().all(|kind| kind.name != *name));
    let missing: Vec<KindStatus> = missing
        .map(|(name, _)| KindStatus { name: (*name).into(), ..KindStatus::default() })
        .collect();
    kinds.extend(missing);
    kinds.sort_unstable_by(|one, other| one.name.cmp(&other.name));
    let about = |kind: &KindStatus| KINDS.iter().find(|(name, _)| kind.name == *name);
    kinds
        .into_iter()
        .map(|kind| {
            let text = about(&kind).map_or("", |(_, about)| *about);
            (kind, text)
        })
        .collect()
}
