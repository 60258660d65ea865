//! `divvy schedule`: sets, lists, shows, pauses, removes and triggers schedules, and tries expressions out.

use std::time::Duration;

use anyhow::Result;
use divvy_calendar::Calendar;
use divvy_calendar::calendar::InvalidCalendar;
use divvy_types::schedule::{CatchUp, Overlap, Schedule as Wanted, ScheduleView, Template};
use divvy_types::{Name, Timestamp};
use serde_json::json;

use super::Context;
use super::submit::described;
use super::task::term_facts;
use crate::args::schedule::{Preview, Schedule, SetSchedule};
use crate::args::tasks::Named;
use crate::exit::{Code, Failure};
use crate::output::Output;
use crate::output::table::{Cell, Table};
use crate::output::words;
use divvy::api::{Reply, parse_rows};

/// Does what is asked.
pub(super) async fn run(args: Schedule, context: &Context) -> Result<Code> {
    match args {
        Schedule::Set(args) => set(&args, context).await,
        Schedule::List => list(context).await,
        Schedule::Show(named) => show(&named, context).await,
        Schedule::Pause(named) => act(&named, "pause", context).await,
        Schedule::Resume(named) => act(&named, "resume", context).await,
        Schedule::Remove(named) => remove(&named, context).await,
        Schedule::Trigger(named) => trigger(&named, context).await,
        Schedule::Preview(args) => preview(&args, &context.output),
    }
}

async fn set(args: &SetSchedule, context: &Context) -> Result<Code> {
    let schedule = wanted(args)?;
    let reply = context.api()?.put(&["schedules", &args.name], &schedule).await?;
    told(&args.name, &reply, context)
}

fn wanted(args: &SetSchedule) -> Result<Wanted> {
    let mut task = Template::of(described(&args.kind, &args.terms)?);
    task.deadline_ms = args.deadline.map(|deadline| deadline.as_ms());
    let cron: Name = match (&args.cron, &args.every) {
        (Some(cron), _) => cron.as_str().into(),
        (None, Some(span)) => format!("@every {span}").into(),
        (None, None) => return Err(Failure::usage("give --cron or --every").into()),
    };
    let mut schedule = Wanted::new(cron, task);
    if let Some(zone) = &args.zone {
        schedule.zone = zone.as_str().into();
    }
    schedule.catch_up = args.catch_up.map(CatchUp::from).unwrap_or_default();
    schedule.overlap = args.overlap.map(Overlap::from).unwrap_or_default();
    schedule.paused = args.paused.then_some(true);
    (schedule.start, schedule.end) = (args.start, args.end);
    schedule.jitter_ms = args.jitter.map_or(0, |jitter| jitter.as_ms());
    Ok(schedule)
}

/// What a schedule is after a change, in one line.
fn told(name: &str, reply: &Reply, context: &Context) -> Result<Code> {
    let output = &context.output;
    if output.is_json() {
        output.raw(reply.text())?;
    } else if output.is_quiet() {
        output.data(name)?;
    } else {
        let view: ScheduleView = reply.parse()?;
        let next = match view.next.first() {
            _ if view.schedule.is_paused() => "paused".to_owned(),
            Some(tick) => format!("next {}", words::relative(tick.at, words::now())),
            None => "no tick is left".to_owned(),
        };
        output.data(format_args!("schedule {name}: {}; {next}", view.words))?;
    }
    Ok(Code::Done)
}

async fn list(context: &Context) -> Result<Code> {
    let output = &context.output;
    let rows = context.api()?.get(&["schedules"], &[]).await?.rows()?.items;
    if output.is_json() {
        rows.iter().try_for_each(|row| output.raw(row.get()))?;
        return Ok(Code::Done);
    }
    let schedules: Vec<ScheduleView> = parse_rows(&rows)?;
    if output.is_quiet() {
        schedules.iter().try_for_each(|view| output.data(&view.name))?;
        return Ok(Code::Done);
    }
    let now = words::now();
    let mut table = Table::new(&["SCHEDULE", "=STATE", "=NEXT", "CRON", "ZONE", "KIND"]);
    for view in &schedules {
        let next = view.next.first().map(|tick| words::relative(tick.at, now));
        table.row([
            view.name.as_str().into(),
            state(view),
            next.unwrap_or_else(|| "-".to_owned()).into(),
            view.schedule.cron.as_str().into(),
            view.schedule.zone.as_str().into(),
            view.schedule.task.kind.as_str().into(),
        ]);
    }
    table.print(output)?;
    if schedules.is_empty() {
        output.note("no schedule is set; see `divvy schedule set --help`");
    }
    Ok(Code::Done)
}

fn state(view: &ScheduleView) -> Cell {
    match (view.schedule.is_paused(), view.next.is_empty()) {
        (true, _) => Cell::colored("paused", "33"),
        (false, _) if view.refused.is_some() => Cell::colored("refused", "31"),
        (false, true) => Cell::colored("ended", "90"),
        (false, false) => Cell::colored("on", "32"),
    }
}

