//! `divvy worker`: lists, shows and drains connected workers.

use anyhow::Result;
use divvy_types::view::WorkerView;
use serde_json::json;

use super::Context;
use crate::args::tasks::{Named, Worker};
use crate::exit::Code;
use crate::http::parse_rows;
use crate::output::table::{Cell, Table};
use crate::output::words;

/// Does what is asked.
pub(super) async fn run(args: Worker, context: &Context) -> Result<Code> {
    match args {
        Worker::List => list(context).await,
        Worker::Show(named) => show(&named, context).await,
        Worker::Drain(named) => drain(&named, context).await,
    }
}

async fn list(context: &Context) -> Result<Code> {
    let output = &context.output;
    let rows = context.api()?.get(&["workers"], &[]).await?.rows()?.items;
    if output.is_json() {
        rows.iter().try_for_each(|row| output.raw(row.get()))?;
        return Ok(Code::Done);
    }
    let workers: Vec<WorkerView> = parse_rows(&rows)?;
    if output.is_quiet() {
        workers.iter().try_for_each(|worker| output.data(&worker.name))?;
        return Ok(Code::Done);
    }
    let now = words::now();
    let mut table = Table::new(&[
        "WORKER",
        "=STATE",
        ">HOLDS",
        ">DONE",
        ">FAILED",
        "=SEEN",
        "QUEUES",
        "CAPABILITIES",
    ]);
    for worker in &workers {
        table.row([
            worker.name.as_str().into(),
            state(worker),
            format!("{}/{}", worker.leased, worker.credit).into(),
            worker.finished.to_string().into(),
            worker.failed.to_string().into(),
            words::relative(worker.seen_at, now).into(),
            if worker.queues.is_empty() { "all".into() } else { worker.queues.join(",").into() },
            worker.capabilities.join(",").into(),
        ]);
    }
    table.print(output)?;
    if workers.is_empty() {
        output.note("no worker is connected; start one with `divvy work`");
    }
    Ok(Code::Done)
}

fn state(worker: &WorkerView) -> Cell {
    match (worker.draining, worker.leased) {
        (true, _) => Cell::colored("draining", "33"),
        (false, 0) => "idle".into(),
        (false, _) => Cell::colored("busy", "34"),
    }
}

async fn show(named: &Named, context: &Context) -> Result<Code> {
    let output = &context.output;
    let rows = context.api()?.get(&["workers", &named.name], &[]).await?.rows()?.items;
    if output.is_json() {
        rows.iter().try_for_each(|row| output.raw(row.get()))?;
        return Ok(Code::Done);
    }
    let now = words::now();
    for worker in parse_rows::<WorkerView>(&rows)? {
        if output.is_quiet() {
            output.data(&worker.name)?;
            continue;
        }
        let queues =
            if worker.queues.is_empty() { "all".to_owned() } else { worker.queues.join(", ") };
        for (name, value) in [
            ("name", worker.name.to_string()),
            ("state", if worker.draining { "draining" } else { "connected" }.to_owned()),
            ("holds", format!("{} of {}", worker.leased, worker.credit)),
            ("finished", format!("{} ({} attempts failed)", worker.finished, worker.failed)),
            ("connected", words::relative(worker.connected_at, now)),
            ("seen", words::relative(worker.seen_at, now)),
            ("queues", queues),
            ("kinds", worker.kinds.join(", ")),
            ("has", worker.capabilities.join(", ")),
        ] {
            output.data(format_args!("{name:<10} {value}").to_string().trim_end())?;
        }
    }
    Ok(Code::Done)
}

async fn drain(named: &Named, context: &Context) -> Result<Code> {
    let output = &context.output;
    let reply = context.api()?.post(&["workers", &named.name, "drain"], &json!({})).await?;
    if output.is_json() {
        output.raw(reply.text())?;
    } else if output.is_quiet() {
        output.data(&named.name)?;
    } else {
        output.data(format_args!("worker {} finishes its tasks and takes no more", named.name))?;
    }
    Ok(Code::Done)
}
