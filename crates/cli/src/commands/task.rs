//! `divvy task`: lists, shows, cancels and retries tasks, by id or by filter.

use std::time::Duration;

use anyhow::Result;
use divvy_types::limits::PAGE_ROWS_MAX;
use divvy_types::view::{Progress, TaskDetail, TaskSummary};
use divvy_types::{TaskId, TaskState, Terms, Timestamp};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::Context;
use super::bulk::{self, Verb};
use super::filter::{as_query, pairs, select};
use crate::args::bulk::TaskSelection;
use crate::args::tasks::{CancelTasks, OneTask, ReprioritiseTasks, Task, TaskList};
use crate::exit::Code;
use crate::output::ids::Shortener;
use crate::output::table::{Cell, Table};
use crate::output::words;
use divvy::api::{Reply, parse_rows};

/// Does what is asked.
pub(super) async fn run(args: Task, context: &Context) -> Result<Code> {
    match args {
        Task::List(args) => list(args, context).await,
        Task::Show(args) => show(&args, context).await,
        Task::Cancel(args) => cancel(&args, context).await,
        Task::Retry(args) => retry(&args, context).await,
        Task::Reprioritise(args) => reprioritise(&args, context).await,
    }
}

async fn list(args: TaskList, context: &Context) -> Result<Code> {
    let api = context.api()?;
    let filter = pairs(&select(&api, &args.select, &args.state).await?)?;
    let mut left = if args.all { usize::MAX } else { args.limit as usize };
    let mut after = args.after;
    let mut rows = Vec::new();
    loop {
        let mut query = as_query(&filter);
        query.push(("limit", left.min(PAGE_ROWS_MAX).to_string()));
        query.extend(after.map(|cursor| ("after", cursor)));
        let page = api.get(&["tasks"], &query).await?.rows()?;
        left = left.saturating_sub(page.items.len());
        after = page.next;
        if args.all {
            print_page(&page.items, context)?;
        } else {
            // A page may be short because much was looked at for few that fit.
            rows.extend(page.items);
        }
        if after.is_none() || left == 0 {
            break;
        }
    }
    if !args.all {
        print_page(&rows, context)?;
    }
    if let Some(cursor) = after {
        context.output.note(format_args!("there may be more: add --after {cursor}, or --all"));
    }
    Ok(Code::Done)
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
            seen_state(task),
            task.priority.to_string().into(),
            begun(task).to_string().into(),
            words::relative(when, now).into(),
            remark(task, now).into(),
        ]);
    }
    table.print(output)?;
    Ok(())
}

/// A state in its colour.
pub(super) fn state_cell(state: TaskState) -> Cell {
    Cell::colored(state.as_str(), words::state_color(state))
}

/// The state as people see it: what a worker has either runs there or waits there for a slot.
pub(super) fn state_word(task: &TaskSummary) -> &'static str {
    match (task.state, &task.wait) {
        (TaskState::Leased, Some(_)) => "queued",
        (TaskState::Leased, None) => "running",
        (state, _) => state.as_str(),
    }
}

/// Attempts that have begun: what waits at a worker is given, and no more.
fn begun(task: &TaskSummary) -> u32 {
    let given = task.state == TaskState::Leased && task.wait.is_some();
    task.attempts.saturating_sub(u32::from(given))
}

fn seen_state(task: &TaskSummary) -> Cell {
    Cell::colored(state_word(task), words::state_color(task.state))
}

/// What is worth knowing besides the state: why it waits, how far it is, what went wrong.
fn remark(task: &TaskSummary, now: Timestamp) -> String {
    if let Some(far) = task.progress.as_ref().and_then(progress)
        && task.state == TaskState::Leased
    {
        return far;
    }
    if let Some(wait) = waits(task, now) {
        return wait;
    }
    match (&task.error, &task.worker) {
        (Some(error), _) if task.state != TaskState::Done => error.to_string(),
        (_, Some(worker)) => format!("on {worker}"),
        _ => String::new(),
    }
}

/// How far a task is, if it has said so.
pub(super) fn progress(at: &Progress) -> Option<String> {
    let total = if at.total > 0 { format!("/{}", at.total) } else { String::new() };
    (*at != Progress::default()).then(|| format!("{}{total} {}", at.done, at.message))
}

