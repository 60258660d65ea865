//! `divvy limit`: lists, sets and removes limits.

use anyhow::Result;
use divvy_types::overview::LimitStatus;
use divvy_types::settings::Limit as Settings;

use super::Context;
use crate::args::scheduling::{Limit, RemoveLimit, SetLimit};
use crate::confirm::confirm_or;
use crate::exit::Code;
use crate::output::table::{Cell, Table};
use crate::output::words;
use divvy::api::parse_rows;

/// Does what is asked.
pub(super) async fn run(args: Limit, context: &Context) -> Result<Code> {
    match args {
        Limit::List => list(context).await,
        Limit::Set(args) => set(args, context).await,
        Limit::Remove(args) => remove(&args, context).await,
    }
}

async fn list(context: &Context) -> Result<Code> {
    let output = &context.output;
    let rows = context.api()?.get(&["limits"], &[]).await?.rows()?.items;
    if output.is_json() {
        rows.iter().try_for_each(|row| output.raw(row.get()))?;
        return Ok(Code::Done);
    }
    let limits: Vec<LimitStatus> = parse_rows(&rows)?;
    if output.is_quiet() {
        limits.iter().try_for_each(|limit| output.data(&limit.name))?;
        return Ok(Code::Done);
    }
    let mut table = Table::new(&[
        "LIMIT", ">RATE", ">BURST", ">AT ONCE", "TOTAL", ">RUNNING", ">WAITING", ">KEYS", "=NEXT",
    ]);
    for limit in &limits {
        table.row(row(limit));
    }
    table.print(output)?;
    if limits.is_empty() {
        output.note("no limit is set; set one with `divvy limit set NAME --rate 10/s`");
    }
    Ok(Code::Done)
}

fn row(status: &LimitStatus) -> [Cell; 9] {
    fn text<T: ToString>(value: Option<T>) -> Cell {
        value.map_or_else(|| "-".to_owned(), |value| value.to_string()).into()
    }
    let Settings { rate, burst, concurrency, total_rate, total_concurrency } = &status.limit;
    let totals = [
        total_rate.map(|rate| rate.to_string()),
        total_concurrency.map(|most| format!("{most} at once")),
    ];
    let totals: Vec<String> = totals.into_iter().flatten().collect();
    let next = status.levels.iter().filter_map(|level| level.next_at).min();
    let waiting = status.waiting.to_string();
    [
        status.name.as_str().into(),
        text(*rate),
        text(*burst),
        text(*concurrency),
        text((!totals.is_empty()).then(|| totals.join(", "))),
        status.running.to_string().into(),
        if status.waiting > 0 { Cell::colored(waiting, "33") } else { waiting.into() },
        status.keys.to_string().into(),
        text(next.map(|at| words::relative(at, words::now()))),
    ]
}

async fn set(args: SetLimit, context: &Context) -> Result<Code> {
    let SetLimit { name, rate, burst, concurrency, total_rate, total_concurrency } = args;
    let limit = Settings { rate, burst, concurrency, total_rate, total_concurrency };
    let reply = context.api()?.put(&["limits", &name], &limit).await?;
    say(&name, "is set; tasks name it with --limit", reply.text(), context)
}

async fn remove(args: &RemoveLimit, context: &Context) -> Result<Code> {
    let (api, name) = (context.api()?, &args.name);
    if !args.yes {
        let limits: Vec<LimitStatus> = parse_rows(&api.get(&["limits"], &[]).await?.rows()?.items)?;
        let waiting = limits.iter().find(|limit| limit.name == *name).map_or(0, |it| it.waiting);
        if waiting > 0 {
            let tasks = words::count(waiting, "task");
            let question =
                format!("{tasks} behind limit {name} may then start at once; remove it?");
            confirm_or(&question, "add --yes", &context.output)?;
        }
    }
    let reply = api.delete(&["limits", name]).await?;
    say(name, "is removed", reply.text(), context)
}

fn say(name: &str, what: &str, body: &str, context: &Context) -> Result<Code> {
    let output = &context.output;
    if output.is_json() {
        output.raw(body)?;
    } else if output.is_quiet() {
        output.data(name)?;
    } else {
        output.data(format_args!("limit {name} {what}"))?;
    }
    Ok(Code::Done)
}
