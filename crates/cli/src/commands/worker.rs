//! `divvy worker`: lists, shows, judges, pauses and drains connected workers.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use divvy_types::view::{TierView, WorkerView};
use divvy_types::{Name, Timestamp};
use serde_json::json;

use super::Context;
use crate::args::scheduling::WorkerStatus;
use crate::args::tasks::{Named, Worker};
use crate::exit::Code;
use crate::output::table::{Cell, Table, folded};
use crate::output::words;
use divvy::api::parse_rows;

/// Capabilities of a worker that a list shows; `divvy worker show` has all.
const CAPABILITIES_LISTED: usize = 3;

/// Does what is asked.
pub(super) async fn run(args: Worker, context: &Context) -> Result<Code> {
    match args {
        Worker::List => list(context).await,
        Worker::Show(named) => show(&named, context).await,
        Worker::Status(args) => status(&args, context).await,
        Worker::Pause(named) => {
            tell(
                &named,
                "pause",
                "finishes its tasks and takes no more until it is resumed",
                context,
            )
            .await
        }
        Worker::Resume(named) => tell(&named, "resume", "takes tasks again", context).await,
        Worker::Drain(named) => {
            tell(&named, "drain", "finishes its tasks and takes no more", context).await
        }
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
        ">RUNS",
        ">QUEUED",
        ">DONE",
        ">SUCCESS",
        "=SEEN",
        "QUEUES",
        "CAPABILITIES",
    ]);
    for worker in &workers {
        table.row([
            worker.name.as_str().into(),
            state(worker),
            running(worker).to_string().into(),
            worker.queue_length.to_string().into(),
            worker.finished.to_string().into(),
            percent(worker.success_rate).into(),
            words::relative(worker.seen_at, now).into(),
            if worker.queues.is_empty() { "all".into() } else { worker.queues.join(",").into() },
            few(&worker.capabilities).into(),
        ]);
    }
    table.print(output)?;
    if workers.is_empty() {
        output.note("no worker is connected; start one with `divvy work`");
    }
    for (name, count) in namesakes(&workers) {
        output.note(format_args!(
            "{count} workers are called `{name}`: they are drained together and judged as one; give each its own --name"
        ));
    }
    Ok(Code::Done)
}

/// Tasks that presumably run: what it holds, without what waits there for a slot.
fn running(worker: &WorkerView) -> u32 {
    worker.leased.saturating_sub(worker.queue_length)
}

/// A few by name, more by their number.
fn few(names: &[Name]) -> String {
    match names.len() {
        0..=CAPABILITIES_LISTED => names.join(","),
        many => format!("{many} of them"),
    }
}

/// Names that more than one connected worker has, and how many do.
fn namesakes(workers: &[WorkerView]) -> Vec<(&str, usize)> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for worker in workers.iter().filter(|worker| worker.away_until.is_none()) {
        *counts.entry(worker.name.as_str()).or_default() += 1;
    }
    counts.into_iter().filter(|(_, count)| *count > 1).collect()
}

fn state(worker: &WorkerView) -> Cell {
    if worker.away_until.is_some() {
        Cell::colored("away", "33")
    } else if worker.draining {
        Cell::colored("draining", "33")
    } else if worker.paused {
        Cell::colored("paused", "33")
    } else if worker.leased == 0 {
        "idle".into()
    } else {
        Cell::colored("busy", "34")
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
        let facts = [
            ("name", worker.name.to_string()),
            ("state", standing(&worker, now)),
            ("runs", words::count(running(&worker).into(), "task")),
            ("queued", format!("{} there for a free slot", worker.queue_length)),
            ("takes", format!("up to {} at once: its slots, and some ahead", worker.credit)),
            ("success", percent(worker.success_rate)),
            ("finished", format!("{} ({} attempts failed)", worker.finished, worker.failed)),
            ("connected", words::relative(worker.connected_at, now)),
            ("seen", words::relative(worker.seen_at, now)),
            ("queues", queues),
            ("has", worker.capabilities.join(", ")),
        ];
        let kinds = worker.tiers.iter().map(|tier| ("kinds", kinds(tier)));
        for (name, value) in facts.into_iter().chain(kinds) {
            output.data(format!("{name:<10} {}", folded(&value, 11)).trim_end())?;
        }
    }
    Ok(Code::Done)
}

