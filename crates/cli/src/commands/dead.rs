//! `divvy dead`: dead letters in groups, replayed or dropped after a count and a question.

use anyhow::Result;
use divvy_types::Timestamp;
use divvy_types::view::DeadGroup;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::Context;
use super::filter::{as_query, pairs, select};
use super::submit::payload_of;
use crate::args::tasks::{Dead, DeadList, DeadReplay, DeadSelection};
use crate::confirm::confirm;
use crate::exit::{Code, Failure};
use crate::output::ids::Shortener;
use crate::output::table::Table;
use crate::output::words;
use divvy::api::parse_rows;

#[derive(Deserialize)]
struct Treated {
    matched: u64,
    done: u64,
    #[serde(default)]
    last_due: Option<Timestamp>,
}

/// Does what is asked.
pub(super) async fn run(args: Dead, context: &Context) -> Result<Code> {
    match args {
        Dead::List(args) => list(&args, context).await,
        Dead::Replay(args) => {
            let body = replay_body(&args, context).await?;
            treat("replay", "replayed", &args.selection, body, context).await
        }
        Dead::Drop(selection) => {
            let body = body(&selection, context).await?;
            treat("drop", "dropped", &selection, body, context).await
        }
    }
}

async fn list(args: &DeadList, context: &Context) -> Result<Code> {
    let (api, output) = (context.api()?, &context.output);
    let filter = pairs(&select(&api, &args.select, &[]).await?)?;
    let mut groups: Vec<DeadGroup> = Vec::new();
    let mut after = None;
    loop {
        let mut query = as_query(&filter);
        query.extend(after.map(|cursor| ("after", cursor)));
        let page = api.get(&["dead"], &query).await?.rows()?;
        for group in parse_rows::<DeadGroup>(&page.items)? {
            let alike = |known: &&mut DeadGroup| {
                (&known.kind, known.class, &known.error) == (&group.kind, group.class, &group.error)
            };
            match groups.iter_mut().find(alike) {
                Some(known) => {
                    known.count += group.count;
                    known.first = known.first.min(group.first);
                    known.last = known.last.max(group.last);
                    // Each page has its own time, so their trends do not add up.
                    known.trend.clear();
                }
                None => groups.push(group),
            }
        }
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    groups.sort_by_key(|group| std::cmp::Reverse(group.count));
    if output.is_json() {
        for group in &groups {
            output.raw(&serde_json::to_string(group)?)?;
        }
        return Ok(Code::Done);
    }
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
    mut body: Map<String, Value>,
    context: &Context,
) -> Result<Code> {
    let (api, output) = (context.api()?, &context.output);
    if selection.dry_run || !selection.yes {
        body.insert("dry_run".to_owned(), true.into());
        let reply = api.post(&["dead", verb], &body).await?;
        let Treated { matched, last_due, .. } = reply.parse()?;
        let letters = words::count(matched, "dead letter");
        if selection.dry_run {
            if output.is_json() {
                output.raw(reply.text())?;
            } else {
                output.data(format_args!("{letters} would be {past}{}", until(last_due)))?;
            }
            return Ok(Code::Done);
        }
        if matched > 0 {
            confirm(&format!("{verb} {letters}?"), &context.output)?;
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
        "{} of {} {past}{}",
        treated.done,
        words::count(treated.matched, "dead letter"),
        until(treated.last_due)
    ))?;
    Ok(Code::Done)
}

/// When the last one of many goes.
fn until(last_due: Option<Timestamp>) -> String {
    last_due.map_or_else(String::new, |due| {
        format!(", the last one {} ({due})", words::relative(due, words::now()))
    })
}

async fn replay_body(args: &DeadReplay, context: &Context) -> Result<Map<String, Value>> {
    let mut body = body(&args.selection, context).await?;
    if let Some(rate) = args.rate {
        body.insert("rate".to_owned(), rate.to_string().into());
    }
    if let Some(text) = &args.payload {
        if args.selection.ids.len() != 1 {
            let failure = Failure::usage("--payload is for one dead letter");
            return Err(failure.cure("name it by its id, and the others apart").into());
        }
        body.insert("payload".to_owned(), serde_json::to_value(payload_of(text)?)?);
    }
    Ok(body)
}

async fn body(selection: &DeadSelection, context: &Context) -> Result<Map<String, Value>> {
    let filter = select(&context.api()?, &selection.select, &[]).await?;
    let Value::Object(mut body) = serde_json::to_value(filter)? else {
        unreachable!("a filter is an object")
    };
    if !selection.ids.is_empty() {
        body.insert("ids".to_owned(), selection.ids.clone().into());
    }
    if selection.all {
        body.insert("all".to_owned(), true.into());
    }
    Ok(body)
}
