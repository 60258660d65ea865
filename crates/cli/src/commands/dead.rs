//! `divvy dead`: dead letters in groups, replayed or dropped after a count and a question.

use std::io::{self, BufRead, IsTerminal, Write};

use anyhow::Result;
use divvy_types::view::DeadGroup;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::Context;
use crate::args::tasks::{Dead, DeadSelection};
use crate::exit::{Code, Failure};
use crate::http::parse_rows;
use crate::output::ids::Shortener;
use crate::output::table::Table;
use crate::output::words;

#[derive(Deserialize)]
struct Treated {
    matched: u64,
    done: u64,
}

/// Does what is asked.
pub(super) async fn run(args: Dead, context: &Context) -> Result<Code> {
    match args {
        Dead::List => list(context).await,
        Dead::Replay(selection) => treat("replay", "replayed", &selection, context).await,
        Dead::Drop(selection) => treat("drop", "dropped", &selection, context).await,
    }
}

async fn list(context: &Context) -> Result<Code> {
    let output = &context.output;
    let rows = context.api()?.get(&["dead"], &[]).await?.rows()?.items;
    if output.is_json() {
        rows.iter().try_for_each(|row| output.raw(row.get()))?;
        return Ok(Code::Done);
    }
    let groups: Vec<DeadGroup> = parse_rows(&rows)?;
    if output.is_quiet() {
        groups.iter().try_for_each(|group| output.data(group.sample))?;
        return Ok(Code::Done);
    }
    let short = Shortener::new(groups.iter().map(|group| group.sample));
    let mut table = Table::new(&[">COUNT", "KIND", "=CLASS", "ERROR", "=SAMPLE"]);
    for group in &groups {
        table.row([
            group.count.to_string().into(),
            group.kind.as_str().into(),
            group.class.as_str().into(),
            group.error.as_str().into(),
            short.short(group.sample).into(),
        ]);
    }
    table.print(output)?;
    if groups.is_empty() {
        output.note("no dead letters");
    }
    Ok(Code::Done)
}

async fn treat(
    verb: &str,
    past: &str,
    selection: &DeadSelection,
    context: &Context,
) -> Result<Code> {
    let (api, output) = (context.api()?, &context.output);
    let mut body = body(selection);
    if selection.dry_run || !selection.yes {
        body.insert("dry_run".to_owned(), true.into());
        let reply = api.post(&["dead", verb], &body).await?;
        let matched = reply.parse::<Treated>()?.matched;
        let letters = words::count(matched, "dead letter");
        if selection.dry_run {
            if output.is_json() {
                output.raw(reply.text())?;
            } else {
                output.data(format_args!("{letters} would be {past}"))?;
            }
            return Ok(Code::Done);
        }
        if matched > 0 {
            confirm(&format!("{verb} {letters}?"), context)?;
        }
        body.remove("dry_run");
    }
    let reply = api.post(&["dead", verb], &body).await?;
    if output.is_json() {
        output.raw(reply.text())?;
        return Ok(Code::Done);
    }
    let treated: Treated = reply.parse()?;
    output.data(format_args!(
        "{} of {} {past}",
        treated.done,
        words::count(treated.matched, "dead letter")
    ))?;
    Ok(Code::Done)
}

fn body(selection: &DeadSelection) -> Map<String, Value> {
    let mut body = Map::new();
    if !selection.ids.is_empty() {
        body.insert("ids".to_owned(), selection.ids.clone().into());
    }
    if selection.all {
        body.insert("all".to_owned(), true.into());
    }
    for (name, value) in [("kind", &selection.kind), ("error", &selection.error)] {
        if let Some(value) = value {
            body.insert(name.to_owned(), value.as_str().into());
        }
    }
    body
}

/// Asks on a terminal; without one nobody could answer.
fn confirm(question: &str, context: &Context) -> Result<()> {
    if !io::stdin().is_terminal() || context.output.is_json() {
        let failure = Failure::refused(format!("{question} nobody is here to answer"));
        return Err(failure.cure("add --yes, or look first with --dry-run").into());
    }
    // If the question cannot be shown, the answer will not come either.
    let _ = write!(io::stderr(), "{question} [y/N] ");
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    if matches!(answer.trim().to_lowercase().as_str(), "y" | "yes") {
        return Ok(());
    }
    Err(Failure::refused("nothing was done").into())
}