fn standing(worker: &WorkerView, now: Timestamp) -> String {
    match worker.away_until {
        Some(until) => {
            format!("away: its connection broke; it is given up {}", words::relative(until, now))
        }
        None if worker.draining => "draining".to_owned(),
        None if worker.paused => {
            format!("paused: it takes nothing until `divvy worker resume {}`", worker.name)
        }
        None => "connected".to_owned(),
    }
}

/// Kinds that share slots, and how many of these are busy.
fn kinds(tier: &TierView) -> String {
    let busy = tier.leased.saturating_sub(tier.queue_length);
    format!(
        "{} ({busy} of {} busy)",
        tier.kinds.join(", "),
        words::count(tier.slots.into(), "slot")
    )
}

async fn status(args: &WorkerStatus, context: &Context) -> Result<Code> {
    let output = &context.output;
    let path: Vec<&str> = ["workers"].into_iter().chain(args.name.as_deref()).collect();
    let rows = context.api()?.get(&path, &[]).await?.rows()?.items;
    if output.is_json() {
        rows.iter().try_for_each(|row| output.raw(row.get()))?;
        return Ok(Code::Done);
    }
    let workers: Vec<WorkerView> = parse_rows(&rows)?;
    if output.is_quiet() {
        workers.iter().try_for_each(|worker| output.data(&worker.name))?;
        return Ok(Code::Done);
    }
    let mut table = Table::new(&[
        "WORKER",
        "=STATE",
        ">RUNS",
        ">QUEUED",
        ">SUCCESS",
        ">DONE",
        ">FAILED",
        "RESTS FROM",
    ]);
    let now = words::now();
    for worker in &workers {
        table.row([
            worker.name.as_str().into(),
            state(worker),
            running(worker).to_string().into(),
            worker.queue_length.to_string().into(),
            percent(worker.success_rate).into(),
            worker.finished.to_string().into(),
            worker.failed.to_string().into(),
            quarantined(worker, now),
        ]);
    }
    table.print(output)?;
    if workers.is_empty() {
        output.note("no worker is connected; start one with `divvy work`");
    }
    if args.name.is_some() {
        print_skills(&workers, context)?;
    }
    Ok(Code::Done)
}

fn print_skills(workers: &[WorkerView], context: &Context) -> Result<()> {
    let now = words::now();
    let mut table = Table::new(&["KIND", ">ATTEMPTS", ">SUCCESS", ">RUN TIME", "=RESTS"]);
    for skill in workers.iter().flat_map(|worker| &worker.skills) {
        let run = skill.run_ms.map(|ms| words::span(Duration::from_secs_f64(ms.max(0.0) / 1e3)));
        let rests = skill.quarantined_until.filter(|until| *until > now);
        table.row([
            skill.kind.as_str().into(),
            skill.attempts.to_string().into(),
            percent(skill.success_rate).into(),
            run.unwrap_or_else(|| "-".to_owned()).into(),
            rests
                .map_or_else(|| "-".to_owned(), |at| format!("for {}", words::span(at.since(now))))
                .into(),
        ]);
    }
    table.print(&context.output)?;
    if workers.iter().all(|worker| worker.skills.is_empty()) {
        context.output.note("nothing is known of its skills yet: no attempt has ended there");
    }
    Ok(())
}

/// The kinds that a worker is kept from, and until when at the latest.
fn quarantined(worker: &WorkerView, now: Timestamp) -> Cell {
    let resting = worker.skills.iter().filter_map(|skill| {
        Some((skill.kind.as_str(), skill.quarantined_until.filter(|until| *until > now)?))
    });
    let resting: Vec<(&str, Timestamp)> = resting.collect();
    let Some(until) = resting.iter().map(|(_, until)| *until).max() else { return "-".into() };
    let kinds: Vec<&str> = resting.iter().map(|(kind, _)| *kind).collect();
    Cell::colored(format!("{}, {}", kinds.join(","), words::relative(until, now)), "33")
}

fn percent(share: f64) -> String {
    format!("{:.0}%", share * 100.0)
}

/// Tells a worker something; `effect` is what it does then.
async fn tell(named: &Named, word: &str, effect: &str, context: &Context) -> Result<Code> {
    let output = &context.output;
    let reply = context.api()?.post(&["workers", &named.name, word], &json!({})).await?;
    if output.is_json() {
        output.raw(reply.text())?;
    } else if output.is_quiet() {
        output.data(&named.name)?;
    } else {
        output.data(format_args!("worker {} {effect}", named.name))?;
    }
    Ok(Code::Done)
}