async fn show(named: &Named, context: &Context) -> Result<Code> {
    let output = &context.output;
    let reply = context.api()?.get(&["schedules", &named.name], &[]).await?;
    if output.is_json() {
        output.raw(reply.text())?;
        return Ok(Code::Done);
    }
    if output.is_quiet() {
        output.data(&named.name)?;
        return Ok(Code::Done);
    }
    let view: ScheduleView = reply.parse()?;
    let schedule = &view.schedule;
    let now = words::now();
    let bound = |time: Option<Timestamp>| time.map(|time| time.to_string()).unwrap_or_default();
    let deadline = schedule.task.deadline_ms.map(Duration::from_millis);
    let deadline = deadline.map(|span| format!("{} after its tick", words::span(span)));
    let deadline = deadline.unwrap_or_default();
    let refused = view.refused.as_ref().map_or_else(String::new, |refused| {
        format!("the tick {}: {}", words::relative(refused.at, now), refused.problem)
    });
    let facts = [
        ("name", view.name.to_string()),
        ("state", if schedule.is_paused() { "paused" } else { "on" }.to_owned()),
        ("cron", schedule.cron.to_string()),
        ("means", view.words),
        ("kind", schedule.task.kind.to_string()),
        ("queue", schedule.task.queue.to_string()),
        ("payload", schedule.task.payload.json_text().unwrap_or("(not JSON)").to_owned()),
        ("deadline", deadline),
        ("missed", missed(schedule.catch_up).to_owned()),
        ("overlap", overlap(schedule.overlap).to_owned()),
        ("start", bound(schedule.start)),
        ("end", bound(schedule.end)),
        ("set", words::relative(view.set_at, now)),
        ("last task", view.last_task.map(|task| task.to_string()).unwrap_or_default()),
        ("refused", refused),
    ];
    let facts = facts.map(|(name, value)| (name.to_owned(), value)).into_iter();
    for (name, value) in facts.chain(term_facts(&schedule.task.terms, now)) {
        if !value.is_empty() {
            output.data(format_args!("{name:<10} {value}"))?;
        }
    }
    let Ok(calendar) = Calendar::new(&schedule.cron, &schedule.zone) else {
        return Ok(Code::Done);
    };
    if !view.next.is_empty() {
        output.data("")?;
    }
    print_ticks(&calendar, view.next.iter().map(|tick| tick.at), output)
}

fn missed(catch_up: CatchUp) -> &'static str {
    match catch_up {
        CatchUp::Skip => "ticks are dropped",
        CatchUp::Last => "one task for all missed ticks",
        CatchUp::All => "one task for each missed tick",
    }
}

fn overlap(overlap: Overlap) -> &'static str {
    match overlap {
        Overlap::Allow => "allowed",
        Overlap::Skip => "no tick while the last task is open",
    }
}

async fn act(named: &Named, verb: &str, context: &Context) -> Result<Code> {
    let reply = context.api()?.post(&["schedules", &named.name, verb], &json!({})).await?;
    told(&named.name, &reply, context)
}

async fn remove(named: &Named, context: &Context) -> Result<Code> {
    let output = &context.output;
    let reply = context.api()?.delete(&["schedules", &named.name]).await?;
    if output.is_json() {
        output.raw(reply.text())?;
    } else if output.is_quiet() {
        output.data(&named.name)?;
    } else {
        output.data(format_args!("schedule {} is removed; its tasks stay", named.name))?;
    }
    Ok(Code::Done)
}

async fn trigger(named: &Named, context: &Context) -> Result<Code> {
    let output = &context.output;
    let reply = context.api()?.post(&["schedules", &named.name, "trigger"], &json!({})).await?;
    if output.is_json() {
        output.raw(reply.text())?;
        return Ok(Code::Done);
    }
    let value = reply.value()?;
    let task = value["task"].as_str().unwrap_or_default();
    output.data(task)?;
    output.note(format_args!("follow it: divvy wait {task}"));
    Ok(Code::Done)
}

/// Says when an expression ticks, without a server.
fn preview(args: &Preview, output: &Output) -> Result<Code> {
    let calendar = Calendar::new(&args.expression, &args.zone).map_err(|error| match error {
        InvalidCalendar::Expression(error) => {
            Failure::usage(format!("`{}`: {error}", args.expression))
                .cure("`divvy schedule set --help` has examples")
        }
        InvalidCalendar::Zone(error) => Failure::usage(format!("--zone {error}")),
    })?;
    let from = args.from.unwrap_or_else(words::now);
    let ticks = calendar.ticks_after(from).take(args.count as usize);
    if output.is_json() {
        for at in ticks {
            output.object(&json!({"at": at, "local": calendar.local(at)}))?;
        }
        return Ok(Code::Done);
    }
    output.note(calendar.describe());
    print_ticks(&calendar, ticks, output)
}

fn print_ticks(
    calendar: &Calendar,
    ticks: impl Iterator<Item = Timestamp>,
    output: &Output,
) -> Result<Code> {
    let now = words::now();
    let whole_second = |at: Timestamp| at.to_string().replace(".000000Z", "Z");
    if output.is_quiet() {
        for at in ticks {
            output.data(whole_second(at))?;
        }
        return Ok(Code::Done);
    }
    let mut table = Table::new(&["=LOCAL", "=UTC", "FROM NOW"]);
    for at in ticks {
        table.row([
            calendar.local_words(at).into(),
            whole_second(at).into(),
            words::relative(at, now).into(),
        ]);
    }
    table.print(output)?;
    Ok(Code::Done)
}
