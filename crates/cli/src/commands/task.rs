//! `divvy task`: lists, shows, cancels and retries tasks, by id or by filter.

use anyhow::Result;
use divvy_types::limits::PAGE_ROWS_MAX;
use divvy_types::view::{TaskDetail, TaskSummary, TermsView};
use divvy_types::{Name, TaskId, TaskState, Timestamp};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::Context;
use super::bulk::{self, Verb};
use crate::args::bulk::TaskSelection;
use crate::args::tasks::{CancelTasks, OneTask, Task, TaskList};
use crate::exit::Code;
use crate::http::{Reply, parse_rows};
use crate::output::ids::Shortener;
use crate::output::table::{Cell, Table};
use crate::output::words;

/// Does what is asked.
pub(super) async fn run(args: Task, context: &Context) -> Result<Code> {
    match args {
        Task::List(args) => list(args, context).await,
        Task::Show(args) => show(&args, context).await,
        Task::Cancel(args) => cancel(&args, context).await,
        Task::Retry(args) => retry(&args, context).await,
    }
}

async fn list(args: TaskList, context: &Context) -> Result<Code> {
    let api = context.api()?;
    let mut query = Vec::new();
    if !args.state.is_empty() {
        let states: Vec<&str> = args.state.iter().map(|state| state.as_str()).collect();
        query.push(("state", states.join(",")));
    }
    query.extend(args.kind.map(|kind| ("kind", kind)));
    query.extend(args.queue.map(|queue| ("queue", queue)));
    query.extend(args.workflow.map(|workflow| ("workflow", workflow.to_string())));
    let limit = if args.all { PAGE_ROWS_MAX.to_string() } else { args.limit.to_string() };
    query.push(("limit", limit));
    let mut after = args.after;
    loop {
        let mut page_query = query.clone();
        page_query.extend(after.map(|cursor| ("after", cursor)));
        let page = api.get(&["tasks"], &page_query).await?.rows()?;
        print_page(&page.items, context)?;
        after = page.next;
        match &after {
            None => return Ok(Code::Done),
            Some(_) if args.all => {}
            Some(cursor) => {
                context.output.note(format_args!("there are more: add --after {cursor}, or --all"));
                return Ok(Code::Done);
            }
        }
    }
}

fn print_page(rows: &[Box<RawValue>], context: &Context) -> Result<()> {
    let output = &context.output;
    if output.is_json() {
        rows.iter().try_for_each(|row| output.raw(row.get()))?;
        return Ok(());
    }
    let tasks: Vec<TaskSummary> = parse_rows(rows)?;
    if output.is_quiet() {
        tasks.iter().try_for_each(|task| output.data(task.id))?;
        return Ok(());
    }
    let now = words::now();
    let short = Shortener::new(tasks.iter().map(|task| task.id));
    let mut table = Table::new(&["=ID", "KIND", "QUEUE", "=STATE", ">P", ">TRY", "=WHEN", "NOTE"]);
    for task in &tasks {
        let when = task.ended_at.unwrap_or(task.submitted_at);
        table.row([
            short.short(task.id).into(),
            task.kind.as_str().into(),
            task.queue.as_str().into(),
            state_cell(task.state),
            task.priority.to_string().into(),
            task.attempts.to_string().into(),
            words::relative(when, now).into(),
            remark(task).into(),
        ]);
    }
    table.print(output)?;
    Ok(())
}

/// A state in its colour.
pub(super) fn state_cell(state: TaskState) -> Cell {
    Cell::colored(state.as_str(), words::state_color(state))
}

/// What is worth knowing besides the state: why it waits, how far it is, what went wrong.
fn remark(task: &TaskSummary) -> String {
    if let Some(progress) = &task.progress
        && task.state == TaskState::Leased
    {
        let total = if progress.total > 0 { format!("/{}", progress.total) } else { String::new() };
        return format!("{}{total} {}", progress.done, progress.message);
    }
    if let Some(wait) = &task.wait_text {
        return wait.clone();
    }
    match (&task.error, &task.worker) {
        (Some(error), _) if task.state != TaskState::Done => error.to_string(),
        (_, Some(worker)) => format!("on {worker}"),
        _ => String::new(),
    }
}

async fn show(args: &OneTask, context: &Context) -> Result<Code> {
    let output = &context.output;
    let reply = context.api()?.get(&["tasks", &args.id], &[]).await?;
    if output.is_json() {
        output.raw(reply.text())?;
        return Ok(Code::Done);
    }
    let task: TaskDetail = reply.parse()?;
    if output.is_quiet() {
        output.data(task.summary.id)?;
        return Ok(Code::Done);
    }
    for (name, value) in facts(&task) {
        output.data(format_args!("{name:<10} {value}"))?;
    }
    let now = words::now();
    let mut table = Table::new(&[">ATTEMPT", "=ENDED", "WORKER", "END"]);
    for (number, attempt) in task.history.iter().enumerate() {
        let end = attempt.error.as_ref().map_or_else(|| "finished".to_owned(), ToString::to_string);
        let end = if attempt.counted { end } else { format!("{end} (not counted)") };
        let number = (number + 1).to_string();
        table.row([
            number.into(),
            words::relative(attempt.at, now).into(),
            attempt.worker.as_str().into(),
            end.into(),
        ]);
    }
    table.print(output)?;
    Ok(Code::Done)
}