/// Why a task waits, in words for now.
pub(crate) fn waits(task: &TaskSummary, now: Timestamp) -> Option<String> {
    let known = task.wait.as_ref().map(|reason| words::wait(reason, now));
    known.or_else(|| task.wait_text.clone())
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

fn facts(task: &TaskDetail) -> Vec<(String, String)> {
    let now = words::now();
    let summary = &task.summary;
    let mut facts = vec![
        ("id".to_owned(), summary.id.to_string()),
        ("kind".to_owned(), summary.kind.to_string()),
        ("queue".to_owned(), format!("{} (priority {})", summary.queue, summary.priority)),
        ("state".to_owned(), state_word(summary).to_owned()),
    ];
    let mut fact =
        |name: &str, value: Option<String>| facts.extend(value.map(|value| (name.into(), value)));
    fact("waits", waits(summary, now));
    fact("progress", summary.progress.as_ref().and_then(progress));
    fact("worker", summary.worker.as_ref().map(ToString::to_string));
    fact("attempts", Some(format!("{} of {}", summary.attempts, task.terms.retry.limit + 1)));
    fact("error", summary.error.as_ref().map(ToString::to_string));
    fact("submitted", Some(time_text(summary.submitted_at, now)));
    fact("ended", summary.ended_at.map(|time| time_text(time, now)));
    fact(
        "workflow",
        summary.workflow.as_ref().map(|workflow| format!("{} ({})", workflow.name, workflow.id)),
    );
    fact("spawned by", task.spawned_by.map(|id| id.to_string()));
    for (name, value) in term_facts(&task.terms, now) {
        fact(&name, Some(value));
    }
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

/// The terms that were given, by name. One that has no words of its own here is shown as it is in JSON.
pub(super) fn term_facts(terms: &Terms, now: Timestamp) -> Vec<(String, String)> {
    let Ok(Value::Object(given)) = serde_json::to_value(terms) else { return Vec::new() };
    let span = |ms| words::span(Duration::from_millis(ms));
    let mut facts = Vec::new();
    for (name, value) in &given {
        let words = match name.as_str() {
            // Shown with the attempts, with the task, and one by one.
            "retry" | "workflow" | "after" => None,
            "run_at" => terms.run_at.map(|time| time_text(time, now)),
            "deadline" => terms.deadline.map(|time| time_text(time, now)),
            "timeout_ms" => terms.timeout_ms.map(span),
            "unique" => terms.unique.as_ref().map(|unique| match unique.window_ms {
                Some(window) => format!("{} (within {})", unique.key, span(window)),
                None => format!("{} (while it is open)", unique.key),
            }),
            "after_groups" => {
                let weight = |optional| if optional { " (optional)" } else { "" };
                let edges = terms.after_groups.iter();
                let edges = edges.map(|edge| format!("{}{}", edge.group, weight(edge.optional)));
                Some(edges.collect::<Vec<_>>().join(", "))
            }
            _ => Some(plain(value)),
        };
        let name = name.trim_end_matches("_ms").replace('_', " ");
        facts.extend(words.map(|words| (name, words)));
    }
    facts
}

fn time_text(time: Timestamp, now: Timestamp) -> String {
    format!("{} ({time})", words::relative(time, now))
}

/// A value as people write it on a command line.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(list) => list.iter().map(plain).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
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
        let verb = Verb {
            action: "cancel",
            past: "cancelled",
            reason: args.reason.clone(),
            priority: None,
        };
        return bulk::run(&verb, &args.tasks, context).await;
    }
    let api = context.api()?;
    for id in &args.tasks.ids {
        let body =
            args.reason.as_ref().map_or_else(|| json!({}), |reason| json!({ "reason": reason }));
        let reply = api.post(&["tasks", id, "cancel"], &body).await?;
        print_moved(&reply, cancelled, context)?;
    }
    Ok(Code::Done)
}

/// What a task does after it was asked to stop, if the state does not say it.
fn cancelled(state: TaskState) -> &'static str {
    if state == TaskState::Leased { ": its worker is told to stop" } else { "" }
}

/// What a task does after it was asked to run now, if the state does not say it.
fn retried(state: TaskState) -> &'static str {
    match state {
        TaskState::Ready => ": it runs as soon as a worker is free",
        TaskState::Leased => ": a worker has it already",
        _ => "",
    }
}

async fn retry(args: &TaskSelection, context: &Context) -> Result<Code> {
    if args.ids.is_empty() {
        let verb = Verb { action: "retry", past: "retried", reason: None, priority: None };
        return bulk::run(&verb, args, context).await;
    }
    let api = context.api()?;
    for id in &args.ids {
        let reply = api.post(&["tasks", id, "retry"], &json!({})).await?;
        print_moved(&reply, retried, context)?;
    }
    Ok(Code::Done)
}

async fn reprioritise(args: &ReprioritiseTasks, context: &Context) -> Result<Code> {
    let ReprioritiseTasks { tasks, priority } = args;
    if tasks.ids.is_empty() {
        let (action, past) = ("reprioritise", "reprioritised");
        let verb = Verb { action, past, reason: None, priority: Some(*priority) };
        return bulk::run(&verb, tasks, context).await;
    }
    let api = context.api()?;
    for id in &tasks.ids {
        let body = json!({ "priority": priority });
        let reply = api.post(&["tasks", id, "reprioritise"], &body).await?;
        print_moved(&reply, |_| "", context)?;
    }
    Ok(Code::Done)
}

fn print_moved(
    reply: &Reply,
    told: fn(TaskState) -> &'static str,
    context: &Context,
) -> Result<()> {
    let output = &context.output;
    if output.is_json() {
        output.raw(reply.text())?;
        return Ok(());
    }
    let moved: Moved = reply.parse()?;
    if output.is_quiet() {
        output.data(moved.id)?;
    } else {
        output.data(format_args!("{} {}{}", moved.id, moved.state, told(moved.state)))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_term_of_a_task_is_shown() {
        let sample = include_str!("../../../types/tests/every_field.json");
        let spec: divvy_types::TaskSpec = serde_json::from_str(sample).unwrap();
        let Value::Object(terms) = serde_json::to_value(&spec.terms).unwrap() else { panic!() };
        let shown = term_facts(&spec.terms, Timestamp(0));
        let apart = ["retry", "workflow", "after"];
        for name in terms.keys().filter(|name| !apart.contains(&name.as_str())) {
            let words = name.trim_end_matches("_ms").replace('_', " ");
            let found = shown.iter().find(|(shown, _)| *shown == words);
            assert!(found.is_some_and(|(_, value)| !value.is_empty()), "{name}: {shown:?}");
        }
        let limits = shown.iter().find(|(name, _)| name == "limits");
        assert_eq!(limits.unwrap().1, "api/acme, disk");
    }

    #[test]
    fn a_retry_never_speaks_of_stopping() {
        assert!(cancelled(TaskState::Leased).contains("told to stop"));
        assert_eq!(retried(TaskState::Leased), ": a worker has it already");
    }
}
