//! `divvy queue`: lists, shows, pauses and resumes queues.

use std::time::Duration;

use anyhow::Result;
use divvy_types::view::QueueView;
use serde_json::json;

use super::Context;
use crate::args::tasks::{Named, Queue};
use crate::exit::Code;
use crate::http::parse_rows;
use crate::output::table::{Cell, Table};
use crate::output::words;

/// Does what is asked.
pub(super) async fn run(args: Queue, context: &Context) -> Result<Code> {
    match args {
        Queue::List => list(context).await,
        Queue::Show(named) => show(&named, context).await,
        Queue::Pause(named) => set_paused(&named, "pause", context).await,
        Queue::Resume(named) => set_paused(&named, "resume", context).await,
    }
}

async fn list(context: &Context) -> Result<Code> {
    let rows = context.api()?.get(&["queues"], &[]).await?.rows()?.items;
    if context.output.is_json() {
        rows.iter().try_for_each(|row| context.output.raw(row.get()))?;
        return Ok(Code::Done);
    }
    print(&parse_rows(&rows)?, context)
}

async fn show(named: &Named, context: &Context) -> Result<Code> {
    let reply = context.api()?.get(&["queues", &named.name], &[]).await?;
    if context.output.is_json() {
        context.output.raw(reply.text())?;
        return Ok(Code::Done);
    }
    print(&[reply.parse()?], context)
}

fn print(queues: &[QueueView], context: &Context) -> Result<Code> {
    let output = &context.output;
    if output.is_quiet() {
        queues.iter().try_for_each(|queue| output.data(&queue.name))?;
        return Ok(Code::Done);
    }
    // How long the oldest waits says more than how many wait, so it stands first.
    let mut table =
        Table::new(&["QUEUE", "=STATE", ">OLDEST", ">READY", ">LEASED", ">SCHEDULED", ">BLOCKED"]);
    for queue in queues {
        let oldest = queue
            .oldest_ready_ms
            .map_or_else(|| "-".to_owned(), |ms| words::span(Duration::from_millis(ms)));
        table.row([
            queue.name.as_str().into(),
            if queue.paused { Cell::colored("paused", "33") } else { "open".into() },
            oldest.into(),
            queue.ready.to_string().into(),
            queue.leased.to_string().into(),
            queue.scheduled.to_string().into(),
            queue.blocked.to_string().into(),
        ]);
    }
    table.print(output)?;
    Ok(Code::Done)
}

async fn set_paused(named: &Named, verb: &str, context: &Context) -> Result<Code> {
    let output = &context.output;
    let reply = context.api()?.post(&["queues", &named.name, verb], &json!({})).await?;
    if output.is_json() {
        output.raw(reply.text())?;
    } else if output.is_quiet() {
        output.data(&named.name)?;
    } else if verb == "pause" {
        output.data(format_args!("queue {} is paused; running tasks go on", named.name))?;
    } else {
        output.data(format_args!("queue {} is open", named.name))?;
    }
    Ok(Code::Done)
}
