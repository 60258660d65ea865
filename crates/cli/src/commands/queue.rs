//! `divvy queue`: lists, shows, pauses, resumes and weighs queues, and evens out those of the workers.

use std::time::Duration;

use anyhow::Result;
use divvy_types::overview::{QueueStatus, Rebalance, SettingsView};
use divvy_types::settings::{FairBy, LoadBalancing};
use serde_json::{Map, Value, json};

use super::Context;
use crate::args::scheduling::{self, SetQueue};
use crate::args::tasks::{Named, Queue};
use crate::exit::Code;
use crate::output::ids::Shortener;
use crate::output::table::{Cell, Table};
use crate::output::words;
use divvy::api::parse_rows;

/// Does what is asked.
pub(super) async fn run(args: Queue, context: &Context) -> Result<Code> {
    match args {
        Queue::List => list(context).await,
        Queue::Show(named) => show(&named, context).await,
        Queue::Pause(named) => set_paused(&named, "pause", context).await,
        Queue::Resume(named) => set_paused(&named, "resume", context).await,
        Queue::Set(args) => set(&args, context).await,
        Queue::Rebalance(args) => rebalance(&args, context).await,
    }
}

async fn list(context: &Context) -> Result<Code> {
    let rows = context.api()?.all(&["queues"]).await?;
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
    let queue: QueueStatus = reply.parse()?;
    print(std::slice::from_ref(&queue), context)?;
    if context.output.is_quiet() {
        return Ok(Code::Done);
    }
    if queue.fair_by == FairBy::Time || !queue.fair_weights.is_empty() {
        let by = if queue.fair_by == FairBy::Time { "run time" } else { "starts" };
        let weights: Vec<String> =
            queue.fair_weights.iter().map(|(key, weight)| format!("{key} {weight}")).collect();
        let others = if weights.is_empty() { "every key 1" } else { ", others 1" };
        context
            .output
            .data(format_args!("fair keys share {by}: {}{others}", weights.join(", ")))?;
    }
    Ok(Code::Done)
}

fn print(queues: &[QueueStatus], context: &Context) -> Result<Code> {
    let output = &context.output;
    if output.is_quiet() {
        queues.iter().try_for_each(|status| output.data(&status.queue.name))?;
        return Ok(Code::Done);
    }
    // How long the oldest waits says more than how many wait, so it stands first.
    let mut table = Table::new(&[
        "QUEUE",
        "=STATE",
        ">OLDEST",
        ">READY",
        ">RUNNING",
        ">QUEUED",
        ">SCHEDULED",
        ">BLOCKED",
        ">WEIGHT",
    ]);
    for QueueStatus { queue, weight, .. } in queues {
        let oldest = queue
            .oldest_ready_ms
            .map_or_else(|| "-".to_owned(), |ms| words::span(Duration::from_millis(ms)));
        table.row([
            queue.name.as_str().into(),
            if queue.paused { Cell::colored("paused", "33") } else { "open".into() },
            oldest.into(),
            queue.ready.to_string().into(),
            queue.leased.saturating_sub(queue.queued).to_string().into(),
            queue.queued.to_string().into(),
            queue.scheduled.to_string().into(),
            queue.blocked.to_string().into(),
            weight.map_or_else(|| "-".to_owned(), |weight| weight.to_string()).into(),
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

async fn set(args: &SetQueue, context: &Context) -> Result<Code> {
    let (api, output) = (context.api()?, &context.output);
    let change = |queue: Value| json!({ "queues": { args.name.as_str(): queue } });
    let mut queue = Map::new();
    queue.extend(args.weight.map(|weight| ("weight".to_owned(), weight.into())));
    if let Some(fair_by) = args.fair_by {
        queue.insert("fair_by".to_owned(), serde_json::to_value(fair_by)?);
    }
    if !args.fair_weights.is_empty() {
        let weights = args.fair_weights.iter().map(|pair| (pair.0.to_string(), pair.1.into()));
        queue.insert("fair_weights".to_owned(), Value::Object(weights.collect()));
    }
    if args.reset {
        // The whole entry is replaced, so nothing of the old one is merged into it.
        let reply = api.put(&["queues", &args.name], &Value::Object(queue)).await?;
        return say_set(&args.name, reply.text(), context);
    }
    api.patch(&["settings"], &change(Value::Object(queue))).await?;
    if !output.is_json() {
        return say_set(&args.name, "", context);
    }
    let reply = api.get(&["queues", &args.name], &[]).await?;
    say_set(&args.name, reply.text(), context)
}

fn say_set(name: &str, body: &str, context: &Context) -> Result<Code> {
    let output = &context.output;
    if output.is_json() {
        output.raw(body)?;
    } else if output.is_quiet() {
        output.data(name)?;
    } else {
        output.data(format_args!("queue {name} is set; see it: divvy queue show {name}"))?;
    }
    Ok(Code::Done)
}

/// Why nothing moves, with the numbers that decide it.
fn why_none(settings: &LoadBalancing) -> String {
    if settings.work_stealing.predictive {
        return "nothing to move: no worker is expected to run out of work before one with tasks in its queue".into();
    }
    format!(
        "nothing to move: tasks go from workers with more than {} in their queue to workers with fewer than {}, \
         and there is no such pair (load_balancing.thresholds)",
        settings.thresholds.busy_threshold, settings.thresholds.idle_threshold
    )
}

async fn rebalance(args: &scheduling::Rebalance, context: &Context) -> Result<Code> {
    let output = &context.output;
    let query = [("dry_run", args.dry_run.to_string())];
    let reply = context.api()?.post_query(&["rebalance"], &query).await?;
    if output.is_json() {
        output.raw(reply.text())?;
        return Ok(Code::Done);
    }
    let Rebalance { moves, .. } = reply.parse()?;
    if output.is_quiet() {
        moves.iter().try_for_each(|moved| output.data(moved.task))?;
        return Ok(Code::Done);
    }
    let short = Shortener::new(moves.iter().map(|moved| moved.task));
    let mut table = Table::new(&["=TASK", "KIND", "FROM", "TO"]);
    for moved in &moves {
        table.row([
            short.short(moved.task).into(),
            moved.kind.as_str().into(),
            moved.from.as_str().into(),
            moved.to.as_str().into(),
        ]);
    }
    table.print(output)?;
    let count = words::count(moves.len() as u64, "task");
    match (moves.is_empty(), args.dry_run) {
        (true, _) => {
            let view: SettingsView = context.api()?.get(&["settings"], &[]).await?.parse()?;
            output.note(why_none(&view.settings.load_balancing));
        }
        (false, true) => output.note(format_args!("{count} would move; nothing was done")),
        (false, false) => output.note(format_args!("{count} asked back, to be given on")),
    }
    Ok(Code::Done)
}