fn facts(task: &TaskDetail) -> Vec<(&'static str, String)> {
    let now = words::now();
    let summary = &task.summary;
    let mut facts = vec![
        ("id", summary.id.to_string()),
        ("kind", summary.kind.to_string()),
        ("queue", format!("{} (priority {})", summary.queue, summary.priority)),
        ("state", summary.state.to_string()),
    ];
    let mut fact = |name, value: Option<String>| facts.extend(value.map(|value| (name, value)));
    fact("waits", summary.wait_text.clone());
    fact(
        "progress",
        summary.progress.as_ref().map(|p| format!("{}/{} {}", p.done, p.total, p.message)),
    );
    fact("worker", summary.worker.as_ref().map(ToString::to_string));
    fact("attempts", Some(format!("{} of {}", summary.attempts, task.terms.retry.limit + 1)));
    fact("error", summary.error.as_ref().map(ToString::to_string));
    fact(
        "submitted",
        Some(format!("{} ({})", words::relative(summary.submitted_at, now), summary.submitted_at)),
    );
    fact(
        "run at",
        task.terms.run_at.map(|time| format!("{} ({time})", words::relative(time, now))),
    );
    fact("ended", summary.ended_at.map(|time| format!("{} ({time})", words::relative(time, now))));
    let timeout = task.terms.timeout_ms.map(|ms| words::span(std::time::Duration::from_millis(ms)));
    fact("timeout", timeout);
    fact(
        "workflow",
        summary.workflow.as_ref().map(|workflow| format!("{} ({})", workflow.name, workflow.id)),
    );
    fact("spawned by", task.spawned_by.map(|id| id.to_string()));
    term_facts(&task.terms, now, &mut fact);
    for edge in &task.terms.after {
        fact(
            "after",
            Some(format!("{}{}", edge.task, if edge.optional { " (optional)" } else { "" })),
        );
    }
    fact("payload", Some(data_text(&task.payload)));
    fact("result", task.result.as_ref().map(data_text));
    facts
}

/// The terms that were given, one by one.
fn term_facts(
    terms: &TermsView,
    now: Timestamp,
    fact: &mut impl FnMut(&'static str, Option<String>),
) {
    let list = |names: &[Name]| (!names.is_empty()).then(|| names.join(", "));
    let span = |ms| words::span(std::time::Duration::from_millis(ms));
    fact("needs", list(&terms.needs));
    fact("matching", terms.matching.map(|matching| matching.as_str().to_owned()));
    let deadline = terms.deadline.map(|time| format!("{} ({time})", words::relative(time, now)));
    fact("deadline", deadline);
    fact("limits", list(&terms.limits));
    fact("fair key", terms.fair_key.as_ref().map(ToString::to_string));
    fact("affinity", terms.affinity.as_ref().map(ToString::to_string));
    fact("cost hint", terms.cost_hint.map(|cost| cost.to_string()));
    let unique = terms.unique.as_ref().map(|unique| match unique.window_ms {
        Some(window) => format!("{} (within {})", unique.key, span(window)),
        None => format!("{} (while it is open)", unique.key),
    });
    fact("unique", unique);
}

fn data_text(data: &divvy_types::Payload) -> String {
    match data.json_text() {
        Some(text) => text.to_owned(),
        None => format!("{} of {}", words::bytes(data.data().len() as u64), data.content_type()),
    }
}

#[derive(Deserialize)]
struct Moved {
    id: TaskId,
    state: TaskState,
}

async fn cancel(args: &CancelTasks, context: &Context) -> Result<Code> {
    if args.tasks.ids.is_empty() {
        let verb = Verb { action: "cancel", past: "cancelled", reason: args.reason.clone() };
        return bulk::run(&verb, &args.tasks, context).await;
    }
    let api = context.api()?;
    for id in &args.tasks.ids {
        let body =
            args.reason.as_ref().map_or_else(|| json!({}), |reason| json!({ "reason": reason }));
        let reply = api.post(&["tasks", id, "cancel"], &body).await?;
        print_moved(&reply, context)?;
    }
    Ok(Code::Done)
}

async fn retry(args: &TaskSelection, context: &Context) -> Result<Code> {
    if args.ids.is_empty() {
        let verb = Verb { action: "retry", past: "retried", reason: None };
        return bulk::run(&verb, args, context).await;
    }
    let api = context.api()?;
    for id in &args.ids {
        let reply = api.post(&["tasks", id, "retry"], &json!({})).await?;
        print_moved(&reply, context)?;
    }
    Ok(Code::Done)
}

fn print_moved(reply: &Reply, context: &Context) -> Result<()> {
    let output = &context.output;
    if output.is_json() {
        output.raw(reply.text())?;
        return Ok(());
    }
    let moved: Moved = reply.parse()?;
    if output.is_quiet() {
        output.data(moved.id)?;
    } else if moved.state == TaskState::Leased {
        output.data(format_args!("{} {}: its worker is told to stop", moved.id, moved.state))?;
    } else {
        output.data(format_args!("{} {}", moved.id, moved.state))?;
    }
    Ok(())
}
